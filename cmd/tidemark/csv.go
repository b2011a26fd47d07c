package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// csvReader makes JSON lines of a CSV file with a header. Each row becomes an object with the header's names in their
// order. A cell that is a number by JSON's grammar becomes that number, token by token; an empty cell becomes null; any
// other cell becomes a string.
type csvReader struct {
	rows  *csv.Reader
	names [][]byte // as JSON strings with a colon
}

func newCSVReader(from io.Reader) (*csvReader, error) {
	c := &csvReader{rows: csv.NewReader(from)}
	c.rows.ReuseRecord = true
	header, err := c.rows.Read()
	if err != nil {
		return nil, fmt.Errorf("CSV header: %w", err)
	}
	seen := map[string]bool{}
	for i, name := range header {
		if i == 0 {
			name = strings.TrimPrefix(name, "\uFEFF")
		}
		if seen[name] {
			return nil, fmt.Errorf("CSV header: column %q is there twice", name)
		}
		seen[name] = true
		c.names = append(c.names, append(appendJSONString(nil, name), ':'))
	}
	return c, nil
}

// next returns the next row as a JSON object. A row that cannot become one is a bad line; the rows after it can.
func (c *csvReader) next() (line, error) {
	row, err := c.rows.Read()
	var malformed *csv.ParseError
	if errors.As(err, &malformed) {
		return line{number: int64(malformed.StartLine), bad: malformed.Err}, nil
	}
	if err != nil {
		return line{}, err
	}
	at, _ := c.rows.FieldPos(0)
	made := line{number: int64(at), value: []byte{'{'}}
	for i, cell := range row {
		if !utf8.ValidString(cell) {
			made.bad = fmt.Errorf("column %d is not valid UTF-8", i+1)
		}
		if i > 0 {
			made.value = append(made.value, ',')
		}
		made.value = appendCell(append(made.value, c.names[i]...), cell)
	}
	made.value = append(made.value, '}')
	return made, nil
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
