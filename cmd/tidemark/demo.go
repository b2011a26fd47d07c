package main

import "github.com/spf13/cobra"

func (e *env) demoCommand() *cobra.Command { return e.later("demo") }
