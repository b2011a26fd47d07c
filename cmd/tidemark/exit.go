package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-streams/tidemark"
	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// The exit codes, a contract.
const (
	done        = 0
	refused     = 1 // configuration, data, damage, and whatever else went wrong
	misused     = 2 // the command line cannot be understood
	stopped     = 3 // fenced by another owner, or stopped by policy
	unreachable = 4 // no broker reached at first contact
)

// coded is an error with an exit code of its own.
type coded struct {
	code int
	error
}

// Unwrap returns the cause.
func (c *coded) Unwrap() error { return c.error }

// usage makes an error one of the command line.
func usage(err error) error { return &coded{misused, err} }

// unreached makes an error one of first contact.
func unreached(err error) error { return &coded{unreachable, err} }

// codeOf is the one place where an error becomes an exit code.
func codeOf(err error) int {
	var own *coded
	var bad *job.BadError
	switch {
	case err == nil:
		return done
	case errors.As(err, &own):
		return own.code
	case errors.Is(err, tidemark.ErrUnreachable):
		return unreachable
	case errors.As(err, &bad), kafka.ClassOf(err) == kafka.ClassFenced, errors.Is(err, kafka.ErrSeatTaken):
		return stopped
	}
	return refused
}

// arguments demands exactly the named positional arguments.
func arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return fmt.Errorf("%s%s is missing: see %s --help", title(cmd), names[len(args)], cmd.CommandPath())
		case len(args) > len(names) && cmd.Flags().Lookup("config") != nil && !cmd.Flags().Changed("config"):
			return fmt.Errorf("%s%q is one argument too many: did you mean -c %[2]s?", title(cmd), args[len(names)])
		case len(args) > len(names):
			return fmt.Errorf("%s%q is one argument too many: see %s --help", title(cmd), args[len(names)], cmd.CommandPath())
		}
		return nil
	}
}

// wantedNote is the annotation of a flag whose type does not say all that is wanted of its value.
const wantedNote = "wanted"

// wants says what a flag's value must be, for whoever writes another one.
func wants(cmd *cobra.Command, flag, what string) {
	_ = cmd.Flags().SetAnnotation(flag, wantedNote, []string{what}) // it fails for no flag that there is
}

// wantedOf says in words what the value of a flag must be.
func wantedOf(flag *pflag.Flag) string {
	if note := flag.Annotations[wantedNote]; len(note) > 0 {
		return "want " + note[0]
	}
	switch flag.Value.Type() {
	case "bool":
		return "want true or false, or nothing for true"
	case "duration":
		return "want a time with its unit, like 90s, 10m or 2h"
	case "int32":
		return "want a whole number up to 2147483647"
	case "int", "int64":
		return "want a whole number up to 9223372036854775807"
	case "uint64":
		return "want a whole number from 0 to 18446744073709551615"
	}
	return "want a value of type " + flag.Value.Type()
}

// similarFlags returns the flags that look like the unknown one in err. cobra measures the distance of command names,
// so the flags are shown to it as commands.
func similarFlags(cmd *cobra.Command, err error) []string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return nil
	}
	flags := &cobra.Command{SuggestionsMinimumDistance: 2}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	return flags.SuggestionsFor(unknown.GetSpecifiedName())
}
