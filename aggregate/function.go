package aggregate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Functions is a set of functions over the numbers of a window. Quantiles stands for any of the percentiles, which of
// them is a Percents of its own: what is kept is the same for all.
type Functions uint32

// The functions of this version. Results and encodings list them in this order, whatever the order of configuration.
const (
	Count Functions = 1 << iota
	Total           // the word is "sum"
	Min
	Max
	Mean
	Range
	Variance
	Stddev
	VariancePop
	StddevPop
	First
	Last
	Delta
	Rate
	TimeMean
	Distinct
	Quantiles // no word of its own
)

// Sets of functions.
const (
	All Functions = 2<<len(words) - 1 // all there are

	Plain    = Count | Total | Min | Max | Mean            // what every Accumulator can tell without being asked before
	Spreads  = Variance | Stddev | VariancePop | StddevPop // computed from the exact sums of numbers and squares
	FromSums = Total | Mean | Spreads                      // what needs the exact sum
	Ends     = First | Last
	Rises    = Delta | Rate     // of a counter
	Trails   = Rises | TimeMean // computed from one reading to the next
)

// What an encoding keeps beside the count, which is always kept, and the sums.
const (
	needMin = Min | Range | Quantiles
	needMax = Max | Range | Quantiles
)

// words are the functions' names in the order of their bits.
var words = [...]string{"count", "sum", "min", "max", "mean", "range", "variance", "stddev", "variance_pop", "stddev_pop",
	"first", "last", "delta", "rate", "time_mean", "distinct"}

// Percents is a set of percentiles: bit i stands for p(50+i).
type Percents uint64

// The range of percentiles.
const (
	firstPercent = 50
	lastPercent  = 99

	AllPercents Percents = 1<<(lastPercent-firstPercent+1) - 1
)

// percentWords are the names of percentiles, for people.
const percentWords = "p50 to p99"

// Words are the names of all functions, as people are told them.
func Words() []string { return append(slices.Clone(words[:]), percentWords) }

// ParseFunction returns the function with this name; for a percentile that is Quantiles and which. The error lists the
// names there are.
func ParseFunction(name string) (Functions, Percents, error) {
	if i := slices.Index(words[:], name); i >= 0 {
		return 1 << i, 0, nil
	}
	if len(name) == 3 && name[0] == 'p' && name[1] >= '5' && name[1] <= '9' && name[2] >= '0' && name[2] <= '9' {
		return Quantiles, 1 << (int(name[1]-'0')*10 + int(name[2]-'0') - firstPercent), nil
	}
	return 0, 0, fmt.Errorf("function %q is unknown; there are %s", name, strings.Join(Words(), ", "))
}

// List are the percentiles in p in rising order, from 50 to 99.
func (p Percents) List() []int {
	var list []int
	for i := firstPercent; i <= lastPercent; i++ {
		if p>>(i-firstPercent)&1 != 0 {
			list = append(list, i)
		}
	}
	return list
}

// Has tells whether f holds all of the functions g.
func (f Functions) Has(g Functions) bool { return f&g == g }

// MaxBytes is the largest number of bytes that AppendBinary writes for f.
func (f Functions) MaxBytes() int {
	size := 10 + 3 + 2 + maxBytes + 8 + 8 // count; head, exponent and M of the sum; min and max, whether needed or not
	if f&Spreads != 0 {
		size += 3 + 2 + maxSquareBytes
	}
	for _, end := range []Functions{First, Last} {
		if f&end != 0 {
			size += maxAtBytes + numberBytes
		}
	}
	if f&Trails != 0 {
		size += maxTrailBytes
	}
	if f&Distinct != 0 {
		size += maxDistinctBytes
	}
	if f&Quantiles != 0 {
		size += maxQuantileBytes
	}
	return size
}

// Names are the names of the functions in f but for the percentiles, in their fixed order.
func (f Functions) Names() []string {
	var names []string
	for i, word := range words {
		if f.Has(1 << i) {
			names = append(names, word)
		}
	}
	return names
}

// Names are the names of all functions in f, with the percentiles p for Quantiles, in their fixed order.
func Names(f Functions, p Percents) []string {
	names := f.Names()
	if f&Quantiles != 0 {
		for _, percent := range p.List() {
			names = append(names, "p"+strconv.Itoa(percent))
		}
	}
	return names
}

// String is the names separated by commas, "quantiles" standing for the percentiles.
func (f Functions) String() string {
	names := f.Names()
	if f&Quantiles != 0 {
		names = append(names, "quantiles")
	}
	return strings.Join(names, ",")
}
