package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-streams/tidemark/cmd/tidemark/internal/embedded"
)

// embeddedLinger is how long the embedded broker that a command started stays when nobody uses it.
const embeddedLinger = 30 * time.Second

func (e *env) brokerCommand() *cobra.Command {
	o := embedded.Options{Log: e.err}
	cmd := &cobra.Command{
		Use:   "broker",
		Short: "Host a Kafka broker for trying out, in this process",
		Long: `Host a Kafka broker for trying out, in this process, with its data under --dir. It listens on this machine only,
prints its address and writes it to the file addr in its directory.

It is no broker for data you need: it knows one machine, and a crash in the middle of a transaction can tear it.

With "kafka: embedded" in a job's configuration you need not call this: each command uses the broker that runs in
state.dir/broker, or starts one that ends by itself when nobody has used it for 30 s.`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Partitions < 1 {
				return usage(fmt.Errorf("--partitions is %d, it must be at least 1", o.Partitions))
			}
			if o.Linger < 0 {
				return usage(fmt.Errorf("--linger is %s, it must not be negative", o.Linger))
			}
			e.say("%s", embedded.Warning)
			return embedded.Serve(cmd.Context(), o, func(addr string) {
				e.say("broker listens on %s, data in %s", addr, o.Dir)
			})
		},
	}
	cmd.Flags().StringVar(&o.Dir, "dir", "state/broker", "directory of its data")
	cmd.Flags().IntVar(&o.Partitions, "partitions", 4, "partitions of topics that are made without a number")
	cmd.Flags().DurationVar(&o.Linger, "linger", 0, "end when nobody was connected for so long; 0: run until stopped")
	return cmd
}
