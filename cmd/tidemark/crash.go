package main

import (
	"log/slog"
	"os"

	"github.com/tidemark-streams/tidemark"
	"github.com/tidemark-streams/tidemark/internal/crash"
	"github.com/tidemark-streams/tidemark/internal/store"
)

// arm reads what a crash test wants to happen in this process. It is called by the commands that own tasks, before they
// connect.
func (e *env) arm(log *slog.Logger) (err error) {
	if e.crash, err = crash.FromEnv(os.Getenv, log); err != nil {
		return usage(err)
	}
	return nil
}

// seams sets the seams through which a crash test comes in, if there is one; otherwise they stay unset and cost nothing.
func (e *env) seams(options *tidemark.Options) {
	if e.crash == nil {
		return
	}
	options.Cluster = e.crash.Cluster(options.Cluster)
	options.Files = e.crash.Files(store.Disk)
	options.At = e.crash.Step
}
