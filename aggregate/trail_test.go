package aggregate

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// inOrder is a copy of the readings in the order of their places, by a comparison of its own.
func inOrder(list []arrival) []arrival {
	return slices.SortedFunc(slices.Values(list), func(a, b arrival) int {
		x, y := [...]int64{a.at.Time, int64(a.at.Nanos), a.at.Offset, int64(a.at.Index)}, [...]int64{b.at.Time, int64(b.at.Nanos), b.at.Offset, int64(b.at.Index)}
		return slices.Compare(x[:], y[:])
	})
}

// exactTrail is the oracle: the rise of the counter, the area under the lines and the time, as rationals.
func exactTrail(list []arrival) (rise, area, seconds *big.Rat) {
	list = inOrder(list)
	rise, area, seconds = new(big.Rat), new(big.Rat), new(big.Rat)
	for i := 1; i < len(list); i++ {
		from, to := new(big.Rat).SetFloat64(list[i-1].v), new(big.Rat).SetFloat64(list[i].v)
		if rise.Add(rise, to); to.Cmp(from) >= 0 {
			rise.Sub(rise, from)
		}
		ns := new(big.Int).Mul(big.NewInt(list[i].at.Time-list[i-1].at.Time), big.NewInt(1_000_000))
		ns.Add(ns, big.NewInt(int64(list[i].at.Nanos-list[i-1].at.Nanos)))
		step := new(big.Rat).SetFrac(ns, big.NewInt(1_000_000_000))
		seconds.Add(seconds, step)
		half := new(big.Rat).Add(from, to)
		area.Add(area, half.Mul(half, step).Mul(half, big.NewRat(1, 2)))
	}
	return rise, area, seconds
}

// checkTrail compares the three functions with the oracle.
func checkTrail(t interface {
	Helper()
	Fatalf(string, ...any)
}, a *Accumulator, list []arrival) {
	t.Helper()
	rise, area, seconds := exactTrail(list)
	compare := func(name string, v float64, overflow, defined bool, by *big.Rat, want *big.Rat) {
		t.Helper()
		if len(list) < 2 || by.Sign() == 0 {
			if defined {
				t.Fatalf("%s of %v is %v, want none", name, list, v)
			}
			return
		}
		exact, beyond := rounded(new(big.Rat).Quo(want, by))
		if !defined || overflow != beyond || v != exact {
			t.Fatalf("%s of %v is %v, overflow %v, defined %v; want %v, %v", name, list, v, overflow, defined, exact, beyond)
		}
	}
	v, overflow, defined := a.Delta()
	compare("delta", v, overflow, defined, big.NewRat(1, 1), rise)
	v, overflow, defined = a.Rate()
	compare("rate", v, overflow, defined, seconds, rise)
	v, overflow, defined = a.TimeMean()
	compare("time_mean", v, overflow, defined, seconds, area)
}

// Up to keptReadings and one more are never lost, in whatever order they come.
func TestTrailEqualsOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := arrivals(keptReadings).Draw(t, "readings")
		a := foldAll(rapid.Permutation(list).Draw(t, "order"), Trails)
		if a.Unordered() {
			t.Fatalf("%d readings are lost", len(list))
		}
		checkTrail(t, a, list)
	})
}

// counter draws the readings of a counter that is reset now and then, a second or less apart.
func counter(least, most int) *rapid.Generator[[]arrival] {
	return rapid.Custom(func(t *rapid.T) []arrival {
		list := make([]arrival, rapid.IntRange(least, most).Draw(t, "readings"))
		at, v := int64(1_700_000_000_000), 0.0
		for i := range list {
			at += rapid.Int64Range(0, 1000).Draw(t, "later")
			v += float64(rapid.IntRange(0, 50).Draw(t, "more")) / 10
			if rapid.IntRange(0, 20).Draw(t, "reset") == 0 {
				v = 0
			}
			list[i] = arrival{v, At{Time: at, Offset: int64(i)}}
		}
		return list
	})
}

// jumbled puts readings that stand in order into one of arrival in which none is overtaken by more than reach others.
func jumbled(t *rapid.T, list []arrival, reach int) []arrival {
	type late struct {
		arrival
		at int
	}
	all := make([]late, len(list))
	for i, r := range list {
		all[i] = late{r, i + rapid.IntRange(0, reach).Draw(t, "overtaken by")}
	}
	slices.SortStableFunc(all, func(a, b late) int { return a.at - b.at })
	out := make([]arrival, len(all))
	for i := range all {
		out[i] = all[i].arrival
	}
	return out
}

// However many readings there are: as long as fewer than keptReadings overtake one, nothing is lost, the numbers are
// exact, and the bytes are those of the readings in order, through crashes anywhere.
func TestTrailTakesDisorder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := counter(0, 120).Draw(t, "readings")
		f := rapid.SampledFrom([]Functions{Delta, Rate, TimeMean, Trails}).Draw(t, "functions")
		a := new(Accumulator)
		a.Reset(f)
		for _, r := range jumbled(t, list, keptReadings-1) {
			a.Add(r.v, &r.at)
			throughBytes(t, a, f)
		}
		if len(list) > 0 && a.Unordered() {
			t.Fatal("lost")
		}
		if got, want := a.AppendBinary(nil, f), foldAll(list, f).AppendBinary(nil, f); !bytes.Equal(got, want) {
			t.Fatalf("in disorder %x, in order %x", got, want)
		}
		if f == Trails {
			checkTrail(t, a, list)
		}
	})
}

// In any disorder a trail is either exact and canonical or lost, and it is lost exactly when a reading belongs between
// two that have at least keptReadings behind them.
func TestTrailIsExactOrLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := counter(30, 100).Draw(t, "readings")
		arrived := jumbled(t, list, rapid.IntRange(0, 100).Draw(t, "reach"))
		a := foldAll(arrived, Trails)
		lost := false
		for i, r := range arrived {
			before := inOrder(arrived[:i])
			if i > keptReadings {
				settled := before[:i-keptReadings]
				two := inOrder([]arrival{settled[0], r, settled[len(settled)-1]})
				lost = lost || two[1] == r && len(settled) > 1
			}
		}
		if a.Unordered() != lost {
			t.Fatalf("lost %v, want %v", a.Unordered(), lost)
		}
		if lost {
			for name, f := range map[string]func() (float64, bool, bool){"delta": a.Delta, "rate": a.Rate, "time_mean": a.TimeMean} {
				if v, _, defined := f(); defined {
					t.Fatalf("%s is %v", name, v)
				}
			}
			return
		}
		checkTrail(t, a, list)
		if got, want := a.AppendBinary(nil, Trails), foldAll(list, Trails).AppendBinary(nil, Trails); !bytes.Equal(got, want) {
			t.Fatalf("as they came %x, in order %x", got, want)
		}
	})
}

// Sessions: stretches of time that grow together in any tree of merges lose nothing, whatever their length.
func TestTrailMergesStretches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := counter(0, 250).Draw(t, "readings")
		f := rapid.SampledFrom([]Functions{Delta, TimeMean, Trails}).Draw(t, "functions")
		var parts []*Accumulator
		for rest := list; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "stretch")
			parts = append(parts, foldAll(rest[:n], f))
			rest = rest[n:]
		}
		for len(parts) > 1 {
			i := rapid.IntRange(0, len(parts)-2).Draw(t, "neighbours")
			into, from := parts[i], parts[i+1]
			if rapid.Bool().Draw(t, "the other way") {
				into, from = from, into
			}
			before := from.AppendBinary(nil, f)
			into.Merge(from)
			if after := from.AppendBinary(nil, f); !bytes.Equal(before, after) {
				t.Fatalf("Merge changed its argument from %x to %x", before, after)
			}
			throughBytes(t, into, f)
			parts = slices.Replace(parts, i, i+2, into)
		}
		if len(parts) == 0 {
			return
		}
		if got, want := parts[0].AppendBinary(nil, f), foldAll(list, f).AppendBinary(nil, f); !bytes.Equal(got, want) {
			t.Fatalf("merged %x, in one go %x", got, want)
		}
		if f == Trails {
			checkTrail(t, parts[0], list)
		}
	})
}

// Merged trails that overlap are exact or lost too.
func TestTrailMergesOverlaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := counter(20, 150).Draw(t, "readings")
		var parts [3][]arrival
		for _, r := range list {
			at := rapid.IntRange(0, 2).Draw(t, "part")
			parts[at] = append(parts[at], r)
		}
		a := foldAll(parts[0], Trails)
		a.Merge(foldAll(parts[1], Trails))
		a.Merge(foldAll(parts[2], Trails))
		if len(list) <= keptReadings && a.Unordered() {
			t.Fatal("lost")
		}
		if !a.Unordered() {
			checkTrail(t, a, list)
		}
	})
}

func at(seconds float64) At {
	return At{Time: int64(math.Round(seconds * 1000)), Offset: int64(seconds * 10)}
}

func TestTrailNamedCases(t *testing.T) {
	for _, c := range []struct {
		name                  string
		list                  []arrival
		delta, rate, timeMean float64 // NaN for none
	}{
		{"one", []arrival{{5, at(1)}}, math.NaN(), math.NaN(), math.NaN()},
		{"at one time", []arrival{{5, at(1)}, {7, At{Time: 1000, Offset: 99}}}, 2, math.NaN(), math.NaN()},
		{"rising", []arrival{{10, at(0)}, {12, at(1)}, {20, at(4)}}, 10, 2.5, (11 + 16*3) / 4.0},
		{"reset", []arrival{{10, at(0)}, {12, at(1)}, {3, at(2)}, {5, at(4)}}, 2 + 3 + 2, 7 / 4.0, (11 + 7.5 + 8) / 4.0},
		{"still", []arrival{{7, at(0)}, {7, at(3)}}, 0, 0, 7},
		{"late", []arrival{{10, at(0)}, {20, at(4)}, {12, at(1)}}, 10, 2.5, (11 + 16*3) / 4.0},
		{"a bill", []arrival{{1e15, at(0)}, {1e15 + 0.125, at(3600)}}, 0.125, 0.125 / 3600, 1e15 + 0.0625},
		{"0.1 a second", []arrival{{0, at(0)}, {0.1, at(1)}, {0.3, at(3)}}, 0.3, 0.09999999999999999, 0.15},
	} {
		a := foldAll(c.list, Trails)
		checkTrail(t, a, c.list)
		for _, f := range []struct {
			name string
			of   func() (float64, bool, bool)
			want float64
		}{{"delta", a.Delta, c.delta}, {"rate", a.Rate, c.rate}, {"time_mean", a.TimeMean, c.timeMean}} {
			v, overflow, defined := f.of()
			if defined == math.IsNaN(f.want) || overflow || defined && v != f.want {
				t.Errorf("%s: %s is %v, %v, %v; want %v", c.name, f.name, v, overflow, defined, f.want)
			}
		}
	}
}

// The largest numbers over the longest time stay within the sums; a longer one is lost, whichever end comes first.
func TestTrailExtremes(t *testing.T) {
	const longest = longestSpan / nanosInMs
	list := []arrival{{math.MaxFloat64, At{}}, {-math.MaxFloat64, At{Time: longest / 2}}, {math.MaxFloat64, At{Time: longest, Offset: 1}}}
	a := foldAll(list, Trails)
	checkTrail(t, a, list)
	for range keptReadings { // settles them
		list = append(list, arrival{math.MaxFloat64, At{Time: longest, Offset: int64(len(list))}})
		a.Add(math.MaxFloat64, &list[len(list)-1].at)
	}
	checkTrail(t, a, list)
	for _, list := range [][]arrival{
		{{1, At{}}, {2, At{Time: longest + 1}}},
		{{2, At{Time: longest + 1}}, {1, At{}}},
		{{1, At{Time: -longest / 2}}, {2, At{Time: longest}}},
	} {
		if a := foldAll(list, Trails); !a.Unordered() {
			t.Errorf("%v is not lost", list)
		}
		one := foldAll(list[:1], Trails)
		if one.Merge(foldAll(list[1:], Trails)); !one.Unordered() {
			t.Errorf("%v merged is not lost", list)
		}
	}
}

// A trail that is lost stays lost, on both sides of a merge and through its bytes.
func TestTrailStaysLost(t *testing.T) {
	lost := foldAll([]arrival{{1, At{}}, {1, At{Time: 1 << 47}}}, Trails)
	more := foldAll([]arrival{{1, At{Offset: 5}}}, Trails)
	a, b := foldAll([]arrival{{1, At{Offset: 6}}}, Trails), new(Accumulator)
	a.Merge(lost)
	lost.Merge(more)
	if _, err := b.DecodeBinary(lost.AppendBinary(nil, Trails), Trails); err != nil {
		t.Fatal(err)
	}
	b.Add(1, &At{Offset: 7})
	for i, x := range []*Accumulator{a, lost, b} {
		if !x.Unordered() {
			t.Errorf("%d is not lost", i)
		}
	}
}

func TestTrailGoldenBytes(t *testing.T) {
	var b strings.Builder
	long := make([]arrival, 40)
	for i := range long {
		long[i] = arrival{float64(i%37) / 4, At{Time: 1_704_067_200_000 + int64(i)*1500, Offset: 1000 + int64(i)*111}}
	}
	for _, list := range [][]arrival{
		nil,
		{{21.5, At{Time: 1_704_067_200_000}}},
		{{3, At{Time: 5, Nanos: 999_999, Offset: 9, Index: 2}}, {1, At{Time: -1, Offset: 40}}},
		long[:33],
		long,
		{{1, At{}}, {1, At{Time: 1 << 47}}},
	} {
		for _, f := range []Functions{Delta, TimeMean, Trails} {
			fmt.Fprintf(&b, "%d\t%s\t%x\n", len(list), f, foldAll(list, f).AppendBinary(nil, f))
		}
	}
	checkGolden(t, filepath.Join("testdata", "trail.v1.golden"), &b)
}

func TestDecodeTrailRefuses(t *testing.T) {
	const number = "000000000000f03f"
	good := hex.EncodeToString(foldAll(make33(), Delta).AppendBinary(nil, Delta))
	for name, hexed := range map[string]string{
		"no head":              "01",
		"a head of none":       "0100",
		"another head":         "0102" + "00000000" + number,
		"a head too large":     "0123",
		"lost alone":           "0122",
		"settled alone":        "0121",
		"the same twice":       "0202" + "00000000" + number + "00000000" + number,
		"offset below zero":    "0202" + "00000000" + number + "01000100" + number,
		"a step too far":       "0202" + "00000000" + number + "808080808080808002" + "000000" + number,
		"the second cut":       "0202" + "00000000" + number + "0100",
		"a span of 147 years":  "0202" + "00000000" + number + "80a0b6e8ef8a01" + "00" + "00" + "00" + number,
		"settled are the same": strings.Replace(good, "21", "22", 1), // a count of two settled, but one is there
	} {
		checkRefused(t, name, Delta, hexed)
	}
}

// make33 are readings of which one is settled.
func make33() []arrival {
	list := make([]arrival, keptReadings+1)
	for i := range list {
		list[i] = arrival{1, At{Time: int64(i)}}
	}
	return list
}
