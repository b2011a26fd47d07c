package status

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// WriteTable writes a Status for people, wide as a terminal. Nothing in it steers a terminal, whatever keys and
// messages hold.
func (s *Status) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "%s: %s on %s, process %d, tidemark %s, up %s\n", s.Health, clean(s.Job), clean(s.Host), s.PID, clean(s.Version),
		span(s.At.Sub(s.Started).Seconds()))
	fmt.Fprintf(w, "lag %s, recovery after a crash %s, memory of the state %s of %s, %d records in %d commits\n",
		count(s.Lag), s.Estimate(), size(s.Memory.Used), size(s.Memory.Max), s.Totals.Records, s.Totals.Commits)
	if n := s.Totals.Inexact; n > 0 {
		fmt.Fprintf(w, "%d values are not the number written, which no double is: see input.numbers\n", n)
	}
	if len(s.Tasks) == 0 {
		fmt.Fprintln(w, s.NoTasks())
	} else if err := s.writeTasks(w); err != nil {
		return err
	}
	for _, n := range waiting(s.Tasks) {
		fmt.Fprintf(w, "partition %d, %s: the next window closes when event time reaches %s\n", n.Partition, clean(n.Name), eventTime(n.NextClose))
	}
	for i := range s.Reasons {
		r := &s.Reasons[i]
		if _, err := fmt.Fprintf(w, "%s for %s: %s\n", r.Health, span(s.At.Sub(r.Since).Seconds()), r); err != nil {
			return err
		}
	}
	return nil
}

func (s *Status) writeTasks(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nPARTITION\tSTATE\tLAG\tSTREAM TIME\tSET BY\tOPEN\tDUE\tENTRIES\tCOMMIT\tCHECKPOINT\tRECOVERY")
	for i := range s.Tasks {
		t := &s.Tasks[i]
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\n", t.Partition, t.word(), count(t.Lag), eventTime(t.StreamTime),
			t.setter(), t.OpenWindows, t.DueWindows, t.LiveEntries, t.commit(), t.checkpoint(), span(t.EstimatedRecovery))
	}
	return table.Flush()
}

// String is the reason in one line that steers no terminal.
func (r *Reason) String() string {
	where := "process"
	if r.Partition != nil {
		where = fmt.Sprintf("partition %d", *r.Partition)
	}
	return fmt.Sprintf("%s, %s: %s", where, clean(r.Code), clean(r.What))
}

func (t *Task) word() string {
	if t.idle() {
		return "running, idle"
	}
	if t.State == Recovering && t.Recovery != nil && t.Recovery.Total > 0 {
		return fmt.Sprintf("recovering %.0f %%", 100*float64(t.Recovery.Done)/float64(t.Recovery.Total))
	}
	return string(t.State)
}

func (t *Task) setter() string {
	if t.Setter == nil {
		return "-"
	}
	return t.Setter.Words()
}

// Words are for people: a stream time that silence has moved on, or a repair has set, was set by no reading.
func (s *Setter) Words() string {
	if s.Offset < 0 {
		return "silence or repair"
	}
	return fmt.Sprintf("%s at %d", clean(s.Key), s.Offset)
}

func (t *Task) commit() string {
	if t.Commit == nil {
		return "none"
	}
	return fmt.Sprint(t.Commit.Number)
}

func (t *Task) checkpoint() string {
	if t.Checkpoint == nil {
		return "none"
	}
	return span(t.Checkpoint.Age) + " old"
}
