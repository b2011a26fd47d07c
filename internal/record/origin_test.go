package record

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestMetadataRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		birth, number := BirthID(rapid.Uint64().Draw(t, "birth")), rapid.Uint64().Draw(t, "number")
		s := Metadata(birth, number)
		gotBirth, gotNumber, err := ParseMetadata(s)
		if err != nil || gotBirth != birth || gotNumber != number {
			t.Fatalf("%q: read %v %d, %v, want %v %d", s, gotBirth, gotNumber, err, birth, number)
		}
	})
}

func TestMetadataOfOthersIsRefused(t *testing.T) {
	for _, s := range []string{
		"", "tidemark", "tidemark/", "tidemark/1", "tidemark/0 0123456789abcdef 1", "tidemark/01 0123456789abcdef 1",
		"tidemark/1 0123456789ABCDEF 1", "tidemark/1 123456789abcdef 1", "tidemark/1 0123456789abcdef 01",
		"tidemark/1 0123456789abcdef +1", "tidemark/1 0123456789abcdef -1", "tidemark/1  0123456789abcdef 1",
		"tidemark/1 0123456789abcdef 18446744073709551616", "tidemark/1 0123456789abcdef 1_0",
		"tidemark/x 0123456789abcdef 1", "consumer-1-uuid", "AQAAAYzCUfQA",
	} {
		if birth, number, err := ParseMetadata(s); err == nil {
			t.Errorf("%q: read as %v %d", s, birth, number)
		}
	}
}

func TestOriginRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Origin{
			Job:   rapid.StringMatching(`[a-zA-Z0-9._ -]{1,40}`).Draw(t, "job"),
			Birth: BirthID(rapid.Uint64().Draw(t, "birth")), Partition: rapid.Int32Min(0).Draw(t, "partition"),
			Number: rapid.Uint64().Draw(t, "number"),
		}
		b := want.Append(nil)
		if got, err := ParseOrigin(b); err != nil || got != want {
			t.Fatalf("%q: read %+v, %v, want %+v", b, got, err, want)
		}
		if strings.ContainsFunc(string(b), func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("%q is not printable", b)
		}
	})
	if o := (Origin{Job: "j", Birth: math.MaxUint64, Partition: math.MaxInt32, Number: math.MaxUint64}); len(o.Append(nil)) != 52 {
		t.Errorf("the longest header of a one-letter job is %q", o.Append(nil))
	}
}

func TestDamagedOriginIsRefused(t *testing.T) {
	for _, s := range []string{
		"", "1", "1 ", "1 0123456789abcdef 3 1234", "1 0123456789abcdef 3 1234 ", "1 0123456789abcdef -3 1234 job",
		"1 0123456789abcdef 3 01234 job", "1 0123456789abcdeX 3 1234 job", "1 0123456789abcdef 2147483648 1234 job",
		"1 0123456789abcdef 3 1234 a\nb", "1 0123456789abcdef 3 1234 \xff", "01 0123456789abcdef 3 1234 job",
		"1 0123456789abcdef 3 1234 " + strings.Repeat("j", MaxName+1),
	} {
		if o, err := ParseOrigin([]byte(s)); err == nil {
			t.Errorf("%q: read as %+v", s, o)
		}
	}
}
