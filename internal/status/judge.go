package status

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// The bounds of I12 (R24). Watchdog and Restore are the table of section 4; the others follow from them.
const (
	// Watchdog is how long a broker, or the job's own code, may take for one thing.
	Watchdog = 20 * time.Second
	// Restore is how long a restore may make no progress.
	Restore = 30 * time.Second
	// Disk is how long one operation on a checkpoint file may take; a sync writes everything at once.
	Disk = 60 * time.Second
	// RedWait is how long a named thing is waited for before the wait is red.
	RedWait = 30 * time.Second
	// shortWait is how long a wait is not worth a word.
	shortWait = time.Second
)

// memoryRed is the part of state.max_bytes at which health turns red (section 6).
const memoryRed = 0.9

// Sign is one thing that was begun for a task and has not ended. Beyond its limit the task is stuck.
type Sign struct {
	What  string // "fetch readings/3"
	Since time.Time
	Limit time.Duration
}

// Account is what a task says of itself.
type Account struct {
	State State // Recovering, Running or Stopped
	Since time.Time
	Signs []Sign
	Waits []Wait // the most telling one first
	Error string // why it is stopped

	Refused     Share  // of the last minute
	DeadLetters string // topic where they are
}

// Share is how many of a number of readings were refused.
type Share struct {
	In, Refused int64
	Since       time.Time // since when the share is too large
}

// enough is how many readings make a share.
const enough = 100

// TooLarge tells whether most were refused: a producer has changed, or the configuration does not fit it (C13, C20, D27).
func (s Share) TooLarge() bool { return s.In >= enough && s.Refused > s.In/2 }

// Judge fills in state, health and reasons of a task: moving, waiting for a named thing, or stopped with an error, and
// where it is none of these, stuck (I12).
func (t *Task) Judge(a Account, now time.Time) {
	t.State, t.Since, t.Health, t.Reasons, t.Waiting = a.State, a.Since, Green, []Reason{}, nil
	t.SinceProgress = a.still(now)
	if a.State == Stopped {
		t.SinceProgress = seconds(now, a.Since)
		t.add(Reason{Code: "stopped", What: a.Error, Since: a.Since, Health: Red})
		return
	}
	for _, w := range a.Waits {
		if now.Sub(w.Since) >= shortWait {
			t.State, t.Since, t.Waiting = Waiting, w.Since, &w
			t.SinceProgress = max(t.SinceProgress, seconds(now, w.Since))
			break
		}
	}
	for _, s := range a.Signs {
		if now.Sub(s.Since) > s.Limit {
			t.State, t.Since = Stuck, s.Since
			t.add(Reason{Code: "stuck", What: fmt.Sprintf("%s: not done for more than %s", s.What, s.Limit), Since: s.Since, Health: Red})
		}
	}
	switch t.State {
	case Waiting:
		health := Amber
		if now.Sub(t.Waiting.Since) > RedWait {
			health = Red
		}
		t.add(Reason{Code: t.Waiting.For, What: "waiting for " + t.Waiting.What, Since: t.Waiting.Since, Health: health, Live: true})
	case Recovering:
		t.add(Reason{Code: "recovering", What: t.Recovery.String(), Since: a.Since, Health: Amber, Live: true})
	}
	if s := a.Refused; s.TooLarge() {
		t.add(Reason{Code: "refused", Since: s.Since, Health: Amber, Live: true,
			What: fmt.Sprintf("%d of the last %d readings were refused: topic %s holds them, each with the reason", s.Refused, s.In, a.DeadLetters)})
	}
	if f := t.SaveFailed; f != nil {
		t.add(Reason{Code: "checkpoint", What: "the last checkpoint was not written: " + f.What, Since: f.At, Health: Red, Live: true})
	}
}

func (t *Task) add(r Reason) {
	r.Partition = &t.Partition
	t.Reasons = append(t.Reasons, r)
	if r.Health.worse(t.Health) {
		t.Health = r.Health
	}
}

// still is how long the thing that has been under way for longest has not moved. A second is nothing: a reader at the
// end of its input always waits a little.
func (a *Account) still(now time.Time) float64 {
	longest := time.Duration(0)
	for _, s := range a.Signs {
		longest = max(longest, now.Sub(s.Since))
	}
	if longest < shortWait {
		return 0
	}
	return longest.Seconds()
}

func seconds(now, since time.Time) float64 { return max(0, now.Sub(since).Seconds()) }

// String says how far a recovery is.
func (r *Recovery) String() string {
	if r == nil {
		return "recovering"
	}
	text := "recovering, step " + r.Step
	if r.Total > 0 {
		text += fmt.Sprintf(": %d of %d offsets, %.0f records/s", r.Done, r.Total, r.Rate)
	}
	if r.Left != nil {
		text += fmt.Sprintf(", about %.0f s left", *r.Left)
	}
	return text
}

// Judge draws the tasks' verdicts together. At must be set, and the tasks judged.
//
// Live is what a supervisor may restart the process for: it is true as long as every task moves, waits for a named
// thing or restores with growing position. Brokers that are away make nothing stuck, and a restart would only cost a
// restore (D06). Ready is true when everything is green and there is something to be green (D27).
func (s *Status) Judge() {
	s.Health, s.Live, s.Reasons = Green, true, []Reason{}
	if w := s.Waiting; w != nil {
		health := Amber
		if s.At.Sub(w.Since) > RedWait {
			health = Red
		}
		s.Reasons = append(s.Reasons, Reason{Code: w.For, What: "waiting for " + w.What, Since: w.Since, Health: health, Live: true})
	} else if len(s.Tasks) == 0 {
		s.Reasons = append(s.Reasons, Reason{Code: "unassigned", Since: s.Started, Health: Amber, Live: true,
			What: "the group has given this process no partition"})
	}
	if m := s.Memory; m.Max > 0 && float64(m.Used) >= memoryRed*float64(m.Max) {
		s.Reasons = append(s.Reasons, Reason{Code: "memory", Since: s.At, Health: Red, Live: true,
			What: fmt.Sprintf("the state takes %d bytes, state.max_bytes is %d (%s): tasks stop when it is reached", m.Used, m.Max, m.From)})
	}
	lag, known := int64(0), len(s.Tasks) > 0
	for i := range s.Tasks {
		t := &s.Tasks[i]
		s.Reasons = append(s.Reasons, t.Reasons...)
		if known = known && t.Lag != nil; known {
			lag += *t.Lag
		}
	}
	if s.Lag = nil; known {
		s.Lag = &lag
	}
	for _, r := range s.Reasons {
		s.Live = s.Live && r.Live
		if r.Health.worse(s.Health) {
			s.Health = r.Health
		}
	}
	s.Ready = s.Health == Green
	slices.SortStableFunc(s.Reasons, func(a, b Reason) int { return cmp.Compare(b.Health.rank(), a.Health.rank()) })
}
