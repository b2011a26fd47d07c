package record

import (
	"bytes"
	"testing"
)

// The fuzz targets hold one rule: whatever is accepted, written again, is the same bytes. `go test -fuzz NAME
// ./internal/record` runs one; the corpora are in testdata/fuzz.

func FuzzParseEntryKey(f *testing.F) {
	f.Add(readGolden(f, "key.v1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := ParseEntryKey(b)
		name, ok := AggregationOf(b)
		if err != nil {
			return
		}
		if !ok || string(name) != k.Aggregation {
			t.Fatalf("AggregationOf = %q, %v, but the key was read with %q", name, ok, k.Aggregation)
		}
		again := EntryPrefix(nil, k.Aggregation)
		for _, field := range k.Fields {
			again = AppendField(again, []byte(field))
		}
		sameBytes(t, b, AppendStart(again, k.Start))
	})
}

func FuzzParseCommit(f *testing.F) {
	f.Add(readGolden(f, "commit.v1"))
	f.Add(readGolden(f, "birth.v1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ParseCommit(b)
		if err != nil {
			return
		}
		sameBytes(t, b, c.Append(nil))
		sameBytes(t, b, c.Clone().Append(nil))
		_ = c.Check() // may fail, must not panic
	})
}

func FuzzParseFence(f *testing.F) {
	f.Add(readGolden(f, "fence.v1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if fence, err := ParseFence(b); err == nil {
			sameBytes(t, b, fence.Append(nil))
		}
	})
}

func FuzzParseMetadata(f *testing.F) {
	f.Add(Metadata(0x0123456789abcdef, 1234))
	f.Fuzz(func(t *testing.T, s string) {
		if birth, number, err := ParseMetadata(s); err == nil {
			sameBytes(t, []byte(s), []byte(Metadata(birth, number)))
		}
	})
}

func FuzzParseOrigin(f *testing.F) {
	f.Add(Origin{Job: "boiler-room", Birth: 0x0123456789abcdef, Partition: 3, Number: 1234}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if o, err := ParseOrigin(b); err == nil {
			sameBytes(t, b, o.Append(nil))
		}
	})
}

func sameBytes(t *testing.T, read, written []byte) {
	t.Helper()
	if !bytes.Equal(read, written) {
		t.Fatalf("not canonical:\n   read %x\nwritten %x", read, written)
	}
}
