package aggregate

import (
	"slices"
	"strings"
	"testing"
)

func TestParseFunction(t *testing.T) {
	var all Functions
	var percents Percents
	names := strings.Split("p99,distinct,time_mean,rate,delta,last,first,stddev_pop,variance_pop,stddev,variance,range,mean,max,min,sum,count,p50,p75", ",")
	for _, name := range names {
		f, p, err := ParseFunction(name)
		if err != nil {
			t.Fatal(err)
		}
		all |= f
		percents |= p
	}
	if all != All || all.String() != "count,sum,min,max,mean,range,variance,stddev,variance_pop,stddev_pop,first,last,delta,rate,time_mean,distinct,quantiles" {
		t.Errorf("all functions are %s (%b)", all, all)
	}
	if got := Names(all, percents); len(got) != len(names) || !slices.Equal(got[len(got)-3:], []string{"p50", "p75", "p99"}) {
		t.Errorf("all names are %v", got)
	}
	if !All.Has(Min|Max) || (Count | Min).Has(Min|Max) {
		t.Error("Has is not about all of its argument")
	}
}

// Every percentile from p50 to p99 has a bit of its own, and no other.
func TestParsePercents(t *testing.T) {
	var percents Percents
	for i := firstPercent; i <= lastPercent; i++ {
		f, p, err := ParseFunction(Names(Quantiles, 1<<(i-firstPercent))[0])
		if err != nil || f != Quantiles || p&percents != 0 || !slices.Equal(p.List(), []int{i}) {
			t.Errorf("p%d: %v, %b, %v", i, f, p, err)
		}
		percents |= p
	}
	if percents != AllPercents {
		t.Errorf("%b", percents)
	}
	for _, name := range []string{"", "Sum", "avg", "p5", "p100", "p5x", "p49", "p4:", "p:0", "q50", "count ", "quantiles"} {
		if f, _, err := ParseFunction(name); err == nil {
			t.Errorf("%q is %v", name, f)
		}
	}
}
