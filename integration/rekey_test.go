package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-streams/tidemark/internal/proof"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// rekeyed is a job over records without keys, with aggregations of two keys.
const rekeyed = `job: job
kafka: {embedded: {partitions: 4}}
input:
  topic: job-in
  key: [site, device]
  values: [temperature]
  rekey: {partitions: 3}
  time: {field: ts, max_ahead: off}
aggregations:
  - {name: hourly, window: {tumbling: 1h, grace: 100h}, functions: [count, sum, max], output: {topic: hourly}}
  - {name: sites, key: [site], window: {tumbling: 1h, grace: 100h}, functions: [count, sum, max], output: {topic: sites}}
state: {dir: %q}
checkpoint: {interval: 500ms}
`

// TestRekeyThroughKills sends records without keys, several readings in none of the partitions that their keys would go to,
// while the process is killed again and again; partitions are added to the input in the middle (R34). Every window of both
// keys holds every reading once, every final result is there once (R3).
func TestRekeyThroughKills(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	n := seed(t)
	random := rand.New(rand.NewPCG(n, 3))
	job := &proof.Job{Binary: binary(t), Dir: t.TempDir(), Name: "job", Oracle: proof.FleetConfig(4),
		Render: func(j *proof.Job) ([]byte, error) { return fmt.Appendf(nil, rekeyed, j.StateDir()), nil }}
	if err := job.WriteConfig(); err != nil {
		t.Fatal(err)
	}
	address, reader := brokerAt(ctx, t, job)
	w := &plant{t: t, ctx: ctx, random: random, want: map[string]window{}, partitions: 4, address: address}
	w.connect()
	defer func() { w.client.Close() }()
	useful := 0
	for round := 0; useful < 6; round++ {
		if useful == 3 && w.partitions == 4 {
			w.grow(6)
		}
		before := w.progress(reader)
		instance, err := job.StartInstance(fmt.Sprintf("run-%d", round))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = instance.Kill() }) // for a test that fails; else it has ended
		kill := time.NewTimer(time.Duration(300+random.IntN(1200)) * time.Millisecond)
		for alive := true; alive; {
			w.send(200)
			select {
			case <-kill.C:
				alive = false
			case <-instance.Done():
				t.Fatalf("the daemon ended: %v", instance.Failure())
			case <-time.After(20 * time.Millisecond):
			}
		}
		if err := instance.Kill(); err != nil {
			t.Fatal(err)
		}
		if w.progress(reader) > before {
			useful++
		}
	}
	for range 2 { // what closes the windows is sent when everything else is in them: partitions do not wait for each other
		if err := job.RunUntilIdle(ctx, "until-idle"); err != nil {
			t.Fatal(err)
		}
		w.flush()
	}
	if err := job.RunUntilIdle(ctx, "until-idle"); err != nil {
		t.Fatal(err)
	}
	w.compare(job, reader)
	t.Logf("seed %d: %d kills of a process that had committed, %d readings, %d windows", n, useful, w.sent, len(w.want))
}

// window is what a window must hold.
type window struct{ count, sum, max int64 }

// plant sends readings and knows what must become of them.
type plant struct {
	t          *testing.T
	ctx        context.Context
	random     *rand.Rand
	client     *kgo.Client
	want       map[string]window // by aggregation, key and start
	sent       int64
	partitions int32
	address    string
}

const (
	firstHour = 1_764_547_200_000
	hour      = 3_600_000
)

func (w *plant) connect() {
	client, err := kgo.NewClient(kgo.SeedBrokers(w.address), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.AllowAutoTopicCreation())
	if err != nil {
		w.t.Fatal(err)
	}
	w.client = client
}

// send sends readings without keys to any partition.
func (w *plant) send(n int) {
	var records []*kgo.Record
	for range n {
		r := w.reading(firstHour+w.random.Int64N(5*hour), w.random.IntN(2), w.random.IntN(20))
		records = append(records, &r)
	}
	if err := w.client.ProduceSync(w.ctx, records...).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *plant) reading(at int64, site, device int) kgo.Record {
	value := w.random.Int64N(1000)
	w.sent++
	start := at / hour * hour
	for _, key := range []string{fmt.Sprintf(`hourly ["s%d" "d%d"] %d`, site, device, start), fmt.Sprintf(`sites ["s%d"] %d`, site, start)} {
		have := w.want[key]
		w.want[key] = window{have.count + 1, have.sum + value, max(have.max, value)}
	}
	return kgo.Record{Topic: "job-in", Partition: w.random.Int32N(w.partitions),
		Value: fmt.Appendf(nil, `{"site":"s%d","device":"d%d","ts":%d,"temperature":%d}`, site, device, at, value)}
}

// grow adds partitions to the input.
func (w *plant) grow(count int32) {
	answers, err := kadm.NewClient(w.client).UpdatePartitions(w.ctx, int(count), "job-in")
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.client.Close() // a client learns of new partitions in its own time
	w.connect()
	w.partitions = count
}

// flush sends a reading of each device far ahead, which closes everything before it in every partition of the keys.
func (w *plant) flush() {
	for range 2 {
		var records []*kgo.Record
		for site := range 2 {
			for device := range 20 {
				r := w.reading(firstHour+200*hour, site, device)
				r.Partition = 0
				records = append(records, &r)
			}
		}
		if err := w.client.ProduceSync(w.ctx, records...).FirstErr(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// progress is how far what is handed on has come.
func (w *plant) progress(reader *oracle.Reader) (records int64) {
	for _, topic := range []string{"job-keyed", "job-keyed-by-site"} {
		ends, err := reader.Ends(w.ctx, topic)
		if err != nil {
			return 0 // not made yet
		}
		for _, end := range ends {
			records += end
		}
	}
	return records
}

// line is a result, or an open window of a dump.
type line struct {
	Agg      string
	Key      []string
	Start    int64
	Count    int64
	Sum, Max int64
	Final    bool
}

// compare checks that results and open windows together are all windows, each once.
func (w *plant) compare(job *proof.Job, reader *oracle.Reader) {
	w.t.Helper()
	got := map[string]window{}
	take := func(text []byte, final bool) {
		var l line
		if err := json.Unmarshal(text, &l); err != nil || l.Final != final {
			w.t.Fatalf("%s: %v", text, err)
		}
		key := fmt.Sprintf("%s %q %d", l.Agg, l.Key, l.Start)
		if _, twice := got[key]; twice {
			w.t.Errorf("%s is there twice", key)
		}
		got[key] = window{l.Count, l.Sum, l.Max}
	}
	finals := 0
	for _, topic := range []string{"hourly", "sites"} {
		partitions, err := reader.Read(w.ctx, topic, oracle.AtHighWatermark)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, messages := range partitions {
			for _, m := range messages {
				take(m.Value, true)
				finals++
			}
		}
	}
	dump, err := job.Dump(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	for text := range strings.Lines(string(dump)) {
		take([]byte(text), false)
	}
	var wrong []string
	for key, want := range w.want {
		if got[key] != want {
			wrong = append(wrong, fmt.Sprintf("%s: %v, want %v", key, got[key], want))
		}
		delete(got, key)
	}
	slices.Sort(wrong)
	if len(wrong) > 0 || len(got) > 0 {
		w.t.Errorf("%d windows wrong, %d that there are not: %s", len(wrong), len(got), strings.Join(wrong[:min(5, len(wrong))], "\n"))
	}
	if finals < 100 {
		w.t.Errorf("only %d final results: this proves little", finals)
	}
	if _, err := os.Stat(job.Path("state", "rekey-by-site", "id")); err != nil {
		w.t.Error(err)
	}
}
