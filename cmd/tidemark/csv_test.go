package main

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tidemark-streams/tidemark/reading"
)

// TestCSVSeparators: the header tells what stands between the cells, and the command line where it cannot. Cells with decimal
// commas stay whole, and nothing behind the header is read to find out.
func TestCSVSeparators(t *testing.T) {
	object, row := reading.DefaultFormat(), reading.DefaultFormat()
	row.Columns, row.Separator = []string{"t", "dev"}, '|'
	for name, c := range map[string]struct {
		format    reading.Format
		separator byte
		file      string
		want      string // the first row, or a part of the error
	}{
		"comma":              {object, 0, "dev,t\na,21.5\n", `{"dev":"a","t":21.5}`},
		"semicolon":          {object, 0, "dev;t\r\na;21,5\r\n", `{"dev":"a","t":"21,5"}`},
		"tab":                {object, 0, "dev\tt\na\t-1,5e3\n", `{"dev":"a","t":"-1,5e3"}`},
		"mark":               {object, 0, "\ufeff\"dev\";t\na;1\n", `{"dev":"a","t":1}`},
		"quoted header":      {object, 0, "\"dev, of line\n1\";\"t \"\"C\"\"\"\na;1\n", `{"dev, of line\n1":"a","t \"C\"":1}`},
		"one column":         {object, 0, "t\n21\n", `{"t":21}`},
		"no line end":        {object, 0, "dev;t", "EOF"},
		"two of them":        {object, 0, "dev;t, C\na;1\n", `';' and ',' both stand in it: say with --separator`},
		"told":               {object, ';', "dev;t, C\na;1\n", `{"dev":"a","t, C":1}`},
		"told another":       {object, '|', "dev|t;x\na|1\n", `{"dev":"a","t;x":1}`},
		"rows":               {row, 0, "dev;x;t\na;0;21,5\n", `21,5|a`},
		"rows as of the job": {row, 0, "dev|x|t\na|0|21,5\n", `21,5|a`},
		"rows with theirs":   {row, 0, "dev;x;t\na|b;0;2\n", `2|"a|b"`},
		"no column":          {row, 0, "dev;temp\na;2\n", `column "t" of input.csv.columns is not there`},
		"another's":          {object, 0, "dev|t\na|1\n", `{"dev|t":"a|1"}`},
		"told by the file":   {object, 0, "\ufeffsep=;\r\ndev;t, C\r\na;1,5\r\n", `{"dev":"a","t, C":"1,5"}`},
		"told in quotes":     {object, 0, "\"sep=\t\"\ndev\tt\na\t1\n", `{"dev":"a","t":1}`},
		"told by both":       {object, ',', "sep=;\ndev,t\na,1\n", `{"dev":"a","t":1}`},
		"told, and no more":  {object, 0, "sep=;\n", "CSV header: EOF"},
		"too few cells":      {object, 0, "a;b;c\n1;2\n", "2 cells, the header has 3"},
		"twice":              {object, 0, "dev;dev\na;1\n", `column "dev" is there twice`},
		"nothing":            {object, 0, "", "CSV header: EOF"},
		"no end":             {object, 0, `"` + strings.Repeat("x", maxHeader), "is this CSV?"},
	} {
		from := io.MultiReader(iotest.OneByteReader(strings.NewReader(c.file)), iotest.ErrReader(io.EOF))
		rows, err := newCSVReader(from, c.separator, &c.format)
		got := ""
		if err == nil {
			var l line
			if l, err = rows.next(); l.bad != nil {
				err = l.bad
			}
			got = string(l.value)
		}
		if err != nil {
			got = err.Error()
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	rows, err := newCSVReader(strings.NewReader("sep=;\na;b\n1\n1;2\n"), 0, &object)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []int64{3, 4} {
		if l, err := rows.next(); err != nil || l.number != want || (l.bad != nil) != (want == 3) {
			t.Errorf("%+v (%v), want line %d", l, err, want)
		}
	}
	late := errors.New("read before its time")
	if _, err := newCSVReader(io.MultiReader(strings.NewReader("dev;t\n"), iotest.ErrReader(late)), 0, &object); err != nil {
		t.Errorf("a source that says nothing behind its header: %v", err)
	}
	for text, want := range map[string]byte{"": 0, ";": ';', "tab": '\t', " ": ' '} {
		if got, err := parseSeparator(text); got != want || err != nil {
			t.Errorf("--separator %q is %q (%v)", text, got, err)
		}
	}
	for _, text := range []string{";;", "\t", "ä", `"`, "\n"} {
		if _, err := parseSeparator(text); err == nil {
			t.Errorf("--separator %q was taken", text)
		}
	}
}
