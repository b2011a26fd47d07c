package tidemark_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// module is our import path; packages below it are named by their directory, the root by ".".
const module = "github.com/tidemark-streams/tidemark"

// room is one row of the table of ARCHITECTURE.md: what a package may import. Tests are free, for they are not shipped.
type room struct {
	dir     string
	ours    []string // rooms it may import
	reach   []string // further rooms that those may bring along
	outside []string // modules outside the standard library it may import; a module covers its packages
	noStd   []string // packages of the standard library that it must not import; a package covers those below it
	noGo    bool     // starts no goroutine
}

var (
	pure   = []string{"window", "aggregate", "reading"}
	state  = []string{"internal/record", "internal/task", "internal/store", "internal/recovery", "internal/kafka"}
	engine = slices.Concat(pure, state, []string{"internal/job", "internal/kafka/client", "internal/repair", "internal/status", "internal/spelling"})
	franz  = "github.com/twmb/franz-go"
)

// rooms is the table. A package that is not in it fails the test: a new room is a decision, made here and in
// ARCHITECTURE.md in one commit.
var rooms = []room{
	{dir: "internal/record", outside: []string{"github.com/zeebo/xxh3"}},
	{dir: defects},
	{dir: "window"},
	{dir: "aggregate"},
	{dir: "reading"},
	{dir: "internal/spelling"}, // used where a name is read: by config, and by those who meet a topic that is not there
	{dir: "internal/task", ours: []string{"internal/record"}, noStd: []string{"os", "net", "time", "math/rand"}, noGo: true},
	{dir: "internal/job", ours: slices.Concat(pure, []string{"internal/record", "internal/task", "internal/spelling"})}, // a field that no record has is named with the one that was meant
	{dir: "internal/store", ours: []string{"internal/record"}, outside: []string{"github.com/cockroachdb/pebble/v2", "golang.org/x/sys"}},
	{dir: "internal/kafka", ours: []string{"internal/record"}},
	{dir: "internal/kafka/client", ours: []string{"internal/record", "internal/kafka"}, outside: []string{franz, "github.com/pierrec/lz4/v4"}}, // which franz brings along
	{dir: "internal/kafka/conformance", ours: []string{"internal/record", "internal/kafka"}},                                                   // one test for all clusters
	{dir: "internal/kafka/kafkatest", ours: []string{"internal/record", "internal/kafka"}},
	{dir: "internal/store/storetest", outside: []string{"github.com/cockroachdb/pebble/v2"}},                                   // file faults
	{dir: "internal/crash", ours: []string{"internal/record", "internal/kafka", "internal/store", "internal/store/storetest"}}, // faults by name
	{dir: "internal/recovery", ours: []string{"internal/record", "internal/store", "internal/kafka"}},
	{dir: "internal/repair", ours: []string{"internal/record", "internal/store", "internal/kafka", "internal/recovery"}},
	{dir: "internal/preflight", ours: []string{"internal/record", "internal/kafka", "internal/job", "internal/spelling"}, reach: slices.Concat(pure, []string{"internal/task"})},
	{dir: "internal/status", outside: []string{"github.com/prometheus/client_golang"}}, // pure: facts in, verdicts and texts out
	{dir: ".", ours: engine, outside: []string{"golang.org/x/sys"}},
	{dir: "tidemarktest", ours: []string{".", "internal/kafka/kafkatest"}, reach: engine},
	{dir: "internal/config", ours: slices.Concat(pure, []string{"internal/job", "internal/spelling"}), reach: []string{"internal/record", "internal/task"}, outside: []string{"go.yaml.in/yaml/v3"}},
	{dir: "internal/proof", ours: []string{".", "aggregate", "reading", "window", "internal/config", "internal/job", "internal/kafka/kafkatest", "internal/store", "internal/proof/oracle"}, // whose words it puts into the oracle's
		reach: engine, outside: []string{franz}},
	{dir: "internal/proof/trial", ours: []string{"internal/crash", "internal/record", "internal/store", "internal/proof", "internal/proof/oracle"},
		reach: slices.Concat([]string{"."}, engine, []string{"internal/config", "internal/kafka/kafkatest", "internal/store/storetest"}), outside: []string{franz}},
	{dir: "internal/proof/oracle", outside: []string{franz}}, // reads topics with a reader of its own
	{
		dir: "cmd/tidemark",
		ours: []string{".", "reading", "window", "internal/config", "internal/proof", "internal/proof/oracle", "internal/proof/trial", // what is run and tried out
			"internal/job", "internal/preflight", "internal/record", "internal/recovery", "internal/store", // what is inspected without running it
			"internal/kafka", "internal/kafka/client", "internal/crash", "internal/spelling", "cmd/tidemark/internal/embedded"},
		reach: slices.Concat(engine, []string{"internal/kafka/kafkatest", "internal/store/storetest"}),
		outside: []string{"github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/schollz/progressbar/v3",
			"github.com/influxdata/line-protocol/v2", // the rules of its inventor, with line and column
			"golang.org/x/term", "golang.org/x/sys", franz},
	},
	{dir: "cmd/tidemark/internal/embedded", outside: []string{franz}},
	{dir: "bench"},              // tests only
	{dir: "internal/proof/sim"}, // tests only
	{dir: "integration/peers", ours: []string{".", "integration/kafkarun", "internal/record", "internal/status"}, reach: engine, outside: []string{franz}},
	{dir: "integration/kafkaup", ours: []string{"integration/kafkarun"}, outside: []string{franz}},
	{dir: "integration/wrongclock"},
	{dir: "integration/kafkarun", outside: []string{franz}}, // asks brokers what ours has no need to ask: who is alive, who is in sync
}

// defects may be imported by every room: constants that are false, of which a build without the tag faulty has nothing.
const defects = "internal/defect"

// seeded is a table that lets every room import them.
func seeded(table []room) []room {
	table = slices.Clone(table)
	for i := range table {
		table[i].ours = append(slices.Clone(table[i].ours), defects)
	}
	return table
}

// forbidden are names that say nothing about what a package is for.
var forbidden = []string{"util", "utils", "common", "type", "types", "helper", "helpers", "manager", "managers", "misc", "base"}

// TestRooms holds this repository to the table.
func TestRooms(t *testing.T) {
	tree, err := readTree(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.packages) < 3 {
		t.Fatalf("only %d packages found: the test looks at the wrong place", len(tree.packages))
	}
	for _, fault := range checkRooms(tree, seeded(rooms)) {
		t.Error(fault)
	}
}

// TestRoomsNoticesEachFault shows that every rule of the table can fail.
func TestRoomsNoticesEachFault(t *testing.T) {
	table := []room{
		{dir: "low"},
		{dir: "pure", ours: []string{"low"}, noStd: []string{"os", "net"}, noGo: true},
		{dir: "top", ours: []string{"pure"}, outside: []string{"example.com/good"}},
		{dir: "util"},
	}
	for name, c := range map[string]struct{ file, source, want string }{
		"unlisted package":   {"new/a.go", `package new`, `new: not in the table of rooms`},
		"name":               {"util/a.go", `package util`, `util: "util" says nothing`},
		"package name":       {"low/a.go", `package common`, `low: "common" says nothing`},
		"room not allowed":   {"low/a.go", `package low; import _ "` + module + `/pure"`, `low/a.go:1: low must not import pure`},
		"reached":            {"top/a.go", `package top; import _ "` + module + `/pure"`, `top reaches low, through pure`},
		"outside":            {"top/a.go", `package top; import _ "example.com/goodness"`, `top/a.go:1: top must not import example.com/goodness`},
		"standard library":   {"pure/a.go", `package pure; import _ "os/exec"`, `pure/a.go:1: pure must not import os/exec`},
		"goroutine":          {"pure/a.go", "package pure\nfunc f() { go f() }", `pure/a.go:2: pure must not start a goroutine`},
		"no false alarm":     {"top/a.go", `package top; import _ "example.com/good/sub"`, ``},
		"tests are not held": {"low/a_test.go", `package low; import _ "os/exec"`, ``},
	} {
		t.Run(name, func(t *testing.T) {
			files := fstest.MapFS{
				"low/low.go":   {Data: []byte(`package low`)},
				"pure/pure.go": {Data: []byte(`package pure; import _ "` + module + `/low"`)},
				c.file:         {Data: []byte(c.source)},
			}
			tree, err := readTree(files)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(checkRooms(tree, table), "\n")
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("faults are %q, want %q", got, c.want)
			}
		})
	}
}

// tree is the parsed source of a module.
type tree struct {
	set      *token.FileSet
	files    []sourceFile
	packages map[string][]sourceFile // by directory; files that are shipped only
}

type sourceFile struct {
	name   string
	test   bool
	source []byte
	syntax *ast.File
}

// readTree parses every Go file of a module whatever its build constraints.
func readTree(root fs.FS) (*tree, error) {
	t := &tree{set: token.NewFileSet(), packages: map[string][]sourceFile{}}
	err := walk(root, ".go", func(name string, source []byte) error {
		syntax, err := parser.ParseFile(t.set, name, source, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		file := sourceFile{name: name, test: strings.HasSuffix(name, "_test.go"), source: source, syntax: syntax}
		t.files = append(t.files, file)
		if !file.test {
			t.packages[path.Dir(name)] = append(t.packages[path.Dir(name)], file)
		}
		return nil
	})
	return t, err
}

// walk calls fn with every file that ends in ext, except in hidden directories, testdata and what a run leaves behind.
func walk(root fs.FS, ext string, fn func(name string, content []byte) error) error {
	return fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		base := path.Base(name)
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "bin" || base == "state"):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ext:
			return nil
		}
		content, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		return fn(name, content)
	})
}

// checkRooms returns every fault in ascending order of packages.
func checkRooms(t *tree, table []room) []string {
	var faults []string
	for _, dir := range slices.Sorted(maps.Keys(t.packages)) {
		faults = append(faults, checkNames(dir, t.packages[dir])...)
		at := slices.IndexFunc(table, func(r room) bool { return r.dir == dir })
		if at < 0 {
			faults = append(faults, fmt.Sprintf("%s: not in the table of rooms: add a row there and in ARCHITECTURE.md", dir))
			continue
		}
		r := table[at]
		for _, file := range t.packages[dir] {
			faults = append(faults, r.checkFile(t.set, file)...)
		}
		for reached, through := range t.reach(dir) {
			if !slices.Contains(r.ours, reached) && !slices.Contains(r.reach, reached) && through != dir {
				faults = append(faults, fmt.Sprintf("%s reaches %s, through %s", dir, reached, through))
			}
		}
	}
	return faults
}

func checkNames(dir string, files []sourceFile) []string {
	var faults []string
	for _, name := range []string{path.Base(dir), files[0].syntax.Name.Name} {
		if slices.Contains(forbidden, name) {
			faults = append(faults, fmt.Sprintf("%s: %q says nothing about what the package is for", dir, name))
		}
	}
	return faults
}

// checkFile checks the direct imports and the goroutines of one file.
func (r room) checkFile(set *token.FileSet, file sourceFile) []string {
	var faults []string
	fault := func(node ast.Node, what string) {
		faults = append(faults, fmt.Sprintf("%s:%d: %s must not %s", file.name, set.Position(node.Pos()).Line, r.dir, what))
	}
	for _, spec := range file.syntax.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		if !r.allows(imported) {
			dir, _ := dirOf(imported)
			fault(spec, "import "+dir)
		}
	}
	ast.Inspect(file.syntax, func(node ast.Node) bool {
		if _, ok := node.(*ast.GoStmt); ok && r.noGo {
			fault(node, "start a goroutine")
		}
		return true
	})
	return faults
}

func (r room) allows(imported string) bool {
	if dir, ok := dirOf(imported); ok {
		return slices.Contains(r.ours, dir)
	}
	if first, _, _ := strings.Cut(imported, "/"); strings.Contains(first, ".") {
		return slices.ContainsFunc(r.outside, func(module string) bool { return within(imported, module) })
	}
	return !slices.ContainsFunc(r.noStd, func(banned string) bool { return within(imported, banned) })
}

// within tells whether an import path is parent or lies below it.
func within(imported, parent string) bool {
	return imported == parent || strings.HasPrefix(imported, parent+"/")
}

// dirOf returns the directory of one of our packages; any other import path comes back as it is.
func dirOf(imported string) (dir string, ours bool) {
	if imported == module {
		return ".", true
	}
	return strings.CutPrefix(imported, module+"/")
}

// reach returns every room that dir imports, directly or not, with the room that imports it.
func (t *tree) reach(dir string) map[string]string {
	through := map[string]string{}
	for todo := []string{dir}; len(todo) > 0; todo = todo[1:] {
		for _, file := range t.packages[todo[0]] {
			for _, spec := range file.syntax.Imports {
				imported, _ := strconv.Unquote(spec.Path.Value)
				next, ours := dirOf(imported)
				if _, seen := through[next]; ours && !seen {
					through[next] = todo[0]
					todo = append(todo, next)
				}
			}
		}
	}
	return through
}
