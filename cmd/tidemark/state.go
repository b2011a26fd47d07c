package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tidemark-streams/tidemark/internal/config"
	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/store"
)

func (e *env) stateCommand() *cobra.Command {
	return e.group(&cobra.Command{Use: "state", Short: "Look at the job's state"}, e.stateDumpCommand(), e.later("get"), e.later("diff"))
}

func (e *env) stateDumpCommand() *cobra.Command {
	var path, from string
	var exact bool
	cmd := &cobra.Command{
		Use:   "dump -c FILE [flags]",
		Short: "Print the committed state as sorted lines of JSON",
		Long: `Print the committed state, one line of JSON for each open window of each key, sorted by aggregation, key and window.
It is a fresh fold of the changelog as it is now, proved by the digest that the last commit of each task recorded. No
running job is disturbed, and none is needed.`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from != "changelog" {
				return usage(fmt.Errorf("--source %s: not yet: this version reads the changelog", from))
			}
			return e.stateDump(cmd.Context(), path, exact)
		},
	}
	configFlag(cmd, &path)
	cmd.Flags().StringVar(&from, "source", "changelog", "where the state is read from")
	cmd.Flags().BoolVar(&exact, "exact", false, "add each sum's exact value as M*2^e")
	return cmd
}

func (e *env) stateDump(ctx context.Context, path string, exact bool) (err error) {
	connection, admin, release, err := e.open(ctx, path)
	if err != nil {
		return err
	}
	defer release()
	defined := connection.job
	for _, part := range defined.Parts() {
		if part.Part != job.Relay { // which has no state
			if err := e.dumpPart(ctx, connection, admin, part, exact); err != nil {
				return err
			}
		}
	}
	return nil
}

// dumpPart prints the state of one of the jobs that a file consists of. Different ones have different aggregations.
func (e *env) dumpPart(ctx context.Context, connection *connection, admin kafka.Admin, part *config.Job, exact bool) (err error) {
	dumper, err := job.NewDumper(processorConfig(part))
	if err != nil {
		return err
	}
	changelog, err := connection.topic(ctx, admin, part.Changelog.Topic, false)
	if err != nil {
		return err
	}
	var entries []entry
	for partition := range changelog.Partitions {
		fold := &changelogFold{env: e, admin: admin, topic: changelog.Name, partition: partition, base: store.NewMemory(0)}
		defer func() { err = errors.Join(err, fold.base.Close()) }()
		log, err := connection.Log(changelog.Name, partition)
		if err != nil {
			return err
		}
		defer log.Close()
		if err := fold.run(ctx, log); err != nil {
			return err
		}
		fold.base.All(func(_ uint64, key, value []byte) bool {
			entries = append(entries, entry{key, value})
			return true
		})
	}
	slices.SortFunc(entries, func(a, b entry) int { return job.Compare(a.key, b.key) })
	return e.printEntries(dumper, entries, exact)
}

// entry is one live entry of the changelog. Its bytes are the store's.
type entry struct{ key, value []byte }

func (e *env) printEntries(dumper *job.Dumper, entries []entry, exact bool) error {
	var line []byte
	removed := 0
	for _, entry := range entries {
		var err error
		line, err = dumper.Append(line[:0], entry.key, entry.value, exact)
		if errors.Is(err, job.ErrNoWindow) {
			continue
		}
		if errors.Is(err, job.ErrNotConfigured) {
			removed++
			continue
		}
		if err != nil {
			return err
		}
		if _, err := e.out.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	if removed > 0 {
		e.say("%d entries of aggregations that are not configured any more are not shown", removed)
	}
	return nil
}

// changelogFold folds one partition of the changelog.
type changelogFold struct {
	env       *env
	admin     kafka.Admin
	topic     string
	partition int32
	base      *store.Memory
	start     int64  // log start when the fold began
	last      []byte // value of the last commit record
	within    bool   // an update came behind it
	boundary  int64  // the first commit record from here on ends the read; then the position behind that record
}

// run reads to the high watermark of its start and, where that lies within a commit, to the end of the commit; then it
// proves what it has. A log that is compacted meanwhile has lost values that newer ones beyond the end have replaced
// (R27): then it reads on, as long as there is more to read, and gives up after foldRounds.
func (f *changelogFold) run(ctx context.Context, log kafka.Log) error {
	bounds, err := log.Offsets(ctx)
	if err != nil {
		return err
	}
	reader := &logReader{env: f.env, topic: f.topic, partition: f.partition, log: log, admin: f.admin, take: f.apply}
	f.start = bounds.Start
	for position, round := bounds.Start, 1; ; round++ {
		if position, err = f.readCommits(ctx, reader, position, bounds.HighWatermark); err != nil {
			return err
		}
		failure := f.prove()
		if failure == nil {
			return nil
		}
		if bounds, err = log.Offsets(ctx); err != nil {
			return err
		}
		switch {
		case bounds.HighWatermark <= position:
			return failure
		case round == foldRounds:
			return fmt.Errorf("%w; the log was written to all the while: if it is also compacted, try again", failure)
		}
	}
}

// readCommits reads whole commits up to an end: a busy task has always one under way, so where the end falls within it the
// fold could never be proved there. It returns where it stands. A commit whose rest nobody has written is the last thing in
// the log; the proof tells what that means.
func (f *changelogFold) readCommits(ctx context.Context, reader *logReader, position, end int64) (int64, error) {
	f.boundary = end
	err := reader.read(ctx, position, end)
	for err == nil && f.within {
		var bounds kafka.Offsets
		if bounds, err = reader.log.Offsets(ctx); err != nil || bounds.HighWatermark <= end {
			break
		}
		position, end = end, bounds.HighWatermark
		err = reader.read(ctx, position, end)
	}
	if errors.Is(err, errBoundary) {
		return f.boundary, nil
	}
	return end, err
}

// apply folds records that were delivered in order.
func (f *changelogFold) apply(records []kafka.Record) error {
	for i := range records {
		r := &records[i]
		kind, ok := record.KindOf(r.Key)
		switch {
		case !ok:
			return fmt.Errorf("changelog %s/%d offset %d: the key %.32x is none of ours: is %s really a changelog?",
				f.topic, f.partition, r.Offset, r.Key, f.topic)
		case kind == record.KindCommit:
			f.last, f.within = bytes.Clone(r.Value), false
			if r.Offset >= f.boundary {
				f.boundary = r.Offset + 1
				return errBoundary
			}
		case kind != record.KindEntry:
		case r.Value == nil:
			f.base.Unset(record.Hash(r.Key), r.Key)
			f.within = true
		default:
			f.base.Set(record.Hash(r.Key), r.Key, r.Value)
			f.within = true
		}
	}
	return nil
}

// prove compares the fold with what the last commit recorded.
func (f *changelogFold) prove() error {
	digest, live := f.base.Prove()
	if f.last == nil {
		if live > 0 {
			return fmt.Errorf("changelog %s/%d holds %d entries and no commit record", f.topic, f.partition, live)
		}
		if f.start > 0 {
			return fmt.Errorf("changelog %s/%d holds no commit record and its log starts at offset %d, not 0: records were deleted: "+
				"restore the topic, or tidemark reset", f.topic, f.partition, f.start)
		}
		return nil
	}
	commit, err := record.ParseCommit(f.last)
	if err != nil {
		return fmt.Errorf("changelog %s/%d: %w", f.topic, f.partition, err)
	}
	if commit.Digest != digest || commit.Live != live {
		return fmt.Errorf("changelog %s/%d is damaged: it folds to %d entries with digest %s, commit %d recorded %d with digest %s",
			f.topic, f.partition, live, digest, commit.Number, commit.Live, commit.Digest)
	}
	return nil
}
