package aggregate

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// arrival is a reading of a test.
type arrival struct {
	v  float64
	at At
}

// arrivals draws readings in the order in which they are read, with event times in any order, many of them equal.
func arrivals(most int) *rapid.Generator[[]arrival] {
	return rapid.Custom(func(t *rapid.T) []arrival {
		list := make([]arrival, rapid.IntRange(0, most).Draw(t, "readings"))
		for i := range list {
			list[i] = arrival{doubles().Draw(t, "value"), At{
				Time:   1_700_000_000_000 + rapid.Int64Range(-20, 20).Draw(t, "time"),
				Nanos:  rapid.SampledFrom([]int32{0, 0, 1, 500_000, 999_999}).Draw(t, "nanos"),
				Offset: int64(i/2) * 7,
				Index:  int32(i % 2),
			}}
		}
		return list
	})
}

func foldAll(list []arrival, f Functions) *Accumulator {
	a := new(Accumulator)
	a.Reset(f)
	for i := range list {
		a.Add(list[i].v, &list[i].at)
	}
	return a
}

// foldValues folds numbers of which it does not matter where they stand.
func foldValues(f Functions, values ...float64) *Accumulator {
	a := new(Accumulator)
	a.Reset(f)
	for _, v := range values {
		a.Add(v, nil)
	}
	return a
}

// TestAccumulatorCanonical: equal sets of readings have equal bytes in any order, any grouping, any tree of merges and
// any number of encodings on the way, in fresh and in used memory. That is what a session that grows out of others needs,
// and a crash at any point (I11).
func TestAccumulatorCanonical(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := functions().Draw(t, "functions")
		list := arrivals(30).Draw(t, "readings")
		want := foldAll(list, f).AppendBinary(nil, f)
		parts := make([]*Accumulator, rapid.IntRange(1, 5).Draw(t, "parts"))
		for i := range parts {
			if parts[i] = new(Accumulator); rapid.Bool().Draw(t, "used memory") {
				parts[i] = foldAll([]arrival{{1e300, *spot(0)}, {-1e-300, *spot(1)}, {7, *spot(2)}}, All)
			}
			parts[i].Reset(f)
		}
		for _, r := range rapid.Permutation(list).Draw(t, "order") {
			at := rapid.IntRange(0, len(parts)-1).Draw(t, "part")
			parts[at].Add(r.v, &r.at)
			throughBytes(t, parts[at], f)
		}
		for len(parts) > 1 {
			last := parts[len(parts)-1]
			before := last.AppendBinary(nil, f)
			into := parts[rapid.IntRange(0, len(parts)-2).Draw(t, "into")]
			into.Merge(last)
			if after := last.AppendBinary(nil, f); !bytes.Equal(before, after) {
				t.Fatalf("Merge changed its argument from %x to %x", before, after)
			}
			throughBytes(t, into, f)
			parts = parts[:len(parts)-1]
		}
		if got := parts[0].AppendBinary(nil, f); !bytes.Equal(got, want) {
			t.Fatalf("%s of %v\nin one go %x\nin parts  %x", f, list, want, got)
		}
	})
}

// Beyond what is kept exactly, sketches have equal bytes too for equal numbers, in any order, tree of merges and number of
// crashes (I11). Their numbers are as many as it takes, and spread or repeated as it takes.
func TestSketchesCanonical(t *testing.T) {
	for f, c := range map[Functions]struct {
		most   int
		number func(r *rand.Rand, n, octaves int) float64
	}{
		Distinct:  {600, func(r *rand.Rand, n, _ int) float64 { return float64(r.IntN(n)) / 4 }},
		Quantiles: {1500, func(r *rand.Rand, _, octaves int) float64 { return math.Ldexp(r.Float64()-0.5, r.IntN(octaves)) }},
	} {
		t.Run(f.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				n, octaves := rapid.IntRange(1, c.most).Draw(t, "numbers"), rapid.IntRange(1, 600).Draw(t, "octaves")
				r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
				parts := []*Accumulator{foldValues(f), foldValues(f), foldValues(f)}
				values := make([]float64, n)
				for i := range values {
					values[i] = c.number(r, n, octaves)
					parts[r.IntN(3)].Add(values[i], nil)
				}
				want := foldValues(f, values...).AppendBinary(nil, f)
				for _, a := range parts {
					throughBytes(t, a, f)
				}
				parts[2].Merge(parts[1])
				throughBytes(t, parts[2], f)
				parts[0].Merge(parts[2])
				if got := parts[0].AppendBinary(nil, f); !bytes.Equal(got, want) {
					t.Fatalf("in one go %x\nin parts  %x", want, got)
				}
			})
		})
	}
}

// throughBytes is a crash, now and then: what goes on is what was encoded.
func throughBytes(t *rapid.T, a *Accumulator, f Functions) {
	if rapid.IntRange(0, 3).Draw(t, "crash") > 0 {
		return
	}
	encoded := a.AppendBinary(nil, f)
	if len(encoded) > f.MaxBytes() {
		t.Fatalf("%d bytes for %s, at most %d are possible", len(encoded), f, f.MaxBytes())
	}
	if rest, err := a.DecodeBinary(append(slices.Clone(encoded), 0xEE), f); err != nil || !bytes.Equal(rest, []byte{0xEE}) {
		t.Fatalf("decode %x: rest %x, %v", encoded, rest, err)
	}
}
