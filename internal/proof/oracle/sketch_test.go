package oracle

import (
	"math"
	"testing"
)

// Percentiles and counts of different numbers by hand.
func TestSketches(t *testing.T) {
	of := func(values ...float64) Stats {
		w := &Window{}
		for i, v := range values {
			w.Readings = append(w.Readings, Folded{Offset: int64(i), Values: []float64{v}})
		}
		return w.Stats(0, len(values))
	}
	for _, c := range []struct {
		name   string
		values []float64
		want   float64
	}{
		{"distinct", []float64{1, 2, 1, 0, math.Copysign(0, -1)}, 3},
		{"p50", []float64{1, 2, 3, 4}, 2}, {"p51", []float64{1, 2, 3, 4}, 3}, {"p99", []float64{20.1}, 20.1},
		{"p99", []float64{1023, 0}, 1022}, {"p50", []float64{-1023, -2000, 5}, -1022},
	} {
		if got, ok := of(c.values...).Function(c.name); !ok || got != c.want {
			t.Errorf("%s of %v is %v, want %v", c.name, c.values, got, c.want)
		}
	}
	many := make([]float64, 10_000)
	for i := range many {
		many[i] = float64(i)
	}
	if got, _ := of(many...).Function("distinct"); math.Abs(got-10_000) > 500 {
		t.Errorf("%v different numbers of 10,000", got)
	}
	for _, name := range []string{"p49", "p100", "p5", "q50", "p5x"} {
		if x, ok := of(1).Function(name); ok {
			t.Errorf("%s is %v", name, x)
		}
	}
	w := &Window{Readings: []Folded{{Values: []float64{2}}, {Values: []float64{2}}, {Values: []float64{-2.25}}}}
	// 2 is exponent field 1024 and no digits: key 1024<<8 = 262144; 2.25 has digits 00100000: key 262176, complement -262177
	const want = "\x01\x03" + "\x00\x00\x00\x00\x00\x00\x02\xc0" + "\x00\x00\x00\x00\x00\x00\x00\x40" + "\x02\x00" + "\xc1\x80\x20\x00" + "\xa0\x80\x20\x01"
	if got := string(w.EntryValue(3, 1, []string{"p50"})); got != want {
		t.Errorf("entry %x, want %x", got, want)
	}
}
