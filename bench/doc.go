// Package bench measures what docs/performance.md reports: how fast readings are folded from JSON bytes, what a commit
// costs, and the whole job. Run it with make bench.
package bench
