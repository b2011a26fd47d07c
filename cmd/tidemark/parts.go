package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/tidemark-streams/tidemark"
	"github.com/tidemark-streams/tidemark/internal/config"
	"github.com/tidemark-streams/tidemark/internal/job"
)

// partFlag adds the flag that names one of the jobs that a file with input.rekey consists of.
func (e *env) partFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&e.part, "part", "", "with input.rekey: name of one of the jobs that it consists of")
}

// loadPart is load for commands that deal with one job: that of the part flag. Without one it is the job proper.
func (e *env) loadPart(path string) (*config.Job, error) {
	defined, err := e.load(path)
	if err != nil {
		return nil, err
	}
	parts := defined.Parts()
	var names []string
	for _, p := range parts {
		if p.Name == cmp.Or(e.part, defined.Name) {
			return p, nil
		}
		names = append(names, p.Name)
	}
	if e.part == "" {
		return nil, usage(fmt.Errorf("which job? %s consists of several: name one with --part: %s", path, strings.Join(names, ", ")))
	}
	return nil, usage(fmt.Errorf("--part %s: %s has no such job, want %s", e.part, path, strings.Join(names, ", ")))
}

// crew runs all jobs that a file consists of in this process.
type crew struct {
	parts   []*config.Job
	options func(*config.Job, *slog.Logger) tidemark.Options
	log     *slog.Logger
	idle    func(*config.Job, *slog.Logger, *tidemark.Status) // told what a job that has run until idle has done
}

// run runs them side by side; the first that ends stops the others. Until idle they run one after the other, for what
// one hands on is the input of the next.
func (c *crew) run(ctx context.Context, untilIdle bool) error {
	if untilIdle {
		for _, p := range c.parts {
			s, err := c.runOne(ctx, p)
			if err != nil || ctx.Err() != nil {
				return err
			}
			c.idle(p, c.logOf(p), s)
		}
		return nil
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	failures := make([]error, len(c.parts))
	var group sync.WaitGroup
	for i, p := range c.parts {
		group.Go(func() {
			defer stop()
			_, failures[i] = c.runOne(ctx, p)
		})
	}
	group.Wait()
	return errors.Join(failures...)
}

// logOf is where a job of several writes its log.
func (c *crew) logOf(part *config.Job) *slog.Logger {
	if len(c.parts) > 1 {
		return c.log.With("job", part.Name)
	}
	return c.log
}

// runOne runs one job, again when its input has grown, and tells how it stood at its end.
func (c *crew) runOne(ctx context.Context, part *config.Job) (*tidemark.Status, error) {
	log := c.logOf(part)
	for {
		options := c.options(part, log)
		if n := c.tables(); n > 1 { // they share what one job would have
			limit, _ := tidemark.MemoryLimit()
			options.MaxBytes = cmp.Or(options.MaxBytes, tidemark.DefaultMaxBytes(limit)) / int64(n)
		}
		app, err := tidemark.New(options)
		if err != nil {
			return nil, err
		}
		if err = app.Run(ctx); !errors.Is(err, tidemark.ErrInputGrown) {
			return app.Status(), err
		}
		log.Warn("going on with all partitions of the input", "cause", err)
	}
}

// tables is how many of the jobs have state.
func (c *crew) tables() (n int) {
	for _, p := range c.parts {
		if p.Part != job.Relay {
			n++
		}
	}
	return n
}
