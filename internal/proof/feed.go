package proof

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Feed gives the lines to be produced, one after the other; nil ends it. It is used by one goroutine.
type Feed func() []byte

// Lines is a feed of given lines.
func Lines(lines [][]byte) Feed {
	return func() []byte {
		if len(lines) == 0 {
			return nil
		}
		line := lines[0]
		lines = lines[1:]
		return line
	}
}

// flow is a feed on its way into `tidemark produce`.
type flow struct {
	produce *child
	hurry   chan struct{} // closed when the rest may go as fast as it can
	enough  chan struct{} // closed when no more lines are wanted
	done    chan struct{} // closed when the feed has ended, for either reason
	lines   int
	err     error
}

// flowTick is how often lines are handed on.
const flowTick = 20 * time.Millisecond

// startFlow produces a feed at about rate lines a second; 0 is as fast as it goes.
func (j *Job) startFlow(feed Feed, rate int) (*flow, error) {
	in, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	produce, err := j.start("produce", in, "produce", "-c", j.Config(), "-")
	err = errors.Join(err, in.Close())
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	f := &flow{produce: produce, hurry: make(chan struct{}), enough: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(f.done)
		f.err = errors.Join(f.pump(feed, bufio.NewWriter(out), rate), out.Close())
	}()
	return f, nil
}

// pump writes one portion of lines a tick.
func (f *flow) pump(feed Feed, to *bufio.Writer, rate int) error {
	ticker := time.NewTicker(flowTick)
	defer ticker.Stop()
	portion := rate * int(flowTick/time.Millisecond) / 1000
	if rate > 0 {
		portion = max(portion, 1)
	}
	for {
		for n := 0; portion == 0 || n < portion; n++ {
			line := feed()
			if line == nil {
				return to.Flush()
			}
			f.lines++
			if _, err := to.Write(append(line[:len(line):len(line)], '\n')); err != nil {
				return err
			}
		}
		if err := to.Flush(); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-f.hurry:
			portion = 0
		case <-f.enough:
			return nil
		}
	}
}

// ended tells whether the feed is at its end.
func (f *flow) ended() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// finish ends the feed, or lets the whole of it through without further pacing, and waits until everything is
// acknowledged. It is called once. It returns the number of lines.
func (f *flow) finish(ctx context.Context, whole bool) (int, error) {
	if whole {
		close(f.hurry)
	} else {
		close(f.enough)
	}
	select {
	case <-f.done:
	case <-f.produce.done:
	case <-ctx.Done():
		return 0, errors.Join(fmt.Errorf("producing: %w", context.Cause(ctx)), f.produce.kill())
	}
	err := f.produce.wait(ctx)
	<-f.done
	return f.lines, errors.Join(err, f.err)
}

// Produce writes all lines of a feed to the input topic.
func (j *Job) Produce(ctx context.Context, feed Feed) (lines int, err error) {
	f, err := j.startFlow(feed, 0)
	if err != nil {
		return 0, err
	}
	return f.finish(ctx, true)
}
