package aggregate

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// W26: the readings of the case, in every order: 1000 is first and 901 last, whatever arrives when.
func TestEndsByEventTimeThenOffset(t *testing.T) {
	list := []arrival{
		{900, At{Time: 50_000, Offset: 0}}, {1000, At{Time: 10_000, Offset: 1}}, {901, At{Time: 50_000, Offset: 2}},
		{999, At{Time: 10_000, Offset: 3}}, {5, At{Time: 30_000, Offset: 4}},
	}
	rapid.Check(t, func(t *rapid.T) {
		a := foldAll(rapid.Permutation(list).Draw(t, "order"), Ends)
		if a.First() != 1000 || a.Last() != 901 {
			t.Fatalf("first %v, last %v", a.First(), a.Last())
		}
	})
}

// The nanoseconds count before the offset, the index after it.
func TestEndsEqualOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := arrivals(12).Draw(t, "readings")
		if len(list) == 0 {
			return
		}
		a := foldAll(list, Ends)
		slices.SortStableFunc(list, func(a, b arrival) int { // they are drawn in the order of (offset, index)
			return int((a.at.Time-b.at.Time)*1_000_000 + int64(a.at.Nanos-b.at.Nanos))
		})
		if first, last := list[0].v, list[len(list)-1].v; !sameBits(a.First(), first) || !sameBits(a.Last(), last) {
			t.Fatalf("first %v, last %v; want %v, %v", a.First(), a.Last(), first, last)
		}
	})
}

func TestEndsGoldenBytes(t *testing.T) {
	var b strings.Builder
	for _, list := range [][]arrival{
		nil,
		{{21.5, At{Time: 1_704_067_200_000}}},
		{{1, At{Time: -1, Nanos: 999_999, Offset: 1 << 40, Index: 7}}, {-2, At{Time: 5, Offset: 1<<63 - 1, Index: 1<<31 - 1}}},
	} {
		for _, f := range []Functions{First, Last, Plain | Ends} {
			fmt.Fprintf(&b, "%d\t%s\t%x\n", len(list), f, foldAll(list, f).AppendBinary(nil, f))
		}
	}
	checkGolden(t, filepath.Join("testdata", "ends.v1.golden"), &b)
}

func TestDecodeEndsRefuses(t *testing.T) {
	const number = "000000000000f03f"
	for name, hexed := range map[string]string{
		"nothing":          "01",
		"no number":        "01" + "00000000",
		"number NaN":       "01" + "00000000" + "010000000000f87f",
		"long time":        "01" + "8000" + "000000" + number,
		"time too late":    "01" + "8080808080808001" + "000000" + number,
		"a ms of nanos":    "01" + "00" + "c0843d" + "0000" + number,
		"offset too large": "01" + "0000" + "80808080808080808001" + "00" + number,
		"index too large":  "01" + "000000" + "8080808008" + number,
		"first after last": "02" + "02000000" + number + "00000000" + number,
	} {
		f := First
		if strings.HasPrefix(hexed, "02") {
			f = Ends
		}
		checkRefused(t, name, f, hexed)
	}
}

// A place that no reading has is a fault of the caller, and does not become state.
func TestAddRefusesNoPlace(t *testing.T) {
	for _, at := range []At{{Time: 1 << 48}, {Time: -1 << 48}, {Nanos: -1}, {Nanos: 1_000_000}, {Offset: -1}, {Index: -1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a reading at %+v is folded", at)
				}
			}()
			foldAll([]arrival{{1, at}}, Last)
		}()
	}
}
