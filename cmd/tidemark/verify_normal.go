//go:build !faulty

package main

import "github.com/spf13/cobra"

// faultyFlags adds nothing: this build makes no mistakes on purpose.
func (*env) faultyFlags(*cobra.Command, *verifyOptions) {}
