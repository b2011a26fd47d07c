package tidemark

import (
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// answerTable is one of the two tables of internal/kafka/DESIGN.md: rows by the protocol's names of their requests, "Ask"
// for the heartbeat that is a question of ours.
type answerTable struct {
	columns []string
	rows    []answerRow
}

type answerRow struct {
	name     string // of the row, for people
	requests []string
	cells    map[string]string // by column, those that are not empty
}

// readAnswerTable takes the table that follows a heading.
func readAnswerTable(page, heading string) (t answerTable) {
	_, text, _ := strings.Cut(page, heading+"\n")
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			break
		}
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if t.columns == nil {
			t.columns = cells[1:]
			continue
		}
		row := answerRow{name: cells[0], cells: map[string]string{}}
		requests, _, _ := strings.Cut(row.name, " (")
		if strings.Contains(row.name, "(Ask)") {
			requests = "Ask"
		}
		row.requests = strings.Split(requests, ", ")
		for i, cell := range cells[1:] {
			if cell != "" && i < len(t.columns) {
				row.cells[t.columns[i]] = cell
			}
		}
		t.rows = append(t.rows, row)
	}
	return t
}

// find is the row of a request; nil where there is none.
func (t *answerTable) find(request string) *answerRow {
	for i := range t.rows {
		if slices.Contains(t.rows[i].requests, request) {
			return &t.rows[i]
		}
	}
	return nil
}

var answerTest = regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")

// checkAnswers lists what is wrong with the two tables: cells without a test, tests that are not there, injections that the
// tables do not know, cells that name TestEveryAnswer, which injects nothing for them.
func checkAnswers(done, held answerTable, tests map[string]bool, injections []injected) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if len(done.rows) != len(held.rows) || !slices.Equal(done.columns, held.columns) {
		fault("%d rows are done and %d held, of columns %q and %q", len(done.rows), len(held.rows), done.columns, held.columns)
	}
	for _, row := range done.rows {
		by := held.find(row.requests[0])
		if by == nil || !slices.Equal(by.requests, row.requests) {
			fault("%s: no row says which tests hold it", row.name)
			continue
		}
		for _, column := range done.columns {
			names := answerTest.FindAllStringSubmatch(by.cells[column], -1)
			if (row.cells[column] == "") != (len(names) == 0) {
				fault("%s, %s: done is %q, held by %q", row.name, column, row.cells[column], by.cells[column])
			}
			for _, name := range names {
				if !tests[name[1]] {
					fault("%s, %s: there is no %s", row.name, column, name[1])
				}
				if name[1] == "TestEveryAnswer" && !slices.ContainsFunc(injections, func(i injected) bool { return i.class == column && i.of(row) }) {
					fault("%s, %s: TestEveryAnswer injects nothing", row.name, column)
				}
			}
		}
	}
	for _, i := range injections {
		by := held.find(i.key.Name())
		if by == nil || !strings.Contains(by.cells[i.class], "`TestEveryAnswer`") {
			fault("%s: the table does not know of it", i.name())
		}
	}
	return faults
}

// of tells whether an answer is of a row. Ask is a heartbeat like those of the membership, and meets what they meet.
func (i *injected) of(row answerRow) bool {
	return slices.Contains(row.requests, i.key.Name()) || i.key == kmsg.Heartbeat && row.requests[0] == "Ask"
}

// TestAnswersAreHeld holds the tables of internal/kafka/DESIGN.md to each other, to the tests that exist and to what
// TestEveryAnswer injects. That every request has a row is held by TestEveryAnswer itself, which sees them.
func TestAnswersAreHeld(t *testing.T) {
	page, err := os.ReadFile("internal/kafka/DESIGN.md")
	if err != nil {
		t.Fatal(err)
	}
	done, held := readAnswerTable(string(page), "## What is done"), readAnswerTable(string(page), "### Which test holds it")
	if len(done.rows) < 10 {
		t.Fatalf("%d rows: the test looks at the wrong place", len(done.rows))
	}
	tests := map[string]bool{}
	err = fs.WalkDir(os.DirFS("."), ".", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := os.ReadFile(file)
		for _, f := range regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(`).FindAllSubmatch(text, -1) {
			tests[string(f[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range checkAnswers(done, held, tests, answers()) {
		t.Error(fault)
	}
}

// TestAnswersAreHeldNoticesEachFault shows that every rule can fail.
func TestAnswersAreHeldNoticesEachFault(t *testing.T) {
	const done = "## D\n| request | here | fenced |\n|---|---|---|\n| Produce (Send) | again | |\n| Heartbeat (Ask) | waits | |\n"
	produce := injected{key: kmsg.Produce, class: "here", cut: true}
	for rows, want := range map[string]string{
		"| Produce | `TestA` | |\n| Ask | `TestA` | |":                                  "",
		"| Produce | | |\n| Ask | `TestA` | |":                                          "done is \"again\", held by \"\"",
		"| Produce | `TestA` | `TestA` |\n| Ask | `TestA` | |":                          "done is \"\", held by \"`TestA`\"",
		"| Produce | `TestB` | |\n| Ask | `TestA` | |":                                  "there is no TestB",
		"| Fetch | `TestA` | |\n| Ask | `TestA` | |":                                    "no row says which tests hold it",
		"| Ask | `TestA` | |":                                                           "2 rows are done and 1 held",
		"| Produce | `TestA`, `TestEveryAnswer` | |\n| Ask | `TestEveryAnswer` | |":     "Heartbeat (Ask), here: TestEveryAnswer injects nothing",
		"| Produce | `TestA` | |\n| Ask | `TestA` | | ":                                 "",
		"| Produce | `TestA` | |\n| Ask | `TestA` | |\n| Fetch | `TestEveryAnswer` | |": "2 rows are done and 3 held",
	} {
		held := readAnswerTable("## H\n| request | here | fenced |\n|---|---|---|\n"+rows+"\n", "## H")
		var injections []injected
		if strings.Contains(rows, "TestEveryAnswer") {
			injections = append(injections, produce)
		}
		faults := strings.Join(checkAnswers(readAnswerTable(done, "## D"), held, map[string]bool{"TestA": true, "TestEveryAnswer": true}, injections), "\n")
		if want == "" && faults != "" || !strings.Contains(faults, want) {
			t.Errorf("%s\nfaults %q, want %q", rows, faults, want)
		}
	}
	held := readAnswerTable("## H\n| request | here | fenced |\n|---|---|---|\n| Produce | `TestA` | |\n| Ask | `TestA` | |\n", "## H")
	if faults := checkAnswers(readAnswerTable(done, "## D"), held, map[string]bool{"TestA": true}, []injected{produce}); len(faults) != 1 || !strings.Contains(faults[0], "does not know") {
		t.Errorf("an injection without a cell: %q", faults)
	}
}
