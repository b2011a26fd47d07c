package recovery

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// ledgerLog makes a changelog out of words, one an offset: "u" an update, "f7" a fence record of fence 7, "m" a marker,
// "." an offset that is missing, "c3/2@7" commit 3 with 2 records under fence 7, and then "b9" for birth 9 (default 1)
// and a letter for the mark of a repair.
func ledgerLog(t *testing.T, words string) (records []kafka.Record) {
	t.Helper()
	for offset, word := range strings.Fields(words) {
		r := kafka.Record{Offset: int64(offset)}
		switch word[0] {
		case 'm', '.':
			continue
		case 'u':
			r.Key = []byte{byte(record.KindEntry)}
		case 'f':
			var f record.Fence
			if _, err := fmt.Sscanf(word, "f%d", &f.ID); err != nil {
				t.Fatal(err)
			}
			f.Job, r.Key = "job", record.FenceKey
			r.Value = f.Append(nil)
		case 'c':
			c := record.Commit{Birth: 1, Anchor: record.Anchor{Offset: -1}, SetterOffset: -1}
			if mark, ok := ledgerMarks[word[len(word)-1]]; ok {
				c.Mark, word = mark, word[:len(word)-1]
			}
			word, birth, other := strings.Cut(word, "b")
			if other {
				_, _ = fmt.Sscan(birth, &c.Birth)
			}
			if _, err := fmt.Sscanf(word, "c%d/%d@%d", &c.Number, &c.Records, &c.Fence); err != nil {
				t.Fatal(err)
			}
			r.Key, r.Value = record.CommitKey, c.Append(nil)
		}
		records = append(records, r)
	}
	return records
}

var ledgerMarks = map[byte]record.Mark{'g': record.MarkResetting, 'r': record.MarkReset, 'l': record.MarkLoss, 's': record.MarkReseal,
	'k': record.MarkSkip}

// The ledger accepts whatever compaction, aborted runs and older owners leave, and nothing else (V3).
func TestLedger(t *testing.T) {
	const born = "f7 m c0/0@7 m "
	rows := []struct {
		name, log string
		from      int64 // the position to begin at; the commit record in force is that before it
		want      string
	}{
		{name: "whole", log: born + "u u c1/2@7 m c2/0@7 m u c3/1@7 m"},
		{name: "new owner", log: born + "u c1/1@7 m f8 m u c2/1@8 m"},
		{name: "fence without commits", log: born + "f8 m f9 m u c1/1@9 m"},
		{name: "aborted run", log: born + ". . m u c1/1@7 m"},
		{name: "commit compacted", log: born + "u . m u c2/1@7 m"},
		{name: "update compacted", log: born + ". u c1/2@7 m"},
		{name: "fence compacted under the reader", log: "f7 m c0/0@7 m f8 m . m u c1/1@9 m"},
		{name: "begins above 0", log: ". . . . u c5/9@3 m u c6/1@3 m"},
		{name: "reset", log: born + "u c1/1@7 m c0/0@7b9r m u c1/1@7b9 m"},
		{name: "reset in a hole", log: born + "u c1/1@7 m . m u c3/1@7b9 m"},
		{name: "reset in slices", log: born + "u u c1/2@7 m f8 m u c2/1@8g m u c3/1@8g m c0/0@8b9r m"},
		{name: "contradictions before a reset", log: born + "u c4/7@3 m u c2/1@7 m f8 m u u u c3/3@8g m c0/0@8b9r m u c1/1@8b9 m"},
		{name: "reset of what is nobody's", log: "u u f8 m u c0/1@8g m c0/0@8b9r m"},
		{name: "reseal after an update of nobody's", log: born + "u c1/1@7 m u f8 m c2/0@8s m u c3/1@8 m"},
		{name: "life after a loss", log: born + "u c1/1@7 m f8 m c0/0@8b9l m u c1/1@8b9 m"},
		{name: "from a commit", log: born + "u c1/1@7 m u u c2/2@7 m", from: 6},
		{name: "from a fence record", log: born + "u c1/1@7 m f8 m u c2/1@8 m", from: 9},

		{name: "number falls", log: born + "u c1/1@7 m . m c0/0@7 m", want: "commit number 0 follows 1"},
		{name: "number repeats", log: born + "u c1/1@7 m . m u c1/1@7 m", want: "commit number 1 follows 1"},
		{name: "number jumps", log: born + "u c2/1@7 m", want: "commit number 2 follows 0 and no offset is missing"},
		{name: "number jumps after a start", log: born + "u c1/1@7 m u c3/1@7 m", from: 6, want: "commit number 3 follows 1"},
		{name: "does not begin with a birth", log: "f7 m c1/0@7 m", want: "the first commit has number 1"},
		{name: "record lost", log: born + "u c1/2@7 m", want: "commit 1 has 2 records, 1 are there"},
		{name: "record lost after a start", log: born + "u c1/1@7 m u c2/2@7 m", from: 6, want: "commit 2 has 2 records, 1 are there"},
		{name: "record too many", log: born + "u u c1/1@7 m", want: "commit 1 has 1 records, 2 are there"},
		{name: "record too many among holes", log: born + ". u u c1/1@7 m", want: "but 2 came after commit 0"},
		{name: "another writer", log: born + "u c1/1@8 m", want: "written under fence 0000000000000008, but the fence record in force is 0000000000000007"},
		{name: "the old owner writes on", log: born + "f8 m u c1/1@7 m", want: "written under fence 0000000000000007"},
		{name: "birth without a reset", log: born + "c0/0@7b9 m", want: "birth 0000000000000009 follows birth 0000000000000001 without a reset"},
		{name: "former life goes on", log: born + "u c1/1@7 m c0/0@7b9r m u c2/1@7 m c1/0@7b9 m", want: "birth 0000000000000001 follows birth 0000000000000009"},
		{name: "contradictions after a reset", log: born + "c0/0@7b9r m u c2/1@7b9 m", want: "commit number 2 follows 0"},
		{name: "birth by a skip", log: born + "c0/0@7b9k m", want: "without a reset"},
		{name: "number of a loss", log: born + "c1/0@7b9l m", want: "without a reset"},
		{name: "skip after an update of nobody's", log: born + "u c1/1@7 m u f8 m c2/0@8k m", want: "commit 2 has 0 records, 1 are there"},
		{name: "damaged commit record", log: born + "c1/0@7 x", want: "commit record"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			c := &changelog{topic: "log"}
			var commit *record.Commit
			records := ledgerLog(t, strings.ReplaceAll(row.log, "x", "m"))
			for i := range records {
				if records[i].Offset < row.from && records[i].Key[0] == byte(record.KindCommit) {
					commit, _ = record.ParseCommit(records[i].Value)
				}
			}
			if strings.HasSuffix(row.log, "x") {
				records[len(records)-1].Value = records[len(records)-1].Value[:20]
			}
			birth := record.BirthID(1) // of the last commit
			for i := range records {
				if records[i].Key[0] == byte(record.KindCommit) {
					if c, err := record.ParseCommit(records[i].Value); err == nil {
						birth = c.Birth
					}
				}
			}
			l := newLedger(c, row.from, commit, birth)
			var err error
			for i := range records {
				r := &records[i]
				if r.Offset < row.from || err != nil {
					continue
				}
				switch kind, _ := record.KindOf(r.Key); kind {
				case record.KindCommit:
					err = l.passCommit(r)
				case record.KindFence:
					err = l.passFence(r)
				default:
					l.passed(r.Offset)
					l.updates++
				}
			}
			if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
				t.Fatalf("error %v, want %q", err, row.want)
			}
		})
	}
}
