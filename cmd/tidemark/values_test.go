package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestFlagValuesInWords gives every flag of every command that takes no text a value that it cannot have: the answer names the
// flag, what was given and what is wanted, and no function of the library that reads it.
func TestFlagValuesInWords(t *testing.T) {
	const bad = "x1"
	flags := 0
	try := func(cmd *cobra.Command, flag *pflag.Flag) {
		switch flag.Value.Type() {
		case "string", "stringArray", "stringSlice":
			return
		}
		flags++
		var out, said bytes.Buffer
		e := newEnv(append(strings.Fields(cmd.CommandPath())[1:], "--"+flag.Name+"="+bad), strings.NewReader(""), &out, &said)
		code := e.run(t.Context())
		text := said.String()
		if code != misused || !strings.Contains(text, `--`+flag.Name+` is "`+bad+`": want `) {
			t.Errorf("%s: exit code %d, %q", cmd.CommandPath(), code, text)
		}
		for _, not := range []string{"strconv", "parsing", "time:", "invalid", "of type"} {
			if strings.Contains(text, not) {
				t.Errorf("%s: %q is no word for people: %q", cmd.CommandPath(), not, text)
			}
		}
	}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, below := range cmd.Commands() {
			walk(below)
		}
		if !cmd.HasSubCommands() {
			cmd.Flags().VisitAll(func(f *pflag.Flag) { try(cmd, f) })
		}
	}
	walk(newEnv(nil, nil, &bytes.Buffer{}, &bytes.Buffer{}).root())
	if flags < 20 {
		t.Errorf("only %d flags: the test looks at the wrong place", flags)
	}
}
