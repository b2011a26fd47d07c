package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

func (e *env) checkCommand() *cobra.Command {
	var path string
	var live bool
	cmd := &cobra.Command{
		Use:   "check -c FILE",
		Short: "Check the job's configuration: every fault in one go, with the repair",
		Args:  arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if live {
				return usage(errors.New("check --live: not yet: it comes with a later version; tidemark run checks the topics at its start"))
			}
			defined, err := e.load(path)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(e.out, "%s is in order: job %s, %d aggregations of topic %s\n",
				path, defined.Name, len(defined.Aggregations), defined.Input.Topic)
			return err
		},
	}
	configFlag(cmd, &path)
	cmd.Flags().BoolVar(&live, "live", false, "ask the brokers too")
	_ = cmd.Flags().MarkHidden("live") // it fails only for a flag that does not exist
	return cmd
}
