package oracle

import (
	"math"
	"testing"
)

func TestSumsByHand(t *testing.T) {
	third := 1.0 / 3
	for _, c := range []struct {
		values    []float64
		sum, mean float64
		exact     string
	}{
		{[]float64{1e16, 1, -1e16, 1}, 2, 0.5, "1*2^1"},
		{[]float64{1, 1, 1e16, -1e16}, 2, 0.5, "1*2^1"},
		{[]float64{1.7e308, 1.7e308, -1.7e308}, 1.7e308, 1.7e308 / 3, ""},
		{[]float64{1.7e308, 1.7e308}, math.Inf(1), 1.7e308, ""},
		{[]float64{0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1}, 1, 0.1, ""},
		{[]float64{math.SmallestNonzeroFloat64, math.SmallestNonzeroFloat64}, 1e-323, 5e-324, "1*2^-1073"},
		{[]float64{math.SmallestNonzeroFloat64, 0}, 5e-324, 0, "1*2^-1074"}, // half of the smallest goes to even
		{[]float64{math.Copysign(0, -1)}, 0, 0, "0*2^0"},
		{[]float64{-0.75, 0}, -0.75, -0.375, "-3*2^-2"},
		{[]float64{1, 0, 0}, 1, third, "1*2^0"},
		{[]float64{9007199254740992, 1}, 9007199254740992, 4503599627370496.5, "9007199254740993*2^0"},
	} {
		s := statsOf(doubles(c.values))
		if !SameBits(s.Sum(), c.sum) || !SameBits(s.Mean(), c.mean) || c.exact != "" && s.ExactSum() != c.exact {
			t.Errorf("%v: sum %v mean %v exact %s, want %v %v %s", c.values, s.Sum(), s.Mean(), s.ExactSum(), c.sum, c.mean, c.exact)
		}
	}
}

func TestMinMaxKnowTheSignOfZero(t *testing.T) {
	minus := math.Copysign(0, -1)
	for _, values := range [][]float64{{0, minus}, {minus, 0}} {
		if s := statsOf(doubles(values)); !SameBits(s.Min, minus) || !SameBits(s.Max, 0) {
			t.Errorf("%v: min %v max %v, want -0 and 0", values, s.Min, s.Max)
		}
	}
}

func TestEntryValueByHand(t *testing.T) {
	w := &Window{Readings: []Folded{{Values: []float64{1e16, -0.75}}, {Values: []float64{1, 0}}, {Values: []float64{-1e16, 0}}, {Values: []float64{1, 0.75}}}}
	const (
		minus1e16 = "\x00\x80\xe0\x37\x79\xc3\x41\xc3"
		plus1e16  = "\x00\x80\xe0\x37\x79\xc3\x41\x43"
	)
	for _, c := range []struct {
		n         int
		functions []string
		want      string
	}{
		{4, []string{"count"}, "\x01\x04\x04"},
		{4, []string{"mean", "count"}, "\x01\x04\x02\x02\x01\x04\x00"}, // 1 * 2^1, and 0
		{1, []string{"sum"}, "\x01\x01\x0a\x20\xc1\x6f\xf2\x86\x23\x01\x03\x03\x03"},
		{3, []string{"min", "max"}, "\x01\x03" + minus1e16 + plus1e16 + "\x03\x00\x00\x00\x00\x00\x00\xe8\xbf\x00\x00\x00\x00\x00\x00\x00\x00"},
	} {
		if got := w.EntryValue(c.n, 2, c.functions); string(got) != c.want {
			t.Errorf("%d readings, %v:\n got %x\nwant %x", c.n, c.functions, got, c.want)
		}
	}
}

// Textbook numbers, ties and extremes.
func TestSpreadByHand(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []float64
		want   float64
	}{
		{"range", []float64{3, -4, 1}, 7}, {"range", []float64{math.MaxFloat64, -math.MaxFloat64}, math.Inf(1)},
		{"variance", []float64{2, 4, 4, 4, 5, 5, 7, 9}, 32.0 / 7}, {"variance_pop", []float64{2, 4, 4, 4, 5, 5, 7, 9}, 4},
		{"stddev_pop", []float64{2, 4, 4, 4, 5, 5, 7, 9}, 2}, {"variance", []float64{1e16, 1e16 + 2}, 2},
		{"stddev", []float64{0, 2}, math.Sqrt2}, {"stddev_pop", []float64{0, 5e-324}, 0}, {"stddev_pop", []float64{20.1}, 0},
		{"stddev_pop", []float64{math.MaxFloat64, -math.MaxFloat64}, math.MaxFloat64},
		{"stddev", []float64{math.MaxFloat64, -math.MaxFloat64}, math.Inf(1)},
		{"variance", []float64{1e200, -1e200}, math.Inf(1)}, {"variance", []float64{1}, math.NaN()}, {"stddev", []float64{1}, math.NaN()},
	} {
		if got, ok := statsOf(doubles(c.values)).Function(c.name); !ok || got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("%s of %v is %v, want %v", c.name, c.values, got, c.want)
		}
	}
	w := &Window{Readings: []Folded{{Values: []float64{0.5}}, {Values: []float64{-1}}}} // sum -1/2, squares 5/4
	if got := string(w.EntryValue(2, 1, []string{"variance"})); got != "\x01\x02\x03\x01\x01\x02\x03\x05" {
		t.Errorf("entry %x", got)
	}
}

func doubles(values []float64) []sample {
	list := make([]sample, len(values))
	for i, x := range values {
		list[i].x = x
	}
	return list
}
