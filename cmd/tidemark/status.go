package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tidemark-streams/tidemark"
	"github.com/tidemark-streams/tidemark/internal/config"
)

func (e *env) statusCommand() *cobra.Command {
	var path string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status -c FILE [flags]",
		Short: "Say how the job that runs here stands",
		Long: `Ask the process that runs the job in state.dir on this machine how it stands: each task's state, lag, stream time,
windows, checkpoint and expected recovery time, and the reasons for all that is not green.

The exit code is 0 when nothing is red, and 1 when something is, or when no job runs here.`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return e.status(cmd.Context(), path, asJSON) },
	}
	configFlag(cmd, &path)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what the process answers, as one JSON object; with input.rekey one a line for each job")
	return cmd
}

func (e *env) status(ctx context.Context, path string, asJSON bool) error {
	defined, err := e.load(path)
	if err != nil {
		return err
	}
	var failures []error
	for i, part := range defined.Parts() {
		if i > 0 && !asJSON {
			fmt.Fprintln(e.out)
		}
		failures = append(failures, e.statusOf(ctx, path, part, asJSON))
	}
	return errors.Join(failures...)
}

// statusOf prints the status of one of the jobs that a file consists of.
func (e *env) statusOf(ctx context.Context, path string, part *config.Job, asJSON bool) error {
	s, raw, err := tidemark.FetchStatus(ctx, part.State.Dir)
	if err != nil {
		return err
	}
	if s.Job != part.Name {
		return fmt.Errorf("state.dir %s is that of job %q, %s defines job %q", part.State.Dir, s.Job, path, part.Name)
	}
	if asJSON {
		_, err = e.out.Write(raw)
	} else {
		err = s.WriteTable(e.out)
	}
	if err != nil {
		return err
	}
	if s.Health == tidemark.Red {
		return errors.New("red: " + s.Reasons[0].String())
	}
	return nil
}
