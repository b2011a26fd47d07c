package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"sync"

	"github.com/spf13/cobra"

	"github.com/tidemark-streams/tidemark"
	"github.com/tidemark-streams/tidemark/internal/config"
	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/window"
)

// runOptions are what the command line says.
type runOptions struct {
	config    string
	untilIdle bool
	json      bool

	acceptLoss bool
	who, why   string
}

func (e *env) runCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run -c FILE [flags]",
		Short: "Run the job",
		Long: `Run the job until it is told to stop (SIGINT, SIGTERM). Any number of processes may run the same job, each with a
state directory of its own; they share the input's partitions.

With --until-idle it ends by itself when all input that was there at its start is committed, and says what became of it.

With --accept-loss each task goes on where committed data, or input that it has not read, is gone, and a start without it
stops: the first time it recovers in this process, and only then. What is gone is logged, counted as skipped where it can
be counted, and kept in the commit record with who and why.`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !o.acceptLoss && (o.who != "" || o.why != "") {
				return usage(errors.New("run: --who and --why say who accepts a loss, and why: add --accept-loss, or leave them out"))
			}
			return e.runJob(cmd.Context(), o)
		},
	}
	configFlag(cmd, &o.config)
	cmd.Flags().BoolVar(&o.untilIdle, "until-idle", false, "end when the input that is there now is committed")
	cmd.Flags().BoolVar(&o.json, "json", false, "log JSON objects, one a line, with a full report of each recovery")
	cmd.Flags().BoolVar(&o.acceptLoss, "accept-loss", false, "go on once without committed data or input that is gone")
	reasonFlags(cmd, &o.who, &o.why)
	return cmd
}

func (e *env) runJob(ctx context.Context, o runOptions) error {
	defined, err := e.read(o.config)
	if err != nil {
		return err
	}
	log := e.logger(o.json)
	for _, warning := range defined.Warnings {
		if o.json { // every line is an object
			log.Warn(warning.String())
		} else {
			e.say("warning: %s", warning)
		}
	}
	if err := e.arm(log); err != nil {
		return err
	}
	var tell io.Writer = prefixed{e}
	if o.json {
		tell = logged{log}
	}
	connection, err := e.connectTelling(ctx, defined, tell)
	if err != nil {
		return err
	}
	defer connection.close()
	if err := defined.Timeouts.Check(); err != nil {
		return err
	}
	if err := e.refuseMoved(ctx, connection); err != nil {
		return err
	}
	limitHeap(defined.State.MaxBytes)
	var bar *progress
	if o.untilIdle && !o.json {
		bar = e.progress("run", -1)
		defer bar.close()
	}
	c := &crew{parts: defined.Parts(), log: log}
	c.options = func(part *config.Job, log *slog.Logger) tidemark.Options {
		options := jobOptions(part)
		options.Cluster, options.Version, options.Listen = connection, programVersion(), anyPort
		if part.Name == defined.Name {
			options.Listen = cmp.Or(defined.Listen, anyPort)
		}
		options.UntilIdle = o.untilIdle
		if o.acceptLoss {
			options.AcceptLoss = cmp.Or(o.who, whoami()) + ": " + cmp.Or(o.why, "run --accept-loss")
		}
		w := &watch{json: o.json, log: log, bar: bar, recovered: map[int32]*tidemark.RecoveryReport{}}
		options.Log, options.Progress = log, w.event
		e.seams(&options)
		return options
	}
	c.idle = func(part *config.Job, log *slog.Logger, s *tidemark.Status) {
		if bar != nil {
			bar.close()
		}
		if sum := summarize(part, o.config, s); o.json {
			sum.log(log)
		} else {
			e.say("%s", sum)
		}
	}
	return c.run(ctx, o.untilIdle)
}

// anyPort is where the status page is when http.listen is empty.
const anyPort = "127.0.0.1:0"

// limitHeap makes the collector work harder before the process reaches its memory limit: the state is outside the heap,
// so what it may take is not the heap's (R30). GOMEMLIMIT goes before it.
func limitHeap(state int64) {
	limit, _ := tidemark.MemoryLimit()
	if os.Getenv("GOMEMLIMIT") != "" || limit == math.MaxInt64 {
		return
	}
	if state == 0 {
		state = tidemark.DefaultMaxBytes(limit)
	}
	debug.SetMemoryLimit(max(limit/10*9-state, limit/10))
}

// jobOptions are the engine's options of a configured job, without the cluster.
func jobOptions(defined *config.Job) tidemark.Options {
	options := tidemark.Options{
		Job:        defined.Name,
		Input:      defined.Input.Topic,
		Start:      tidemark.Start(defined.Input.Start),
		Late:       defined.Late,
		DeadLetter: defined.DeadLetter,
		Changelog: tidemark.Changelog{
			Topic:             defined.Changelog.Topic,
			ReplicationFactor: int16(defined.Changelog.ReplicationFactor),
			MinInsync:         defined.Changelog.MinInsyncReplicas,
		},
		Topics:    tidemark.TopicDefaults{Create: defined.Kafka.Embedded, InputLater: defined.Part == job.Relayed, Partitions: int32(defined.Kafka.EmbeddedPartitions)},
		Processor: processorConfig(defined).Processor,
		StateDir:  defined.State.Dir,
		MaxBytes:  defined.State.MaxBytes,
		Commit: tidemark.Commit{
			Interval:     defined.Commit.Interval,
			MaxRecords:   defined.Commit.MaxRecords,
			MaxBytes:     int(defined.Commit.MaxBytes),
			MaxPerSecond: defined.Commit.MaxPerSecond,
		},
		Checkpoint: defined.Checkpoint,
		Leave:      defined.Leave,
		IdleClose:  defined.IdleClose,
		TZData:     window.TZData(),
	}
	for _, a := range defined.Aggregations {
		options.Results = append(options.Results, a.Output)
		if a.Current {
			options.Compacted = append(options.Compacted, a.Output)
		}
	}
	if defined.Part == job.Relay {
		options.Results = []string{defined.Between}
		options.Relay = &tidemark.Relay{Partitions: int32(defined.Input.Rekey.Partitions),
			ReplicationFactor: options.Changelog.ReplicationFactor, MinInsync: options.Changelog.MinInsync}
	}
	return options
}

// processorConfig is the built-in processor's part of a configured job.
func processorConfig(defined *config.Job) job.Config {
	c := job.Config{
		Input:         defined.Input.Topic,
		Format:        defined.Input.Format,
		PartitionedBy: defined.Input.PartitionedBy,
		Partitioner:   defined.Input.Partitioner,
		Quorum:        defined.Input.Quorum,
		MaxLag:        defined.Input.MaxLag,
		Dedup:         job.Dedup{Within: defined.Dedup},
		Part:          defined.Part,
		HandOn:        defined.HandOn,
		Quiet:         defined.Quiet,
		MaxBad:        defined.MaxBad,
	}
	for _, a := range defined.Aggregations {
		c.Aggregations = append(c.Aggregations, a.Aggregation)
	}
	return c
}

// watch shows what the tasks do. Its maps are by partition.
type watch struct {
	json bool
	log  *slog.Logger

	mu        sync.Mutex
	bar       *progress                          // nil: nothing moves
	recovered map[int32]*tidemark.RecoveryReport // of tasks that have not committed since
	inputs    int64
	closed    int64
}

// event is called by all tasks, each on a goroutine of its own.
func (w *watch) event(event tidemark.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch event.Kind {
	case tidemark.EventRecovered:
		w.recovered[event.Partition] = event.Recovery
		w.report(event.Recovery)
	case tidemark.EventCommitted:
		w.committed(event)
	case tidemark.EventCheckpoint:
		w.log.Info("checkpoint written", "partition", event.Partition, "file", event.Path, "bytes", event.Bytes,
			"took_ms", event.Took.Milliseconds())
	}
}

// report logs what a recovery did, phase by phase.
func (w *watch) report(r *tidemark.RecoveryReport) {
	if w.json {
		w.log.Info("recovery report", "report", r)
		return
	}
	phases := &r.Phases
	for _, aside := range r.Aside {
		w.log.Warn("checkpoint not used", "partition", r.Partition, "file", aside.Name, "reason", aside.Reason)
	}
	w.log.Info("recovery report", "partition", r.Partition, "checkpoint", r.Checkpoint, "entries_loaded", r.Loaded,
		"records_replayed", r.Records, "bytes_replayed", r.Bytes, "digest", r.Digest, "anchor", r.Anchor,
		slog.Group("ms", "join", whole(phases.Join), "identify", whole(phases.Identify), "ask", whole(phases.Ask),
			"fence", whole(phases.Fence+phases.FenceRecord), "tail", whole(phases.Tail), "load", whole(phases.Load),
			"replay", whole(phases.Replay), "prove", whole(phases.Prove), "anchor", whole(phases.Anchor), "birth", whole(phases.Birth)))
}

func whole(ms float64) int64 { return int64(math.Round(ms)) }

func (w *watch) committed(event tidemark.Event) {
	if r := w.recovered[event.Partition]; r != nil {
		delete(w.recovered, event.Partition)
		w.log.Info("first commit after recovery", "partition", event.Partition, "ms", whole(r.Phases.FirstCommit))
	}
	w.inputs += int64(event.Inputs)
	w.closed += int64(event.Closed)
	if w.bar != nil {
		w.bar.set(w.inputs, "%d records consumed, %d windows closed", w.inputs, w.closed)
	}
}
