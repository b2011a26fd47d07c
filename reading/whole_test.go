package reading

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func wholeFormat() Format {
	f := DefaultFormat()
	f.Key, f.Values, f.Time, f.Whole = []string{"k"}, []string{"v"}, "t", true
	return f
}

func readWhole(t *testing.T, r *Reader, token string) (*Reading, *Refusal) {
	t.Helper()
	return r.Read(fmt.Appendf(nil, `{"k":"a","t":1704067200000,"v":%s}`, token), 1704067200000)
}

// int64 mode takes all digits of whole numbers, however they are written, and nothing else.
func TestWholeNumbers(t *testing.T) {
	r, err := NewReader(wholeFormat())
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]int64{
		"0": 0, "-0": 0, "0.0": 0, "0e5": 0, "7": 7, "-7": -7, "12.0": 12, "1.2e1": 12, "1200e-2": 12, "-12.00e0": -12,
		"9007199254740993": 1<<53 + 1, "9223372036854775807": 1<<63 - 1, "-9223372036854775808": -1 << 63,
		"922337203685477580.7e1": 1<<63 - 1, "9223372036854775807.000": 1<<63 - 1, "0.009223372036854775807e21": 1<<63 - 1,
		"100000000000000000": 1e17, "1e18": 1e18, "1000000000000000000": 1e18,
	} {
		got, refusal := readWhole(t, r, token)
		if refusal != nil || got.Whole[0] != want {
			t.Errorf("%s: %v, %v; want %d", token, got, refusal, want)
		}
	}
	for token, want := range map[string]Reason{
		"0.5": NotWhole, "1e-1": NotWhole, "9223372036854775808": NotWhole, "-9223372036854775809": NotWhole, "1e19": NotWhole,
		"18446744073709551617": NotWhole, "1e300": NotWhole, "1e-300": NotWhole, "12.000001": NotWhole, "99999999999999999999": NotWhole,
		"1e999": NotFinite, "null": NullField, `"7"`: WrongType, "true": WrongType,
	} {
		if got, refusal := readWhole(t, r, token); refusal == nil || refusal.Reason != want {
			t.Errorf("%s: %v, %v; want %s", token, got, refusal, want)
		}
	}
}

// Any token agrees with the rational that it stands for.
func TestWholeAgreesWithRationals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		token := rapid.StringMatching(`-?(0|[1-9][0-9]{0,22})(\.[0-9]{1,8})?([eE][+-]?[0-9]{1,2})?`).Draw(t, "token")
		want, ok := new(big.Rat).SetString(token)
		if !ok {
			t.Fatalf("no rational: %s", token)
		}
		got, taken := parseWhole([]byte(token))
		if fits := want.IsInt() && want.Num().IsInt64(); taken != fits || fits && got != want.Num().Int64() {
			t.Fatalf("%s is %d, %v; want %v", token, got, taken, want)
		}
	})
}

// Texts, columns and what stands for no value work as with doubles; expressions do not.
func TestWholeLenient(t *testing.T) {
	f := wholeFormat()
	f.Numbers = []Number{{Text: true, Take: "{} Wh", Missing: []Absent{{Number: -1, IsNumber: true}}, Range: &Range{0, 1e18}}}
	r, err := NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]int64{`"9007199254740993 Wh"`: 1<<53 + 1, `9007199254740995`: 1<<53 + 3, `"12.0 Wh"`: 12} {
		if got, refusal := readWhole(t, r, token); refusal != nil || got.Whole[0] != want {
			t.Errorf("%s: %v, %v; want %d", token, got, refusal, want)
		}
	}
	for token, want := range map[string]Reason{`"0.5 Wh"`: NotWhole, `-1`: NoValue, `2e18`: OutOfRange} {
		if _, refusal := readWhole(t, r, token); refusal == nil || refusal.Reason != want {
			t.Errorf("%s: %v; want %s", token, refusal, want)
		}
	}
	for _, number := range []Number{{Value: "a*2"}, {Convert: "x*2"}} {
		f := wholeFormat()
		f.Numbers = []Number{number}
		if err := f.Check(); err == nil || !strings.Contains(err.Error(), "expressions compute with doubles") {
			t.Errorf("%+v: %v", number, err)
		}
	}
}
