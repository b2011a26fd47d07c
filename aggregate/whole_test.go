package aggregate

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// wholeArrival is a reading of whole numbers.
type wholeArrival struct {
	v  int64
	at At
}

// wholes draws whole numbers of all sizes, neighbours of powers of two among them.
func wholes() *rapid.Generator[int64] {
	return rapid.OneOf(
		rapid.Int64(),
		rapid.Int64Range(-2000, 2000),
		rapid.Custom(func(t *rapid.T) int64 {
			return int64(1)<<rapid.IntRange(0, 63).Draw(t, "bit") + rapid.Int64Range(-1, 1).Draw(t, "off")
		}),
		rapid.SampledFrom([]int64{0, 1, -1, math.MaxInt64, math.MinInt64, 1<<53 + 1, -1<<53 - 1}),
	)
}

func wholeArrivals(least, most int) *rapid.Generator[[]wholeArrival] {
	return rapid.Custom(func(t *rapid.T) []wholeArrival {
		list := make([]wholeArrival, rapid.IntRange(least, most).Draw(t, "readings"))
		for i := range list {
			list[i] = wholeArrival{wholes().Draw(t, "value"), At{Time: rapid.Int64Range(0, 100_000).Draw(t, "time"), Offset: int64(i)}}
		}
		return list
	})
}

func foldWhole(list []wholeArrival, f Functions) *Accumulator {
	a := new(Accumulator)
	a.Reset(f | Whole)
	for i := range list {
		a.AddWhole(list[i].v, &list[i].at)
	}
	return a
}

// wholeOracle is the text of each function's result, over math/big alone.
func wholeOracle(list []wholeArrival, f Functions) string {
	sorted := slices.SortedStableFunc(slices.Values(list), func(a, b wholeArrival) int { return int(a.at.Time - b.at.Time) })
	var numbers []int64
	sum, rise := new(big.Int), new(big.Int)
	for i, r := range sorted {
		numbers = append(numbers, r.v)
		v := big.NewInt(r.v)
		sum.Add(sum, v)
		if i == 0 {
			continue
		}
		if rise.Add(rise, v); r.v >= sorted[i-1].v {
			rise.Sub(rise, big.NewInt(sorted[i-1].v))
		}
	}
	slices.Sort(numbers)
	n, last := int64(len(list)), len(list)-1
	switch f {
	case Total:
		return sum.String()
	case Min:
		return strconv.FormatInt(numbers[0], 10)
	case Max:
		return strconv.FormatInt(numbers[last], 10)
	case Range:
		return new(big.Int).Sub(big.NewInt(numbers[last]), big.NewInt(numbers[0])).String()
	case First:
		return strconv.FormatInt(sorted[0].v, 10)
	case Last:
		return strconv.FormatInt(sorted[last].v, 10)
	case Delta:
		if n < 2 {
			return "null"
		}
		return rise.String()
	case Distinct:
		return strconv.Itoa(len(slices.Compact(numbers)))
	case Mean:
		v, _ := rounded(new(big.Rat).SetFrac(sum, big.NewInt(n)))
		return string(AppendFloat(nil, v))
	}
	panic("no oracle for " + f.String())
}

// Whole numbers keep all their digits, whatever their size.
func TestWholeEqualsOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := wholeArrivals(1, 30).Draw(t, "readings")
		a := foldWhole(list, All)
		for _, f := range []Functions{Total, Min, Max, Range, First, Last, Delta, Distinct, Mean} {
			got, overflow := a.AppendResult([]byte("="), f)
			if want := "=" + wholeOracle(list, f); overflow || string(got) != want {
				t.Fatalf("%s of %v is %s, overflow %v; want %s", f, list, got, overflow, want)
			}
		}
		for _, p := range []int{50, 90, 99} {
			numbers := make([]int64, len(list))
			for i := range list {
				numbers[i] = list[i].v
			}
			slices.Sort(numbers)
			want := big.NewInt(numbers[(p*len(numbers)+99)/100-1])
			got, _ := new(big.Int).SetString(string(a.AppendQuantile(nil, p)), 10)
			off := new(big.Int).Sub(want, got)
			if off.Sign()*want.Sign() < 0 || off.Mul(off, big.NewInt(256)).CmpAbs(want) > 0 {
				t.Fatalf("p%d of %v is %v, want %v", p, numbers, got, want)
			}
		}
	})
}

// What is computed of whole numbers that are doubles too, and is not whole, is the same as of the doubles.
func TestWholeAgreesWithDoubles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole, doubles := new(Accumulator), new(Accumulator)
		whole.Reset(All | Whole)
		doubles.Reset(All)
		for i := range rapid.IntRange(1, 40).Draw(t, "readings") {
			v := rapid.Int64Range(-1<<53, 1<<53).Draw(t, "value")
			at := At{Time: rapid.Int64Range(0, 1000).Draw(t, "time"), Offset: int64(i)}
			whole.AddWhole(v, &at)
			doubles.Add(float64(v), &at)
		}
		for f := Count; f < Quantiles; f <<= 1 {
			a, _ := whole.AppendResult(nil, f)
			b, _ := doubles.AppendResult(nil, f)
			if exact, ok := new(big.Int).SetString(string(a), 10); ok && f != Mean {
				rounded, _ := new(big.Float).SetInt(exact).Float64()
				a = AppendFloat(nil, rounded)
			}
			if !bytes.Equal(a, b) {
				t.Fatalf("%s is %s, of doubles %s", f, a, b)
			}
		}
	})
}

// As TestAccumulatorCanonical, and more than are kept one by one.
func TestWholeCanonical(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := functions().Draw(t, "functions") | Whole
		list := wholeArrivals(0, 30).Draw(t, "readings")
		want := foldWhole(list, f).AppendBinary(nil, f)
		parts := []*Accumulator{foldWhole(nil, f), foldWhole(nil, f), foldWhole(nil, f)}
		for _, r := range rapid.Permutation(list).Draw(t, "order") {
			at := rapid.IntRange(0, 2).Draw(t, "part")
			parts[at].AddWhole(r.v, &r.at)
			throughBytes(t, parts[at], f)
		}
		parts[2].Merge(parts[1])
		throughBytes(t, parts[2], f)
		parts[0].Merge(parts[2])
		if got := parts[0].AppendBinary(nil, f); !bytes.Equal(got, want) {
			t.Fatalf("%v\nin one go %x\nin parts  %x", list, want, got)
		}
	})
}

// A meter above 2^53, where doubles lose the last kilowatt-hours: all of more readings than are kept one by one.
func TestWholeMeter(t *testing.T) {
	a := foldWhole(nil, All)
	const start = 9_007_199_254_740_993
	for i := range int64(1000) {
		a.AddWhole(start+2*i, &At{Time: i * 1000, Offset: i})
		if i%100 == 50 {
			if _, err := a.DecodeBinary(a.AppendBinary(nil, All|Whole), All|Whole); err != nil {
				t.Fatal(err)
			}
		}
	}
	for f, want := range map[Functions]string{Delta: "1998", Rate: "2", First: "9007199254740993", Last: "9007199254742991",
		Total: "9007199254741992000", TimeMean: "9007199254741992", Range: "1998", Max: "9007199254742991"} {
		if got, _ := a.AppendResult(nil, f); string(got) != want {
			t.Errorf("%s is %s, want %s", f, got, want)
		}
	}
}

// The largest numbers over the longest time, to both sides, go through their bytes.
func TestWholeExtremes(t *testing.T) {
	const longest = longestSpan/nanosInMs - 1
	for _, v := range []int64{math.MaxInt64, math.MinInt64} {
		a := foldWhole(nil, All)
		for i := range int64(40) {
			a.AddWhole(v, &At{Time: i * longest / 39, Offset: i})
		}
		if a.Unordered() {
			t.Fatal("lost")
		}
		if _, err := a.DecodeBinary(a.AppendBinary(nil, All|Whole), All|Whole); err != nil {
			t.Fatal(err)
		}
	}
	var s Sum
	want := new(big.Int)
	for range 62 {
		s.addWhole(math.MinInt64)
		s.addWhole(-1)
		want.Sub(want, new(big.Int).Add(new(big.Int).Lsh(big.NewInt(1), 63), big.NewInt(1)))
		if got := string(s.appendWhole(nil)); got != want.String() {
			t.Fatalf("%s, want %s", got, want)
		}
		s.Merge(&s)
		want.Add(want, want)
		if got := string(s.appendWhole(nil)); !s.isWhole() || got != want.String() {
			t.Fatalf("%s, want %s", got, want)
		}
	}
}

func TestWholeGoldenBytes(t *testing.T) {
	var b strings.Builder
	for _, list := range [][]wholeArrival{
		nil,
		{{0, At{Time: 1_704_067_200_000}}},
		{{-1, At{Time: 5}}, {math.MaxInt64, At{Time: 6, Offset: 1}}, {math.MinInt64, At{Time: 7, Offset: 2}}},
	} {
		for _, f := range []Functions{Plain, Spreads, Ends, Trails, Distinct, Quantiles} {
			fmt.Fprintf(&b, "%d\t%s\t%x\n", len(list), f, foldWhole(list, f).AppendBinary(nil, f|Whole))
		}
	}
	checkGolden(t, filepath.Join("testdata", "whole.v1.golden"), &b)
}

func TestDecodeWholeRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		f     Functions
		hexed string
	}{
		"a sum of halves":     {Total, "01" + "020101"},
		"a sum of 127 bits":   {Total, "01" + "02fc0101"},
		"min above max":       {Min | Max, "02" + "0200000000000000" + "0100000000000000"},
		"min cut":             {Min, "01" + "02000000000000"},
		"halves of a settled": {Delta, hex.EncodeToString(foldAll(halves(), Delta).AppendBinary(nil, Delta))},
	} {
		checkRefused(t, name, c.f|Whole, c.hexed)
	}
}

// halves are readings of which enough are settled that their rise is no whole number.
func halves() []arrival {
	list := make([]arrival, keptReadings+2)
	for i := range list {
		list[i] = arrival{float64(i) / 2, At{Time: int64(i)}}
	}
	return list
}

// Whole numbers cost no more allocations than doubles.
func BenchmarkAccumulatorAddWhole(b *testing.B) {
	b.ReportAllocs()
	a := foldWhole(nil, Plain)
	at := spot(0)
	for i := range b.N {
		a.AddWhole(int64(i), at)
	}
	bytesSink, _ = a.AppendResult(bytesSink[:0], Total)
}
