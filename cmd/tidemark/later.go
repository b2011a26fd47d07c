package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// laterCommands are the commands of the contract that do not exist yet. They say so, with the code of a command line
// that cannot be carried out, and are not listed.
func (e *env) laterCommands() []*cobra.Command {
	return []*cobra.Command{
		e.later("plan"), e.later("migrate"), e.later("export"), e.later("import"),
	}
}

func (e *env) later(name string) *cobra.Command {
	return &cobra.Command{
		Use:                name,
		Hidden:             true,
		Args:               cobra.ArbitraryArgs,
		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usage(fmt.Errorf("%snot yet: it comes with a later version", title(cmd)))
		},
	}
}
