package tidemark

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/tidemark-streams/tidemark/internal/kafka/client"
)

// ending is what a job does about an answer.
type ending int

const (
	passes   ending = iota // the task notices nothing: the client has asked again
	recovers               // the task goes through recovery and goes on by itself
	waits                  // the same, again and again, and the status page says for what, until the broker has changed its mind
	rejoins                // the seat in the group is lost, and another one found
	stops                  // Run ends with an error
	warns                  // the log says it once; nothing else happens
)

// injected is one answer of a broker, and what a running job does about it: a cell of the table "What is done" of
// internal/kafka/DESIGN.md.
type injected struct {
	key   kmsg.Key
	class string // the column
	err   *kerr.Error
	count int    // of such answers; 0 for one, -1 until the job has shown what it does
	topic string // that the answer is about, "" for all
	txn   bool   // the answer is about the task's transactional id
	start bool   // given to the job's first start; else while it works
	again bool   // a recovery is caused first, for the request belongs to one
	cut   bool   // instead of an answer the connection ends, and the broker has not carried the request out
	leave bool   // when the job ends
	end   ending
	says  string
}

// name is that of the subtest.
func (i *injected) name() string {
	what, of := "connection lost", i.topic
	if !i.cut {
		what = i.err.Message
	}
	if i.txn {
		of = "txn"
	}
	return strings.ReplaceAll(fmt.Sprintf("%s/%s/%s %s", i.key.Name(), i.class, what, of), " ", "_")
}

// every makes one row of many codes.
func every(like injected, codes ...*kerr.Error) (all []injected) {
	for _, e := range codes {
		like.err = e
		all = append(all, like)
	}
	return all
}

// answers are all that is injected here. What the embedded broker is too kind for is injected on Apache Kafka.
func answers() []injected {
	return slices.Concat(findingOut(), fencing(), producing(), committing(), fetching(), seated(), telling(), making())
}

// plant is a tally job of one task on an embedded broker.
type plant struct {
	t       *testing.T
	broker  *kfake.Cluster
	cluster *client.Cluster
	options Options
	out     *kgo.Client
	sent    int
	said    said
	asked   sync.Map // the names of all requests that have come
}

func newPlant(t *testing.T, old bool, more ...kfake.Opt) *plant {
	p := &plant{t: t}
	options := []kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(1, "in")}
	options = append(options, more...)
	if old {
		options = append(options, kfake.MaxVersions(kversion.V3_8_0()))
	}
	var err error
	if p.broker, err = kfake.NewCluster(options...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.broker.Close)
	p.broker.Control(func(r kmsg.Request) (kmsg.Response, error, bool) {
		p.asked.Store(kmsg.NameForKey(r.Key()), true)
		return nil, nil, false
	})
	if old {
		p.broker.ControlKey(kmsg.DescribeConfigs.Int16(), p.verifies)
	}
	p.cluster, err = client.New(client.Options{Brokers: p.broker.ListenAddrs(), AllowTransactionV1: old})
	if err != nil {
		t.Fatal(err)
	}
	if p.out, err = kgo.NewClient(kgo.SeedBrokers(p.broker.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableClientMetrics()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.out.Close)
	p.options = (&world{t: t, dir: t.TempDir()}).options()
	p.options.Cluster, p.options.UntilIdle, p.options.Topics.Partitions = p.cluster, false, 1
	p.options.Log = slog.New(slog.NewTextHandler(io.MultiWriter(t.Output(), &p.said), nil))
	return p
}

// verifies lets a broker say that it verifies transactions, which old ones are asked.
func (p *plant) verifies(request kmsg.Request) (kmsg.Response, error, bool) {
	p.broker.KeepControl()
	asked := request.(*kmsg.DescribeConfigsRequest)
	if asked.Resources[0].ResourceType != kmsg.ConfigResourceTypeBroker {
		return nil, nil, false
	}
	answer := asked.ResponseKind().(*kmsg.DescribeConfigsResponse)
	yes := "true"
	for _, r := range asked.Resources {
		one := kmsg.NewDescribeConfigsResponseResource()
		one.ResourceType, one.ResourceName = r.ResourceType, r.ResourceName
		c := kmsg.NewDescribeConfigsResponseResourceConfig()
		c.Name, c.Value = r.ConfigNames[0], &yes
		one.Configs = append(one.Configs, c)
		answer.Resources = append(answer.Resources, one)
	}
	return answer, nil, true
}

// produce writes a window and a bit.
func (p *plant) produce() {
	p.t.Helper()
	var records []*kgo.Record
	for range 1100 {
		key := fmt.Appendf(nil, "k%d", p.sent%7)
		records = append(records, &kgo.Record{Topic: "in", Key: key, Value: key})
		p.sent++
	}
	if err := p.out.ProduceSync(p.t.Context(), records...).FirstErr(); err != nil {
		p.t.Fatal(err)
	}
}

// settled waits until everything sent is committed.
func (p *plant) settled(d *daemon) {
	p.t.Helper()
	d.until("everything to be committed", func(e Event) bool { return e.Kind == EventCommitted && int(e.Commit.Position) >= p.sent })
}

// results checks that every closed window was published once, with the right count.
func (p *plant) results() {
	p.t.Helper()
	log, err := p.cluster.Log("out", 0)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	end, err := log.Offsets(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	want := map[string]int{}
	for n := range p.sent {
		if start := n / tallyWindow * tallyWindow; start+tallyWindow <= p.sent-1 {
			want[fmt.Sprintf("k%d %d", n%7, start)]++
		}
	}
	for at := end.Start; at < end.HighWatermark; {
		f, err := log.Fetch(p.t.Context(), at, 1<<20, time.Second)
		if err != nil {
			p.t.Fatal(err)
		}
		for _, r := range f.Records {
			var start, count int
			if _, err := fmt.Sscan(string(r.Value), &start, &count); err != nil {
				p.t.Fatal(err)
			}
			name := fmt.Sprintf("%s %d", r.Key, start)
			if want[name] != count {
				p.t.Errorf("window %s: count %d, want %d (published twice, or wrong)", name, count, want[name])
			}
			delete(want, name)
		}
		at = f.Next
	}
	if len(want) > 0 {
		p.t.Errorf("%d windows never published: %v", len(want), want)
	}
}

// inject lets the broker give the answer. hits tells how often it has, gone takes it back.
func (p *plant) inject(i *injected) (hits func() int, gone func()) {
	if i.cut {
		var n atomic.Int32
		p.broker.ControlKey(i.key.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
			p.broker.KeepControl()
			if int(n.Add(1)) > max(i.count, 1) {
				n.Add(-1)
				p.broker.DropControl()
				return nil, nil, false
			}
			return nil, errors.New("cut"), true
		})
		return func() int { return int(n.Load()) }, func() {}
	}
	f := kfake.Fault{Keys: []kmsg.Key{i.key}, Err: i.err, Count: i.count, Topic: i.topic}
	switch i.key {
	case kmsg.InitProducerID, kmsg.EndTxn, kmsg.Heartbeat, kmsg.JoinGroup, kmsg.SyncGroup:
		f.TopLevel = true
	case kmsg.OffsetFetch, kmsg.LeaveGroup, kmsg.DescribeGroups:
		f.Group = p.options.Job
	case kmsg.FindCoordinator:
		f.Group = p.options.Job
		if i.txn {
			f.Group, f.TxnID = "", "changelog-0"
		}
	case kmsg.DescribeConfigs:
		f.Topic, f.Resource = "", i.topic
	}
	h := p.broker.Fault(f)
	return h.Hits, h.Remove
}

// TestEveryAnswer gives a whole job on the embedded broker each answer of the table "What is done" of
// internal/kafka/DESIGN.md, and holds that it does what the table says, that what it goes on with is its base (R25), and
// that every result is published once all the same. Each subtest fails when its answer was not given; the test fails when
// the job has sent a request that has no row.
func TestEveryAnswer(t *testing.T) {
	free := make(chan struct{}, 16) // most of a subtest is a wait of the job's own, so many run at a time on few processors
	var all sync.WaitGroup
	var asked sync.Map
	for _, i := range answers() {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			t.Run(i.name(), func(t *testing.T) {
				p := newPlant(t, i.key == kmsg.AddPartitionsToTxn)
				if p.options.Leave = i.leave; i.leave {
					p.leaves(&i)
				} else {
					p.meets(&i)
				}
				p.results()
				p.asked.Range(func(name, _ any) bool { asked.Store(name, true); return true })
			})
		})
	}
	all.Wait()
	page, err := os.ReadFile("internal/kafka/DESIGN.md")
	if err != nil {
		t.Fatal(err)
	}
	table := readAnswerTable(string(page), "## What is done")
	asked.Range(func(name, _ any) bool {
		if table.find(name.(string)) == nil {
			t.Errorf("a job sends %s, and the table of internal/kafka/DESIGN.md has no row for it", name)
		}
		return true
	})
}

// meets lets the job meet the answer.
func (p *plant) meets(i *injected) {
	t := p.t
	p.produce()
	var d *daemon
	var hits func() int
	var gone func()
	mark := 0
	if i.start {
		hits, gone = p.inject(i)
		d = launch(t, p.options, nil)
	} else {
		d = launch(t, p.options, nil)
		p.settled(d)
		mark = len(d.since(0))
		hits, gone = p.inject(i)
		if i.again {
			p.broker.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, TopLevel: true, Err: kerr.UnknownServerError, Count: 1})
		}
		p.produce()
	}
	if i.end == stops {
		err := d.over(20 * time.Second)
		if err == nil || !errors.Is(err, i.err) || !strings.Contains(err.Error(), i.says) {
			t.Errorf("the job has ended with %v, want %s and %q", err, i.err.Message, i.says)
		}
	}
	p.await(d, "the answer to be given", func() bool { return hits() >= max(i.count, 1) })
	if i.end == waits {
		p.await(d, "the status to name it", func() bool { return strings.Contains(spoken(d.app.Status()), i.says) })
	}
	if i.end == warns {
		p.await(d, "the warning", func() bool { return len(p.said.lines(i.says)) > 0 })
	}
	if i.end == rejoins { // the group tells it in its own time
		p.await(d, "the loss of the seat", func() bool {
			return slices.ContainsFunc(d.since(mark), func(e Event) bool { return e.Kind == EventClosed })
		})
	}
	gone()
	if i.end == stops {
		d = launch(t, p.options, nil)
	}
	p.produce()
	p.settled(d)
	if i.end != stops {
		i.judge(t, d.since(mark))
	}
	if err := d.end(); err != nil {
		t.Error(err)
	}
	if n := len(p.said.lines(i.says)); i.end == warns && n != 1 {
		t.Errorf("warned %d times, want once", n)
	}
}

// leaves lets the job meet the answer at its end, which it must not hinder.
func (p *plant) leaves(i *injected) {
	p.produce()
	d := launch(p.t, p.options, nil)
	p.settled(d)
	hits, gone := p.inject(i)
	if err := d.end(); err != nil {
		p.t.Error(err)
	}
	if hits() != max(i.count, 1) {
		p.t.Fatalf("answered %d times", hits())
	}
	if n := len(p.said.lines(i.says)); i.end == warns && n != 1 {
		p.t.Errorf("warned %d times, want once", n)
	}
	gone()
	p.produce()
	d = launch(p.t, p.options, nil)
	p.settled(d)
	if err := d.end(); err != nil {
		p.t.Error(err)
	}
}

// judge compares what the task has been through with what it should.
func (i *injected) judge(t *testing.T, events []Event) {
	t.Helper()
	failed, closed := 0, 0
	for _, e := range events {
		switch e.Kind {
		case EventFailed:
			failed++
		case EventClosed:
			closed++
		case EventRecovered:
			if !i.start && e.Recovery.From != "live base" {
				t.Errorf("recovered from %q, want the live base", e.Recovery.From)
			}
		}
	}
	switch i.end {
	case passes, warns:
		if (failed > 0 || closed > 0) && !i.again {
			t.Errorf("%d failures and %d ends of a task, want none", failed, closed)
		}
	case recovers, waits:
		if failed == 0 && !i.start {
			t.Error("the task has not failed: what was injected did not reach it")
		}
	case rejoins:
		if closed == 0 {
			t.Error("the seat was not lost")
		}
	}
}

// spoken is all that the status names.
func spoken(s *Status) string {
	var b strings.Builder
	for _, r := range s.Reasons {
		fmt.Fprintln(&b, r.Code, r.What)
	}
	if s.Waiting != nil {
		fmt.Fprintln(&b, s.Waiting.For, s.Waiting.What)
	}
	return b.String()
}

// await returns when the condition holds, which is looked at again and again while the job runs.
func (p *plant) await(d *daemon, what string, is func() bool) {
	p.t.Helper()
	limit := time.After(20 * time.Second)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !is() {
		select {
		case <-ticker.C:
		case err := <-d.done:
			d.done <- err
			if is() {
				return
			}
			p.t.Fatalf("the job ended with %v while waiting for %s", err, what)
		case <-limit:
			p.t.Fatalf("waited 20 s for %s; the status says %q", what, spoken(d.app.Status()))
		}
	}
}

// since are the events from the nth on.
func (d *daemon) since(n int) []Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.events[n:])
}

// over waits until the job has ended by itself.
func (d *daemon) over(limit time.Duration) error {
	d.t.Helper()
	select {
	case err := <-d.done:
		d.done <- err
		return err
	case <-time.After(limit):
		d.t.Fatalf("the job runs on: %s", spoken(d.app.Status()))
		return nil
	}
}

// TestRepairMeetsAnswers gives a repair the answers of the row DescribeGroups, which only repairs ask: one that passes is
// asked again, any other ends the repair, and nothing was changed.
func TestRepairMeetsAnswers(t *testing.T) {
	p := newPlant(t, false)
	p.options.Leave = true
	p.produce()
	d := launch(t, p.options, nil)
	p.settled(d)
	if err := d.end(); err != nil {
		t.Fatal(err)
	}
	end := func() int64 {
		log, err := p.cluster.Log("changelog", 0)
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		o, err := log.Offsets(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return o.HighWatermark
	}
	repair := func(i *injected) error {
		app, err := New(p.options)
		if err != nil {
			t.Fatal(err)
		}
		hits, gone := p.inject(i)
		defer gone()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // enough for what passes
		defer cancel()
		err = app.Repair(ctx, Repair{Kind: RepairReset, To: ByStart, Partition: AllPartitions, Who: "anna@plant", Why: "a test", Do: true, Told: func(RepairChange) {}})
		if hits() < max(i.count, 1) {
			t.Fatalf("%s: answered %d times", i.name(), hits())
		}
		return err
	}
	row := injected{key: kmsg.DescribeGroups}
	before := end()
	for _, i := range slices.Concat(like(row, "permanent", stops, 1, kerr.GroupAuthorizationFailed, kerr.InvalidGroupID), like(row, "transient", stops, -1, kerr.UnknownServerError)) {
		if err := repair(&i); !errors.Is(err, i.err) || end() != before {
			t.Errorf("%s: the repair has ended with %v, and the changelog at %d, before %d", i.name(), err, end(), before)
		}
	}
	for _, i := range append(like(row, "here", passes, 2, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress), injected{key: row.key, class: "unknown outcome", cut: true}) {
		if err := repair(&i); err != nil || end() <= before {
			t.Errorf("%s: %v, the changelog at %d, before %d", i.name(), err, end(), before)
		}
		before = end()
	}
}

// TestNewTopicIsNotKnownEverywhere: the topics that a first start has made may be news to the broker that is asked for their
// ids. That is waited for; the job is not begun on topics of which nothing is known.
func TestNewTopicIsNotKnownEverywhere(t *testing.T) {
	p := newPlant(t, false)
	var made atomic.Bool
	p.broker.ControlKey(kmsg.CreateTopics.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		made.Store(true)
		return nil, nil, false
	})
	unknown := p.broker.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "changelog", Err: kerr.UnknownTopicOrPartition, Count: 2,
		When: func(r kmsg.Request) bool { return made.Load() && len(r.(*kmsg.MetadataRequest).Topics) > 1 }})
	p.produce()
	d := launch(t, p.options, nil)
	p.settled(d)
	if err := d.end(); err != nil || unknown.Hits() != 2 {
		t.Errorf("%v; answered %d times", err, unknown.Hits())
	}
	p.results()
}

// TestElectionsStopNothing: leaders change cleanly while a job is stopped and while it runs, with its records retained, partly
// deleted and all deleted, down to its very position: the check of leader epochs at a start must not take that for a loss.
func TestElectionsStopNothing(t *testing.T) {
	for _, deleted := range []string{"nothing", "half", "to the anchor", "all"} {
		for _, running := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, running %v", deleted, running), func(t *testing.T) {
				p := newPlant(t, false, kfake.NumBrokers(2))
				p.produce()
				d := launch(t, p.options, nil)
				p.settled(d)
				if !running {
					if err := d.end(); err != nil {
						t.Fatal(err)
					}
				}
				start := map[string]int{"nothing": 0, "half": p.sent / 2, "to the anchor": p.sent - 1, "all": p.sent}[deleted]
				var failed error
				for _, topic := range []string{"in", "changelog", "out"} {
					failed = errors.Join(failed, p.broker.MoveTopicPartition(topic, 0, 1-p.broker.LeaderFor(topic, 0)))
				}
				if err := errors.Join(failed, p.broker.DeleteRecords("in", 0, int64(start))); err != nil {
					t.Fatal(err)
				}
				if !running {
					d = launch(t, p.options, nil)
					d.until("a recovery", recoveredOn(0))
				}
				p.produce()
				p.settled(d)
				if err := d.end(); err != nil {
					t.Error(err)
				}
				d = launch(t, p.options, nil)
				e := d.until("a recovery", recoveredOn(0))
				if e.Recovery.Anchor != "proved" {
					t.Errorf("the anchor is %s, want it proved", e.Recovery.Anchor)
				}
				if err := d.end(); err != nil {
					t.Error(err)
				}
				p.results()
			})
		}
	}
}
