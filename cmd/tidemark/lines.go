package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
)

// line is one line of a source as it is sent.
type line struct {
	number int64 // in the source, from 1
	value  []byte
	bad    error // why it cannot be sent
	column int   // where, in bytes from 1; 0 for the whole line
}

// source gives lines one by one; io.EOF after the last one.
type source interface {
	next() (line, error)
	// ready tells whether next returns at once.
	ready() bool
}

// batch is a number of lines that were there together, and what ended the source after them.
type batch struct {
	lines []line
	end   error
}

// maxLine bounds one line. Brokers take far less by default.
const maxLine = 64 << 20

// maxBatch bounds the lines of a batch.
const maxBatch = 512

// pump reads a source in a goroutine of its own, so that one that says nothing for a while can be given up, and that
// cutting lines and sending them share two cores. Lines are never held back for more to come.
func pump(ctx context.Context, from source) <-chan batch {
	batches := make(chan batch, 4)
	go func() {
		defer close(batches)
		for b := (batch{}); ; b = (batch{}) {
			for b.end == nil && len(b.lines) < maxBatch && (len(b.lines) == 0 || from.ready()) {
				next, err := from.next()
				if b.end = err; err == nil {
					b.lines = append(b.lines, next)
				}
			}
			select {
			case batches <- b:
			case <-ctx.Done():
				return
			}
			if b.end != nil {
				return
			}
		}
	}()
	return batches
}

// lineReader cuts a stream into lines. A line's bytes stay as they are for as long as they are referenced: they are
// what is sent, without a copy.
type lineReader struct {
	from    io.Reader
	block   []byte // filled part of the present block
	at      int    // where the next line begins in it
	scanned int    // no line end before it
	end     error
	number  int64 // of the line returned last
}

const lineBlock = 256 << 10

// next returns the next line without its end, LF or CRLF; io.EOF after the last one.
func (l *lineReader) next() (line, error) {
	for !l.ready() {
		switch {
		case l.end == nil && len(l.block)-l.at > maxLine:
			return line{}, fmt.Errorf("line %d is longer than %d bytes", l.number+1, maxLine)
		case l.end == nil:
			l.fill()
		case errors.Is(l.end, io.EOF) && l.at < len(l.block):
			return l.take(len(l.block), 0), nil
		default:
			return line{}, l.end
		}
	}
	return l.take(l.scanned, 1), nil
}

// ready looks for the end of the next line in what was read.
func (l *lineReader) ready() bool {
	i := bytes.IndexByte(l.block[l.scanned:], '\n')
	if i < 0 {
		l.scanned = len(l.block)
		return false
	}
	l.scanned += i
	return true
}

// take returns the line that ends at end, where skip bytes of line end follow.
func (l *lineReader) take(end, skip int) line {
	value := bytes.TrimSuffix(l.block[l.at:end:end], []byte("\r"))
	l.at, l.scanned = end+skip, end+skip
	l.number++
	return line{number: l.number, value: value}
}

// fill reads more, into a new block when this one is full: lines already returned stay in the old one.
func (l *lineReader) fill() {
	if len(l.block) == cap(l.block) {
		rest := l.block[l.at:]
		l.block = append(make([]byte, 0, max(lineBlock, 2*len(rest))), rest...)
		l.at, l.scanned = 0, len(rest)
	}
	n, err := l.from.Read(l.block[len(l.block):cap(l.block)])
	l.block = l.block[:len(l.block)+n]
	l.end = err
}

// sourceFile is a file or standard input, unpacked when it is gzip.
type sourceFile struct {
	io.Reader
	size  int64 // in the file; -1 unknown
	read  func() int64
	close func() error
}

// openSource opens a file, "-" for standard input.
func openSource(path string, stdin io.Reader) (*sourceFile, error) {
	s := &sourceFile{size: -1, close: func() error { return nil }}
	counted := &counter{from: stdin}
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			s.size = info.Size()
		}
		counted.from, s.close = file, file.Close
	}
	s.Reader, s.read = counted, counted.n.Load
	if strings.HasSuffix(path, ".gz") {
		unpacked, err := gzip.NewReader(counted)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", path, err), s.close())
		}
		s.Reader = unpacked
	}
	return s, nil
}

// counter counts what was read, while another goroutine asks how much it was.
type counter struct {
	from io.Reader
	n    atomic.Int64
}

// Read reads and counts.
func (c *counter) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n.Add(int64(n))
	return n, err
}
