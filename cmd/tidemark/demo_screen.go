package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"
)

// demoScreen is where the demo tells its story: lines, and on a terminal one more below them that moves. The story fits
// 80 columns.
type demoScreen struct {
	out   *bufio.Writer
	file  *os.File // the terminal that out goes to; nil for no terminal
	begun time.Time
	told  time.Time // of the last live line
	drawn bool      // a live line stands there
	err   error     // the first failed write
}

func newDemoScreen(out *bufio.Writer, to io.Writer) *demoScreen {
	now := time.Now()
	s := &demoScreen{out: out, begun: now, told: now}
	if terminal(to) {
		s.file = to.(*os.File)
	}
	return s
}

// say writes lines, in place of the live one.
func (s *demoScreen) say(format string, args ...any) {
	s.clear()
	s.write(fmt.Sprintf(format, args...) + "\n")
	s.told = time.Now()
}

// step begins a step of the story.
func (s *demoScreen) step(number int, title string) { s.say("\n%d  %s", number, title) }

// tell writes a paragraph, in lines that fit.
func (s *demoScreen) tell(format string, args ...any) {
	const indent, width = "  ", 79
	line := indent
	for _, word := range strings.Fields(fmt.Sprintf(format, args...)) {
		if len(line)+1+len(word) > width {
			s.say("%s", line)
			line = indent
		}
		line += " " + word
	}
	s.say("%s", line)
}

// The live line moves so often on a terminal; elsewhere it is a line of its own now and then.
const (
	demoMoveEvery = 100 * time.Millisecond
	demoTellEvery = 2 * time.Second
)

// live shows where things stand: how far of total, and in words.
func (s *demoScreen) live(at, total int64, words string) {
	now := time.Now()
	every := demoTellEvery
	if s.file != nil {
		every = demoMoveEvery
	}
	if now.Sub(s.told) < every {
		return
	}
	s.told = now
	if s.file == nil {
		s.write(fmt.Sprintf("   %4.1f s  %s\n", now.Sub(s.begun).Seconds(), words))
		return
	}
	const width = 10
	full := int(min(at, total) * width / max(total, 1))
	line := "   [" + strings.Repeat("=", full) + strings.Repeat(" ", width-full) + "] " + words
	if columns, _, err := term.GetSize(int(s.file.Fd())); err == nil && len(line) > columns-1 {
		line = line[:max(columns-1, 0)] // one that wraps cannot be taken away
	}
	s.clear()
	s.write(line)
	s.drawn = true
}

// clear takes the live line away.
func (s *demoScreen) clear() {
	if s.drawn {
		s.write("\r\x1b[K")
		s.drawn = false
	}
}

func (s *demoScreen) write(text string) {
	_, err := s.out.WriteString(text)
	if flushed := s.out.Flush(); err == nil {
		err = flushed
	}
	if s.err == nil && err != nil {
		// Not wrapped: a reader that goes away is no error to most commands, but this one has then proved nothing.
		s.err = errors.New(err.Error())
	}
}

// grouped is a number with a comma at the thousands.
func grouped[N ~int | ~int64](n N) string {
	digits := strconv.FormatInt(int64(n), 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// many is a number with the word for what is counted.
func many[N ~int | ~int64](n N, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(n) + " " + more
}

// listed is a list as one writes it: 1, 2 and 3.
func listed(numbers []int) string {
	var b strings.Builder
	for i, n := range numbers {
		switch {
		case i > 0 && i == len(numbers)-1:
			b.WriteString(" and ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(strconv.Itoa(n))
	}
	return b.String()
}
