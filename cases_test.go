package tidemark_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/aggregate"
)

// allCases are the numbers of the cases of each family. They are not contiguous.
var allCases = map[string][]int{
	"S": {1, 2, 3, 4, 7, 8, 9, 10, 12, 14, 15, 17, 19, 20, 21, 23, 24, 26, 27, 28, 30, 31, 32, 33, 34, 35, 37, 38, 39,
		40, 41, 42, 44, 47, 48, 49, 50, 52, 53, 54, 57, 58, 59, 61, 62, 63, 64, 67, 69, 71, 73, 74, 75, 77, 78, 80, 82, 84},
	"W": {1, 3, 5, 6, 7, 8, 9, 11, 12, 13, 16, 17, 18, 20, 22, 23, 25, 26, 28, 29, 30, 31},
	"C": {1, 3, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16, 17, 19, 20, 21, 22},
	"D": {1, 2, 4, 5, 6, 8, 9, 11, 12, 13, 15, 16, 17, 19, 21, 24, 25, 27, 28, 29},
}

// TestCasesAreHeld holds the tables of cases, one page for each family, to the tests that exist.
func TestCasesAreHeld(t *testing.T) {
	tests, err := testNames(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := fs.Glob(os.DirFS("docs/internals"), "cases-*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("pages %q, %v", pages, err)
	}
	told := map[string]bool{}
	for _, page := range pages {
		text, err := os.ReadFile(path.Join("docs/internals", page))
		if err != nil {
			t.Fatal(err)
		}
		cases, faults := checkCases(string(text), tests)
		if len(cases) == 0 {
			t.Errorf("%s has no cases", page)
		}
		for _, fault := range faults {
			t.Errorf("%s: %s", page, fault)
		}
		for _, c := range cases {
			told[c] = true
		}
	}
	listed := 0
	for family, numbers := range allCases {
		for _, n := range numbers {
			if name := fmt.Sprintf("%s%02d", family, n); !told[name] {
				t.Errorf("%s is in no table", name)
			}
			listed++
		}
	}
	if len(told) != listed {
		t.Errorf("the tables have %d cases, the list has %d", len(told), listed)
	}
}

// TestFunctionsAreHeld holds the reference of functions to the functions and to the tests that exist.
func TestFunctionsAreHeld(t *testing.T) {
	tests, err := testNames(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("docs/reference/functions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "\n## What holds it\n")
	if text, _, _ = strings.Cut(text, "\n## "); !found {
		t.Fatal("the section is not there")
	}
	for _, name := range append(aggregate.All.Names(), "p50", "p99") {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("no row for %s", name)
		}
	}
	held := testName.FindAllString(text, -1)
	if len(held) < 20 {
		t.Errorf("only %d tests", len(held))
	}
	for _, test := range held {
		if !tests[test] {
			t.Errorf("there is no %s", test)
		}
	}
}

// TestCasesAreHeldNoticesEachFault shows that every rule can fail.
func TestCasesAreHeldNoticesEachFault(t *testing.T) {
	tests := map[string]bool{"TestA": true, "TestB": true}
	for row, want := range map[string]string{
		"| S01 | `TestA`, `TestB` | |":                 "",
		"| S01 | | not applicable: there is no such |": "",
		"| S01 | `TestA` | open: the rest |":           "",
		"| S01 | `TestC` | |":                          "S01: there is no TestC",
		"| S01 | | |":                                  "S01: no test, and no reason",
		"| S01 | | open: everything |":                 "S01: no test, and no reason",
		"| S01 | `TestA` | |\n| S01 | `TestB` | |":     "S01: told twice",
	} {
		if _, faults := checkCases(row, tests); strings.Join(faults, "\n") != want {
			t.Errorf("%s: faults %q, want %q", row, faults, want)
		}
	}
}

var (
	caseRow  = regexp.MustCompile(`(?m)^\| ([A-Z][0-9]{2}) \|(.*)\|(.*)\|$`)
	testName = regexp.MustCompile(`Test[A-Za-z0-9_]+`)
	testFunc = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(`)
)

// checkCases returns the cases of a page, and what is wrong with it.
func checkCases(page string, tests map[string]bool) (cases, faults []string) {
	for _, row := range caseRow.FindAllStringSubmatch(page, -1) {
		name, why := row[1], strings.TrimSpace(row[3])
		if slices.Contains(cases, name) {
			faults = append(faults, name+": told twice")
		}
		cases = append(cases, name)
		held := testName.FindAllString(row[2], -1)
		if len(held) == 0 && !strings.HasPrefix(why, "not applicable") {
			faults = append(faults, name+": no test, and no reason")
		}
		for _, test := range held {
			if !tests[test] {
				faults = append(faults, name+": there is no "+test)
			}
		}
	}
	return cases, faults
}

// testNames are the tests of this repository.
func testNames(tree fs.FS) (map[string]bool, error) {
	names := map[string]bool{}
	err := fs.WalkDir(tree, ".", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := fs.ReadFile(tree, file)
		for _, f := range testFunc.FindAllSubmatch(text, -1) {
			names[string(f[1])] = true
		}
		return err
	})
	return names, err
}
