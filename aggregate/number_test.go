package aggregate

import (
	"encoding/json"
	"math"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

func TestAppendFloat(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 12: "12", -7: "-7", 0.1: "0.1", 1e-6: "0.000001", 1e-7: "1e-7", 1.5e300: "1.5e+300", 5e-324: "5e-324",
		1 << 53: "9007199254740992", 1<<53 - 1: "9007199254740991", 1e20: "100000000000000000000", 1e21: "1e+21",
		math.MaxFloat64: "1.7976931348623157e+308", -2.5e-9: "-2.5e-9", 30.7: "30.7",
	} {
		if got := string(AppendFloat(nil, v)); got != want {
			t.Errorf("%v is written as %s, want %s", v, got, want)
		}
	}
	if got := string(AppendFloat([]byte("x"), math.Copysign(0, -1))); got != "x-0" {
		t.Errorf("negative zero is written as %s", got)
	}
}

// It reads back as the same bits, is the shortest there is, and has the bytes of encoding/json.
func TestAppendFloatReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := doubles().Draw(t, "v")
		got := string(AppendFloat(nil, v))
		back, err := strconv.ParseFloat(got, 64)
		if err != nil || !sameBits(back, v) {
			t.Fatalf("%x is written as %s and read as %x, %v", v, got, back, err)
		}
		if want, _ := json.Marshal(v); got != string(want) {
			t.Fatalf("%x is written as %s, by encoding/json as %s", v, got, want)
		}
	})
}

// Numbers of few decimals are written by a way of their own: they, their neighbours, and what is just too large for it.
func TestAppendFloatOfFewDecimals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		power := rapid.IntRange(0, 16).Draw(t, "power")
		decimals := rapid.Int64Range(1, int64(math.Pow10(power))).Draw(t, "decimals")
		v := float64(decimals) / math.Pow10(rapid.IntRange(0, 7).Draw(t, "point"))
		for _, v := range []float64{v, -v, math.Nextafter(v, 0), math.Nextafter(v, math.Inf(1)), math.Nextafter(math.Nextafter(v, 0), 0)} {
			got := string(AppendFloat(nil, v))
			if want, _ := json.Marshal(v); got != string(want) {
				t.Fatalf("%x is written as %s, by encoding/json as %s", v, got, want)
			}
		}
	})
}
