package sim

import (
	"fmt"
	"math/rand/v2"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// feedStart is where event time begins: 2024-01-01T00:00:00Z, in ms. Where calendar windows are to end it flies: a reading
// is hours after the one before.
const (
	feedStart = 1_704_067_200_000
	flying    = 12_000
)

// feeder makes readings with everything in them that a job must get right: out of order, late, ahead of time, bad, and
// numbers that a plain sum gets wrong. Devices are of one partition each.
type feeder struct {
	partitions int32
	clock      []int64          // event time of each partition
	behind     int64            // ms by which one device in four is
	pace       int64            // times as fast
	repeats    bool             // readings come twice
	strewn     bool             // devices are of no partition in particular
	last       [][]kafka.Record // by partition
}

// newFeeder makes the feeder of a scenario.
func newFeeder(s *scenario) *feeder {
	f := &feeder{partitions: s.Partitions, clock: make([]int64, s.Partitions), behind: s.MaxLag / 2, pace: 1, repeats: s.Dedup > 0, strewn: s.Between > 0,
		last: make([][]kafka.Record, s.Partitions)}
	if s.calendar() {
		f.pace = flying
	}
	return f
}

// wave makes the records of a wave, by partition.
func (f *feeder) wave(w wave) [][]kafka.Record {
	r := rand.New(rand.NewPCG(w.Seed, 0xfeed))
	records := make([][]kafka.Record, f.partitions)
	for range w.N {
		p := r.Int32N(f.partitions)
		f.clock[p] += r.Int64N(2500) * f.pace
		one := f.reading(r, p)
		if f.repeats {
			one = f.repeat(r, p, one)
		}
		records[p] = append(records[p], one)
	}
	return records
}

func (f *feeder) reading(r *rand.Rand, p int32) kafka.Record {
	nth := r.IntN(4)
	device := fmt.Sprintf("p%d-%d", p, nth)
	if f.strewn {
		device = device[len("p0-"):]
	}
	at := feedStart + f.clock[p] - r.Int64N(1500)*f.pace
	if nth == 3 {
		at -= f.behind
	}
	stamp := at + r.Int64N(2000) // of the record
	switch r.IntN(30) {
	case 0, 1:
		at -= r.Int64N(60_000) * f.pace // late
	case 2:
		at += 4 * 60_000 // ahead, and accepted
	case 3:
		at += 60 * 60_000 // ahead, and refused
	case 4:
		stamp -= r.Int64N(200_000) // the clock of the record jumps
	}
	value := fmt.Sprintf(`{"device":%q,"ts":%d,"v":%s}`, device, at, number(r))
	if r.IntN(25) == 0 {
		value = bad(r, device, at)
	}
	return kafka.Record{Key: []byte(device), Value: []byte(value), Timestamp: stamp}
}

// repeat may give one of the last records in place of a new one: its bytes, at another time.
func (f *feeder) repeat(r *rand.Rand, p int32, one kafka.Record) kafka.Record {
	const remembered = 12
	last := f.last[p]
	if len(last) > 0 && r.IntN(4) == 0 {
		before := last[r.IntN(len(last))]
		before.Timestamp += r.Int64N(3000)
		return before
	}
	f.last[p] = append(last[max(0, len(last)-remembered+1):len(last):len(last)], one)
	return one
}

func number(r *rand.Rand) string {
	switch r.IntN(12) {
	case 0:
		return "1e16"
	case 1:
		return "-1e16"
	case 2:
		return "-0"
	case 3:
		return "1e-7"
	}
	return fmt.Sprintf("%d.%d", r.IntN(200)-100, r.IntN(1000))
}

func bad(r *rand.Rand, device string, at int64) string {
	forms := []string{`{"device":%q,"ts":%d,"v":null}`, `{"device":%q,"ts":%d}`, `{"device":%q,"ts":%d,"v":`, `{"device":%q,"ts":-%d,"v":1}`,
		`{"device":%q,"ts":%d,"v":1,"v":2}`, `{"device":%q,"ts":"%d","v":1}`}
	return fmt.Sprintf(forms[r.IntN(len(forms))], device, at)
}
