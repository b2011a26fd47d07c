package record

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares bytes with the hexadecimal file testdata/<name>.hex. What is there was written by a released format:
// a difference means that old changelogs are not read any more.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".hex")
	if *update {
		var text strings.Builder
		for rest := got; len(rest) > 0; {
			n := min(32, len(rest))
			text.WriteString(hex.EncodeToString(rest[:n]) + "\n")
			rest = rest[n:]
		}
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := readGolden(t, name); !bytes.Equal(got, want) {
		t.Errorf("%s:\n got %x\nwant %x", path, got, want)
	}
}

func readGolden(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".hex"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// sameID compares the bytes of ids: for the program itself an unknown id equals nothing, not even itself (R33).
var sameID = cmp.Comparer(func(a, b TopicID) bool { return a == b })

func sampleQuorum() *Commit {
	c := sampleCommit()
	c.Quorum = []Vouch{{Device: Digest{Hi: 5, Lo: 6}, Time: 1_704_067_200_000}, {Device: Digest{Hi: 7, Lo: 8}, Time: -1}}
	return c
}

func sampleCommit() *Commit {
	return &Commit{
		Birth: 0x0123456789abcdef, Number: 1234, Fence: 0xfedcba9876543210,
		SourceHash: 0x1111111111111111, OutputHash: 0x2222222222222222,
		Position: 100_000, Epoch: 7, Anchor: Anchor{Offset: 99_998, Hash: Digest{Hi: 3, Lo: 4}},
		StreamTime: 1_704_067_200_000, SetterKey: []byte("boiler-7"), SetterOffset: 99_990,
		Counters: Counters{In: 1000, Accepted: 900, DeadLettered: 60, Filtered: 26, Skipped: 10, Duplicates: 4, RefusedPeriod: 28_401_120, RefusedInIt: 3, Repeated: 5, Ahead: 2, Untimed: 1},
		Aggregations: []AggregationState{
			{Name: "hourly", Fingerprint: 0xaaaaaaaaaaaaaaaa, ClosedEnd: 1_704_063_600_000, Folded: 890, Late: 10, Missed: 10, Results: 77},
			{Name: "tägliche Werte", Fingerprint: 1, ClosedEnd: NoTime, Since: 500, Folded: 390, PartlyLate: 7, Late: 3, Missed: 21},
		},
		Digest: Digest{Hi: 0xdddddddddddddddd, Lo: 0xeeeeeeeeeeeeeeee}, Live: 5000, Records: 321,
		MinRetention: 7_200_000, TZData: "2026a", Mark: MarkSkip, Note: "anna: gap of 12 records",
	}
}

func sampleBirth() *Commit {
	return &Commit{
		Birth: 1, Fence: 2, Position: NoInput, Epoch: -1, Anchor: Anchor{Offset: -1}, StreamTime: NoTime, SetterOffset: -1,
	}
}

func sampleFence() *Fence {
	return &Fence{
		ID: 0xfedcba9876543210, Birth: 0x0123456789abcdef, Job: "boiler-room", Partition: 3, Host: "gw-1", PID: 4242,
		Version: "v0.1.0", ProducerID: 9001, ProducerEpoch: 12,
		Identity: Identity{
			ClusterID: "kfake", Input: Topic{Name: "readings", ID: TopicID{15: 1}, Partitions: 4},
			Changelog: Topic{Name: "boiler-room-changelog", ID: TopicID{0: 0xff, 15: 2}, Partitions: 4},
			Outputs:   []Topic{{Name: "hourly", ID: TopicID{15: 3}, Partitions: 4}, {Name: "readings-late", Partitions: 1}},
		},
	}
}

func sampleKey() []byte {
	key := EntryPrefix(nil, "hourly")
	key = AppendField(AppendField(key, []byte("boiler-7")), nil)
	return AppendStart(key, 1_704_067_200_000)
}

func TestGoldenFormat1(t *testing.T) {
	golden(t, "commit.v1", sampleCommit().Append(nil))
	golden(t, "commit-quorum.v1", sampleQuorum().Append(nil))
	golden(t, "birth.v1", sampleBirth().Append(nil))
	golden(t, "fence.v1", sampleFence().Append(nil))
	golden(t, "key.v1", sampleKey())
	digest := EntryDigest(append(sampleKey(), "value"...), len(sampleKey()))
	golden(t, "digest.v1", appendDigest(nil, digest))
	golden(t, "hash.v1", AppendStart(nil, int64(Hash(sampleKey()))))
	identity := sampleFence().Identity
	golden(t, "source.v1", AppendStart(nil, int64(identity.SourceHash("boiler-room"))))
	golden(t, "outputs.v1", AppendStart(nil, int64(identity.OutputHash())))

	if got, want := Metadata(0x0123456789abcdef, 1234), "tidemark/1 0123456789abcdef 1234"; got != want {
		t.Errorf("Metadata = %q, want %q", got, want)
	}
	origin := Origin{Job: "boiler-room", Birth: 0x0123456789abcdef, Partition: 3, Number: 1234}
	if got, want := string(origin.Append(nil)), "1 0123456789abcdef 3 1234 boiler-room"; got != want {
		t.Errorf("Origin = %q, want %q", got, want)
	}
}

// TestReadFormat1 reads the golden bytes as a later version of this program would.
func TestReadFormat1(t *testing.T) {
	for name, want := range map[string]*Commit{"commit.v1": sampleCommit(), "commit-quorum.v1": sampleQuorum(), "birth.v1": sampleBirth()} {
		got, err := ParseCommit(readGolden(t, name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
		if err := got.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	fence, err := ParseFence(readGolden(t, "fence.v1"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sampleFence(), fence, sameID); diff != "" {
		t.Errorf("fence: -want +got\n%s", diff)
	}
	key, err := ParseEntryKey(readGolden(t, "key.v1"))
	want := EntryKey{Aggregation: "hourly", Fields: []string{"boiler-7", ""}, Start: 1_704_067_200_000}
	if diff := cmp.Diff(want, key); diff != "" || err != nil {
		t.Errorf("key: %v, -want +got\n%s", err, diff)
	}
}
