package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Generators of values that are legal one field at a time.

func drawCount(t *rapid.T, label string) Count {
	return Count(rapid.OneOf(rapid.Int64Range(0, 300), rapid.Int64Range(0, MaxCount)).Draw(t, label))
}

func drawText(t *rapid.T, label string, least, most int) string {
	return string(rapid.SliceOfN(rapid.Byte(), least, min(most, 40)).Draw(t, label))
}

func drawDigest(t *rapid.T, label string) Digest {
	return Digest{Hi: rapid.Uint64().Draw(t, label), Lo: rapid.Uint64().Draw(t, label)}
}

func drawCommit(t *rapid.T) *Commit {
	c := &Commit{
		Birth: BirthID(rapid.Uint64().Draw(t, "birth")), Number: rapid.Uint64().Draw(t, "number"),
		Fence: FenceID(rapid.Uint64().Draw(t, "fence")), SourceHash: rapid.Uint64().Draw(t, "source"),
		OutputHash: rapid.Uint64().Draw(t, "outputs"), Position: InputPosition(rapid.Int64Min(-1).Draw(t, "position")),
		Epoch:      rapid.Int32Min(-1).Draw(t, "epoch"),
		Anchor:     Anchor{Offset: rapid.Int64Min(-1).Draw(t, "anchor"), Hash: drawDigest(t, "anchor hash")},
		StreamTime: rapid.Int64().Draw(t, "stream time"), SetterOffset: rapid.Int64Min(-1).Draw(t, "setter offset"),
		Counters: Counters{
			In: drawCount(t, "in"), Accepted: drawCount(t, "accepted"), DeadLettered: drawCount(t, "dead"),
			Filtered: drawCount(t, "filtered"), Skipped: drawCount(t, "skipped"), Repeated: drawCount(t, "repeated"),
			Ahead: drawCount(t, "ahead"), Untimed: drawCount(t, "untimed"), Duplicates: drawCount(t, "duplicates"),
			RefusedPeriod: drawCount(t, "period"), RefusedInIt: drawCount(t, "refused in it"),
		},
		Digest: drawDigest(t, "digest"), Live: drawCount(t, "live"), Records: drawCount(t, "records"),
		MinRetention: rapid.Int64Min(0).Draw(t, "retention"), TZData: drawText(t, "tz", 0, MaxText),
		Mark: Mark(rapid.ByteMax(byte(MarkPart)).Draw(t, "mark")), Note: drawText(t, "note", 0, MaxText),
	}
	if key := drawText(t, "setter key", 0, MaxSetterKey); key != "" {
		c.SetterKey = []byte(key)
	}
	names := rapid.SliceOfNDistinct(rapid.StringN(1, 20, 60), 0, 5, rapid.ID).Draw(t, "names")
	for _, name := range names {
		c.Aggregations = append(c.Aggregations, AggregationState{
			Name: name, Fingerprint: rapid.Uint64().Draw(t, "fingerprint"), ClosedEnd: rapid.Int64().Draw(t, "closed end"),
			Since: drawCount(t, "since"), Folded: drawCount(t, "folded"), PartlyLate: drawCount(t, "partly late"),
			Late: drawCount(t, "late"), Missed: drawCount(t, "missed"), Results: drawCount(t, "results"),
		})
	}
	for range rapid.IntRange(0, 3).Draw(t, "quorum") {
		c.Quorum = append(c.Quorum, Vouch{Device: drawDigest(t, "device"), Time: rapid.Int64().Draw(t, "device's time")})
	}
	return c
}

func drawTopic(t *rapid.T) Topic {
	topic := Topic{Name: drawText(t, "topic", 0, MaxName), Partitions: rapid.Int32Min(0).Draw(t, "partitions")}
	copy(topic.ID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "topic id"))
	return topic
}

func drawFence(t *rapid.T) *Fence {
	f := &Fence{
		ID: FenceID(rapid.Uint64().Draw(t, "id")), Birth: BirthID(rapid.Uint64().Draw(t, "birth")), Job: drawText(t, "job", 0, MaxName),
		Partition: rapid.Int32Min(0).Draw(t, "partition"), Host: drawText(t, "host", 0, MaxText), PID: rapid.Int64Min(0).Draw(t, "pid"),
		Version: drawText(t, "version", 0, MaxText), ProducerID: rapid.Int64Min(-1).Draw(t, "producer"),
		ProducerEpoch: rapid.Int16Min(-1).Draw(t, "epoch"),
		Identity:      Identity{ClusterID: drawText(t, "cluster", 0, MaxText), Input: drawTopic(t), Changelog: drawTopic(t)},
	}
	for range rapid.IntRange(0, 3).Draw(t, "outputs") {
		f.Identity.Outputs = append(f.Identity.Outputs, drawTopic(t))
	}
	return f
}

func TestCommitRoundTrip(t *testing.T) {
	used := sampleCommit() // decoding into a used record leaves nothing of it
	rapid.Check(t, func(t *rapid.T) {
		want := drawCommit(t)
		b := want.Append(nil)
		got, err := ParseCommit(b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("-want +got\n%s", diff)
		}
		if err := used.Decode(b); err != nil {
			t.Fatal(err)
		}
		if again := used.Append(nil); !bytes.Equal(again, b) {
			t.Fatalf("decoded into a used record and encoded again:\n got %x\nwant %x", again, b)
		}
	})
}

func TestFenceRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawFence(t)
		got, err := ParseFence(want.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, sameID); diff != "" {
			t.Fatalf("-want +got\n%s", diff)
		}
	})
}

func TestFenceCutsTextsForPeople(t *testing.T) {
	f := sampleFence()
	f.Host, f.Version = strings.Repeat("h", MaxText+1), strings.Repeat("v", MaxText+1)
	got, err := ParseFence(f.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Host) != MaxText || len(got.Version) != MaxText {
		t.Errorf("host of %d and version of %d bytes, want %d", len(got.Host), len(got.Version), MaxText)
	}
}

func parseCommit(b []byte) error { _, err := ParseCommit(b); return err }
func parseFence(b []byte) error  { _, err := ParseFence(b); return err }

var parsers = []struct {
	name  string
	valid []byte
	parse func([]byte) error
}{
	{"commit record", sampleCommit().Append(nil), parseCommit},
	{"birth", sampleBirth().Append(nil), parseCommit},
	{"fence record", sampleFence().Append(nil), parseFence},
	{"result header", Origin{Job: "j", Birth: 1}.Append(nil), func(b []byte) error { _, err := ParseOrigin(b); return err }},
	{"metadata", []byte(Metadata(1, 2)), func(b []byte) error { _, _, err := ParseMetadata(string(b)); return err }},
	{"entry key", sampleKey(), func(b []byte) error { _, err := ParseEntryKey(b); return err }},
}

func TestEveryCutIsRefused(t *testing.T) {
	for _, p := range parsers {
		if p.name == "entry key" {
			continue // a key does not say how many fields it has, so a cut one can be a key; its length is the record's
		}
		for n := range p.valid {
			if p.parse(p.valid[:n]) == nil {
				t.Errorf("%s cut to %d of %d bytes was accepted", p.name, n, len(p.valid))
			}
		}
	}
}

func TestEveryTailIsRefused(t *testing.T) {
	for _, p := range parsers[:3] {
		for tail := range 256 {
			if p.parse(append(bytes.Clone(p.valid), byte(tail))) == nil {
				t.Errorf("%s with the tail %#02x was accepted", p.name, tail)
			}
		}
	}
	for _, tail := range []string{" ", " 1", "x", "\n"} {
		if _, _, err := ParseMetadata(Metadata(1, 2) + tail); err == nil {
			t.Errorf("metadata with the tail %q was accepted", tail)
		}
	}
}

func TestNewerFormatIsNoDamage(t *testing.T) {
	newer := map[string]func() error{
		"commit record":         func() error { return parseCommit([]byte{CommitFormat + 1, 1, 2}) },
		"fence record":          func() error { return parseFence([]byte{FenceFormat + 1}) },
		"group offset metadata": func() error { _, _, err := ParseMetadata("tidemark/2 whatever"); return err },
		"result header":         func() error { _, err := ParseOrigin([]byte("2")); return err },
	}
	for what, parse := range newer {
		err := parse()
		var format *FormatError
		if !errors.As(err, &format) || format.Found != 2 || format.Known != 1 {
			t.Errorf("%s: %v, want a FormatError 2 > 1", what, err)
			continue
		}
		if !strings.HasPrefix(err.Error(), what+": written by format 2, this program reads up to 1") {
			t.Errorf("message %q", err)
		}
	}
	for _, p := range parsers[:3] {
		err := p.parse(append([]byte{0}, p.valid[1:]...))
		var format *FormatError
		if err == nil || errors.As(err, &format) {
			t.Errorf("%s of format 0: %v, want damage", p.name, err)
		}
	}
}

// TestOnlyTheShortestNumberIsRead: 0x80 0x00 is 0 for binary.Uvarint, and equal records would have different bytes.
func TestOnlyTheShortestNumberIsRead(t *testing.T) {
	if _, _, err := uvarint([]byte{0x80, 0x00}); !errors.Is(err, errNotMinimal) {
		t.Errorf("0 in two bytes: %v", err)
	}
	if _, _, err := uvarint(bytes.Repeat([]byte{0xff}, 11)); err == nil {
		t.Error("a number of 77 bits was accepted")
	}
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Uint64().Draw(t, "n")
		b := binary.AppendUvarint(nil, want)
		if n, w, err := uvarint(b); n != want || w != len(b) || err != nil {
			t.Fatalf("%d: read %d, width %d, %v", want, n, w, err)
		}
	})
}

// TestOutOfRangeIsRefused writes what Append writes for an illegal record; a reader must refuse every one.
func TestOutOfRangeIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(*Commit){
		"position -2":        func(c *Commit) { c.Position = -2 },
		"epoch -2":           func(c *Commit) { c.Epoch = -2 },
		"anchor -2":          func(c *Commit) { c.Anchor.Offset = -2 },
		"setter -2":          func(c *Commit) { c.SetterOffset = math.MinInt64 },
		"long setter key":    func(c *Commit) { c.SetterKey = make([]byte, MaxSetterKey+1) },
		"negative in":        func(c *Commit) { c.Counters.In = -1 },
		"large untimed":      func(c *Commit) { c.Counters.Untimed = MaxCount + 1 },
		"negative results":   func(c *Commit) { c.Aggregations[1].Results = -1 },
		"nameless":           func(c *Commit) { c.Aggregations[0].Name = "" },
		"long name":          func(c *Commit) { c.Aggregations[0].Name = strings.Repeat("n", MaxName+1) },
		"same name":          func(c *Commit) { c.Aggregations[1].Name = c.Aggregations[0].Name },
		"many":               func(c *Commit) { c.Aggregations = make([]AggregationState, MaxAggregations+1) },
		"negative live":      func(c *Commit) { c.Live = -1 },
		"negative records":   func(c *Commit) { c.Records = -5 },
		"negative retention": func(c *Commit) { c.MinRetention = -1 },
		"long tz":            func(c *Commit) { c.TZData = strings.Repeat("z", MaxText+1) },
		"unknown mark":       func(c *Commit) { c.Mark = MarkPart + 1 },
		"long note":          func(c *Commit) { c.Note = strings.Repeat("z", MaxText+1) },
	} {
		c := sampleCommit()
		spoil(c)
		if err := parseCommit(c.Append(nil)); err == nil {
			t.Errorf("%s: ParseCommit accepted it", name)
		}
		if err := c.Check(); err == nil {
			t.Errorf("%s: Check accepted it", name)
		}
	}
}

func TestCheckAssertsTheEquations(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(*Commit)
		want  string
	}{
		"one reading lost":   {func(c *Commit) { c.Counters.In++ }, "1001 readings in, but accepted 900 + dead-lettered 60 + filtered 26 + skipped 10 + duplicates 4 = 1000 (I9)"},
		"one folded twice":   {func(c *Commit) { c.Aggregations[0].Folded++ }, `aggregation "hourly": 900 readings accepted - 0 before it = 900, but folded 891`},
		"since is forgotten": {func(c *Commit) { c.Aggregations[1].Since = 0 }, "900 readings accepted - 0 before it = 900, but folded 390 + partly late 7 + late 3 = 400"},
		"digest of nothing":  {func(c *Commit) { c.Live = 0 }, "no live entries, but the digest is ddddddddddddddddeeeeeeeeeeeeeeee"},
		"anchor ahead":       {func(c *Commit) { c.Anchor.Offset = 100_000 }, "anchor at offset 100000, not below the input position 100000"},
	} {
		c := sampleCommit()
		test.spoil(c)
		err := c.Check()
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "commit record 1234 of birth 0123456789abcdef: ") {
			t.Errorf("%s: %v does not say which record", name, err)
		}
		if err := parseCommit(c.Append(nil)); err != nil {
			t.Errorf("%s: a reader must be able to show it: %v", name, err)
		}
	}
}

func TestCloneSharesNothing(t *testing.T) {
	c := sampleCommit()
	copied := c.Clone()
	c.SetterKey[0] = 'X'
	c.Aggregations[0].Folded = 0
	if diff := cmp.Diff(sampleCommit(), copied); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func BenchmarkCommit(b *testing.B) {
	c := sampleCommit()
	encoded := c.Append(nil)
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(encoded)))
		for b.Loop() {
			encoded = c.Append(encoded[:0])
		}
	})
	b.Run("check", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := c.Check(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(encoded)))
		for b.Loop() {
			if err := c.Decode(encoded); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestNoAllocations holds what the benchmark shows: a commit is encoded, checked and decoded ten times a second per
// task without garbage.
func TestNoAllocations(t *testing.T) {
	c := sampleCommit()
	b := c.Append(nil)
	for name, fn := range map[string]func(){
		"Append": func() { b = c.Append(b[:0]) },
		"Check":  func() { _ = c.Check() },
		"Decode": func() { _ = c.Decode(b) },
	} {
		if n := testing.AllocsPerRun(100, fn); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}
