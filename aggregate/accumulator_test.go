package aggregate

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden files anew")

// accumulate folds values that stand one after the other (see spot).
func accumulate(values []float64) *Accumulator {
	a := new(Accumulator)
	a.Reset(All)
	for i, v := range values {
		a.Add(v, spot(i))
	}
	return a
}

// spot is where the i-th reading of a test stands: a second apart, with offsets that are not in a row.
func spot(i int) *At { return &At{Time: 1_700_000_000_000 + int64(i)*1000, Offset: int64(i) * 3} }

func functions() *rapid.Generator[Functions] {
	return rapid.Custom(func(t *rapid.T) Functions {
		return Functions(rapid.Uint32Range(1, uint32(All)).Draw(t, "functions"))
	})
}

// less is the total order of doubles in which -0 is below 0.
func less(a, b float64) bool { return a < b || a == 0 && b == 0 && math.Signbit(a) && !math.Signbit(b) }

func TestAccumulatorMinMax(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(doubles(), 1, 30).Draw(t, "values")
		smallest, largest := values[0], values[0]
		for _, v := range values {
			if less(v, smallest) {
				smallest = v
			}
			if less(largest, v) {
				largest = v
			}
		}
		a := accumulate(values)
		if a.Count() != int64(len(values)) || !sameBits(a.Min(), smallest) || !sameBits(a.Max(), largest) {
			t.Fatalf("%v: count %d, min %v, max %v; want %d, %v, %v",
				values, a.Count(), a.Min(), a.Max(), len(values), smallest, largest)
		}
		mean, _ := a.Mean()
		if want, _ := exactSum(values).mean(int64(len(values))); !sameBits(mean, want) {
			t.Fatalf("mean of %v is %v, want %v", values, mean, want)
		}
	})
}

// R17: -0 is below 0 in both orders of arrival.
func TestAccumulatorNegativeZero(t *testing.T) {
	negative := math.Copysign(0, -1)
	for _, values := range [][]float64{{0, negative}, {negative, 0}} {
		a := accumulate(values)
		if !sameBits(a.Min(), negative) || !sameBits(a.Max(), 0) {
			t.Errorf("%v: min %v, max %v", values, a.Min(), a.Max())
		}
	}
}

func TestAccumulatorMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		left := rapid.SliceOfN(doubles(), 0, 20).Draw(t, "left")
		right := rapid.SliceOfN(doubles(), 0, 20).Draw(t, "right")
		f := functions().Draw(t, "functions")
		a, b := accumulate(left), new(Accumulator)
		b.Reset(All)
		for i, v := range right {
			b.Add(v, spot(len(left)+i))
		}
		before := b.AppendBinary(nil, All)
		a.Merge(b)
		want := accumulate(append(append([]float64{}, left...), right...)).AppendBinary(nil, f)
		if got := a.AppendBinary(nil, f); !bytes.Equal(got, want) {
			t.Fatalf("merged %x, want %x", got, want)
		}
		if after := b.AppendBinary(nil, All); !bytes.Equal(before, after) {
			t.Fatalf("Merge changed its argument from %x to %x", before, after)
		}
	})
}

// What is decoded goes on as if it had never been encoded: the crash property of one entry.
func TestAccumulatorGoesOnAfterDecoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(doubles(), 0, 30).Draw(t, "values")
		cut := rapid.IntRange(0, len(values)).Draw(t, "cut")
		f := functions().Draw(t, "functions")
		a := accumulate(values[:cut])
		var b Accumulator
		rest, err := b.DecodeBinary(append(a.AppendBinary(nil, f), "rest"...), f)
		if err != nil || string(rest) != "rest" {
			t.Fatalf("rest %q, %v", rest, err)
		}
		for i, v := range values[cut:] {
			a.Add(v, spot(cut+i))
			b.Add(v, spot(cut+i))
		}
		if got, want := b.AppendBinary(nil, f), a.AppendBinary(nil, f); !bytes.Equal(got, want) {
			t.Fatalf("after decoding %x, without %x", got, want)
		}
	})
}

// refused are bytes of no accumulator with the plain functions.
var refused = map[string]string{
	"nothing":              "",
	"long count":           "8100",
	"count above int64":    "ffffffffffffffffff01",
	"count of 11 bytes":    "ffffffffffffffffffffff01",
	"no sum":               "01",
	"long zero sum":        "018000",
	"negative zero sum":    "0101",
	"sum without exponent": "0102",
	"sum without M":        "010200",
	"even M":               "01020002",
	"zero byte above M":    "0104000100",
	"exponent too low":     "0102e51001",
	"exponent too high":    "0102fe1001",
	"M of 272 bytes":       "01a00400" + strings.Repeat("01", 272),
	"no min":               "0100",
	"min not finite":       "0100" + "000000000000f07f" + "0000000000000000",
	"max NaN":              "0100" + "0000000000000000" + "010000000000f87f",
	"min above max":        "0100" + "000000000000f03f" + "0000000000000000",
	"min 0, max -0":        "0100" + "0000000000000000" + "0000000000000080",
	"short max":            "0100" + "0000000000000000" + "00000000000000",
}

func TestDecodeRefuses(t *testing.T) {
	for name, hexed := range refused {
		checkRefused(t, name, Plain, hexed)
	}
}

// checkRefused decodes what nothing encodes to; nothing of it stays.
func checkRefused(t *testing.T, name string, f Functions, hexed string) {
	t.Helper()
	b, err := hex.DecodeString(hexed)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	var a Accumulator
	if rest, err := a.DecodeBinary(b, f); err == nil {
		t.Errorf("%s: %x was accepted, rest %x", name, b, rest)
	}
	if a.Count() != 0 {
		t.Errorf("%s: count %d after an error", name, a.Count())
	}
}

// FuzzDecodeBinary: any bytes either decode and encode to themselves, or are refused; never a panic.
func FuzzDecodeBinary(f *testing.F) {
	for _, c := range goldenCases() {
		f.Add(accumulate(c.values).AppendBinary(nil, All), uint32(All))
		f.Add(accumulate(c.values).AppendBinary(nil, Plain), uint32(Plain))
	}
	f.Add(foldWhole([]wholeArrival{{-7, *spot(1)}, {1 << 60, *spot(2)}}, All).AppendBinary(nil, All|Whole), uint32(All|Whole))
	f.Add(foldAll(make33(), All).AppendBinary(nil, All), uint32(All))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), uint32(0)) // the largest count
	for _, hexed := range refused {
		b, _ := hex.DecodeString(hexed)
		f.Add(b, uint32(Plain))
	}
	f.Fuzz(func(t *testing.T, b []byte, set uint32) {
		fs := Functions(set) & (All | Whole)
		var a Accumulator
		rest, err := a.DecodeBinary(b, fs)
		if err != nil {
			return
		}
		used := b[:len(b)-len(rest)]
		if again := a.AppendBinary(nil, fs); !bytes.Equal(again, used) {
			t.Fatalf("%x decodes and encodes to %x", used, again)
		}
		if a.Count() < math.MaxInt64 && fs&Whole != 0 {
			a.AddWhole(5, spot(0))
		} else if a.Count() < math.MaxInt64 {
			a.Add(0.5, spot(0))
		}
		a.Sum().Float64()
		a.Mean()
		if fs&Spreads != 0 {
			a.Spread(StddevPop)
		}
		if fs&Trails != 0 {
			a.Delta()
			a.Rate()
			a.TimeMean()
		}
		a.Sum().AppendExact(nil)
	})
}

type goldenCase struct {
	name   string
	values []float64
}

func goldenCases() []goldenCase {
	return []goldenCase{
		{"none", nil},
		{"zero", []float64{0}},
		{"negative zero", []float64{math.Copysign(0, -1)}},
		{"one", []float64{1}},
		{"one negative", []float64{-1}},
		{"sensor", []float64{21.5, 21.25, -3.125, 20.1}},
		{"tenths", []float64{0.1, 0.1, 0.1}},
		{"cancelling", []float64{1e16, 1, -1e16, 1}},
		{"beyond the range", []float64{1.7e308, 1.7e308}},
		{"smallest", []float64{5e-324}},
		{"17 bytes", []float64{0x1p130, 1}},
		{"widest", []float64{math.MaxFloat64, math.MaxFloat64, -5e-324}},
		{"200 readings", slicesRepeat(12.75, 200)},
	}
}

func slicesRepeat(v float64, n int) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = v
	}
	return values
}

// The bytes of format 1 are golden: a change here is a new format.
func TestGoldenBytes(t *testing.T) {
	for name, sets := range map[string][]Functions{
		"accumulator": {Plain, Count, Total, Min | Max},
		"spread":      {Range, Variance, Count | StddevPop, Min | Stddev | Range, Plain | Range | Spreads},
	} {
		var b strings.Builder
		for _, c := range goldenCases() {
			for _, f := range sets {
				fmt.Fprintf(&b, "%s\t%s\t%x\n", c.name, f, accumulate(c.values).AppendBinary(nil, f))
			}
		}
		checkGolden(t, filepath.Join("testdata", name+".v1.golden"), &b)
	}
}

// checkGoldenValues is checkGolden for functions of which all are golden that come of some numbers.
func checkGoldenValues(t *testing.T, name string, f Functions, lists ...[]float64) {
	t.Helper()
	var b strings.Builder
	for _, values := range lists {
		fmt.Fprintf(&b, "%d\t%x\n", len(values), foldValues(f, values...).AppendBinary(nil, f))
	}
	checkGolden(t, filepath.Join("testdata", name+".v1.golden"), &b)
}

func checkGolden(t *testing.T, path string, b *strings.Builder) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("format 1 has changed\n got:\n%s\nwant:\n%s", b.String(), want)
	}
}
