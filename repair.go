package tidemark

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/recovery"
	"github.com/tidemark-streams/tidemark/internal/repair"
	"github.com/tidemark-streams/tidemark/internal/store"
)

// RepairKind says which repair.
type RepairKind = repair.Kind

// The repairs that can be ordered.
const (
	RepairReset  = repair.Reset  // the life of the tasks ends: their state is deleted, a new life begins
	RepairTime   = repair.Time   // stream time and closed ends are set
	RepairSkip   = repair.Skip   // the input position of one task moves forwards
	RepairReseal = repair.Reseal // digest and live count become those of the changelog's fold
)

// RepairChange tells what a repair does, or would do, to one task.
//
//	type RepairChange struct {
//		Partition int32
//		Repair    RepairKind
//		From      *Standing // null when the changelog holds no commit record
//		To        *Standing
//		Warnings  []string
//		Nothing   bool // there is nothing to do
//		Done      bool
//		Note      string // as written into the commit record
//	}
type RepairChange = repair.Change

// Repair is an explicit repair of a job that does not run: what no start does by itself.
type Repair struct {
	Kind       RepairKind
	Partition  int32 // AllPartitions for every one
	To         int64 // RepairSkip: the offset to go on at; RepairReset: where the new life begins, ByStart for what the options say
	StreamTime int64 // RepairTime: ms
	Who, Why   string
	TakeOver   bool // fence whoever owns the tasks, instead of demanding that the group is empty
	Do         bool // false: tell what would be done, and write nothing
	// Patience is how long the group may take to become empty: the seats of processes that have just ended run out with
	// their session.
	Patience time.Duration
	// Told is called with each task's change: for all tasks before anything is done, and for each once more when it is done.
	Told func(RepairChange)
}

// Values of Repair that stand for none in particular.
const (
	AllPartitions int32 = -1
	ByStart       int64 = -1
)

// Closer is a Processor that knows how far windows are closed at a stream time, in ms. RepairTime needs it.
type Closer interface {
	ClosedEnd(aggregation int, streamTime int64) int64
}

// Clocked is a Closer whose keys may have stream times of their own. RepairTime forgets those that are ahead.
type Clocked interface {
	Ahead(key, value []byte, streamTime int64) (bool, error)
}

// maxReason bounds who and why together, so that what was done has room in the commit record too.
const maxReason = record.MaxText / 2

// check refuses orders that cannot be meant.
func (o *Repair) check() error {
	text := o.Who + o.Why
	switch {
	case o.Who == "" || o.Do && strings.TrimSpace(o.Why) == "":
		return errors.New("who repairs, and why, must be given: both are kept in the commit record")
	case len(text) > maxReason || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("who and why have %d bytes: at most %d, on one line", len(text), maxReason)
	case o.Kind == RepairSkip && o.Partition == AllPartitions:
		return errors.New("a skip names its partition")
	case o.Kind == RepairReset && o.To != ByStart && o.Partition == AllPartitions:
		return errors.New("an offset to begin at is that of one partition: name it")
	}
	return nil
}

// Repair tells what a repair would do to each task, and with Do does it, task after task. What it can refuse it refuses
// before it changes the first one. After an error the tasks told to be done are done, the one at work may be half done;
// the same order may be given again. It is used in place of Run.
func (a *App) Repair(ctx context.Context, order Repair) (err error) {
	if err := order.check(); err != nil {
		return err
	}
	if a.admin, err = a.options.Cluster.Admin(); err != nil {
		return err
	}
	defer a.admin.Close()
	t, err := a.existingTopics(ctx, a.admin)
	if err != nil {
		return err
	}
	a.known.Store(t)
	partitions, err := a.chosen(order.Partition)
	if err != nil {
		return err
	}
	if err := a.vacant(ctx, &order, order.Patience); err != nil {
		return err
	}
	files, release, err := a.borrowDir(&order)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	return a.repairAll(ctx, &order, partitions, files)
}

// chosen are the partitions that the order is about.
func (a *App) chosen(partition int32) ([]int32, error) {
	in := a.topics().identity.Input
	if partition == AllPartitions {
		all := make([]int32, in.Partitions)
		for p := range in.Partitions {
			all[p] = p
		}
		return all, nil
	}
	if partition < 0 || partition >= in.Partitions {
		return nil, &kafka.Error{Class: kafka.ClassPermanent, Op: "repair", Topic: in.Name, Partition: partition, Offset: -1,
			Err: fmt.Errorf("there is no partition %d: the topic has %d, from 0 on", partition, in.Partitions)}
	}
	return []int32{partition}, nil
}

// vacant demands that nobody works, unless the order takes over (R37).
func (a *App) vacant(ctx context.Context, order *Repair, patience time.Duration) error {
	for until, told := now()+patience, false; !order.TakeOver; told = true {
		members, err := a.admin.Members(ctx, a.options.Job)
		if err != nil || len(members) == 0 {
			return err
		}
		if now() >= until {
			return occupied(a.options.Job, members)
		}
		if !told {
			a.log.Info("waiting for the group to become empty: the seat of a process that has ended runs out with its session",
				"group", a.options.Job, "members", len(members), "at_most_seconds", patience.Seconds())
		}
		if !wait(ctx, min(heartbeat, until-now())) {
			return ctx.Err()
		}
	}
	return nil
}

func occupied(group string, members []kafka.GroupMember) error {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.String()
	}
	return &kafka.Error{Class: kafka.ClassPermanent, Op: "repair", Offset: -1,
		Hint: "stop the job first, or fence its processes with --take-over",
		Err:  fmt.Errorf("group %s is not empty: it has %d members: %s", group, len(members), strings.Join(names, ", "))}
}

// borrowDir takes the state directory for as long as the repair lasts, if there is one: checkpoints may know of commits
// that are gone. A running job that is taken over has it, and its checkpoints are not asked then.
func (a *App) borrowDir(order *Repair) (files bool, release func() error, err error) {
	release = func() error { return nil }
	if _, err := os.Stat(a.options.StateDir); errors.Is(err, os.ErrNotExist) {
		return false, release, nil
	}
	lock, err := lockDir(a.options.StateDir)
	if err == nil {
		return true, lock.Close, nil
	}
	if !order.TakeOver {
		return false, release, unusable(a.options.StateDir, err)
	}
	a.log.Warn("checkpoints are not looked at", "cause", err)
	return false, release, nil
}

// repairAll plans for all tasks, then repairs one after the other.
func (a *App) repairAll(ctx context.Context, order *Repair, partitions []int32, files bool) error {
	ordered := map[int32]repair.Order{}
	var todo []int32
	for _, p := range partitions {
		rec, o, err := a.repairOf(order, p, files)
		if err != nil {
			return err
		}
		change, err := repair.Plan(ctx, rec, o)
		if err != nil {
			return err
		}
		order.Told(*change)
		if ordered[p] = o; !change.Nothing {
			todo = append(todo, p)
		}
	}
	if !order.Do {
		return nil
	}
	for _, p := range todo {
		rec, o, err := a.repairOf(order, p, files)
		if err != nil {
			return err
		}
		change, err := repair.Do(ctx, rec, o)
		if err != nil {
			return fmt.Errorf("%w (what of the repair of partition %d is done is not known: the same order may be given again)", err, p)
		}
		if change.Done {
			a.log.Warn("repaired", "partition", p, "note", change.Note)
			a.tellOffset(ctx, p, change)
		}
		order.Told(*change)
	}
	return nil
}

// repairOf makes the recovery of one task, as a repair needs it, and the order for it.
func (a *App) repairOf(order *Repair, partition int32, files bool) (*recovery.Recovery, repair.Order, error) {
	proc, err := a.processor(partition)
	if err != nil {
		return nil, repair.Order{}, err
	}
	o := repair.Order{Kind: order.Kind, To: record.InputPosition(order.To), StreamTime: order.StreamTime,
		Note: order.Who + ": " + order.Why, MaxRecords: a.options.Commit.MaxRecords, MaxBytes: a.options.Commit.MaxBytes}
	if order.Kind == RepairTime {
		closer, ok := proc.(Closer)
		if !ok {
			return nil, o, errors.New("this job's windows do not close by stream time alone: it cannot be set by hand")
		}
		o.ClosedEnd = func(name string, t int64) (int64, bool) {
			for i, g := range proc.Aggregations() {
				if g.Name == name {
					return closer.ClosedEnd(i, t), true
				}
			}
			return 0, false
		}
		keyed := slices.ContainsFunc(proc.Aggregations(), func(g Aggregation) bool { return g.Keyed })
		if clocked, ok := proc.(Clocked); ok && keyed {
			o.Ahead = clocked.Ahead
		}
	}
	rec := a.recoveryOf(a.options.Cluster, partition, proc)
	rec.Ask = func(ctx context.Context) (bool, error) { // the group, just before the fence
		err := a.vacant(ctx, order, 0)
		return err == nil, err
	}
	if at := a.options.At; at != nil {
		rec.At = func(step recovery.Step) error { return at(context.Background(), partition, "repair."+string(step)) }
	}
	rec.Progress = a.tellWaiting(partition)
	rec.GroupOffset = func(ctx context.Context) (kafka.GroupOffset, bool, error) {
		offsets, err := a.admin.GroupOffsets(ctx, a.options.Job, a.options.Input)
		offset, ok := offsets[partition]
		return offset, ok, err
	}
	path := store.Path(a.options.Files, a.options.StateDir, a.options.Job, partition)
	if _, err := a.options.Files.Stat(path); files && err == nil {
		rec.Checkpoints, err = store.OpenDir(a.options.Files, path)
		if err != nil {
			return nil, o, err
		}
	}
	return rec, o, nil
}

// waitingEvery is how often a repair says that it waits.
const waitingEvery = 5 * time.Second

// tellWaiting says for what a repair waits, so that it is never silent and still (I12).
func (a *App) tellWaiting(partition int32) func(recovery.Progress) {
	told := now()
	return func(p recovery.Progress) {
		if p.Waiting < 0 || now()-told < waitingEvery {
			return
		}
		told = now()
		a.log.Warn("waiting for the open transaction of another producer in the changelog", "partition", partition, "offset", p.Waiting)
	}
}

// tellOffset sets the group's offset, so that lag tools and the UntilIdle of other instances do not go by the former
// one. Like every setting of it this is a courtesy.
func (a *App) tellOffset(ctx context.Context, partition int32, change *RepairChange) {
	c := change.Committed()
	offset := kafka.GroupOffset{Next: c.Position, Metadata: record.Metadata(c.Birth, c.Number)}
	if err := a.admin.SetGroupOffset(ctx, a.options.Job, a.options.Input, partition, offset); err != nil {
		a.log.Info("group offset not set: the next commit of the task sets it", "partition", partition, "error", err)
	}
}
