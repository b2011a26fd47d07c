package job

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDeadLettersReference: the page names every reason and every header, each once in its table, and no other.
func TestDeadLettersReference(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/dead-letters.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("letter.go")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, reason := range Reasons() {
		want = append(want, string(reason))
	}
	for _, m := range regexp.MustCompile(`= headerPrefix \+ "(\w+)"`).FindAllSubmatch(source, -1) {
		want = append(want, headerPrefix+string(m[1]))
	}
	var got []string
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for _, m := range regexp.MustCompile("`([a-z_.0-9]+)`").FindAllStringSubmatch(cells[1], -1) {
				got = append(got, m[1])
			}
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if len(want) < 45 || !slices.Equal(got, want) {
		t.Errorf("the page has\n%q, want\n%q", got, want)
	}
}
