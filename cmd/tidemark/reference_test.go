package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const commandsPage = "../../docs/reference/commands.md"

var update = flag.Bool("update", false, "write docs/reference/commands.md anew")

// TestCommandsReference: the page says of every command and every flag what the program itself says, and of nothing else.
func TestCommandsReference(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Commands\n\nWhat `tidemark COMMAND --help` says, for all of them. `TestCommandsReference` of cmd/tidemark holds the page to the\n" +
		"program; `go test ./cmd/tidemark -run CommandsReference -update` writes it anew.\n")
	root := newEnv(nil, strings.NewReader(""), io.Discard, io.Discard).root()
	fmt.Fprintf(&b, "\n%s\n", root.Long)
	var later []string
	commands := 0
	var describe func(cmd *cobra.Command)
	describe = func(cmd *cobra.Command) {
		switch {
		case cmd.Hidden:
			later = append(later, "`"+cmd.CommandPath()+"`")
			return
		case cmd.Name() == "help" || cmd.Name() == "completion":
			return
		}
		for _, below := range cmd.Commands() {
			describe(below)
		}
		if !cmd.HasSubCommands() {
			commands++
			describeCommand(&b, cmd)
		}
	}
	describe(root)
	fmt.Fprintf(&b, "\n## Later\n\nThese say that they come with a later version: %s.\n", strings.Join(later, ", "))
	if commands < 15 {
		t.Errorf("only %d commands: the test looks at the wrong place", commands)
	}
	if *update {
		if err := os.WriteFile(commandsPage, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(commandsPage)
	if err != nil {
		t.Fatal(err)
	}
	if string(page) == b.String() {
		return
	}
	want := strings.Split(b.String(), "\n")
	for i, line := range strings.Split(string(page), "\n") {
		if i >= len(want) || line != want[i] {
			t.Fatalf("%s:%d is not what the program says (-update writes it anew):\n%s", commandsPage, i+1, line)
		}
	}
	t.Fatalf("%s ends too early (-update writes it anew)", commandsPage)
}

// describeCommand writes what the program says of a command and its flags.
func describeCommand(b *strings.Builder, cmd *cobra.Command) {
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	_, path, _ := strings.Cut(cmd.CommandPath(), " ")
	fmt.Fprintf(b, "\n## %s\n\n    %s\n\n%s\n", path, cmd.UseLine(), text)
	head := "\n| flag | default | meaning |\n|---|---|---|\n"
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		name, usage := pflag.UnquoteUsage(f)
		if f.Hidden || f.Name == "help" {
			return
		}
		def := f.DefValue
		if def == "false" || def == "[]" {
			def = ""
		}
		if def != "" {
			def = "`" + def + "`"
		}
		flags := "--" + f.Name
		if f.Shorthand != "" {
			flags = "-" + f.Shorthand + ", " + flags
		}
		fmt.Fprintf(b, "%s| `%s` | %s | %s |\n", head, strings.TrimSpace(flags+" "+name), def, strings.ReplaceAll(usage, "|", `\|`))
		head = ""
	})
}
