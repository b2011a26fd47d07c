package record

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func drawKey(t *rapid.T) (EntryKey, []byte) {
	k := EntryKey{Aggregation: drawText(t, "aggregation", 0, 20), Start: rapid.Int64().Draw(t, "start")}
	key := EntryPrefix(nil, k.Aggregation)
	for range rapid.IntRange(0, 4).Draw(t, "fields") {
		field := drawText(t, "field", 0, 20)
		k.Fields = append(k.Fields, field)
		key = AppendField(key, []byte(field))
	}
	return k, AppendStart(key, k.Start)
}

func TestEntryKeyRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, key := drawKey(t)
		got, err := ParseEntryKey(key)
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Fatalf("-want +got\n%s", diff)
		}
		if name, ok := AggregationOf(key); !ok || string(name) != want.Aggregation {
			t.Fatalf("AggregationOf = %q, %v, want %q", name, ok, want.Aggregation)
		}
		if kind, ok := KindOf(key); !ok || kind != KindEntry {
			t.Fatalf("KindOf = %#x, %v", kind, ok)
		}
		if Start(key) != want.Start {
			t.Fatalf("Start = %d, want %d", Start(key), want.Start)
		}
	})
}

// TestDifferentEntriesHaveDifferentKeys: lengths keep ("ab", "c") and ("a", "bc") apart.
func TestDifferentEntriesHaveDifferentKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, keyA := drawKey(t)
		b, keyB := drawKey(t)
		if same := gocmp.Equal(a, b); same != bytes.Equal(keyA, keyB) {
			t.Fatalf("%+v and %+v: keys %x and %x", a, b, keyA, keyB)
		}
	})
}

func TestByteOrderOfStartsIsTimeOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Int64().Draw(t, "a"), rapid.Int64().Draw(t, "b")
		prefix := AppendField(EntryPrefix(nil, "hourly"), []byte("boiler"))
		got := bytes.Compare(AppendStart(bytes.Clone(prefix), a), AppendStart(bytes.Clone(prefix), b))
		if got != cmp.Compare(a, b) {
			t.Fatalf("keys of %d and %d compare as %d", a, b, got)
		}
	})
}

func TestReservedKeys(t *testing.T) {
	for _, test := range []struct {
		key  string
		kind Kind
		ok   bool
	}{
		{"", 0, false}, {"00", 0, false}, {"02", 0, false}, {"c0", KindCommit, true}, {"f0", KindFence, true},
		{"c000", KindCommit, false}, {"f0f0", KindFence, false}, {"ff", 0, false}, {"01", KindEntry, true},
	} {
		key, _ := hex.DecodeString(test.key)
		if kind, ok := KindOf(key); kind != test.kind || ok != test.ok {
			t.Errorf("KindOf(%s) = %#x, %v, want %#x, %v", test.key, kind, ok, test.kind, test.ok)
		}
	}
	if !bytes.Equal(CommitKey, []byte{0xc0}) || !bytes.Equal(FenceKey, []byte{0xf0}) {
		t.Errorf("reserved keys are %x and %x", CommitKey, FenceKey)
	}
}

func TestDamagedEntryKeysAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"empty":                       "",
		"commit record":               "c0",
		"kind alone":                  "01",
		"no start":                    "0101aa",
		"name beyond the end":         "0105aa" + "8000000000000000",
		"length of 65 bits":           "01ffffffffffffffffffff01" + "8000000000000000",
		"length near 2^64":            "01f9ffffffffffffffff01" + "8000000000000000",
		"name's length in two bytes":  "018100aa" + "8000000000000000",
		"field beyond the end":        "0101aa" + "09bb" + "8000000000000000",
		"field's length in two bytes": "0101aa" + "8100bb" + "8000000000000000",
	} {
		key, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if k, err := ParseEntryKey(key); err == nil {
			t.Errorf("%s: read as %+v", name, k)
		}
	}
	long := AppendStart(AppendField(EntryPrefix(nil, "a"), make([]byte, MaxKeyBytes)), 0)
	if _, err := ParseEntryKey(long); err == nil {
		t.Errorf("a key of %d bytes was accepted", len(long))
	}
	for _, text := range []string{"", "c0", "01", "0105aa8000000000000000", "01f9ffffffffffffffff018000000000000000"} {
		key, _ := hex.DecodeString(text)
		if name, ok := AggregationOf(key); ok {
			t.Errorf("AggregationOf(%s) = %q", text, name)
		}
	}
}

func TestIdentityHashesSeeEveryField(t *testing.T) {
	base := func() *Identity { id := sampleFence().Identity; return &id }
	source := map[string]func(*Identity){
		"cluster":              func(id *Identity) { id.ClusterID += "x" },
		"input name":           func(id *Identity) { id.Input.Name = "other" },
		"input id":             func(id *Identity) { id.Input.ID[3]++ },
		"input partitions":     func(id *Identity) { id.Input.Partitions++ },
		"changelog name":       func(id *Identity) { id.Changelog.Name = "other" },
		"changelog id":         func(id *Identity) { id.Changelog.ID[0]++ },
		"changelog partitions": func(id *Identity) { id.Changelog.Partitions-- },
		"names run together":   func(id *Identity) { id.ClusterID, id.Input.Name = id.ClusterID+"r", id.Input.Name[1:] },
	}
	for name, change := range source {
		id := base()
		if change(id); id.SourceHash("j") == base().SourceHash("j") {
			t.Errorf("%s: the source hash does not see it", name)
		}
		if id.OutputHash() != base().OutputHash() {
			t.Errorf("%s: the output hash changed", name)
		}
	}
	if base().SourceHash("j") == base().SourceHash("k") {
		t.Error("the source hash does not see the job")
	}
	if id := base(); id.SourceHash("j") == (&Identity{Input: id.Input, Changelog: id.Changelog}).SourceHash("j"+id.ClusterID) {
		t.Error("the source hash does not keep job and cluster apart")
	}
	outputs := map[string]func(*Identity){
		"name":       func(id *Identity) { id.Outputs[1].Name = "other" },
		"id":         func(id *Identity) { id.Outputs[1].ID[0]++ },
		"partitions": func(id *Identity) { id.Outputs[0].Partitions++ },
		"order":      func(id *Identity) { id.Outputs[0], id.Outputs[1] = id.Outputs[1], id.Outputs[0] },
		"one less":   func(id *Identity) { id.Outputs = id.Outputs[:1] },
	}
	for name, change := range outputs {
		id := base()
		if change(id); id.OutputHash() == base().OutputHash() {
			t.Errorf("outputs %s: the output hash does not see it", name)
		}
		if id.SourceHash("j") != base().SourceHash("j") {
			t.Errorf("outputs %s: the source hash changed", name)
		}
	}
}

func TestUnknownTopicIDEqualsNothing(t *testing.T) {
	known := TopicID{1}
	if (TopicID{}).Equal(TopicID{}) || (TopicID{}).Equal(known) || known.Equal(TopicID{}) || !known.Equal(known) {
		t.Error("an unknown topic id must equal nothing, a known one itself (R33)")
	}
	if got := (TopicID{}).String(); got != "unknown" {
		t.Errorf("String of an unknown id: %q", got)
	}
	if got, want := known.String(), "01000000000000000000000000000000"; got != want {
		t.Errorf("String = %q, want %q", got, want)
	}
	if got, want := FenceID(0xab).String(), "00000000000000ab"; got != want || BirthID(0xab).String() != want {
		t.Errorf("String = %q, want %q", got, want)
	}
}
