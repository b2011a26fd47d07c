package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-streams/tidemark/cmd/tidemark/internal/embedded"
	"github.com/tidemark-streams/tidemark/internal/config"
	"github.com/tidemark-streams/tidemark/internal/crash"
	"github.com/tidemark-streams/tidemark/internal/proof"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
	"github.com/tidemark-streams/tidemark/internal/proof/trial"
)

// verifyOptions are what the command line says.
type verifyOptions struct {
	config     string
	kills      int
	seed       uint64
	points     []string
	strikes    string
	duration   time.Duration
	parallel   int
	report     string
	json       bool
	listPoints bool
	variables  []string // for the processes that are tried
	more       string   // of the command line, of this build alone
}

func (e *env) verifyCommand() *cobra.Command {
	var o verifyOptions
	cmd := &cobra.Command{
		Use:   "verify -c FILE [flags]",
		Short: "Crash-test your own job: kill it again and again, and compare with an independent oracle",
		Long: `Run the job of the file under names of its own, JOB-verify-*, kill it at named points and at random times while readings
flow, make steps of it fail, delete and damage its checkpoints, move its partitions between two instances; and after every
few kills compare state, results, late readings, dead letters and counters with what an independent oracle makes of the
same readings: for every kind of window and of input, updates, current values, jobs with input.rekey, and windows that
silence closes.

It touches nothing of the job. With brokers of your own the topics of the trial are made there and removed afterwards, and
the readings are copies of those in the job's input topic, as far as there are any; else they are generated. With
"kafka: embedded" it happens on a broker in memory. Windows, functions, time and limits are those of the file; commits and
checkpoints come more often, so that a short trial meets many of them.

When something is found, as little as possible of what was done is tried again, and the command that shows it once more is
printed.

Exit code 0 says that nothing was found, 1 that something was, or that the trial could not be carried out.`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.listPoints {
				_, err := fmt.Fprintln(e.out, strings.Join(crash.Points(), "\n"))
				return err
			}
			return e.tryJob(cmd.Context(), &o)
		},
	}
	configFlag(cmd, &o.config)
	f := cmd.Flags()
	f.IntVar(&o.kills, "kills", 40, "kills that count: those that hit a process in the middle of something")
	f.Uint64Var(&o.seed, "seed", 0, "of what is done and when; 0: a new one")
	f.StringSliceVar(&o.points, "points", nil, "kill at these points only, not at random times")
	f.StringVar(&o.strikes, "strikes", "", "do exactly this to each new job, as the report of a trial that has found something says")
	f.DurationVar(&o.duration, "duration", 0, "no new kills after this time")
	f.IntVar(&o.parallel, "parallel", 1, "jobs that are tried at the same time")
	f.StringVar(&o.report, "report", "", "write a report to this file")
	f.BoolVar(&o.json, "json", false, "print JSON objects, one a line; the last one is the summary")
	f.BoolVar(&o.listPoints, "list-points", false, "print the names of all points, one a line, and end")
	e.faultyFlags(cmd, &o)
	return cmd
}

// tryJob tries the job.
func (e *env) tryJob(ctx context.Context, o *verifyOptions) (err error) {
	if o.kills < 1 || o.parallel < 1 || o.duration < 0 {
		return usage(errors.New("verify: --kills and --parallel must be at least 1, and --duration not negative"))
	}
	if o.seed == 0 {
		o.seed = rand.Uint64N(1 << 53) // it can be read back from JSON
	}
	var strikes []trial.Strike
	if o.strikes != "" {
		if strikes, err = trial.ParseStrikes(o.strikes); err != nil {
			return usage(fmt.Errorf("verify: --strikes: %w", err))
		}
	}
	defined, err := e.load(o.config)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "tidemark-verify-")
	if err != nil {
		return err
	}
	v, err := e.newTrial(ctx, o, defined, dir)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	defer v.close()
	v.options.Strikes = strikes
	e.say("verify: seed %d, %s; names begin with %s-; %s", o.seed, v.readings, v.options.Prefix, dir)
	summary, err := trial.Run(ctx, v.options)
	v.progress.close()
	if len(summary.Anomalies) == 0 {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return errors.Join(err, e.verdict(ctx, o, v, &summary, err))
}

// verification is what a trial needs beside its options.
type verification struct {
	options  trial.Options
	readings string // in words
	brokers  []string
	embedded bool
	close    func()
	progress *progress
}

// newTrial makes the options of a trial out of the job's file.
func (e *env) newTrial(ctx context.Context, o *verifyOptions, defined *config.Job, dir string) (*verification, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	path, err := filepath.Abs(o.config)
	if err != nil {
		return nil, err
	}
	model := proof.Model(defined)
	model.Partitions = int32(max(defined.Kafka.EmbeddedPartitions, 1))
	v := &verification{close: func() {}, progress: e.progress("verify", int64(o.kills)), readings: "generated readings"}
	v.options = trial.Options{Prefix: defined.Name + "-verify", Dir: dir, Rate: verifyRate, Seed: o.seed, Kills: o.kills,
		Duration: o.duration, Points: o.points, Parallel: o.parallel, Tell: e.tellTrial(o, v)}
	if err := e.reachTrial(ctx, defined, v, &model); err != nil {
		v.close()
		return nil, err
	}
	if v.options.Source == nil {
		if v.options.Source, err = trial.Generated(&model, defined.Input.Rekey.On); err != nil {
			v.close()
			return nil, fmt.Errorf("verify: %w: it needs some in %s of brokers of your own", err, defined.Input.Topic)
		}
	}
	v.options.Job = proof.Job{Binary: binary, Oracle: model, Pairs: proof.Pairs(defined), NoLate: defined.Late == "",
		Variables: slices.Concat(config.OwnVariables(os.Environ()), o.variables)}
	if defined.IdleClose > 0 {
		v.options.Job.Idle = min(verifyIdle, defined.IdleClose)
	}
	v.options.Job.Render = func(j *proof.Job) ([]byte, error) {
		return config.Rename(path, config.Names{Job: j.Name, Input: j.Input(), Late: j.Late(), DeadLetter: j.Dead(), Changelog: j.Changelog(),
			Result: j.Results, StateDir: j.StateDir(), Brokers: v.brokers, Embedded: defined.Kafka.Embedded, Commit: min(verifyCommit, defined.Commit.Interval),
			Checkpoint: min(verifyCheckpoint, defined.Checkpoint), MaxRecords: j.MaxRecords, IdleClose: j.Idle})
	}
	return v, nil
}

// The pace of a trial.
const (
	verifyRate       = 1000 // readings a second
	verifyCommit     = 20 * time.Millisecond
	verifyCheckpoint = 150 * time.Millisecond
	verifyIdle       = 100 * time.Millisecond
	verifyReadings   = 200_000 // of the job's own, at most,
	verifyFew        = 2000    // and at least; these few last for about
	verifySeconds    = 40      // seconds, at
	verifySlowest    = 100     // readings a second or more
)

// reachTrial finds the brokers, and the job's own readings.
func (e *env) reachTrial(ctx context.Context, defined *config.Job, v *verification, model *oracle.Config) error {
	if defined.Kafka.Embedded {
		addr, stop, err := embedded.Volatile(defined.Kafka.EmbeddedPartitions)
		if err != nil {
			return err
		}
		v.brokers, v.embedded, v.close = []string{addr}, true, stop
		v.options.Client = []kgo.Opt{kgo.SeedBrokers(addr)}
		return nil
	}
	connection, err := e.connect(ctx, defined)
	if err != nil {
		return err
	}
	v.close = connection.close
	admin, err := connection.reach(ctx, e)
	if err != nil {
		return err
	}
	defer admin.Close()
	v.brokers = defined.Kafka.Brokers
	v.options.Client = connection.Dialing()
	topics, err := admin.Topics(ctx, defined.Input.Topic)
	if err != nil {
		return err
	}
	info, ok := topics[defined.Input.Topic]
	if !ok {
		return nil
	}
	model.Partitions = info.Partitions
	return v.ownReadings(ctx, defined.Input.Topic, model)
}

// ownReadings reads what is in the job's input now. Nothing else of the job is looked at.
func (v *verification) ownReadings(ctx context.Context, topic string, model *oracle.Config) error {
	reader, err := oracle.NewReaderWith(v.options.Client...)
	if err != nil {
		return err
	}
	defer reader.Close()
	own, err := reader.Last(ctx, topic, verifyReadings)
	if err != nil {
		return err
	}
	n := 0
	for _, messages := range own {
		n += len(messages)
	}
	if n == 0 {
		return nil
	}
	if _, unfit := trial.Generated(model, false); n < verifyFew && unfit == nil {
		v.readings = fmt.Sprintf("generated readings: the %d in %s are too few for kills in the middle of them", n, topic)
		return nil
	}
	v.readings = fmt.Sprintf("the last %d readings of %s", n, topic)
	v.options.Source = func(uint64) trial.Source { return trial.Own(own) }
	v.options.Rate = min(verifyRate, max(n/verifySeconds, verifySlowest)) // so that a job lives for a while
	return nil
}

// tellTrial shows how a trial goes.
func (e *env) tellTrial(o *verifyOptions, v *verification) func(trial.Event) {
	lines := make(chan trial.Event, 1)
	lines <- trial.Event{} // a token: one at a time
	return func(event trial.Event) {
		<-lines
		defer func() { lines <- event }()
		if o.json {
			_ = json.NewEncoder(e.out).Encode(map[string]any{"event": event.Text, "kills": event.Summary.Kills,
				"useful_kills": event.Summary.Useful, "anomalies": len(event.Summary.Anomalies)})
			_ = e.out.Flush() // the last line tells a failure
			return
		}
		v.progress.set(int64(min(event.Summary.Useful, o.kills)), "%d useful kills of %d, %d comparisons, %d anomalies; %s", event.Summary.Useful, o.kills,
			event.Summary.Rounds, len(event.Summary.Anomalies), event.Text)
	}
}
