package job

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/task"
)

func TestPartitionersKnownValues(t *testing.T) {
	// The values that Kafka's own test of its hash writes down.
	for key, want := range map[string]int32{"21": -973932308, "foobar": -790332482, "abc": 479470107,
		"a-little-bit-long-string": -985981536, "a-little-bit-longer-string": -1486304829} {
		if got := int32(murmur2([]byte(key))); got != want {
			t.Errorf("murmur2(%q) = %d, want %d", key, got, want)
		}
	}
	if got := CRC32.Partition([]byte("123456789"), 1<<30); uint32(got) != 0xCBF43926%(1<<30) {
		t.Errorf("crc32 gives %d", got)
	}
}

func TestPartitionersAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SliceOf(rapid.Byte()).Draw(t, "key")
		count := rapid.Int32Range(1, 1<<20).Draw(t, "count")
		for _, p := range []Partitioner{Murmur2, CRC32} {
			if got, want := p.Partition(key, count), oracle.PartitionOf(p.String(), key, count); got != want {
				t.Fatalf("%s of %x among %d is %d, want %d", p, key, count, got, want)
			}
		}
	})
}

func TestRecordKeyAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fields := rapid.SliceOfN(rapid.String(), 1, 4).Draw(t, "fields")
		var raw [][]byte
		for _, f := range fields {
			raw = append(raw, []byte(f))
		}
		if got, want := AppendRecordKey(nil, raw...), oracle.RecordKey(fields); string(got) != string(want) {
			t.Fatalf("record key of %q is %s, want %s", fields, got, want)
		}
	})
}

func TestParsePartitioner(t *testing.T) {
	for _, p := range []Partitioner{Murmur2, CRC32, Unchecked} {
		if got, err := ParsePartitioner(p.String()); err != nil || got != p {
			t.Errorf("%s: %v, %v", p, got, err)
		}
	}
	if _, err := ParsePartitioner("murmur"); err == nil {
		t.Error("murmur is accepted")
	}
}

// sites is a job whose key has two fields.
func sites(partitionedBy ...string) Config {
	c := minutes(0)
	c.Format.Key, c.PartitionedBy = []string{"site", "device"}, partitionedBy
	return c
}

// R3, V13: the record key is the text of one field, or a compact JSON array of several.
func TestR3RecordKeys(t *testing.T) {
	value := []byte(`{"site":"north \u00e9\n","device":5.0,"ts":1704067201000,"value":1}`)
	for _, c := range []struct {
		by   []string
		key  string
		good bool
	}{
		{nil, `["north é\n","5.0"]`, true},
		{nil, `["north é\n", "5.0"]`, false},
		{nil, `["north é\n",5.0]`, false},
		{nil, `["5.0","north é\n"]`, false},
		{[]string{"device", "site"}, `["5.0","north é\n"]`, true},
		{[]string{"site"}, "north é\n", true},
		{[]string{"device"}, "5.0", true},
		{[]string{"device"}, "5", false},
		{[]string{"device"}, `"5.0"`, false},
		{[]string{"device"}, "", false},
	} {
		r := newRun(t, sites(c.by...))
		r.raw([]byte(c.key), value)
		r.drain()
		if got := len(r.dead) == 0; got != c.good {
			t.Errorf("partitioned by %q, record key %s: accepted %v", c.by, c.key, got)
		}
		if !c.good && r.dead[0].header(HeaderReason) != string(WrongKey) {
			t.Errorf("partitioned by %q, record key %s: %q", c.by, c.key, r.dead[0].headers)
		}
	}
}

func TestR3WrongPartition(t *testing.T) {
	c := minutes(0)
	home := Murmur2.Partition([]byte("a"), 4)
	for partition := range int32(4) {
		for _, p := range []Partitioner{Murmur2, Unchecked} {
			c.Partitioner = p
			r := newRun(t, c)
			r.partition, r.partitions = partition, 4
			r.crash()
			r.add("a", 1000, "1")
			r.drain()
			if accepted := len(r.dead) == 0; accepted != (partition == home || p == Unchecked) {
				t.Errorf("%s, partition %d: accepted %v", p, partition, accepted)
			}
			if len(r.dead) > 0 && r.dead[0].header(HeaderReason) != string(WrongPartition) {
				t.Errorf("%q", r.dead[0].headers)
			}
		}
	}
}

// misroute folds records of many devices that librdkafka has put into this partition, up to n.
func misroute(r *run, n int) error {
	for device := 0; n > 0; device++ {
		name := "d" + itoa(int64(device))
		if CRC32.Partition([]byte(name), 64) != 5 || Murmur2.Partition([]byte(name), 64) == 5 {
			continue
		}
		n--
		if _, err := r.task.Fold([]task.Input{r.record(name, 1000, "1")}); err != nil {
			return err
		}
		if r.task.Full() {
			r.commit()
		}
	}
	return nil
}

// Section 4: a birth whose first 1,000 records are all misrouted is a wrong configuration, and the error says which
// setting fits. It fails again after a recovery; one good record among them is enough to go on.
func TestMisroutedAtBirthStops(t *testing.T) {
	newMisrouted := func() *run {
		r := newRun(t, minutes(0))
		r.partition, r.partitions, r.batch = 5, 64, 300
		r.crash()
		return r
	}
	r := newMisrouted()
	if err := misroute(r, misroutedAtBirth-1); err != nil {
		t.Fatalf("before the last record: %v", err)
	}
	for range 2 {
		r.next = misroutedAtBirth - 1
		_, err := r.task.Fold([]task.Input{r.record("other", 1000, "1")})
		var misrouted *MisroutedError
		if !errors.As(err, &misrouted) || misrouted.WrongPartition != misroutedAtBirth {
			t.Fatalf("%v", err)
		}
		r.task.Drop()
		committed := int64(r.task.Committed().Counters.In)
		r.next = committed
		if err := misroute(r, misroutedAtBirth-1-int(committed)); err != nil {
			t.Fatalf("after a recovery: %v", err)
		}
	}

	r = newMisrouted()
	err := misroute(r, misroutedAtBirth)
	if err == nil || !strings.Contains(err.Error(), "input.partitioner: crc32 explains all of them") {
		t.Errorf("%v", err)
	}

	r = newMisrouted()
	r.config.Partitioner = Unchecked
	r.crash()
	for i := range misroutedAtBirth {
		in := r.record("a", 1000, "1")
		in.Key = []byte("gateway")
		if _, err = r.task.Fold([]task.Input{in}); err != nil && i < misroutedAtBirth-1 {
			t.Fatal(err)
		}
		if r.task.Full() {
			r.commit()
		}
	}
	if err == nil || !strings.Contains(err.Error(), "set input.partitioned_by") || !strings.Contains(err.Error(), `"gateway", want "a"`) {
		t.Errorf("%v", err)
	}

	r = newMisrouted()
	for device := 0; ; device++ {
		if name := "d" + itoa(int64(device)); Murmur2.Partition([]byte(name), 64) == 5 {
			r.add(name, 1000, "1")
			break
		}
	}
	if err := misroute(r, 2*misroutedAtBirth); err != nil {
		t.Errorf("with one good record: %v", err)
	}
	if n := r.drain().counters(); n.Accepted != 1 || n.DeadLettered != record.Count(2*misroutedAtBirth) {
		t.Errorf("%+v", n)
	}
}
