package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tidemark-streams/tidemark"
)

func (e *env) leaveCommand() *cobra.Command {
	var path string
	var yes, asJSON bool
	cmd := &cobra.Command{
		Use:   "leave -c FILE [flags]",
		Short: "Give up the seat that a stopped process has kept in the job's group",
		Long: `A process that stops keeps its seat in the group for a restart, unless shutdown is leave: its tasks stand still until it
is back, or until the seat runs out with its session. This gives up the seat of the process that used state.dir here and
has ended, so that the others take its tasks over at once. Nothing of the state is touched.

What would be done is told first; it is done with --yes.`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return e.leave(cmd.Context(), path, yes, asJSON) },
	}
	configFlag(cmd, &path)
	e.partFlag(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "do it; without, only tell what would be done")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON objects, one a line")
	return cmd
}

// seatLine is a seat as --json prints it.
type seatLine struct {
	Member   string `json:"member"`
	Instance string `json:"instance"` // "" for none
	Host     string `json:"host"`
	Left     bool   `json:"left"`
}

func (e *env) leave(ctx context.Context, path string, yes, asJSON bool) error {
	app, release, err := e.idleApp(ctx, path, asJSON)
	if err != nil {
		return err
	}
	defer release()
	seats, err := app.Leave(ctx, yes)
	if err != nil {
		return err
	}
	for _, s := range seats {
		if err := e.printSeat(s, yes, asJSON); err != nil {
			return err
		}
	}
	switch {
	case len(seats) == 0:
		e.say("this state directory holds no seat in the group: there is nothing to give up")
	case !yes:
		e.say("nothing was changed: add --yes to do it")
	}
	return nil
}

func (e *env) printSeat(s tidemark.Seat, left, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(e.out).Encode(seatLine{s.ID, s.Instance, s.Host, left})
	}
	verb := "holds a seat"
	if left {
		verb = "has left"
	}
	_, err := fmt.Fprintf(e.out, "%s %s\n", s, verb)
	return err
}
