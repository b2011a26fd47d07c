package trial

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-streams/tidemark/internal/config"
	"github.com/tidemark-streams/tidemark/internal/crash"
	"github.com/tidemark-streams/tidemark/internal/proof"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// Every point has its turn, those of a first start at a first start.
func TestEveryPointHasItsTurn(t *testing.T) {
	tr := &Trial{random: rand.New(rand.NewPCG(1, 1))}
	var got []string
	for _, p := range crash.Points() {
		next, ok := tr.point(recipeOf(p).birth)
		if !ok || recipeOf(next).birth != recipeOf(p).birth {
			t.Fatalf("%q, %v where one like %q was due", next, ok, p)
		}
		got = append(got, next)
		if recipeOf(next).most < 1 {
			t.Errorf("%s waits for its %dth time", next, recipeOf(next).most)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, crash.Points()) {
		t.Errorf("%q", got)
	}
}

// A trial over generated readings proves little unless they hold everything that can go wrong.
func TestGeneratedHoldsEverything(t *testing.T) {
	for _, unit := range []string{"s", "ms", "us", "ns", "rfc3339"} {
		config := proof.FleetConfig(3)
		config.Key, config.PartitionedBy, config.Time.Unit = []string{"site", "device"}, []string{"device"}, unit
		made, err := Generated(&config, false)
		if err != nil {
			t.Fatal(err)
		}
		source, twin := made(7), made(7)
		partitions := make([][]oracle.Message, 3)
		for range 6000 {
			r, ok := source()
			if again, _ := twin(); !ok || !bytes.Equal(r.Key, again.Key) || len(r.Value) != len(again.Value) {
				t.Fatal("the same seed gives other readings")
			}
			p := &partitions[r.Partition]
			*p = append(*p, oracle.Message{Record: oracle.Record{Offset: int64(len(*p)), Timestamp: 1 << 41, Key: r.Key, Value: r.Value}})
		}
		seen := map[string]int{}
		for _, o := range proof.Expect(&config, partitions).Outcomes {
			seen["late"] += len(o.Late)
			for _, d := range o.Dead {
				for _, f := range d.Faults {
					seen[string(f)]++
				}
			}
			for _, w := range o.Windows {
				if w.Final {
					seen["result"]++
				} else {
					seen["open"]++
				}
			}
		}
		for _, what := range []string{"late", "result", "open", "value", "json", "implausible"} {
			if seen[what] == 0 {
				t.Errorf("%s: none of 6000 readings is %s: %v", unit, what, seen)
			}
		}
		if seen["wrong key"] > 0 || seen["wrong partition"] > 0 || seen["future"] > 0 {
			t.Errorf("%s: readings that no producer writes: %v", unit, seen)
		}
	}
}

// Readings are made up for every configuration of docs/devices, for rows, and for all that a file may say of a format at
// once: some that count and some that are refused.
func TestGeneratedForEveryShape(t *testing.T) {
	paths, err := filepath.Glob("../../../docs/devices/*.yml")
	if err != nil || len(paths) < 62 {
		t.Fatalf("%d configurations (%v)", len(paths), err)
	}
	paths = append(paths, "../../../integration/testdata/shapes.yaml", "../../../integration/testdata/rows.yaml")
	refused := int64(0)
	for _, path := range paths {
		defined, err := config.Load(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		c := proof.Model(defined)
		c.Partitions = 2
		source, err := Generated(&c, defined.Input.Rekey.On)
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(path), err)
			continue
		}
		next, partitions := source(3), make([][]oracle.Message, 2)
		for range 120 {
			r, _ := next()
			p := &partitions[r.Partition]
			*p = append(*p, oracle.Message{Record: oracle.Record{Offset: int64(len(*p)), Timestamp: r.Time, Key: r.Key, Value: r.Value, Headers: r.Headers}})
		}
		if defined.Input.Rekey.On {
			relay, _ := c.Split(nil, 2)
			c = *relay
		}
		var n oracle.Counters
		for _, o := range proof.Expect(&c, partitions).Outcomes {
			n.Accepted += o.Counters.Accepted
			n.DeadLettered += o.Counters.DeadLettered
		}
		refused += n.DeadLettered
		if n.Accepted < 40 {
			t.Errorf("%s: %+v", filepath.Base(path), n)
		}
	}
	if refused < 25 {
		t.Errorf("%d readings are refused", refused)
	}
}

// Damage that changes nothing would be no test.
func TestDamageChangesAFile(t *testing.T) {
	for seed := range uint64(200) {
		job := &proof.Job{Dir: t.TempDir(), Name: "j"}
		c := &chapter{job: job, trial: &Trial{}, random: rand.New(rand.NewPCG(seed, 1)), hurt: map[string]bool{}}
		dir := filepath.Join(job.LocalState(), "p0")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		path, text := filepath.Join(dir, "0000000001.checkpoint"), append(make([]byte, 700), "content"...)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := c.damage(int(seed % forged)); err != nil || !c.hurt[path] {
			t.Fatalf("seed %d: %v, error %v", seed, c.hurt, err)
		}
		if got, err := os.ReadFile(path); err != nil || bytes.Equal(got, text) {
			t.Errorf("seed %d: the file is as it was, error %v: %q", seed, err, c.history)
		}
	}
}

// Every strike can be named, and named ones are done again; a list of none is one too.
func TestStrikesText(t *testing.T) {
	var all []Strike
	for name, kind := range kinds {
		for i, of := range kind.of() {
			all = append(all, Strike{Name: name, Of: of, Seed: uint64(i)})
		}
	}
	for _, list := range [][]Strike{all, {}} {
		got, err := ParseStrikes(StrikesText(list))
		if err != nil || got == nil || !slices.Equal(got, list) {
			t.Errorf("%v, error %v", got, err)
		}
	}
	for _, bad := range []string{"", "kill", "kill:x", "kill=5:1", "point=commit.never:1", "shot:1", "kill:1,,"} {
		if _, err := ParseStrikes(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// A trial does not touch what has one of its names: a topic of the user's, one that the job makes itself, a group (R37).
func TestTakenNamesAreRefused(t *testing.T) {
	for _, name := range []string{"j-late", "j-changelog-rekey-by-site", "j-keyed", "j-by-site"} {
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "other"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cluster.Close)
		tr := &Trial{Options: Options{Client: []kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...)}}}
		c := chapter{trial: tr, job: &proof.Job{Name: "j", Pairs: []proof.Pair{{Key: []string{"site", "device"}}, {Suffix: "-by-site", Key: []string{"site"}}}}}
		connect := func() { // anew: a client remembers for a moment which topics there are
			if c.client, c.admin, err = tr.connect(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.client.Close)
		}
		connect()
		if err := c.refuseTaken(t.Context()); err != nil {
			t.Fatalf("nothing is taken: %v", err)
		}
		if name == "j-by-site" { // a group
			var at kadm.Offsets
			at.AddOffset("other", 0, 0, -1)
			err = c.admin.CommitAllOffsets(t.Context(), name, at)
		} else {
			_, err = c.admin.CreateTopic(t.Context(), 1, 1, nil, name)
		}
		if err != nil {
			t.Fatal(err)
		}
		connect()
		if err := c.refuseTaken(t.Context()); err == nil || !strings.Contains(err.Error(), name+" exists already") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The user's own readings come in the order of their time, each in its partition, and end.
func TestOwn(t *testing.T) {
	m := func(at int64, value string) oracle.Message {
		return oracle.Message{Record: oracle.Record{Timestamp: at, Value: []byte(value)}}
	}
	source := Own([][]oracle.Message{{m(1, "a"), m(4, "d")}, nil, {m(2, "b"), m(3, "c"), m(9, "e")}})
	var got []byte
	for r, ok := source(); ok; r, ok = source() {
		got = append(append(got, r.Value...), byte('0'+r.Partition))
	}
	if string(got) != "a0b2c2d0e2" {
		t.Errorf("%s", got)
	}
}
