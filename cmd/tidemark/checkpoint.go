package main

import (
	"github.com/spf13/cobra"
)

func (e *env) checkpointCommand() *cobra.Command {
	return e.group(&cobra.Command{Use: "checkpoint", Short: "Inspect the checkpoints of the state directory"},
		e.later("list"), e.later("verify"), e.later("show"))
}
