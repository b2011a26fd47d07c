package status

import "time"

// Rebase tells every moment by the clock as it stands at At: what was noted with a monotonic part is as long ago as it is,
// whatever somebody has set the clock to since (W20). What others hold too is not changed but copied.
func (s *Status) Rebase() {
	at := func(t *time.Time) {
		if t != nil && !t.IsZero() {
			*t = s.At.Add(-s.At.Sub(*t))
		}
	}
	wait := func(w *Wait) *Wait {
		if w != nil {
			w = new(*w)
			at(&w.Since)
		}
		return w
	}
	failure := func(f *Failure) *Failure {
		if f != nil {
			f = new(*f)
			at(&f.At)
		}
		return f
	}
	reasons := func(all []Reason) {
		for i := range all {
			at(&all[i].Since)
		}
	}
	at(&s.Started)
	s.Waiting = wait(s.Waiting)
	reasons(s.Reasons)
	for i := range s.Tasks {
		t := &s.Tasks[i]
		at(&t.Since)
		reasons(t.Reasons)
		t.Waiting, t.SaveFailed, t.LastError = wait(t.Waiting), failure(t.SaveFailed), failure(t.LastError)
		if r := t.Recovery; r != nil {
			t.Recovery = new(*r)
			at(&t.Recovery.Since)
		}
		if c := t.Commit; c != nil && c.At != nil {
			moment := *c.At
			t.Commit = &Commit{Number: c.Number, At: &moment, Latency: c.Latency}
			at(&moment)
		}
	}
}
