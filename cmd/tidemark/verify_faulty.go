//go:build faulty

package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tidemark-streams/tidemark/internal/defect"
)

// faultyFlags adds what only this build has: its seeded mistakes.
func (e *env) faultyFlags(cmd *cobra.Command, o *verifyOptions) {
	var list bool
	var by, name string
	f := cmd.Flags()
	f.BoolVar(&list, "list-defects", false, "print the names of the seeded mistakes, one a line, and end")
	f.StringVar(&by, "by", "", "with --list-defects: only those that this must see: verify, or the name of a test")
	f.StringVar(&name, "defect", "", "make this mistake")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if list {
			for _, d := range defect.All() {
				if by == "" || by == d.By {
					fmt.Fprintln(e.out, d.Name)
				}
			}
			return nil
		}
		if name != "" {
			if !slices.ContainsFunc(defect.All(), func(d defect.Defect) bool { return d.Name == name }) {
				return usage(errors.New("verify: no mistake has the name " + name + ": see --list-defects"))
			}
			o.variables, o.more = []string{defect.Variable + "=" + name}, " --defect "+name
		}
		return run(cmd, args)
	}
}
