package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// How often a bar moves, and how often a line is written where no bar can move.
const (
	barEvery  = 100 * time.Millisecond
	lineEvery = 5 * time.Second
)

// progress shows how far a command is: as a bar on a terminal, as a line now and then elsewhere. One goroutine at a
// time.
type progress struct {
	env   *env
	what  string
	total int64                    // -1: not known
	bar   *progressbar.ProgressBar // nil: lines
	every time.Duration
	told  time.Time
}

// progress begins to show the progress of what towards total, in any unit; a total below 0 is not known.
func (e *env) progress(what string, total int64) *progress {
	p := &progress{env: e, what: what, total: total, every: lineEvery, told: time.Now()}
	if terminal(e.err) {
		p.every = barEvery
		p.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(e.err),
			progressbar.OptionSetDescription(what),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionSetWidth(30),
			progressbar.OptionSetPredictTime(true),
		)
	}
	return p
}

// set says how far it is, and in words.
func (p *progress) set(at int64, format string, args ...any) {
	now := time.Now()
	if now.Sub(p.told) < p.every {
		return
	}
	p.told = now
	words := fmt.Sprintf(format, args...)
	if p.bar != nil {
		p.bar.Describe(p.what + " " + words)
		_ = p.bar.Set64(at) // it can only fail to draw
		return
	}
	if p.total > 0 {
		words = fmt.Sprintf("%d %%, %s", 100*at/p.total, words)
	}
	p.env.say("%s: %s", p.what, words)
}

// close takes the bar away.
func (p *progress) close() {
	if p.bar != nil {
		_ = p.bar.Exit() // it can only fail to draw
	}
}

func terminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
