package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tidemark-streams/tidemark/internal/config"
	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/internal/preflight"
)

func (e *env) checkCommand() *cobra.Command {
	var path string
	var live, asJSON bool
	cmd := &cobra.Command{
		Use:   "check -c FILE [--live [--json]]",
		Short: "Check the job's configuration, and with --live its cluster: every fault in one go, with the repair",
		Long: `Check the job's configuration without asking any broker. Every fault is told in one go, with its line and a repair; exit
code 1. When there is none, the configuration in force is printed as YAML, defaults included, each value with its source.

With --live the brokers are asked too, and nothing is changed there: transaction.version, topics and their settings,
replicas, rights, and whether the newest records of the input lie where input.partitioner puts them. Each fault and each
warning is printed with the command that repairs it. The exit code is 1 when there is a fault, 4 when no broker answers.`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON && !live {
				return usage(errors.New("check: --json is for --live"))
			}
			defined, err := e.load(path)
			if err != nil {
				return err
			}
			if live {
				return e.checkLive(cmd.Context(), path, defined, asJSON)
			}
			_, err = fmt.Fprintf(e.out, "# %s is in order: job %s, %s of topic %s. In force, each with its source:\n%s",
				path, defined.Name, counted(len(defined.Aggregations), "aggregation"), defined.Input.Topic, defined)
			return err
		},
	}
	configFlag(cmd, &path)
	cmd.Flags().BoolVar(&live, "live", false, "ask the brokers too")
	cmd.Flags().BoolVar(&asJSON, "json", false, "with --live: print JSON objects, one a line")
	return cmd
}

// counted is a number of things.
func counted[N int | int64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// checkLive looks at the job's cluster.
func (e *env) checkLive(ctx context.Context, path string, defined *config.Job, asJSON bool) error {
	connection, err := e.connect(ctx, defined)
	if err != nil {
		return err
	}
	defer connection.close()
	admin, err := connection.reach(ctx, e)
	if err != nil {
		return err
	}
	defer admin.Close()
	found, err := preflight.Look(ctx, connection, planOf(defined, connection))
	if err != nil {
		return err
	}
	moved, err := e.movedAggregations(ctx, connection, admin)
	if err != nil {
		return err
	}
	found = append(found, moved...)
	faults := 0
	for _, f := range found {
		if f.Fault {
			faults++
		}
		if err := e.tell(f, asJSON); err != nil {
			return err
		}
	}
	if faults > 0 {
		return fmt.Errorf("check --live: %s and %s, each with its repair", counted(faults, "fault"), counted(len(found)-faults, "warning"))
	}
	if !asJSON {
		_, err = fmt.Fprintf(e.out, "%s and its cluster are in order: job %s, input %s, changelog %s; %s\n",
			path, defined.Name, defined.Input.Topic, defined.Changelog.Topic, counted(len(found), "warning"))
	}
	return err
}

// tell prints a finding.
func (e *env) tell(f preflight.Finding, asJSON bool) error {
	if !asJSON {
		_, err := fmt.Fprintln(e.out, f)
		return err
	}
	return json.NewEncoder(e.out).Encode(f)
}

// planOf is what a configured job wants of its cluster.
func planOf(defined *config.Job, c *connection) *preflight.Plan {
	options := jobOptions(defined)
	plan := &preflight.Plan{
		Job: options.Job, Config: processorConfig(defined), Input: options.Input, Changelog: options.Changelog.Topic,
		Results: options.Results, Late: options.Late, DeadLetter: options.DeadLetter,
		Replication: int(options.Changelog.ReplicationFactor),
		AllowOld:    defined.Kafka.AllowTransactionV1, Makes: defined.Kafka.Embedded,
	}
	if defined.Input.Rekey.On {
		plan.Config.Part = job.Relay // which does not look at where records lie
	}
	if c.lease != nil {
		plan.Brokers = c.lease.Addr
	} else {
		plan.Brokers = cmp.Or(defined.Kafka.Brokers...)
	}
	if defined.Kafka.SASL != nil {
		plan.User = defined.Kafka.SASL.User
	}
	return plan
}
