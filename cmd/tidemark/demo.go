package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-streams/tidemark/internal/proof"
)

// demoOptions are what the command line says.
type demoOptions struct {
	seed     uint64
	readings int
	rate     int
	keep     string
	json     bool
}

// demoLeast is the shortest feed, in seconds, in which two kills find their moment.
const demoLeast = 6

func (e *env) demoCommand() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Kill a worker twice while it works, and prove that its state is exact",
		Long: `Show in about 20 seconds what tidemark is for, with nothing but this program. A simulated fleet sends readings to an
embedded Kafka broker, a worker aggregates them, and is killed twice with SIGKILL in the middle of its work, the second
time with its checkpoints deleted. Each time the output shows what was in mid-air, and what the recovery did. In the end
state and results are compared with what an independent oracle computed of the same readings.

The exit code is 0 only if everything is equal. The same seed gives the same readings and results everywhere.
Everything happens in a temporary directory; --keep puts it where you say and leaves it there to be looked at.`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case o.rate < 1:
				return usage(fmt.Errorf("--rate is %d, it must be at least 1", o.rate))
			case o.readings/demoLeast < o.rate:
				return usage(fmt.Errorf("--readings %d at --rate %d last less than %d s, too short for two kills: "+
					"use at least %d readings, or a lower rate", o.readings, o.rate, demoLeast, o.rate*demoLeast))
			}
			binary, err := os.Executable()
			if err != nil {
				return err
			}
			return e.demo(cmd.Context(), &demo{demoOptions: o, binary: binary, plans: demoPlans})
		},
	}
	cmd.Flags().Uint64Var(&o.seed, "seed", 1, "of the fleet; the same seed gives the same readings")
	cmd.Flags().IntVar(&o.readings, "readings", 60_000, "readings in all")
	cmd.Flags().IntVar(&o.rate, "rate", 4000, "readings per second, at most")
	cmd.Flags().StringVar(&o.keep, "keep", "", "a new or empty directory in which everything happens and is left")
	cmd.Flags().BoolVar(&o.json, "json", false, "print the figures as one JSON object; the story goes to standard error")
	_ = cmd.MarkFlagDirname("keep") // for completion; it fails only for a flag that does not exist
	return cmd
}

// demo is one demo under way.
type demo struct {
	demoOptions
	binary string // this program
	plans  []demoPlan
	tamper func(*proof.Expected) // for tests: the comparison must notice it; nil otherwise

	dir     string
	job     *proof.Job
	screen  *demoScreen
	fleet   *demoFleet
	eye     *demoEye
	figures demoJSON

	broker, produce, worker *demoChild
	fed                     chan error   // the fleet has been handed to produce
	committed               atomic.Int64 // readings, for the fleet
	starts                  int          // of workers
}

// demo runs a demo from its directory to its end.
func (e *env) demo(ctx context.Context, d *demo) (err error) {
	d.screen = newDemoScreen(e.out, e.pipe)
	if d.json {
		d.screen = newDemoScreen(bufio.NewWriter(e.err), e.err)
	}
	if err := d.makeDir(); err != nil {
		return err
	}
	err = d.story(ctx)
	d.screen.clear()
	err = errors.Join(err, d.end(err == nil))
	switch {
	case d.keep != "":
	case err == nil || ctx.Err() != nil || d.screen.err != nil:
		err = errors.Join(err, os.RemoveAll(d.dir))
	default:
		err = fmt.Errorf("%w\neverything was left in %s for you to look at", err, d.dir)
	}
	if err == nil && d.json {
		err = json.NewEncoder(e.out).Encode(&d.figures)
	}
	return err
}

// makeDir makes the directory in which everything happens.
func (d *demo) makeDir() (err error) {
	if d.keep == "" {
		d.dir, err = os.MkdirTemp("", "tidemark-demo-")
	} else if d.dir, err = filepath.Abs(d.keep); err == nil {
		err = os.MkdirAll(d.dir, 0o755)
	}
	if err != nil {
		return err
	}
	found, err := os.ReadDir(d.dir)
	if err == nil && len(found) > 0 {
		err = usage(fmt.Errorf("--keep %s: the directory holds %s: name a new or empty one", d.keep, found[0].Name()))
	}
	if err != nil {
		return err
	}
	return os.Mkdir(filepath.Join(d.dir, "logs"), 0o755)
}

// story is the demo in its five steps.
func (d *demo) story(ctx context.Context) (err error) {
	d.screen.say(`A worker is killed twice in the middle of its work. Afterwards nothing may be
missing, counted twice, or different in a single bit. Seed %d; about %.0f s.`, d.seed, float64(d.readings/d.rate)+3)
	if d.job, err = newDemoJob(d.binary, d.dir); err != nil {
		return err
	}
	if err := d.startBroker(ctx); err != nil {
		return err
	}
	if err := d.startWorker(ctx); err != nil {
		return err
	}
	if err := d.startFleet(); err != nil {
		return err
	}
	for _, plan := range d.plans {
		if err := d.strike(ctx, plan); err != nil {
			return err
		}
	}
	if err := d.finish(ctx); err != nil {
		return err
	}
	return d.compare(ctx)
}

// startBroker is the first step.
func (d *demo) startBroker(ctx context.Context) (err error) {
	dir := filepath.Join(d.job.StateDir(), "broker")
	// It would end by itself, should nobody be left to end it.
	d.broker, err = d.spawn("broker", "broker", nil, "broker", "--dir", dir, "--partitions", strconv.Itoa(demoPartitions),
		"--linger", embeddedLinger.String())
	if err != nil {
		return err
	}
	err = d.until(ctx, "the embedded broker listens", func() (bool, error) {
		text, err := os.ReadFile(filepath.Join(dir, "addr"))
		d.figures.broker = strings.TrimSpace(string(text))
		if errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		return true, err
	})
	if err != nil {
		return err
	}
	d.screen.step(1, fmt.Sprintf("A job on the built-in Kafka broker (process %d)", d.broker.pid()))
	d.screen.tell("%d boilers report their temperature. The job keeps count, sum, min, max and mean of each, for every minute and "+
		"every hour. %d partitions with a task for each; a checkpoint every %g s.", demoDevices, demoPartitions, demoCheckpoint.Seconds())
	return nil
}

// startWorker starts the first worker and waits until every task is born.
func (d *demo) startWorker(ctx context.Context) error {
	if err := d.spawnWorker(); err != nil {
		return err
	}
	reports := demoReports{}
	err := d.until(ctx, "every task is born", func() (bool, error) {
		err := reports.take(d.worker)
		return len(reports) == demoPartitions, err
	})
	if err != nil {
		return err
	}
	d.eye, err = newDemoEye(d.figures.broker, "demo-in", "demo-changelog")
	return err
}

// spawnWorker starts a worker, which the story calls process N.
func (d *demo) spawnWorker() (err error) {
	d.starts++
	d.worker, err = d.spawn("worker", fmt.Sprintf("worker-%d", d.starts), nil, "run", "-c", d.job.Config(), "--json")
	return err
}

// startFleet is the second step.
func (d *demo) startFleet() error {
	in, out, err := os.Pipe()
	if err != nil {
		return err
	}
	d.produce, err = d.spawn("producer", "produce", in, "produce", "-c", d.job.Config(), "-")
	if err = errors.Join(err, in.Close()); err != nil {
		return errors.Join(err, out.Close())
	}
	d.fleet, d.fed = newDemoFleet(d.seed, d.readings), make(chan error, 1)
	go func() { d.fed <- errors.Join(d.feed(out), out.Close()) }()
	d.screen.step(2, fmt.Sprintf("A worker (process %d) and a fleet that sends %s readings a second", d.worker.pid(), grouped(d.rate)))
	d.screen.tell("The fleet's clock starts on 2024-01-01 and runs %d times as fast as yours. Readings are out of order by up to %d s; "+
		"1 in 100 comes minutes late, 1 in 100 is broken, and one boiler says 1e16 now and then.",
		d.rate*demoStep/1000, demoJitter/1000)
	return nil
}

// feed hands the fleet's lines to produce, at the wanted rate, and holds back while the commits are far behind: on a slow
// machine the kills must still come in the middle.
func (d *demo) feed(out *os.File) error {
	const tick = 20 * time.Millisecond
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	to := bufio.NewWriter(out)
	lead := max(int64(d.readings/10), 1)
	for credit := 0.0; ; {
		credit = min(credit+float64(d.rate)*tick.Seconds(), max(float64(d.rate)/10, 1))
		for ; credit >= 1 && d.fleet.sent < d.committed.Load()+lead; credit-- {
			line := d.fleet.next()
			if line == nil {
				return to.Flush()
			}
			if _, err := to.Write(append(line, '\n')); err != nil {
				return err
			}
		}
		if err := to.Flush(); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-d.produce.done:
			return errors.New("the producer ended before it had all readings")
		}
	}
}

// demoStuck is how long the demo waits for anything while nothing moves.
const demoStuck = 30 * time.Second

// until looks around again and again, and shows what it sees, until the awaited has come. It fails when a process has
// ended that should not have, and when nothing moves any more.
func (d *demo) until(ctx context.Context, awaited string, come func() (bool, error)) error {
	const again = 20 * time.Millisecond
	ticker := time.NewTicker(again)
	defer ticker.Stop()
	var seen demoFigures
	for moved := time.Now(); ; {
		now, err := d.look(ctx)
		if err != nil {
			return err
		}
		if ok, err := come(); ok || err != nil {
			return err
		}
		if now != seen {
			seen, moved = now, time.Now()
		} else if time.Since(moved) > demoStuck {
			return fmt.Errorf("nothing has moved for %s, and it is not true that %s; the worker said last:\n%s", demoStuck, awaited,
				d.lastWords())
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return errInterrupted
		}
	}
}

// lastWords is the end of the worker's log.
func (d *demo) lastWords() string {
	if d.worker == nil {
		return "nothing: it was not started yet"
	}
	return d.worker.said()
}

// alive returns why a process has ended that should not have; the fleet may end when all is sent.
func (d *demo) alive() error {
	for _, c := range []*demoChild{d.broker, d.worker} {
		if c != nil && c.ended() {
			if err := c.failure(); err != nil {
				return err
			}
			return fmt.Errorf("the %s (process %d) ended by itself; the end of its log:\n%s", c.name, c.pid(), c.said())
		}
	}
	if d.produce != nil && d.produce.ended() {
		return d.produce.failure()
	}
	return nil
}

// look sees to it that all is well, looks at the tasks, and moves the live line.
func (d *demo) look(ctx context.Context) (demoFigures, error) {
	if err := d.alive(); err != nil || d.eye == nil || d.produce == nil {
		return demoFigures{}, err
	}
	if err := d.eye.look(ctx); err != nil {
		if ctx.Err() != nil {
			err = errInterrupted
		}
		return demoFigures{}, err
	}
	f := d.eye.figures()
	d.committed.Store(f.committed)
	d.screen.live(f.committed, int64(d.readings), fmt.Sprintf("%s sent, %s committed; windows %s open, %s closed",
		grouped(f.produced), grouped(f.committed), grouped(f.live), grouped(f.results)))
	return f, d.screen.err
}

// end ends what still runs: only what the demo has started, the broker last. Only after a story that went well it
// matters how they end.
func (d *demo) end(well bool) error {
	if d.eye != nil {
		d.eye.close()
	}
	var failed error
	for _, c := range []*demoChild{d.produce, d.worker, d.broker} {
		if c != nil && !c.ended() {
			failed = errors.Join(failed, c.stop())
		}
	}
	if !well {
		return nil
	}
	return failed
}
