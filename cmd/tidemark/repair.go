package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/user"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-streams/tidemark"
)

// repairOptions are what the command line of any repair says.
type repairOptions struct {
	config    string
	partition int32
	who, why  string
	yes       bool
	takeOver  bool
	json      bool
}

// repairFlags adds the flags that all repairs have. The partition is -1 where none is named.
func (e *env) repairFlags(cmd *cobra.Command, o *repairOptions) {
	configFlag(cmd, &o.config)
	e.partFlag(cmd)
	f := cmd.Flags()
	f.Int32Var(&o.partition, "partition", tidemark.AllPartitions, "partition of the input, and so the task")
	f.Lookup("partition").DefValue = "all"
	wants(cmd, "partition", "the number of a partition of the input, from 0 on")
	f.BoolVar(&o.yes, "yes", false, "do it; without, only tell what would be done")
	reasonFlags(cmd, &o.who, &o.why)
	f.BoolVar(&o.takeOver, "take-over", false, "fence processes that run the job, instead of demanding that there are none")
	f.BoolVar(&o.json, "json", false, "print JSON objects, one a line")
}

// reasonFlags adds the flags that say who does something, and why.
func reasonFlags(cmd *cobra.Command, who, why *string) {
	cmd.Flags().StringVar(who, "who", "", "who does it (default user@host)")
	cmd.Flags().StringVar(why, "why", "", "why, to be kept in the commit record")
}

// check refuses command lines that cannot be meant.
func (o *repairOptions) check(cmd *cobra.Command) error {
	switch {
	case cmd.Flags().Changed("partition") && o.partition < 0:
		return usage(fmt.Errorf("%s--partition is %d, and must not be negative", title(cmd), o.partition))
	case o.yes && o.why == "":
		return usage(fmt.Errorf("%s--why is missing: a repair that is done keeps its reason in the commit record", title(cmd)))
	}
	if o.who == "" {
		o.who = whoami()
	}
	return nil
}

// whoami is user@host, as far as the system knows them.
func whoami() string {
	name := strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return name + "@" + host
}

func (e *env) resetCommand() *cobra.Command {
	var o repairOptions
	var to int64
	var streamTime string
	cmd := &cobra.Command{
		Use:   "reset -c FILE [flags]",
		Short: "End the life of tasks and begin a new one, or set their stream time",
		Long: `Delete the state of all tasks, or of one, and begin a new life: empty, with a birth id of its own, at the offset that
input.start of the job's file means now, or at --to. What was interrupted is finished by calling it again; until then no
process runs the task. Results that were published stay, and are published again where their readings are read again.

With --stream-time only the stream time is set, and with it how far windows are closed: after a device with a fast clock
has closed the windows of all others, for example. Where that goes back, windows that were published may be published
again.

` + aboutRepairs,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			order := tidemark.Repair{Kind: tidemark.RepairReset, To: to}
			if streamTime != "" {
				if to != tidemark.ByStart {
					return usage(errors.New("reset: --to begins a new life, --stream-time goes on with the present one: name one of them"))
				}
				at, err := parseMoment(streamTime)
				if err != nil {
					return usage(fmt.Errorf("reset: --stream-time: %w", err))
				}
				order.Kind, order.StreamTime = tidemark.RepairTime, at
			} else if cmd.Flags().Changed("to") {
				if o.partition == tidemark.AllPartitions {
					return usage(errors.New("reset: --to is an offset of one partition: name it with --partition"))
				}
				if to < 0 {
					return usage(fmt.Errorf("reset: --to is %d, want an offset, 0 or more", to))
				}
			}
			return e.repair(cmd, o, order)
		},
	}
	e.repairFlags(cmd, &o)
	cmd.Flags().Int64Var(&to, "to", tidemark.ByStart, "offset where the new life begins to read")
	cmd.Flags().Lookup("to").DefValue = "input.start"
	wants(cmd, "to", "an offset, 0 or more")
	cmd.Flags().StringVar(&streamTime, "stream-time", "", "only set the stream time: RFC 3339, or ms since 1970")
	return cmd
}

// aboutRepairs is what the help of every repair says.
const aboutRepairs = `No process may run the job meanwhile, or it is fenced with --take-over. What would be done is told first, for each task
both values; it is done with --yes, and who did it and why is kept in the commit record.`

// skipTo is what skip wants to know.
const skipTo = "an offset, 0 or more: where the task stands is what skip without --yes shows and changes nothing, and what tidemark status --json of a running one calls position"

func (e *env) skipCommand() *cobra.Command {
	var o repairOptions
	var to int64
	cmd := &cobra.Command{
		Use:   "skip -c FILE --partition P --to OFFSET [flags]",
		Short: "Pass over input that the job shall not read",
		Long: `Move the position of one task forwards to an offset, at most to the end of the log: past a record that the job cannot
process, or past what retention has deleted. The offsets between are counted as skipped.

` + aboutRepairs,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("partition") || !cmd.Flags().Changed("to") {
				return usage(errors.New("skip: which partition, and to which offset? Name them with --partition and --to"))
			}
			if to < 0 {
				return usage(fmt.Errorf("skip: --to is %d, want %s", to, skipTo))
			}
			return e.repair(cmd, o, tidemark.Repair{Kind: tidemark.RepairSkip, To: to})
		},
	}
	e.repairFlags(cmd, &o)
	cmd.Flags().Lookup("partition").DefValue = "" // there is no default
	cmd.Flags().Int64Var(&to, "to", 0, "offset to go on at")
	cmd.Flags().Lookup("to").DefValue = ""
	wants(cmd, "to", skipTo)
	return cmd
}

func (e *env) resealCommand() *cobra.Command {
	var o repairOptions
	cmd := &cobra.Command{
		Use:   "reseal -c FILE [flags]",
		Short: "Take the state for true as the changelog has it, though its proof fails",
		Long: `Write down digest and number of entries as they are recomputed from the whole changelog, where they are not those of the
last commit record and every start therefore stops. What made them differ stays in the state: find it first.

` + aboutRepairs,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.repair(cmd, o, tidemark.Repair{Kind: tidemark.RepairReseal})
		},
	}
	e.repairFlags(cmd, &o)
	return cmd
}

// repair tells a repair, and does it with --yes.
func (e *env) repair(cmd *cobra.Command, o repairOptions, order tidemark.Repair) error {
	if err := o.check(cmd); err != nil {
		return err
	}
	app, release, err := e.idleApp(cmd.Context(), o.config, o.json)
	if err != nil {
		return err
	}
	defer release()
	order.Partition, order.Who, order.Why, order.TakeOver, order.Do = o.partition, o.who, o.why, o.takeOver, o.yes
	order.Patience = tidemark.Session + time.Second
	var unwritten error
	todo := 0
	order.Told = func(change tidemark.RepairChange) {
		if !change.Nothing {
			todo++
		}
		if o.json {
			unwritten = errors.Join(unwritten, json.NewEncoder(e.out).Encode(change))
		} else {
			unwritten = errors.Join(unwritten, printChange(e.out, &change))
		}
		unwritten = errors.Join(unwritten, e.out.Flush()) // what is done next is not to be told too late
	}
	if err := app.Repair(cmd.Context(), order); err != nil {
		if cmd.Context().Err() != nil {
			return errors.Join(errInterrupted, err)
		}
		return err
	}
	if unwritten != nil {
		return unwritten
	}
	if !o.yes && todo > 0 {
		e.say(`nothing was changed: add --yes --why "..." to do it`)
	}
	return nil
}

// printChange says what is, or would be, changed of one task.
func printChange(to io.Writer, c *tidemark.RepairChange) (err error) {
	line := func(format string, args ...any) {
		_, failed := fmt.Fprintf(to, format, args...)
		err = errors.Join(err, failed)
	}
	switch {
	case c.Done:
		line("partition %d: %s: done, commit %d of birth %s keeps the note: %s\n", c.Partition, c.Repair, c.To.Commit, c.To.Birth, c.Note)
		return err
	case c.Nothing:
		line("partition %d: %s: there is nothing to do\n", c.Partition, c.Repair)
		return err
	}
	line("partition %d: %s\n", c.Partition, c.Repair)
	for _, d := range c.Differences() {
		line("  %-16s %s -> %s\n", d.What, d.From, d.To)
	}
	for _, warning := range c.Warnings {
		line("  WARNING: %s\n", warning)
	}
	return err
}

// idleApp makes the job's App for something else than running it, once a broker has answered.
func (e *env) idleApp(ctx context.Context, path string, asJSON bool) (app *tidemark.App, release func(), err error) {
	defined, err := e.loadPart(path)
	if err != nil {
		return nil, nil, err
	}
	log := e.logger(asJSON)
	if err := e.arm(log); err != nil {
		return nil, nil, err
	}
	connection, err := e.connect(ctx, defined)
	if err != nil {
		return nil, nil, err
	}
	admin, err := connection.reach(ctx, e)
	if err == nil {
		admin.Close()
		options := jobOptions(defined)
		options.Cluster, options.Version = connection, programVersion()
		options.Log = log
		e.seams(&options)
		app, err = tidemark.New(options)
	}
	if err != nil {
		connection.close()
		return nil, nil, err
	}
	return app, connection.close, nil
}

// logger writes to standard error.
func (e *env) logger(asJSON bool) *slog.Logger {
	if asJSON {
		return slog.New(slog.NewJSONHandler(e.err, nil))
	}
	return slog.New(slog.NewTextHandler(e.err, nil))
}

// parseMoment reads a time: ms since 1970, or RFC 3339.
func parseMoment(text string) (int64, error) {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil && ms > math.MinInt64/2 && ms < math.MaxInt64/2 {
		return ms, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return 0, fmt.Errorf("%q is no time: write it like 2024-01-01T00:00:00Z, or as ms since 1970", text)
	}
	return t.UnixMilli(), nil
}
