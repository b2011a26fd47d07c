package recovery

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/kafkatest"
	"github.com/tidemark-streams/tidemark/internal/record"
)

var errUgly = errors.New("ugly")

// ugly refuses the values that the tests call so.
func ugly(_, value []byte) error {
	if bytes.HasPrefix(value, []byte("ugly")) {
		return errUgly
	}
	return nil
}

// audit audits the records that are there, and returns all that is wrong, "" for nothing.
func audit(t *testing.T, start int64, partition int32, records []kafka.Record) string {
	t.Helper()
	a := NewAudit(job, logTopic, partition, start, ugly)
	a.Take(records)
	proof := a.Prove()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(a.Faults(), proof); err != nil {
		return err.Error()
	}
	return ""
}

// lived is a world whose task has lived: updates, tombstones, several owners and aborted records.
func lived(t *testing.T) *world {
	w := newWorld(t)
	r := w.start()
	w.commit(r, "x=1", "y=2", "z=3")
	w.commit(r, "x=10", "y")
	w.open(r.Writer, "x", "u")
	w.crash(r)
	r = w.start()
	w.commit(r, "y=5", "v=6")
	w.commit(r, "z", "x=11")
	w.crash(r)
	return w
}

// An audit says nothing of a changelog as its owners and compaction left it, and notices everything that changes the state
// that it folds to: each record that is gone, each flipped bit of a key or value.
func TestAuditNoticesWhatChangesTheState(t *testing.T) {
	w := lived(t)
	records := w.Committed(logTopic, w.partition)
	if said := audit(t, 0, w.partition, records); said != "" {
		t.Fatal(said)
	}
	truth := foldOf(records)
	silent, noticed := 0, 0
	for i := range records {
		gone := slices.Delete(slices.Clone(records), i, i+1)
		changed := foldOf(gone) != truth
		said := audit(t, 0, w.partition, gone)
		if changed && said == "" {
			t.Errorf("offset %d is gone, and nothing is said", records[i].Offset)
		}
		if kind, _ := record.KindOf(records[i].Key); kind == record.KindEntry && !changed && said != "" {
			t.Errorf("offset %d may be gone, for a newer value of its key has replaced it; said is: %s", records[i].Offset, said)
		}
		keyBits := 8 * len(records[i].Key)
		for bit := range keyBits + 8*len(records[i].Value) {
			flipped := slices.Clone(records)
			r := &flipped[i]
			r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
			if bit < keyBits {
				r.Key[bit/8] ^= 1 << (bit % 8)
			} else {
				r.Value[(bit-keyBits)/8] ^= 1 << (bit % 8)
			}
			switch {
			case foldOf(flipped) == truth:
				silent++
			case audit(t, 0, w.partition, flipped) == "":
				t.Errorf("bit %d of key and value at offset %d is flipped, and nothing is said", bit, records[i].Offset)
			default:
				noticed++
			}
		}
	}
	if noticed < 50 {
		t.Errorf("only %d flipped bits changed the state (%d did not)", noticed, silent)
	}
	w.Compact(logTopic, w.partition)
	if said := audit(t, 0, w.partition, w.Committed(logTopic, w.partition)); said != "" {
		t.Error("compacted: ", said)
	}
}

// foldOf is the state that records fold to, and what the last commit record says of it: the bytes of that record.
func foldOf(records []kafka.Record) string {
	state, last := map[string]string{}, ""
	for _, r := range records {
		switch kind, _ := record.KindOf(r.Key); {
		case kind == record.KindCommit:
			if c, err := record.ParseCommit(r.Value); err == nil {
				last = fmt.Sprint(c.Digest, c.Live)
			} else {
				last = "unreadable"
			}
		case kind == record.KindEntry && r.Value == nil:
			delete(state, string(r.Key))
		case kind == record.KindEntry:
			state[string(r.Key)] = string(r.Value)
		}
	}
	return fmt.Sprint(state, last)
}

// An audit holds the commits to each other as a recovery does, and goes on behind a fault.
func TestAuditOfTheChain(t *testing.T) {
	w := lived(t)
	records := w.Committed(logTopic, w.partition)
	commits := 0
	for i := range records {
		if kind, _ := record.KindOf(records[i].Key); kind == record.KindCommit {
			commits++
		}
	}
	change := func(number uint64, f func(*record.Commit)) []kafka.Record {
		changed := slices.Clone(records)
		for i := range changed {
			if kind, _ := record.KindOf(changed[i].Key); kind != record.KindCommit {
				continue
			}
			if c, err := record.ParseCommit(changed[i].Value); err == nil && c.Number == number {
				f(c)
				changed[i].Value = c.Append(nil)
			}
		}
		return changed
	}
	for name, row := range map[string]struct {
		records []kafka.Record
		want    []string
	}{
		"number":      {change(2, func(c *record.Commit) { c.Number = 7 }), []string{"commit number 7 follows 1", "commit number 3 follows 7"}},
		"records":     {change(1, func(c *record.Commit) { c.Records = 4 }), []string{"commit 1 has 4 records, 3 are there"}},
		"fence":       {change(3, func(c *record.Commit) { c.Fence++ }), []string{"was written under fence"}},
		"birth":       {change(2, func(c *record.Commit) { c.Birth++ }), []string{"without a reset", "commit 3 is of birth"}},
		"position":    {change(2, func(c *record.Commit) { c.Position = 0 }), []string{"commit 2 is at input position 0, commit 1 was at 1"}},
		"stream time": {change(2, func(c *record.Commit) { c.StreamTime = 5 }), []string{"stream time -9223372036854775808, commit 2 had 5"}},
		"closed end": {change(3, func(c *record.Commit) { c.Aggregations[0].ClosedEnd = 9 }),
			[]string{`aggregation "a" is closed up to -9223372036854775808 at commit 4, was up to 9 at commit 3`}},
		"readings in": {change(4, func(c *record.Commit) { c.Counters.In = 3 }), []string{"commit 4 counts 3 readings in, but 0 accepted"}},
		"folded":      {change(4, func(c *record.Commit) { c.Aggregations[0].Folded = 3 }), []string{`since aggregation "a" began`}},
		"digest":      {change(4, func(c *record.Commit) { c.Digest.Lo++ }), []string{"the log folds to 3 entries with digest"}},
		"count":       {change(4, func(c *record.Commit) { c.Live++ }), []string{"the log folds to 3 entries", "commit 4 recorded 4"}},
		"reset":       {change(4, func(c *record.Commit) { c.Mark = record.MarkResetting }), []string{"a reset was begun and not finished"}},
		"value":       {replaceValue(records, []byte("6"), []byte("ugly")), []string{"offset", "ugly"}},
		"behind": {append(slices.Clone(records), kafka.Record{Key: entryKey("q"), Value: []byte("1"), Offset: 1000}),
			[]string{"an update behind the last commit record"}},
		"entry key":  {replaceKey(records, "v", []byte{byte(record.KindEntry), 200}), []string{"changelog key 01c8: aggregation"}},
		"kind":       {replaceKey(records, "v", []byte{0x7e}), []string{"of no kind"}},
		"commit":     {replaceValue(records, w.last.Append(nil), []byte{1, 2}), []string{"commit record: damaged"}},
		"no commits": {slices.DeleteFunc(slices.Clone(records), func(r kafka.Record) bool { return r.Key[0] == byte(record.KindCommit) }), []string{"no commit record"}},
	} {
		t.Run(name, func(t *testing.T) {
			said := audit(t, 0, w.partition, row.records)
			for _, want := range row.want {
				if !strings.Contains(said, want) {
					t.Errorf("%q is not said, but: %s", want, said)
				}
			}
		})
	}
	if said := audit(t, 0, w.partition+1, records); strings.Count(said, "fence record is of job") != 2 {
		t.Errorf("of another partition: %s", said)
	}
	if said := audit(t, 7, w.partition, nil); !strings.Contains(said, "the log starts at offset 7") {
		t.Errorf("empty log that starts at 7: %s", said)
	}
	if said := audit(t, 0, w.partition, nil); said != "" {
		t.Errorf("an unborn task: %s", said)
	}
	if commits != 5 {
		t.Errorf("%d commits in the log, want 5", commits)
	}
}

func replaceValue(records []kafka.Record, old, value []byte) []kafka.Record {
	changed := slices.Clone(records)
	for i := range changed {
		if bytes.Equal(changed[i].Value, old) {
			changed[i].Value = value
		}
	}
	return changed
}

func replaceKey(records []kafka.Record, short string, key []byte) []kafka.Record {
	changed := slices.Clone(records)
	for i := range changed {
		if bytes.Equal(changed[i].Key, entryKey(short)) {
			changed[i].Key = key
		}
	}
	return changed
}

// What the ledger accepts no audit complains about, whatever compaction, repairs and older owners left.
func TestAuditOfRepairs(t *testing.T) {
	for name, log := range map[string]string{
		"reset in slices":                  "f7 m c0/0@7 m u u c1/2@7 m f8 m u c2/1@8g m u c3/1@8g m c0/0@8b9r m",
		"contradictions before a reset":    "f7 m c0/0@7 m u c4/7@3 m u c2/1@7 m f8 m u u u c3/3@8g m c0/0@8b9r m",
		"life after a loss":                "f7 m c0/0@7 m c1/0@7 m f8 m c0/0@8b9l m c1/0@8b9 m",
		"fence compacted under the reader": "f7 m c0/0@7 m f8 m . m c1/0@9 m",
	} {
		t.Run(name, func(t *testing.T) {
			records := ledgerLog(t, log)
			for i := range records {
				if len(records[i].Key) == 1 && records[i].Key[0] == byte(record.KindEntry) {
					records[i].Key = entryKey("x") // a tombstone: nothing is left of it
				}
			}
			if said := audit(t, 0, 0, records); said != "" {
				t.Error(said)
			}
		})
	}
}

// The faults of one partition are bounded (I13).
func TestAuditIsBounded(t *testing.T) {
	var records []kafka.Record
	for i := range int64(3 * maxFaults) {
		records = append(records, kafka.Record{Key: []byte{0x7e}, Offset: i})
	}
	if said := audit(t, 0, 0, records); strings.Count(said, "\n") != maxFaults || !strings.HasSuffix(said, fmt.Sprintf("%d more faults", 2*maxFaults)) {
		t.Errorf("said is %q", said)
	}
}

// A reader that must not fence may begin within a commit: it is told that there is more to read.
func TestAuditWithinACommit(t *testing.T) {
	w := lived(t)
	a := NewAudit(job, logTopic, w.partition, 0, ugly)
	defer a.Close()
	within := 0
	for _, e := range w.Entries(logTopic, w.partition) {
		if e.State != kafkatest.Committed {
			continue
		}
		a.Take([]kafka.Record{e.Record})
		if a.Within() {
			within++
		}
	}
	if within != 9 || a.Within() {
		t.Errorf("within a commit after %d records, want the 9 updates; at the end %v", within, a.Within())
	}
	if read := a.Read(); read.Records != 16 || read.Commits != 5 || read.Live != 3 || read.Last.Number != 4 {
		t.Errorf("read %+v", read)
	}
}
