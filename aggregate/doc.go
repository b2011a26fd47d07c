// Package aggregate folds the readings of a window into exact sums, extremes, deviations, first and last numbers, rises of
// counters, means over time, counts of different numbers and percentiles, and writes what it folded as canonical bytes.
//
// Three promises hold for every Accumulator and every Sum:
//
//   - Exact. A sum is the integer M x 2^e with M odd or zero; nothing is rounded until a result is asked for, and then
//     once, half to even. 1e16, 1, -1e16, 1 sum to 2, and 1.7e308, 1.7e308, -1.7e308 to 1.7e308.
//   - Canonical. Equal sets of readings have equal bytes in any order, grouping or merge (I11): the bytes go into
//     a digest, so two encodings of one value would look like damage.
//   - Closed. Decoding accepts exactly what encoding writes. Anything else is an error, never a guess.
//
// No floating-point multiplication or addition is used where it could round, but in the estimate of different numbers,
// where none may be fused; so every CPU computes the same bits. The byte format is version 1, described in encode.go and
// where each part is; the version byte itself is written by whoever writes the value.
//
// The package is pure: no I/O, no clock, no goroutines. Nothing here is safe for concurrent use.
package aggregate
