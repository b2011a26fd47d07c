package tidemark_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"
)

// Limits of shipped code. A function fits a screen, a file fits a head.
const (
	maxFileLines     = 600
	maxFunctionLines = 70
)

// oversized lists what is over the limits, with its size. The list may only shrink: an entry that is too large, not
// needed any more, or missing is a fault. Files are named by path, functions by path:name.
var oversized = map[string]int{}

// TestHouse holds the source to what a reader may expect: sizes, documentation, form.
func TestHouse(t *testing.T) {
	tree, err := readTree(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range checkHouse(tree, oversized) {
		t.Error(fault)
	}
}

// TestLinks follows every relative link of every page.
func TestLinks(t *testing.T) {
	faults, err := checkLinks(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range faults {
		t.Error(fault)
	}
}

// TestLinksToTests: a document states no guarantee without naming the test that holds it, so every test that one names is
// there.
func TestLinksToTests(t *testing.T) {
	faults, named, err := checkNamedTests(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range faults {
		t.Error(fault)
	}
	if named < 50 {
		t.Errorf("only %d names of tests found: the test looks at the wrong place", named)
	}
}

// TestLinksToTestsNoticesEachFault shows that the name of a test that is not there is noticed, wherever the others are.
func TestLinksToTestsNoticesEachFault(t *testing.T) {
	faults, named, err := checkNamedTests(fstest.MapFS{
		"a.md":          {Data: []byte("Held by `TestOne`, `FuzzTwo` and (`TestThree`).\n```\n`TestShown`\n```\n")},
		"in/a_test.go":  {Data: []byte("package in\nfunc TestOne(t *testing.T) {}\nfunc (x) TestThree() {}\n")},
		"in/b_test.go":  {Data: []byte("package in\nfunc FuzzTwo(f *testing.F) {}\n")},
		"in/shipped.go": {Data: []byte("package in\nfunc TestThree(t *testing.T) {}\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a.md: no such test: TestThree"}; !slices.Equal(faults, want) || named != 3 {
		t.Errorf("faults are %q of %d, want %q of 3", faults, named, want)
	}
}

// TestHouseNoticesEachFault shows that every rule of the house can fail.
func TestHouseNoticesEachFault(t *testing.T) {
	const doc = "// Package p is for a test.\npackage p\n\n"
	long := "func f() {\n" + strings.Repeat("\tf()\n", maxFunctionLines-1) + "}\n"
	for name, c := range map[string]struct {
		source, want string
		oversized    map[string]int
	}{
		"nothing":             {doc + "func f() {}\n", "", nil},
		"file":                {doc + strings.Repeat("\n// x\n", maxFileLines/2), "p.go: 603 lines, the limit is 600", nil},
		"function":            {doc + long, "p.go:f: 71 lines, the limit is 70", nil},
		"excepted":            {doc + long, "", map[string]int{"p.go:f": 71}},
		"grown exception":     {doc + long, "p.go:f: 71 lines, the list says 70", map[string]int{"p.go:f": 70}},
		"shrunk exception":    {doc + long, "p.go:f: 71 lines, the list says 80", map[string]int{"p.go:f": 80}},
		"needless exception":  {doc, "p.go:f: is within the limits", map[string]int{"p.go:f": 80}},
		"package comment":     {"package p\n", ".: no package comment", nil},
		"function undocd":     {doc + "func F() {}\n", "p.go:4: F has no doc comment", nil},
		"method":              {doc + "// T is.\ntype T int\n\nfunc (*T) M() {}\n", "p.go:7: M has no doc comment", nil},
		"type":                {doc + "type T int\n", "p.go:4: T has no doc comment", nil},
		"constant":            {doc + "const C = 1\n", "p.go:4: C has no doc comment", nil},
		"documented group":    {doc + "// Some.\nconst (\n\tC = 1\n\tD = 2\n)\n", "", nil},
		"form":                {doc + "func f()   {}\n", "p.go: not gofmt'ed", nil},
		"attribute":           {doc + "func f() { log.Warn(\"x y\", \"a_b\", 1, \"at most\", 2) }\n", `p.go:4: "at most" is no name of a log attribute`, nil},
		"attribute of all":    {doc + "func f() { log.With(\"Id\", 1).Info(\"x y\", \"a\", \"b c\") }\n", `p.go:4: "Id" is no name of a log attribute`, nil},
		"unexported receiver": {doc + "type t int\n\nfunc (t) M() {}\n", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			tree, err := readTree(fstest.MapFS{"p.go": {Data: []byte(c.source)}})
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(checkHouse(tree, c.oversized), "\n")
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("faults are %q, want %q", got, c.want)
			}
		})
	}
}

// TestLinksNoticesEachFault shows that a dead link and a dead anchor are noticed.
func TestLinksNoticesEachFault(t *testing.T) {
	faults, err := checkLinks(fstest.MapFS{
		"a.md":        {Data: []byte("# The one & only\n[x](docs/b.md#part-two) [y](#the-one--only) [z](https://example.com/none)\n")},
		"docs/b.md":   {Data: []byte("## Part two\n[up](../a.md) [gone](c.md) [part](../a.md#nowhere)\n```\n[code](is/free)\n```\n")},
		"docs/p/x.md": {Data: []byte("[dir](../)\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"docs/b.md: no such file: c.md", "docs/b.md: no such heading: ../a.md#nowhere"}
	if !slices.Equal(faults, want) {
		t.Errorf("faults are %q, want %q", faults, want)
	}
}

// checkHouse returns every fault against the rules of the house.
func checkHouse(t *tree, oversized map[string]int) []string {
	faults, sizes := []string{}, map[string]int{}
	for _, file := range t.files {
		if formatted, err := format.Source(file.source); err != nil || !bytes.Equal(formatted, file.source) {
			faults = append(faults, file.name+": not gofmt'ed")
		}
		if file.test {
			continue
		}
		if lines := bytes.Count(file.source, []byte("\n")); lines > maxFileLines {
			sizes[file.name] = lines
		}
		for _, decl := range file.syntax.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok {
				lines := t.set.Position(fn.End()).Line - t.set.Position(fn.Pos()).Line + 1
				if lines > maxFunctionLines {
					sizes[file.name+":"+fn.Name.Name] = lines
				}
			}
			for _, name := range undocumented(decl) {
				faults = append(faults, fmt.Sprintf("%s:%d: %s has no doc comment", file.name, t.set.Position(name.Pos()).Line, name.Name))
			}
			for _, key := range unfitKeys(decl) {
				faults = append(faults, fmt.Sprintf("%s:%d: %s is no name of a log attribute", file.name, t.set.Position(key.Pos()).Line, key.Value))
			}
		}
	}
	for dir, files := range t.packages {
		if !slices.ContainsFunc(files, func(f sourceFile) bool { return f.syntax.Doc != nil }) {
			faults = append(faults, dir+": no package comment")
		}
	}
	return append(faults, checkSizes(sizes, oversized)...)
}

func checkSizes(sizes, oversized map[string]int) []string {
	var faults []string
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		limit := maxFileLines
		if strings.Contains(name, ":") {
			limit = maxFunctionLines
		}
		if listed, ok := oversized[name]; !ok {
			faults = append(faults, fmt.Sprintf("%s: %d lines, the limit is %d", name, sizes[name], limit))
		} else if listed != sizes[name] {
			faults = append(faults, fmt.Sprintf("%s: %d lines, the list says %d; it may only shrink", name, sizes[name], listed))
		}
	}
	for name := range oversized {
		if _, ok := sizes[name]; !ok {
			faults = append(faults, name+": is within the limits, take it off the list")
		}
	}
	return faults
}

// undocumented returns the exported names of a declaration that no comment explains.
func undocumented(decl ast.Decl) []*ast.Ident {
	var names []*ast.Ident
	add := func(name *ast.Ident, docs ...*ast.CommentGroup) {
		if name.IsExported() && !slices.ContainsFunc(docs, func(g *ast.CommentGroup) bool { return g != nil }) {
			names = append(names, name)
		}
	}
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil || ast.IsExported(receiver(d)) {
			add(d.Name, d.Doc)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				add(s.Name, d.Doc, s.Doc, s.Comment)
			case *ast.ValueSpec:
				for _, name := range s.Names {
					add(name, d.Doc, s.Doc, s.Comment)
				}
			}
		}
	}
	return names
}

// unfitKeys returns the names of log attributes that are not one plain word: whoever reads the log by machine names them.
func unfitKeys(decl ast.Decl) (unfit []*ast.BasicLit) {
	ast.Inspect(decl, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || fmt.Sprint(method.X) == "http" { // whose Error is another thing
			return true
		}
		first, logs := firstKey[method.Sel.Name]
		for i := first; logs && i < len(call.Args); i += 2 {
			if key, ok := call.Args[i].(*ast.BasicLit); ok && !attributeName.MatchString(key.Value) {
				unfit = append(unfit, key)
			}
		}
		return true
	})
	return unfit
}

// receiver returns the name of a method's type.
func receiver(d *ast.FuncDecl) string {
	name := ""
	ast.Inspect(d.Recv.List[0].Type, func(node ast.Node) bool {
		if id, ok := node.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return name == ""
	})
	return name
}

// firstKey is where the attributes begin among what the methods of a log are called with.
var firstKey = map[string]int{"Debug": 1, "Info": 1, "Warn": 1, "Error": 1, "With": 0}

var attributeName = regexp.MustCompile(`^"[a-z][a-z0-9_]*"$`)

var (
	fences   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	code     = regexp.MustCompile("`[^`\n]*`")
	links    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headings = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	schemes  = regexp.MustCompile(`^[a-z][a-z0-9+.-]*:`)
)

// checkLinks returns the relative links of Markdown pages that lead nowhere.
func checkLinks(root fs.FS) ([]string, error) {
	pages := map[string]string{}
	err := walk(root, ".md", func(name string, content []byte) error {
		pages[name] = fences.ReplaceAllString(string(content), "")
		return nil
	})
	var faults []string
	for _, page := range slices.Sorted(maps.Keys(pages)) {
		for _, link := range links.FindAllStringSubmatch(code.ReplaceAllString(pages[page], ""), -1) {
			file, anchor, _ := strings.Cut(link[1], "#")
			target := path.Join(path.Dir(page), file)
			if file == "" {
				target = page
			}
			if schemes.MatchString(file) {
				continue
			}
			if _, err := fs.Stat(root, target); err != nil {
				faults = append(faults, page+": no such file: "+link[1])
			} else if text, ok := pages[target]; ok && anchor != "" && !slices.Contains(anchors(text), anchor) {
				faults = append(faults, page+": no such heading: "+link[1])
			}
		}
	}
	return faults, err
}

var namedTests = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z0-9]\\w*)`")

// checkNamedTests returns the tests that Markdown pages name and no package has, and how many names there are.
func checkNamedTests(root fs.FS) (faults []string, named int, err error) {
	tree, err := readTree(root)
	if err != nil {
		return nil, 0, err
	}
	tests := map[string]bool{}
	for _, file := range tree.files {
		for _, decl := range file.syntax.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && file.test && fn.Recv == nil {
				tests[fn.Name.Name] = true
			}
		}
	}
	err = walk(root, ".md", func(name string, content []byte) error {
		for _, match := range namedTests.FindAllSubmatch(fences.ReplaceAll(content, nil), -1) {
			if named++; !tests[string(match[1])] {
				faults = append(faults, fmt.Sprintf("%s: no such test: %s", name, match[1]))
			}
		}
		return nil
	})
	return faults, named, err
}

// anchors returns the anchors that a forge makes of a page's headings.
func anchors(text string) []string {
	var all []string
	for _, heading := range headings.FindAllStringSubmatch(text, -1) {
		all = append(all, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(heading[1])))
	}
	return all
}
