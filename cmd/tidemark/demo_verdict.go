package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-streams/tidemark/internal/proof"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// demoJSON are the figures of a demo, for scripts.
type demoJSON struct {
	Equal       bool        `json:"equal"` // the output is there only if it is
	Seed        uint64      `json:"seed"`
	Readings    int         `json:"readings"`
	Accepted    int64       `json:"accepted"`
	DeadLetters int         `json:"dead_letters"`
	Late        int         `json:"late"`
	Results     int         `json:"results"`
	OpenWindows int         `json:"open_windows"`
	StateHash   string      `json:"state_sha256"` // of the output of state dump
	Kills       []*demoKill `json:"kills"`
	Seconds     float64     `json:"seconds"`
	Dir         string      `json:"dir,omitempty"` // what was kept

	broker string // its address
}

// finish lets the worker work off what is left, stops it in order, and starts it a last time to end by itself: then
// nothing is left that is due.
func (d *demo) finish(ctx context.Context) error {
	err := d.until(ctx, "everything is sent and committed", func() (bool, error) {
		return d.produce.ended() && d.eye.figures().waiting() == 0, nil
	})
	if err != nil {
		return err
	}
	if err := <-d.fed; err != nil {
		return fmt.Errorf("hand the fleet's readings to produce: %w", err)
	}
	if err := d.worker.stop(); err != nil {
		return err
	}
	d.worker, err = d.spawn("worker", "worker-last", nil, "run", "-c", d.job.Config(), "--until-idle", "--json")
	if err != nil {
		return err
	}
	return d.worker.wait(ctx)
}

// errDemoUnequal ends a demo that has found a difference.
var errDemoUnequal = errors.New("not equal: after two kills tidemark's state and results differ from those of the oracle")

// compare is the fifth step.
func (d *demo) compare(ctx context.Context) error {
	d.screen.step(5, "The same readings once more, through an oracle that nobody kills")
	d.screen.tell("It shares no code with tidemark and computes with numbers of any length.")
	reader, err := oracle.NewReader(d.figures.broker)
	if err != nil {
		return err
	}
	defer reader.Close()
	want, err := d.job.Expect(ctx, reader)
	if err != nil {
		return err
	}
	if d.tamper != nil {
		d.tamper(want)
	}
	got, err := d.job.Look(ctx, reader)
	if err != nil {
		return err
	}
	expected := newDemoSums(want)
	d.screen.say("\n                     tidemark      oracle")
	for _, row := range []struct {
		what      string
		got, want int
		how       string
	}{
		{"results", len(got.Results), expected.results, "each exactly once"},
		{"open windows", len(got.State), expected.open, "state equal bit for bit"},
		{"late readings", len(got.Late), expected.late, "each in the late topic"},
		{"dead letters", len(got.Dead), expected.dead, "each with its reason and bytes"},
	} {
		d.screen.say("   %-15s %10s  %10s   %s", row.what, grouped(row.got), grouped(row.want), row.how)
	}
	if found := proof.Report(proof.Compare(want, &got.Observed), 20); found != "" {
		d.screen.say("\n   NOT EQUAL. %s", found)
		return errDemoUnequal
	}
	if err := d.balance(got, expected); err != nil {
		return err
	}
	d.figures.StateHash = fmt.Sprintf("%x", sha256.Sum256(got.Dump))
	d.tellVerdict()
	return nil
}

// demoSums are what the oracle expects of all tasks together.
type demoSums struct {
	in                        int64
	results, open, late, dead int
}

func newDemoSums(want *proof.Expected) demoSums {
	var s demoSums
	for _, o := range want.Outcomes {
		s.in += o.Counters.In
		s.late += len(o.Late)
		s.dead += len(o.Dead)
		for _, w := range o.Windows {
			if w.Final {
				s.results++
			} else {
				s.open++
			}
		}
	}
	return s
}

// balance shows that no reading is unaccounted for (I9), from the fleet to the windows: the fleet knows what it sent,
// so nothing was lost on the way to the input either.
func (d *demo) balance(got *proof.Sight, expected demoSums) error {
	if f := d.fleet; expected.in != f.sent || expected.dead != int(f.broken) || expected.late != int(f.late) {
		return fmt.Errorf("the fleet sent %d readings, %d of them broken and %d late; the oracle found %d, %d and %d in topic demo-in",
			f.sent, f.broken, f.late, expected.in, expected.dead, expected.late)
	}
	var total oracle.Counters
	sums := make([]oracle.AggregationCounters, len(d.job.Oracle.Aggregations))
	for _, c := range got.Counters {
		total.In += c.Task.In
		total.Accepted += c.Task.Accepted
		total.DeadLettered += c.Task.DeadLettered
		for i, a := range c.Aggregations {
			sums[i].Folded += a.Folded
			sums[i].Late += a.Late
		}
	}
	d.screen.say("\n   No reading is unaccounted for:")
	d.screen.say("   %-9s %s = %s accepted + %s dead-lettered", "sent", grouped(total.In), grouped(total.Accepted), grouped(total.DeadLettered))
	for i, a := range d.job.Oracle.Aggregations {
		d.screen.say("   %-9s %s = %s folded + %s late", a.Name, grouped(total.Accepted), grouped(sums[i].Folded), grouped(sums[i].Late))
	}
	f := &d.figures
	f.Equal, f.Seed, f.Readings, f.Accepted = true, d.seed, d.readings, total.Accepted
	f.Results, f.OpenWindows, f.Late, f.DeadLetters = len(got.Results), len(got.State), len(got.Late), len(got.Dead)
	return nil
}

// tellVerdict is the last word, and where to go from here.
func (d *demo) tellVerdict() {
	f := &d.figures
	took := time.Since(d.screen.begun)
	f.Seconds = took.Seconds()
	d.screen.say(`   sha256 of state dump: %s..., for this fleet on every machine.

   EQUAL after %s: nothing lost, doubled, or different. %.1f s.`,
		f.StateHash[:16], many(len(f.Kills), "SIGKILL", "SIGKILLs"), took.Seconds())
	program := os.Args[0]
	if d.keep == "" {
		d.screen.say("\nTo look around in what it leaves, and to kill the worker yourself:\n  %s demo --keep DIR", program)
		return
	}
	f.Dir = d.dir
	config := d.job.Config()
	if strings.Contains(config, " ") {
		config = strconv.Quote(config) // for the shell
	}
	d.screen.say("\nEverything is kept in %s. Look around:", d.dir)
	for _, command := range []string{
		"state dump -c %s | head",
		"consume -c %s --topic demo-minute --until-end | head",
		"consume -c %s --topic demo-dead --until-end --meta | head",
		"checkpoint list -c %s",
		"run -c %s",
	} {
		d.screen.say("  %s "+command, program, config)
	}
}
