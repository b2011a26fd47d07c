// Package oracle is a second, independent tidemark: slow, plain and obviously right. It is given the exact records of
// each input partition and says which windows, late readings, dead letters and counters must come of them. It also
// reads topics, the changelog and the truth files by itself, so that a test compares what tidemark published with what
// it should have published, and never with what tidemark believes.
//
// It shares no code with what it judges: nothing of this module is imported, JSON is read by encoding/json under checks
// of its own, sums are integers of math/big, and the formats it needs are written down here a second time. What it
// cannot see is listed in docs/internals/oracle.md.
package oracle
