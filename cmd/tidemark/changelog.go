package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-streams/tidemark/internal/config"
	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/recovery"
)

func (e *env) changelogCommand() *cobra.Command {
	return e.group(&cobra.Command{Use: "changelog", Short: "Inspect the changelog, record by record"},
		e.changelogDumpCommand(), e.changelogVerifyCommand())
}

// allPartitions stands for every partition.
const allPartitions = -1

func (e *env) changelogDumpCommand() *cobra.Command {
	var path string
	var partition int32
	cmd := &cobra.Command{
		Use:   "dump -c FILE [flags]",
		Short: "Print every committed record of the changelog as a line of JSON",
		Long: `Print every committed record of the changelog as it is now, in the order of its offsets, one line of JSON for each: an
entry as a line of state dump, a tombstone, a commit record or a fence record. What cannot be read is printed with the
reason and its bytes in base64. No running job is disturbed, and none is needed.`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.changelog(cmd.Context(), path, partition, func(ctx context.Context, l *changelogLog) error {
				d := &changelogDump{env: e, log: l, encoder: json.NewEncoder(e.out)}
				d.encoder.SetEscapeHTML(false)
				bounds, err := l.offsets(ctx)
				if err != nil {
					return err
				}
				return l.read(ctx, bounds.Start, bounds.HighWatermark, d.print)
			})
		},
	}
	e.changelogFlags(cmd, &path, &partition)
	return cmd
}

func (e *env) changelogVerifyCommand() *cobra.Command {
	var path string
	var partition int32
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify -c FILE [flags]",
		Short: "Read the whole changelog and check all of it; exit code 1 on any damage",
		Long: `Read the whole changelog from its start and check all of it: that every record can be read, that the commits follow
each other without a gap, a repetition or a step back, that their counters add up, that digest and number of entries are
those that the last commit recorded, and that the topic's settings cannot lose state. All faults are told in one go. No
running job is disturbed, and none is needed.`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var faults []error
			err := e.changelog(cmd.Context(), path, partition, func(ctx context.Context, l *changelogLog) error {
				if l.first {
					for _, fault := range kafka.ChangelogFaults(l.changelog, l.input) {
						faults = append(faults, errors.New(fault))
					}
				}
				found, err := e.verifyChangelog(ctx, l, asJSON)
				if found != nil {
					faults = append(faults, found)
				}
				return err
			})
			return errors.Join(append(faults, err)...)
		},
	}
	e.changelogFlags(cmd, &path, &partition)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object for each partition")
	return cmd
}

func (e *env) changelogFlags(cmd *cobra.Command, path *string, partition *int32) {
	configFlag(cmd, path)
	e.partFlag(cmd)
	cmd.Flags().Int32Var(partition, "partition", allPartitions, "one partition only; -1 is all")
	wants(cmd, "partition", "the number of a partition, from 0 on, or -1 for all")
}

// changelogLog is one partition of the changelog, for a command that must not fence anybody.
type changelogLog struct {
	env       *env
	job       *config.Job
	dumper    *job.Dumper
	admin     kafka.Admin
	changelog kafka.TopicInfo
	input     kafka.TopicInfo // no name when there is no such topic
	partition int32
	first     bool // of those asked for
	log       kafka.Log
}

// changelog calls each for one partition of the job's changelog, or for all, one after the other.
func (e *env) changelog(ctx context.Context, path string, partition int32, each func(context.Context, *changelogLog) error) error {
	defined, err := e.loadPart(path)
	if err != nil {
		return err
	}
	l := changelogLog{env: e, job: defined, first: true}
	if l.dumper, err = job.NewDumper(processorConfig(defined)); err != nil {
		return err
	}
	connection, err := e.connect(ctx, defined)
	if err != nil {
		return err
	}
	defer connection.close()
	if l.admin, err = connection.reach(ctx, e); err != nil {
		return err
	}
	defer l.admin.Close()
	if l.changelog, err = connection.topic(ctx, l.admin, defined.Changelog.Topic, false); err != nil {
		return err
	}
	inputs, err := l.admin.Topics(ctx, defined.Input.Topic)
	if err != nil {
		return err
	}
	l.input = inputs[defined.Input.Topic]
	if partition < allPartitions || partition >= l.changelog.Partitions {
		return usage(fmt.Errorf("--partition is %d: changelog %s has partitions 0 to %d", partition, l.changelog.Name, l.changelog.Partitions-1))
	}
	for l.partition = range l.changelog.Partitions {
		if partition != allPartitions && partition != l.partition {
			continue
		}
		if err := l.open(ctx, connection, each); err != nil {
			return err
		}
		l.first = false
	}
	return nil
}

func (l *changelogLog) open(ctx context.Context, c *connection, each func(context.Context, *changelogLog) error) error {
	var err error
	if l.log, err = c.Log(l.changelog.Name, l.partition); err != nil {
		return err
	}
	defer l.log.Close()
	return each(ctx, l)
}

func (l *changelogLog) offsets(ctx context.Context) (kafka.Offsets, error) { return l.log.Offsets(ctx) }

// read hands on what lies between two positions.
func (l *changelogLog) read(ctx context.Context, from, end int64, take func([]kafka.Record) error) error {
	reader := &logReader{env: l.env, topic: l.changelog.Name, partition: l.partition, log: l.log, admin: l.admin, take: take}
	return reader.read(ctx, from, end)
}

// foldRounds bounds how often a fold reads on because the log has grown under it.
const foldRounds = 5

// verifyChangelog says what is wrong with one partition. failed is why it could not be read.
func (e *env) verifyChangelog(ctx context.Context, l *changelogLog, asJSON bool) (found, failed error) {
	bounds, err := l.offsets(ctx)
	if err != nil {
		return nil, err
	}
	var line []byte
	audit := recovery.NewAudit(l.job.Name, l.changelog.Name, l.partition, bounds.Start, func(key, value []byte) error {
		var err error
		if line, err = l.dumper.Append(line[:0], key, value, false); errors.Is(err, job.ErrNotConfigured) || errors.Is(err, job.ErrNoWindow) {
			return nil
		}
		return err
	})
	defer func() { failed = errors.Join(failed, audit.Close()) }()
	var proof error
	for position, round := bounds.Start, 1; ; round++ {
		if position, err = l.audit(ctx, audit, position, bounds.HighWatermark); err != nil {
			return audit.Faults(), err
		}
		if proof = audit.Prove(); proof == nil || round == foldRounds {
			break
		}
		// Compaction may have taken values that newer ones beyond the end have replaced (R27).
		if bounds, err = l.offsets(ctx); err != nil {
			return audit.Faults(), err
		}
		if bounds.HighWatermark <= position {
			break
		}
	}
	found = errors.Join(audit.Faults(), proof)
	return found, e.tellAudit(l, audit.Read(), found, asJSON)
}

// auditForm is what changelog verify --json prints of a partition.
type auditForm struct {
	Topic     string       `json:"topic"`
	Partition int32        `json:"partition"`
	Whole     bool         `json:"whole"`
	Records   record.Count `json:"records"`
	Entries   record.Count `json:"entries"`
	Commits   record.Count `json:"commits"`
	Last      *uint64      `json:"last_commit"` // number; null without a commit
	Faults    []string     `json:"faults"`
}

// tellAudit prints what was read of a partition, and whether it is whole.
func (e *env) tellAudit(l *changelogLog, read recovery.Audited, found error, asJSON bool) error {
	form := auditForm{Topic: l.changelog.Name, Partition: l.partition, Whole: found == nil, Records: read.Records, Entries: read.Live,
		Commits: read.Commits, Faults: []string{}}
	if read.Last != nil {
		form.Last = &read.Last.Number
	}
	if asJSON {
		if found != nil {
			form.Faults = strings.Split(found.Error(), "\n")
		}
		return json.NewEncoder(e.out).Encode(&form)
	}
	verdict, last := "whole", "no commit"
	if !form.Whole {
		verdict = "damaged"
	}
	if form.Last != nil {
		last = fmt.Sprintf("%d commits, the last one number %d", form.Commits, *form.Last)
	}
	_, err := fmt.Fprintf(e.out, "%s/%d: %s: %d records, %d entries, %s\n", form.Topic, form.Partition, verdict, form.Records, form.Entries, last)
	return err
}

// errBoundary ends a read at a commit record.
var errBoundary = errors.New("the end of a commit")

// audit reads up to an end and, where that lies within a commit, to the end of the commit. It returns where it stands.
func (l *changelogLog) audit(ctx context.Context, audit *recovery.Audit, position, end int64) (int64, error) {
	err := l.read(ctx, position, end, func(records []kafka.Record) error {
		audit.Take(records)
		return nil
	})
	for err == nil && audit.Within() {
		var bounds kafka.Offsets
		if bounds, err = l.offsets(ctx); err != nil || bounds.HighWatermark <= end {
			break
		}
		from := end
		end = bounds.HighWatermark
		err = l.read(ctx, from, end, func(records []kafka.Record) error {
			for i := range records {
				audit.Take(records[i : i+1])
				if !audit.Within() {
					end = records[i].Offset + 1
					return errBoundary
				}
			}
			return nil
		})
		if errors.Is(err, errBoundary) {
			return end, nil
		}
	}
	return end, err
}

// changelogLine is a line of changelog dump. One of the pointers is set.
type changelogLine struct {
	Partition int32           `json:"partition"`
	Offset    int64           `json:"offset"`
	Timestamp int64           `json:"timestamp"` // ms, of the broker
	Entry     json.RawMessage `json:"entry,omitempty"`
	Tombstone *entryForm      `json:"tombstone,omitempty"`
	Other     *entryForm      `json:"not_configured,omitempty"` // an entry of an aggregation that is configured no more
	Commit    *commitForm     `json:"commit,omitempty"`
	Fence     *fenceForm      `json:"fence,omitempty"`
	Damaged   string          `json:"damaged,omitempty"` // why it cannot be read
	Key       []byte          `json:"key_b64,omitempty"`
	Value     []byte          `json:"value_b64,omitempty"`
}

// entryForm names an entry.
type entryForm struct {
	Aggregation string   `json:"agg"`
	Key         []string `json:"key"`
	Start       int64    `json:"start"`
}

// changelogDump prints records.
type changelogDump struct {
	env     *env
	log     *changelogLog
	encoder *json.Encoder
	line    []byte
}

func (d *changelogDump) print(records []kafka.Record) error {
	for i := range records {
		r := &records[i]
		l := changelogLine{Partition: d.log.partition, Offset: r.Offset, Timestamp: r.Timestamp}
		if err := d.fill(&l, r); err != nil {
			l.Damaged, l.Key, l.Value = err.Error(), r.Key, r.Value
		}
		if err := d.encoder.Encode(&l); err != nil {
			return err
		}
	}
	return nil
}

// fill says what a record is.
func (d *changelogDump) fill(l *changelogLine, r *kafka.Record) error {
	kind, ok := record.KindOf(r.Key)
	switch {
	case !ok:
		return fmt.Errorf("the key is of no kind that changelog format %d knows", record.CommitFormat)
	case kind == record.KindCommit:
		c, err := record.ParseCommit(r.Value)
		if err == nil {
			l.Commit = showCommit(c)
		}
		return err
	case kind == record.KindFence:
		f, err := record.ParseFence(r.Value)
		if err == nil {
			l.Fence = showFence(f)
		}
		return err
	}
	key, err := record.ParseEntryKey(r.Key)
	if err != nil {
		return err
	}
	form := &entryForm{key.Aggregation, key.Fields, key.Start}
	if r.Value == nil {
		l.Tombstone = form
		return nil
	}
	d.line, err = d.log.dumper.Append(d.line[:0], r.Key, r.Value, true)
	switch {
	case errors.Is(err, job.ErrNotConfigured), errors.Is(err, job.ErrNoWindow):
		l.Other, l.Value = form, r.Value
		return nil
	case err == nil:
		l.Entry = d.line
	}
	return err
}
