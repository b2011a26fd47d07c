package tidemark

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var updateAPI = flag.Bool("update-api", false, "write the fields into the comments of the package's aliases anew")

// opaque are aliases whose insides are nobody's business here, or are described elsewhere.
var opaque = []string{"Cluster", "Status"}

// TestAliasesShowTheirFields: go doc and pkg.go.dev show of an alias nothing but its comment, so the comment ends with the
// declaration of what it stands for, comments included. go test . -run AliasesShow -update-api writes it anew.
func TestAliasesShowTheirFields(t *testing.T) {
	aliases := aliasesOf(t)
	if len(aliases) < 20 {
		t.Fatalf("only %d aliases: the test looks at the wrong place", len(aliases))
	}
	names := map[string]string{} // package.Name: what it is called here
	for _, a := range aliases {
		names[a.target()] = a.name
	}
	for _, file := range slices.Compact(slices.Sorted(func(yield func(string) bool) {
		for _, a := range aliases {
			if !yield(a.file) {
				return
			}
		}
	})) {
		was, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := string(was)
		for _, a := range aliases {
			if a.file == file && !slices.Contains(opaque, a.name) {
				text = a.describe(t, text, names)
			}
		}
		want, err := format.Source([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case bytes.Equal(was, want):
		case *updateAPI:
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
		default:
			t.Errorf("%s: a comment of an alias is not what it stands for; write it anew: go test . -run AliasesShow -update-api", file)
		}
	}
}

// alias is an alias of an exported type of ours in another package.
type alias struct {
	file, name, pkg, of string // pkg is the import path below the module
}

func (a *alias) target() string { return a.pkg[strings.LastIndexByte(a.pkg, '/')+1:] + "." + a.of }

func aliasesOf(t *testing.T) (all []*alias) {
	const module = "github.com/tidemark-streams/tidemark/"
	for path, file := range parsed(t, ".") {
		imports := map[string]string{}
		for _, i := range file.Imports {
			if name, _ := strconv.Unquote(i.Path.Value); strings.HasPrefix(name, module) {
				imports[name[strings.LastIndexByte(name, '/')+1:]] = strings.TrimPrefix(name, module)
			}
		}
		for _, spec := range typesOf(file) {
			if s, ok := spec.Type.(*ast.SelectorExpr); ok && spec.Assign.IsValid() && spec.Name.IsExported() {
				all = append(all, &alias{path, spec.Name.Name, imports[s.X.(*ast.Ident).Name], s.Sel.Name})
			}
		}
	}
	slices.SortFunc(all, func(a, b *alias) int { return strings.Compare(a.name, b.name) })
	return all
}

// parsed are the files of a directory that are no tests.
func parsed(t *testing.T, dir string) map[string]*ast.File {
	files := map[string]*ast.File{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name := dir + "/" + e.Name(); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			if files[name], err = parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments); err != nil {
				t.Fatal(err)
			}
		}
	}
	return files
}

func typesOf(file *ast.File) (specs []*ast.TypeSpec) {
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
			for _, s := range g.Specs {
				specs = append(specs, s.(*ast.TypeSpec))
			}
		}
	}
	return specs
}

// describe puts the declaration of what an alias stands for at the end of its comment in text.
func (a *alias) describe(t *testing.T, text string, names map[string]string) string {
	block := a.declaration(t, a.pkg, a.of, names)
	if block == "" {
		return text // a number or a word
	}
	line := regexp.MustCompile(`(?m)^(\t?)(type )?` + a.name + ` = \w+\.\w+$`)
	at := line.FindStringSubmatchIndex(text)
	if at == nil {
		t.Fatalf("%s: alias %s not found", a.file, a.name)
	}
	indent := text[at[2]:at[3]]
	lines := strings.SplitAfter(text[:at[0]], "\n")
	lines = lines[:len(lines)-1]
	for i := len(lines) - 1; strings.HasPrefix(lines[i], indent+"//"); i-- { // the old one
		if lines[i] == indent+"//\n" && i+1 < len(lines) && strings.HasPrefix(lines[i+1], indent+"//\t") {
			lines = lines[:i]
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s//\n", indent)
	for l := range strings.Lines(block) {
		b.WriteString(strings.TrimRight(indent+"//\t"+strings.TrimSuffix(l, "\n"), "\t ") + "\n")
	}
	return strings.Join(lines, "") + b.String() + text[at[0]:]
}

// declaration is the declaration of a type with its exported fields or methods, in the names of this package; "" when it has
// none.
func (a *alias) declaration(t *testing.T, pkg, name string, names map[string]string) string {
	for path, file := range parsed(t, pkg) {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range typesOf(file) {
			if spec.Name.Name != name {
				continue
			}
			switch of := spec.Type.(type) {
			case *ast.SelectorExpr: // an alias again
				return a.declaration(t, "internal/"+of.X.(*ast.Ident).Name, of.Sel.Name, names)
			case *ast.StructType:
				if fields := exported(source, of.Fields, pkg, names); fields != "" {
					return shaped(t, "type "+a.name+" struct {\n"+fields+"}\n")
				}
				return a.methods(t, pkg, name, names)
			case *ast.InterfaceType:
				return shaped(t, "type "+a.name+" interface {\n"+exported(source, of.Methods, pkg, names)+"}\n")
			}
		}
	}
	return ""
}

func shaped(t *testing.T, text string) string {
	b, err := format.Source([]byte(text))
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	return string(b)
}

// exported are the lines of a list of fields that a program may use.
func exported(source []byte, list *ast.FieldList, pkg string, names map[string]string) string {
	var b strings.Builder
	for _, f := range list.List {
		if len(f.Names) > 0 && !f.Names[0].IsExported() {
			continue
		}
		begin, end := f.Pos(), f.End()
		if f.Doc != nil {
			b.Write(source[f.Doc.Pos()-1 : f.Doc.End()-1])
			b.WriteByte('\n')
		}
		b.WriteString(called(string(source[begin-1:f.Type.Pos()-1]), "", nil) + called(string(source[f.Type.Pos()-1:end-1]), pkg, names))
		if f.Comment != nil {
			b.WriteByte(' ')
			b.Write(source[f.Comment.Pos()-1 : f.Comment.End()-1])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

var (
	typeName = regexp.MustCompile(`([A-Za-z]\w*\.)?\b[A-Z]\w*`)
	tag      = regexp.MustCompile(" *`[^`]*`$")
)

// called writes types as they are called here.
func called(text, pkg string, names map[string]string) string {
	text = tag.ReplaceAllString(text, "")
	own := pkg[strings.LastIndexByte(pkg, '/')+1:] + "."
	return typeName.ReplaceAllStringFunc(text, func(word string) string {
		full := word
		if !strings.Contains(word, ".") {
			full = own + word
		}
		if here := names[full]; here != "" {
			return here
		}
		return word
	})
}

// methods are the exported methods of a type without such fields, each with the first sentence of its comment.
func (a *alias) methods(t *testing.T, pkg, name string, names map[string]string) string {
	files := parsed(t, pkg)
	var all []string
	for path, file := range files {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil || !f.Name.IsExported() {
				continue
			}
			if star, ok := f.Recv.List[0].Type.(*ast.StarExpr); !ok || star.X.(*ast.Ident).Name != name {
				continue
			}
			signature := called(string(source[f.Type.Params.Pos()-1:f.Type.End()-1]), pkg, names)
			first, _, _ := strings.Cut(strings.ReplaceAll(f.Doc.Text(), "\n", " "), ". ")
			all = append(all, fmt.Sprintf("// %s.\nfunc (*%s) %s%s", strings.TrimSuffix(strings.TrimSpace(first), "."), a.name, f.Name.Name, signature))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "\n") + "\n"
}
