// Package job is the built-in Processor: it judges the records of an input partition, folds their readings into windows
// and encodes entries and results. It promises
//
//   - the order of judgement of section 7, so that the same input gives the same state, results, late readings and dead
//     letters whatever the batches, crashes and instances (I11): see Job.Process;
//   - that every reading is accepted or dead-lettered, and every accepted one folded or late, by counters that are
//     committed with it (I9);
//   - that nothing reaches the fold whose entry or result would not fit its topic (R7);
//   - zero allocations for a reading that is accepted and folded.
//
// # Entries
//
// An entry is one window of one key. Its value, format 1, is the byte 1 and then, for each configured value in order,
// the accumulator with the aggregation's functions (see package aggregate). What gives these bytes their meaning is the
// aggregation's definition, a line of text whose hash is the fingerprint in the commit record (R32).
//
// What dedup remembers are entries too, under the name (dedup): the last key field is the reading's time in ms or its
// sequence, the window start a fixed one before any time, and the value is the byte 1 and how long after that start the
// reading is forgotten, as an unsigned varint.
//
// With Config.MaxLag each key of an aggregation has one entry more, its clock: under the aggregation's name and the key
// fields, with that same start, and as value the byte 1 and how long after the start its windows are closed, as an unsigned
// varint.
//
// # Results and dump lines
//
//	{"agg":"hourly","key":["a"],"start":1704067200000,"end":1704070800000,"count":2,"sum":3,"min":1,"max":2,"mean":1.5,"final":true}
//
// Names stand in this order and only configured functions are there. Times are ms since the epoch, UTC. Numbers are the
// shortest that read back as the same double. After the mean come "range", "variance", "stddev", "variance_pop" and
// "stddev_pop", then the others in the order of package aggregate. What is beyond the doubles is null, and "overflow":true follows the functions; the sample forms of a single
// reading, and others that are not defined, are null without it; when that is because readings came too far out of order,
// "unordered":true follows. With several values the functions of each stand in an object of its own under "values", by the name of its
// field, and the count of readings stands before them as well. A dump line is the same without "final"; the exact dump
// adds "sum_exact" and, with a variance or deviation, "squares_exact" after the functions.
//
// The key of a result is the record key of all key fields: the text of a single field, else a compact JSON array of
// strings.
package job
