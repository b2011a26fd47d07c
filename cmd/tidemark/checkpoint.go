package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/store"
)

func (e *env) checkpointCommand() *cobra.Command {
	return e.group(&cobra.Command{Use: "checkpoint", Short: "Inspect the checkpoints of the state directory"},
		e.checkpointListCommand(), e.checkpointShowCommand(), e.checkpointVerifyCommand())
}

func (e *env) checkpointListCommand() *cobra.Command {
	var path string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list -c FILE [flags]",
		Short: "List the checkpoints with what they say of themselves",
		Long: `List the checkpoints of each task, newest first, with what their headers and trailers say. No broker is needed and
nothing is changed. Whether the entries are whole is for tidemark checkpoint verify to say.`,
		Args: arguments(),
		RunE: func(*cobra.Command, []string) error {
			tasks, err := e.checkpoints(path)
			if err != nil {
				return err
			}
			if asJSON {
				return e.listJSON(tasks)
			}
			return e.listTable(tasks)
		},
	}
	configFlag(cmd, &path)
	e.partFlag(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object for each checkpoint")
	return cmd
}

func (e *env) checkpointVerifyCommand() *cobra.Command {
	var path string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify -c FILE [flags]",
		Short: "Read every checkpoint whole; exit code 1 on any damage",
		Long: `Read every checkpoint of every task whole and compare all checksums, counts and digests. No broker is needed and
nothing is changed. The exit code is 1 on any flipped bit, cut or appended byte, and for a file that this version cannot
read. A damaged checkpoint loses no state: the next start sets it aside and uses an older one or the changelog.`,
		Args: arguments(),
		RunE: func(*cobra.Command, []string) error {
			tasks, err := e.checkpoints(path)
			if err != nil {
				return err
			}
			return e.verify(tasks, asJSON)
		},
	}
	configFlag(cmd, &path)
	e.partFlag(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object for each checkpoint")
	return cmd
}

// taskCheckpoints are the checkpoints of one task, newest first.
type taskCheckpoints struct {
	job       string
	partition int32
	dir       string
	files     []store.Entry
}

// checkpoints looks into the state directory for every task of the job.
func (e *env) checkpoints(path string) ([]taskCheckpoints, error) {
	job, err := e.loadPart(path)
	if err != nil {
		return nil, err
	}
	root := filepath.Join(job.State.Dir, job.Name)
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		e.say("there are no checkpoints: there is no %s", root)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var tasks []taskCheckpoints
	for _, entry := range entries {
		digits, ok := strings.CutPrefix(entry.Name(), "p")
		partition, err := strconv.ParseInt(digits, 10, 32)
		if !ok || err != nil {
			continue
		}
		t := taskCheckpoints{job: job.Name, partition: int32(partition), dir: store.Path(store.Disk, job.State.Dir, job.Name, int32(partition))}
		if t.files, err = store.List(store.Disk, t.dir); err != nil {
			return nil, err
		}
		tasks = append(tasks, t)
	}
	slices.SortFunc(tasks, func(a, b taskCheckpoints) int { return int(a.partition - b.partition) })
	return tasks, nil
}

// listing is a line of checkpoint list.
type listing struct {
	Partition  int32                    `json:"partition"`
	Path       string                   `json:"path"`
	Error      string                   `json:"error,omitempty"` // of a file that cannot be used; what follows is not known then
	Bytes      record.Bytes             `json:"bytes"`
	Entries    record.Count             `json:"entries"`
	Begin      record.ChangelogPosition `json:"begin"` // replay goes on from here
	End        record.ChangelogPosition `json:"end"`
	BrokerTime int64                    `json:"broker_time"` // ms, at begin
	Birth      string                   `json:"birth"`
	Commit     uint64                   `json:"commit"` // number of the commit in force at begin
	Fence      string                   `json:"fence"`  // of the run that wrote it
	Version    string                   `json:"version"`
}

func (t *taskCheckpoints) line(f *store.Entry) listing {
	l := listing{Partition: t.partition, Path: f.Path}
	if f.Err != nil {
		l.Error = f.Err.Error()
		return l
	}
	i := f.Info
	l.Bytes, l.Entries, l.Begin, l.End, l.BrokerTime = i.Length, i.Image.Live, i.Begin, i.End, i.BrokerTime
	l.Birth, l.Commit, l.Fence, l.Version = i.Commit.Birth.String(), i.Commit.Number, i.Fence.ID.String(), i.Fence.Version
	return l
}

func (e *env) listJSON(tasks []taskCheckpoints) error {
	encoder := json.NewEncoder(e.out)
	for i := range tasks {
		for j := range tasks[i].files {
			if err := encoder.Encode(tasks[i].line(&tasks[i].files[j])); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *env) listTable(tasks []taskCheckpoints) error {
	table := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PARTITION\tENTRIES\tBYTES\tREPLAY FROM\tCOMMIT\tWRITTEN AFTER\tFILE")
	for i := range tasks {
		for j := range tasks[i].files {
			l := tasks[i].line(&tasks[i].files[j])
			if l.Error != "" {
				fmt.Fprintf(table, "%d\t-\t-\t-\t-\t-\t%s\n", l.Partition, l.Error)
				continue
			}
			fmt.Fprintf(table, "%d\t%d\t%d\t%d\t%d\t%s\t%s\n", l.Partition, l.Entries, l.Bytes, l.Begin, l.Commit,
				time.UnixMilli(l.BrokerTime).UTC().Format(time.RFC3339), l.Path)
		}
	}
	return table.Flush()
}

// verdictForm is what checkpoint verify --json prints of a file.
type verdictForm struct {
	Partition int32  `json:"partition"`
	Path      string `json:"path"`
	Whole     bool   `json:"whole"`
	Error     string `json:"error,omitempty"`
}

// verify reads every file. One that is deleted meanwhile, because a running job has published a newer one, is no fault.
func (e *env) verify(tasks []taskCheckpoints, asJSON bool) error {
	var faults []error
	whole, encoder := 0, json.NewEncoder(e.out)
	for i := range tasks {
		t := &tasks[i]
		for j := range t.files {
			err := t.files[j].Err
			if err == nil {
				err = t.verify(t.files[j].Path)
			}
			form := verdictForm{Partition: t.partition, Path: t.files[j].Path, Whole: err == nil}
			switch {
			case errors.Is(err, fs.ErrNotExist):
				continue
			case err != nil:
				form.Error = err.Error()
				faults = append(faults, err)
			default:
				whole++
			}
			if asJSON {
				if err := encoder.Encode(&form); err != nil {
					return err
				}
			}
		}
	}
	if asJSON {
		return errors.Join(faults...)
	}
	if _, err := fmt.Fprintf(e.out, "checkpoints of %d tasks: %d whole, %d not\n", len(tasks), whole, len(faults)); err != nil {
		return err
	}
	return errors.Join(faults...)
}

// verify reads one file, which must be of this task: one that was moved here by hand is as useless as a damaged one.
func (t *taskCheckpoints) verify(path string) error {
	info, err := store.Verify(store.Disk, path)
	if err != nil {
		return err
	}
	if have := &info.Fence; have.Job != t.job || have.Partition != t.partition {
		return fmt.Errorf("checkpoint %s is of job %q partition %d, not of job %q partition %d", path, have.Job, have.Partition, t.job, t.partition)
	}
	return nil
}
