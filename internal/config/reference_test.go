package config

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const reference = "../../docs/reference/config.md"

// row is a row of a table of the reference page: key, allowed, default, meaning. later is an item of its list of words
// that later versions have.
var (
	row   = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]*) \\| ([^|]*) \\| ([^|]*) \\|$")
	later = regexp.MustCompile("(?m)^- `([^`]+)`")
)

// TestReferenceIsComplete: the page has a row for every key that the code knows, with the range and the default that
// the code has, in the order of the code, and no other rows; and so for the words of later versions.
func TestReferenceIsComplete(t *testing.T) {
	page, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	d := newDecoder(fileName, nil)
	d.job(&section{d: d})
	var rows, words []string
	for _, key := range d.order {
		switch k := d.keys[key]; {
		case k.later:
			words = append(words, key)
		case k.want != "":
			rows = append(rows, fmt.Sprintf("`%s` | %s | %s", key, k.want, inCode(k.def)))
		}
	}
	var pageRows, pageWords []string
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		pageRows = append(pageRows, fmt.Sprintf("`%s` | %s | %s", m[1], m[2], m[3]))
		if len(m[4]) < 10 {
			t.Errorf("%s is not described", m[1])
		}
	}
	for _, m := range later.FindAllStringSubmatch(string(page), -1) {
		pageWords = append(pageWords, m[1])
	}
	both(t, "row", rows, pageRows)
	both(t, "word of a later version", words, pageWords)
	if len(rows) < 30 {
		t.Errorf("only %d keys were found: the test looks at the wrong place", len(rows))
	}
}

func inCode(def string) string {
	switch def {
	case "":
		return ""
	case asKey:
		return "as `input.key`"
	}
	return "`" + def + "`"
}

func both(t *testing.T, what string, code, page []string) {
	t.Helper()
	for _, c := range code {
		if !slices.Contains(page, c) {
			t.Errorf("%s: the page lacks this %s of the code:\n%s", reference, what, c)
		}
	}
	for _, p := range page {
		if !slices.Contains(code, p) {
			t.Errorf("%s: the code lacks this %s of the page:\n%s", reference, what, p)
		}
	}
	if !t.Failed() && !slices.Equal(code, page) {
		t.Errorf("%s: the %ss are not in the order of the code:\n%q", reference, what, code)
	}
}

// TestReferenceShowsTheExample: the example of the page is the one that is tested.
func TestReferenceShowsTheExample(t *testing.T) {
	page, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"example", "minimal"} {
		example, err := os.ReadFile("testdata/" + name + ".good.yml")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), "```yaml\n"+string(example)+"```") {
			t.Errorf("%s does not show testdata/%s.good.yml as it is", reference, name)
		}
	}
}

// TestVariablesAreUnambiguous: no two keys have the same variable, and none looks like a variable of a test.
func TestVariablesAreUnambiguous(t *testing.T) {
	d := newDecoder(fileName, nil)
	d.job(&section{d: d})
	keys := map[string]string{}
	for _, key := range d.order {
		variable := d.keys[key].variable
		if variable == "" {
			continue
		}
		if other, ok := keys[variable]; ok {
			t.Errorf("%s is the variable of %s and of %s", variable, other, key)
		}
		if isForeign(variable) {
			t.Errorf("%s of %s looks like a variable of a test", variable, key)
		}
		keys[variable] = key
	}
	if keys["TIDEMARK_STATE_DIR"] != "state.dir" || len(keys) < 25 {
		t.Errorf("%d variables: %v", len(keys), keys)
	}
	if _, ok := keys["TIDEMARK_KAFKA_SASL_PASSWORD"]; ok {
		t.Error("a secret has a variable of its own")
	}
}
