package main

import (
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"

	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/store"
)

func (e *env) checkpointShowCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "show -c FILE [CHECKPOINT]...",
		Short: "Print all that a checkpoint says of itself, as JSON",
		Long: `Print header and trailer of checkpoints in full: what task and run they are of, where replay goes on, and the commit
record in force there. Without the name of a file it is the newest one of each task that can be read. No broker is needed
and nothing is changed. The entries are not read: that is what tidemark checkpoint verify does.`,
		RunE: func(_ *cobra.Command, files []string) error {
			tasks, err := e.checkpoints(path)
			if err != nil {
				return err
			}
			if len(files) == 0 {
				files = newest(tasks)
			}
			return e.showCheckpoints(files)
		},
	}
	configFlag(cmd, &path)
	e.partFlag(cmd)
	return cmd
}

// newest are the newest checkpoints that can be read, one of each task.
func newest(tasks []taskCheckpoints) (files []string) {
	for i := range tasks {
		for j := range tasks[i].files {
			if f := &tasks[i].files[j]; f.Err == nil {
				files = append(files, f.Path)
				break
			}
		}
	}
	return files
}

// checkpointForm is what checkpoint show prints of a file.
type checkpointForm struct {
	Path       string                   `json:"path"`
	Bytes      record.Bytes             `json:"bytes"`
	Entries    record.Count             `json:"entries"`
	Digest     string                   `json:"digest"` // of the entries in the file
	Begin      record.ChangelogPosition `json:"begin"`  // replay goes on from here
	End        record.ChangelogPosition `json:"end"`
	BrokerTime int64                    `json:"broker_time"` // ms, at begin
	Fence      *fenceForm               `json:"fence"`       // of the run that wrote it
	Commit     *commitForm              `json:"commit"`      // in force at begin
}

func (e *env) showCheckpoints(files []string) error {
	encoder := json.NewEncoder(e.out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	var faults []error
	for _, file := range files {
		i, err := store.ReadInfo(store.Disk, file)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		err = encoder.Encode(&checkpointForm{Path: file, Bytes: i.Length, Entries: i.Image.Live, Digest: i.Image.Digest.String(), Begin: i.Begin,
			End: i.End, BrokerTime: i.BrokerTime, Fence: showFence(&i.Fence), Commit: showCommit(&i.Commit)})
		if err != nil {
			return err
		}
	}
	return errors.Join(faults...)
}
