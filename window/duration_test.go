package window

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]int64{
		"1h30m": 90 * Minute, "5m": 5 * Minute, "30s": 30 * Second, "100ms": 100, "1d": Day, "1d1h1m1s1ms": 90061001,
		"0": 0, "0s": 0, "0h0m": 0, "1000000h": Longest, "1ms": 1, "007s": 7 * Second, "1m1ms": Minute + 1,
	} {
		if got, err := ParseDuration(text, Graces); err != nil || got != want {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
}

// W18: what cannot move time, and what is not a duration, is refused with what is wrong and the allowed range.
func TestParseDurationRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "is empty",
		"0s":                            "must not be zero",
		"0":                             "must not be zero",
		"-1m":                           "is negative",
		"-0s":                           "is negative",
		"60":                            "has no unit after 60",
		"1h30":                          "has no unit after 30",
		"1M":                            `has unit "M"`,
		"500us":                         `has unit "us", but nothing is finer than ms`,
		"500µs":                         `has unit "µs", but nothing is finer than ms`,
		"3ns":                           `has unit "ns"`,
		"300000000h":                    "is too long",
		"1000001h":                      "is too long",
		"1000000h1ms":                   "is too long",
		"99999999999999999999999h":      "is too long",
		"9223372036854775807ms":         "is too long",
		"200000000000d":                 "is too long",
		"1.5h":                          "has a fraction",
		"1,5h":                          "has a fraction",
		"h":                             `has no number before "h"`,
		"+1h":                           `has no number before "+1h"`,
		"1h 30m":                        `has no number before " 30m"`,
		" 1h":                           `has no number before " 1h"`,
		"1m1h":                          `has "h" out of order`,
		"1m1m":                          `has "m" out of order`,
		"1w":                            `has unit "w", known are d, h, m, s, ms`,
		"1H":                            `has unit "H", known are d, h, m, s, ms`,
		"5min":                          `has unit "min", known are d, h, m, s, ms`,
		"٣s":                            "has no number before",
		"1_000s":                        "has no unit after 1",
		"1e3s":                          `has unit "e"`,
		strings.Repeat("1", 1000) + "h": "is too long",
	} {
		_, err := ParseDuration(text, Sizes)
		if err == nil {
			t.Errorf("%q is accepted", text)
			continue
		}
		if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "want 1ms to 1000000h") {
			t.Errorf("%q: %v; want %q and the range", text, err, want)
		}
	}
	if _, err := ParseDuration("99ms", Range{100, Second}); err == nil || !strings.Contains(err.Error(), "too short: want 100ms to 1s") {
		t.Errorf("99ms: %v", err)
	}
}

func TestFormatReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(0, Longest).Draw(t, "ms")
		if got, err := ParseDuration(Format(ms), Graces); err != nil || got != ms {
			t.Fatalf("%d is written as %s and read as %d, %v", ms, Format(ms), got, err)
		}
	})
	for ms, want := range map[int64]string{
		0: "0s", 90 * Minute: "1h30m", Longest: "1000000h", -1500: "-1s500ms", -1 << 63: "-2562047788015h12m55s808ms",
	} {
		if got := Format(ms); got != want {
			t.Errorf("%d is written as %s, want %s", ms, got, want)
		}
	}
}

// FuzzParseDuration: never a panic, never a value out of range.
func FuzzParseDuration(f *testing.F) {
	for _, text := range []string{"1h30m", "0", "-1m", "500us", "1M", "300000000h", "1.5h", "\xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ms, err := ParseDuration(text, Sizes)
		if err == nil && (ms < Sizes.Min || ms > Sizes.Max) {
			t.Fatalf("%q is %d ms", text, ms)
		}
	})
}
