package aggregate

import (
	"errors"
	"fmt"
	"strings"
)

// Functions is a set of functions over the numbers of a window.
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
)

// Sets of functions.
const (
	All Functions = 1<<len(words) - 1 // all of this version

	Plain    = Count | Total | Min | Max | Mean            // what every Accumulator can tell without being asked before
	Spreads  = Variance | Stddev | VariancePop | StddevPop // computed from the exact sums of numbers and squares
	FromSums = Total | Mean | Spreads                      // what needs the exact sum
	Ends     = First | Last
	Rises    = Delta | Rate     // of a counter
	Trails   = Rises | TimeMean // computed from one reading to the next
)

// What an encoding keeps beside the count, which is always kept, and the sums.
const (
	needMin = Min | Range
	needMax = Max | Range
)

// words are the functions' names in the order of their bits.
var words = [...]string{"count", "sum", "min", "max", "mean", "range", "variance", "stddev", "variance_pop", "stddev_pop",
	"first", "last", "delta", "rate", "time_mean"}

// laterWords are names that have a meaning already but no implementation. The quantiles p50 to p99 come on top.
var laterWords = [...]string{"distinct"}

// ErrNotYet is wrapped by the error of ParseFunction for a function that a later version will have.
var ErrNotYet = errors.New("not yet in this version")

// ParseFunction returns the function with this name. The error lists the names there are.
func ParseFunction(name string) (Functions, error) {
	for i, word := range words {
		if word == name {
			return 1 << i, nil
		}
	}
	if isLater(name) {
		return 0, fmt.Errorf("function %q: %w; this version has %s", name, ErrNotYet, strings.Join(words[:], ", "))
	}
	return 0, fmt.Errorf("function %q is unknown; there are %s", name, strings.Join(words[:], ", "))
}

// isLater tells whether a later version will have the function.
func isLater(name string) bool {
	for _, word := range laterWords {
		if word == name {
			return true
		}
	}
	return len(name) == 3 && name[0] == 'p' && name >= "p50" && name <= "p99" && name[2] >= '0' && name[2] <= '9'
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
	return size
}

// Names are the names of the functions in f, in their fixed order.
func (f Functions) Names() []string {
	var names []string
	for i, word := range words {
		if f.Has(1 << i) {
			names = append(names, word)
		}
	}
	return names
}

// String is the names separated by commas.
func (f Functions) String() string { return strings.Join(f.Names(), ",") }
