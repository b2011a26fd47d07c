package aggregate

import (
	"errors"
	"testing"
)

func TestParseFunction(t *testing.T) {
	var all Functions
	for _, name := range []string{"stddev_pop", "variance_pop", "stddev", "variance", "range", "mean", "max", "min", "sum", "count", "last", "first",
		"time_mean", "rate", "delta"} {
		f, err := ParseFunction(name)
		if err != nil {
			t.Fatal(err)
		}
		all |= f
	}
	if all != All || all.String() != "count,sum,min,max,mean,range,variance,stddev,variance_pop,stddev_pop,first,last,delta,rate,time_mean" {
		t.Errorf("all functions are %s (%b)", all, all)
	}
	if !All.Has(Min|Max) || (Count | Min).Has(Min|Max) {
		t.Error("Has is not about all of its argument")
	}
}

func TestParseFunctionLater(t *testing.T) {
	for _, name := range []string{"distinct", "p50", "p90", "p95", "p99"} {
		if _, err := ParseFunction(name); !errors.Is(err, ErrNotYet) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"", "Sum", "avg", "p5", "p100", "p5x", "p49", "count "} {
		if _, err := ParseFunction(name); err == nil || errors.Is(err, ErrNotYet) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
