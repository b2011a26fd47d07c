package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/tidemark-streams/tidemark/reading"
)

// csvReader makes what the job reads of a CSV file with a header. For JSON each row becomes an object with the header's
// names in their order: a cell that is a number by JSON's grammar becomes that number, token by token; an empty cell
// becomes null; any other cell becomes a string. For a job that reads rows, each becomes a row of the job's columns.
type csvReader struct {
	rows  *csv.Reader
	names [][]byte // as JSON strings with a colon

	columns   []int // of a row that the job reads, in its order; nil for JSON
	separator rune
	above     int // lines above the header
}

// newCSVReader reads the header. What stands between the cells is the separator given, or 0 for the one that the header
// tells.
func newCSVReader(from io.Reader, separator byte, format *reading.Format) (*csvReader, error) {
	buffered := bufio.NewReader(from)
	first, err := headerLine(buffered)
	above := 0
	if told := toldSeparator(first); err == nil && told != 0 {
		separator, above = cmp.Or(separator, told), 1
		first, err = headerLine(buffered)
	}
	if err != nil {
		return nil, fmt.Errorf("CSV header: %w", err)
	}
	if separator == 0 {
		if separator, err = separatorOf(first, format); err != nil {
			return nil, fmt.Errorf("CSV header: %w", err)
		}
	}
	c := &csvReader{rows: csv.NewReader(io.MultiReader(bytes.NewReader(first), buffered)), above: above}
	c.rows.ReuseRecord, c.rows.Comma = true, rune(separator)
	header, err := c.rows.Read()
	if err != nil {
		return nil, fmt.Errorf("CSV header: %w", err)
	}
	header = slices.Clone(header)
	for i, name := range header {
		if slices.Contains(header[:i], name) {
			return nil, fmt.Errorf("CSV header: column %q is there twice", name)
		}
		c.names = append(c.names, append(appendJSONString(nil, name), ':'))
	}
	c.separator = rune(format.Separator)
	for _, name := range format.Columns {
		i := slices.Index(header, name)
		if i < 0 {
			return nil, fmt.Errorf("CSV header: column %q of input.csv.columns is not there, but %q", name, header)
		}
		c.columns = append(c.columns, i)
	}
	return c, nil
}

// maxHeader bounds the header of a CSV file.
const maxHeader = 1 << 20

// headerLine reads no more than the first row, which may have line ends in quotes, without a byte order mark before it.
func headerLine(from *bufio.Reader) (line []byte, err error) {
	for quoted := false; len(line) < maxHeader; {
		c, err := from.ReadByte()
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if err == nil {
			line = append(line, c)
			quoted = quoted != (c == '"')
		}
		if err != nil || c == '\n' && !quoted {
			return bytes.TrimPrefix(line, []byte("\uFEFF")), nil
		}
	}
	return nil, fmt.Errorf("longer than %d bytes: is this CSV?", maxHeader)
}

// toldSeparator is what a first line says that some spreadsheets write, sep=; in or without quotes, 0 when it is none.
func toldSeparator(line []byte) byte {
	text, ok := bytes.CutPrefix(bytes.Trim(bytes.TrimRight(line, "\r\n"), `"`), []byte("sep="))
	if !ok || len(text) != 1 {
		return 0
	}
	return text[0]
}

// separatorOf is what stands between the cells of a header: a comma, a semicolon, a tab, or what the job has between the
// cells of its rows, whichever of them stands there outside of quotes. A header that has none is one column.
func separatorOf(header []byte, format *reading.Format) (byte, error) {
	candidates := []byte{',', ';', '\t'}
	if own := format.Separator; format.Columns != nil && !slices.Contains(candidates, own) {
		candidates = append(candidates, own)
	}
	var found []byte
	quoted := false
	for _, c := range header {
		quoted = quoted != (c == '"')
		if !quoted && slices.Contains(candidates, c) && !slices.Contains(found, c) {
			found = append(found, c)
		}
	}
	switch len(found) {
	case 0:
		return ',', nil
	case 1:
		return found[0], nil
	}
	return 0, fmt.Errorf("%q and %q both stand in it: say with --separator which of them is between the columns", found[0], found[1])
}

// parseSeparator reads what the command line says of separators.
func parseSeparator(text string) (byte, error) {
	switch {
	case text == "":
		return 0, nil
	case text == "tab":
		return '\t', nil
	case len(text) != 1 || text[0] < ' ' || text[0] > '~' || text[0] == '"':
		return 0, fmt.Errorf("--separator %q: want one character of ASCII other than a quote, or tab", text)
	}
	return text[0], nil
}

// next returns the next row as the job reads it. A row that cannot become that is a bad line; the rows after it can.
func (c *csvReader) next() (line, error) {
	row, err := c.rows.Read()
	var malformed *csv.ParseError
	if errors.As(err, &malformed) {
		bad := malformed.Err
		if errors.Is(bad, csv.ErrFieldCount) {
			bad = fmt.Errorf("%d cells, the header has %d", len(row), len(c.names))
		}
		return line{number: int64(malformed.Line + c.above), column: malformed.Column, bad: bad}, nil
	}
	if err != nil {
		return line{}, err
	}
	at, _ := c.rows.FieldPos(0)
	made := line{number: int64(at + c.above)}
	for i, cell := range row {
		if !utf8.ValidString(cell) {
			place, column := c.rows.FieldPos(i)
			return line{number: int64(place + c.above), column: column, bad: errors.New("the cell is not valid UTF-8")}, nil
		}
	}
	if c.columns != nil {
		made.value, err = c.row(row)
		return made, err
	}
	made.value = append(made.value, '{')
	for i, cell := range row {
		if i > 0 {
			made.value = append(made.value, ',')
		}
		made.value = appendCell(append(made.value, c.names[i]...), cell)
	}
	made.value = append(made.value, '}')
	return made, nil
}

// row writes the job's columns of a row, in quotes where they are needed.
func (c *csvReader) row(cells []string) ([]byte, error) {
	own := make([]string, len(c.columns))
	for i, from := range c.columns {
		own[i] = cells[from]
	}
	var b bytes.Buffer
	to := csv.NewWriter(&b)
	to.Comma = c.separator
	err := to.Write(own)
	to.Flush()
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), errors.Join(err, to.Error())
}

// ready is never sure: the CSV library does not tell what it holds.
func (c *csvReader) ready() bool { return false }

func appendCell(dst []byte, cell string) []byte {
	switch {
	case cell == "":
		return append(dst, "null"...)
	case (cell[0] == '-' || cell[0] >= '0' && cell[0] <= '9') && json.Valid([]byte(cell)):
		return append(dst, cell...)
	}
	return appendJSONString(dst, cell)
}

func appendJSONString(dst []byte, text string) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a string into a buffer cannot fail
	return append(dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}
