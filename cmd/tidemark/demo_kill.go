package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/tidemark-streams/tidemark"
)

// demoPlan is one kill: its step of the story, and its share of the readings between which it must happen.
type demoPlan struct {
	number      int
	from, until float64
	wipe        bool // the checkpoints are deleted before the restart
}

// demoPlans are the kills of the third and the fourth step.
var demoPlans = []demoPlan{{number: 3, from: 0.33, until: 0.6}, {number: 4, from: 0.67, until: 0.95, wipe: true}}

// start is where the recovery must begin: else the kill does not show what it is meant to.
func (p demoPlan) start() string {
	if p.wipe {
		return "full replay"
	}
	return "checkpoint"
}

// demoKill is what one kill hit, and what became of it.
type demoKill struct {
	Useful       bool            `json:"useful"`
	Why          string          `json:"why_not,omitempty"` // it is not useful
	Wiped        bool            `json:"local_state_deleted"`
	Sent         int64           `json:"readings_sent"`
	Uncommitted  int64           `json:"readings_uncommitted"`
	Open         int64           `json:"open_windows"`
	Transactions []int           `json:"open_transactions"` // tasks
	FirstCommit  float64         `json:"first_commit_ms"`   // from SIGKILL until every task has committed readings again
	Tasks        []demoRecovered `json:"tasks"`

	at         time.Time
	by, killed int // processes
}

// demoRecovered is the recovery of one task, as the worker reports it.
type demoRecovered struct {
	FirstCommit float64                  `json:"first_commit_ms"` // from SIGKILL, by the broker's clock
	Report      *tidemark.RecoveryReport `json:"report"`
}

// demoTries is how many kills a step has, should one come when nothing was open.
const demoTries = 3

// strike is the third and the fourth step: kill, restart, recover. A kill that shows nothing is told and repeated.
func (d *demo) strike(ctx context.Context, plan demoPlan) error {
	for try := 1; ; try++ {
		if err := d.awaitMoment(ctx, plan); err != nil {
			return err
		}
		kill, err := d.kill(ctx, plan)
		if err != nil {
			return err
		}
		d.tellKill(plan, kill)
		if err := d.recover(ctx, plan, kill); err != nil {
			return err
		}
		d.figures.Kills = append(d.figures.Kills, kill)
		if kill.Useful {
			d.tellRecovery(kill)
			return nil
		}
		d.screen.tell("That kill proves little: %s. Once more.", kill.Why)
		if try == demoTries {
			return fmt.Errorf("%d kills and none of use, the last one because %s: try again, with a higher --readings", try, kill.Why)
		}
	}
}

// awaitMoment waits until enough is sent, readings are waiting, and there is a checkpoint to recover from.
func (d *demo) awaitMoment(ctx context.Context, plan demoPlan) error {
	from, until := int64(plan.from*float64(d.readings)), int64(plan.until*float64(d.readings))
	d.eye.mark()
	err := d.until(ctx, fmt.Sprintf("%d readings are sent and every task has a checkpoint", from), func() (bool, error) {
		f := d.eye.figures()
		if f.produced >= until {
			return true, fmt.Errorf("%s of %s readings were sent before the worker could be killed in the middle: "+
				"try a lower --rate, or more --readings", grouped(f.produced), grouped(d.readings))
		}
		saved, err := d.checkpoints()
		return f.produced >= from && saved && f.live > 0 && f.waiting() > 0 && d.eye.working(), err
	})
	if err != nil {
		return err
	}
	return d.aim(ctx)
}

// aim freezes the worker in the middle of a commit, with a transaction open: the worst moment for the kill to come, and
// too short to be met by chance. A worker that commits too fast for that is frozen until readings wait for it.
func (d *demo) aim(ctx context.Context) error {
	const most = time.Second
	worker := d.worker.cmd.Process
	for begun := time.Now(); time.Since(begun) < most; {
		open, err := d.eye.committing(ctx)
		if err == nil && open {
			if err = worker.Signal(syscall.SIGSTOP); err == nil {
				open, err = d.eye.committing(ctx) // the end of the transaction may have been on its way
			}
			if err == nil && open {
				return nil
			}
			err = errors.Join(err, worker.Signal(syscall.SIGCONT))
		}
		if err != nil {
			return cmp.Or(d.alive(), err)
		}
	}
	if err := worker.Signal(syscall.SIGSTOP); err != nil {
		return cmp.Or(d.alive(), err)
	}
	return d.until(ctx, "readings wait for the frozen worker", func() (bool, error) { return d.eye.figures().waiting() > 0, nil })
}

// checkpoints tells whether every task has one.
func (d *demo) checkpoints() (bool, error) {
	for p := range demoPartitions {
		found, err := filepath.Glob(filepath.Join(d.job.LocalState(), fmt.Sprintf("p%d", p), "*.checkpoint"))
		if err != nil || len(found) == 0 {
			return false, err
		}
	}
	return true, nil
}

// kill kills the worker and looks at what it has left.
func (d *demo) kill(ctx context.Context, plan demoPlan) (*demoKill, error) {
	k := &demoKill{Wiped: plan.wipe, killed: d.worker.pid(), at: time.Now()}
	if err := d.worker.kill(); err != nil {
		return nil, err
	}
	d.worker = nil
	if err := d.eye.look(ctx); err != nil {
		return nil, err
	}
	f := d.eye.figures()
	k.Sent, k.Uncommitted, k.Open, k.Transactions = f.produced, f.waiting(), f.live, d.eye.openTransactions()
	switch {
	case k.Open == 0:
		k.Why = "no window was open"
	case k.Uncommitted == 0:
		k.Why = "everything was committed"
	}
	if plan.wipe {
		if err := os.RemoveAll(d.job.LocalState()); err != nil {
			return nil, err
		}
	}
	d.eye.mark()
	err := d.spawnWorker()
	if err == nil {
		k.by = d.worker.pid()
	}
	return k, err
}

// recover waits until every task has recovered and committed readings again, and holds its report against what was seen
// before the kill.
func (d *demo) recover(ctx context.Context, plan demoPlan, k *demoKill) error {
	reports := demoReports{}
	err := d.until(ctx, "every task works again", func() (bool, error) {
		err := reports.take(d.worker)
		return len(reports) == demoPartitions && d.eye.working(), err
	})
	if err != nil {
		return err
	}
	for p := range int32(demoPartitions) {
		task, report := &d.eye.tasks[p], reports[p]
		if seen, ok := task.digests[report.Commit]; !ok || seen.String() != report.Digest {
			return fmt.Errorf("task %d says that commit %d was recovered with digest %s, the changelog holds %s for it: "+
				"please report this with the directory", p, report.Commit, report.Digest, seen)
		}
		if report.From != plan.start() && k.Why == "" {
			k.Why = fmt.Sprintf("task %d recovered from a %s, not from a %s", p, report.From, plan.start())
		}
		first := float64(task.worked - k.at.UnixMilli())
		k.Tasks = append(k.Tasks, demoRecovered{FirstCommit: first, Report: report})
		k.FirstCommit = max(k.FirstCommit, first)
	}
	k.Useful = k.Why == ""
	return nil
}

// demoReports are the recovery reports of a worker by partition.
type demoReports map[int32]*tidemark.RecoveryReport

// take reads what the worker has logged since the last call.
func (r demoReports) take(worker *demoChild) error {
	lines, err := worker.lines()
	for _, line := range lines {
		var entry struct {
			Report *tidemark.RecoveryReport `json:"report"`
		}
		if failed := json.Unmarshal(line, &entry); failed == nil && entry.Report != nil {
			r[entry.Report.Partition] = entry.Report
		} else if failed != nil && line[0] == '{' {
			err = errors.Join(err, fmt.Errorf("the worker's log: %w in %s", failed, line))
		}
	}
	return err
}

// tellKill tells the moment of a kill.
func (d *demo) tellKill(plan demoPlan, k *demoKill) {
	title, restart := "SIGKILL in mid-window", "Restarted at once"
	if plan.wipe {
		title, restart = "SIGKILL again, and the checkpoints are gone too", "All checkpoints are deleted before the restart"
	}
	transactions := "no transaction"
	switch n := len(k.Transactions); {
	case n == 1:
		transactions = fmt.Sprintf("an open transaction of task %s", listed(k.Transactions))
	case n > 1:
		transactions = fmt.Sprintf("open transactions of tasks %s", listed(k.Transactions))
	}
	d.screen.step(plan.number, title)
	d.screen.tell("Process %d dies after %s readings. In mid-air: %s, %s not yet committed, %s. %s as process %d:",
		k.killed, grouped(k.Sent), many(k.Open, "open window", "open windows"),
		many(k.Uncommitted, "reading", "readings"), transactions, restart, k.by)
}

// tellRecovery shows what the recovery did, task by task, and of one task with what it was proved.
func (d *demo) tellRecovery(k *demoKill) {
	d.screen.say(`
   Loaded entries, replayed records, phases in ms; work: seconds since SIGKILL.
   task from        loaded replayed  join identify fence load replay prove work`)
	for p, t := range k.Tasks {
		r, ms := t.Report, &t.Report.Phases
		d.screen.say("   %4d %-11s %6s %8s %5s %8s %5s %4s %6s %5s %4.2f", p, r.From, grouped(r.Loaded), grouped(r.Records), short(ms.Join),
			short(ms.Identify), short(ms.Ask+ms.Fence+ms.FenceRecord), short(ms.Load), short(ms.Tail+ms.Replay), short(ms.Prove+ms.Anchor), t.FirstCommit/1000)
	}
	at := slices.IndexFunc(k.Tasks, func(t demoRecovered) bool { return t.Report.Live > 0 })
	r := k.Tasks[max(at, 0)].Report
	from := "the whole changelog"
	if r.Checkpoint != "" {
		from = filepath.Join(fmt.Sprintf("p%d", r.Partition), filepath.Base(r.Checkpoint))
	}
	d.screen.say("")
	d.screen.tell("Proved: each state has the digest that its last commit wrote into the changelog. Task %d, from %s, at commit %d: %s, "+
		"digest %s.", r.Partition, from, r.Commit, many(r.Live, "entry", "entries"), r.Digest)
	d.screen.tell("Every task had committed new readings %.2f s after SIGKILL.", k.FirstCommit/1000)
}

// short writes milliseconds in at most five places, up to a minute and a half.
func short(ms float64) string {
	if ms >= 1000 {
		return fmt.Sprintf("%.0f", ms)
	}
	return fmt.Sprintf("%.1f", ms)
}
