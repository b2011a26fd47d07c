package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
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
}

func newCSVReader(from io.Reader, format *reading.Format) (*csvReader, error) {
	c := &csvReader{rows: csv.NewReader(from)}
	c.rows.ReuseRecord = true
	header, err := c.rows.Read()
	if err != nil {
		return nil, fmt.Errorf("CSV header: %w", err)
	}
	header = slices.Clone(header)
	header[0] = strings.TrimPrefix(header[0], "\uFEFF")
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

// next returns the next row as the job reads it. A row that cannot become that is a bad line; the rows after it can.
func (c *csvReader) next() (line, error) {
	row, err := c.rows.Read()
	var malformed *csv.ParseError
	if errors.As(err, &malformed) {
		return line{number: int64(malformed.Line), column: malformed.Column, bad: malformed.Err}, nil
	}
	if err != nil {
		return line{}, err
	}
	at, _ := c.rows.FieldPos(0)
	made := line{number: int64(at)}
	for i, cell := range row {
		if !utf8.ValidString(cell) {
			place, column := c.rows.FieldPos(i)
			return line{number: int64(place), column: column, bad: errors.New("the cell is not valid UTF-8")}, nil
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
