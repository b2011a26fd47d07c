package proof

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// Fleet is a simulated fleet of devices whose readings hold everything that a job must get right: readings out of
// order, late ones, bad ones of many kinds, and values that a plain loop of additions gets wrong. The same seed gives the
// same lines.
type Fleet struct {
	random  *rand.Rand
	devices int
	sent    int64
	behind  int64 // ms
}

// NewFleet makes a fleet.
func NewFleet(seed uint64, devices int) *Fleet {
	return &Fleet{random: rand.New(rand.NewPCG(seed, 1)), devices: devices}
}

// Behind lets every fourth device lag behind the others by so many ms, as if a gateway kept its readings, and one reading
// in a hundred come from a device that never sends again (R35).
func (f *Fleet) Behind(ms int64) *Fleet {
	f.behind = ms
	return f
}

// The fleet's clock: event time begins in the past, and each line is one step later than the one before.
const (
	fleetStart  = 1704067200000 // 2024-01-01T00:00:00Z
	fleetStep   = 10            // ms
	fleetJitter = 3000          // ms: readings are up to so much out of order
	fleetDelay  = 20_000        // ms: some, of which those near the limit show a stream time that is a little wrong (W07)
)

// FleetConfig is a job over a fleet: short windows that close while the fleet runs, and long ones that stay open.
func FleetConfig(partitions int32) oracle.Config {
	c := oracle.Defaults()
	c.Key, c.Values, c.Time = []string{"device"}, []string{"value"}, oracle.TimeField{Name: "ts", Unit: "ms"}
	c.Partitions = partitions
	plain := []string{"count", "sum", "min", "max", "mean"}
	zone, err := time.LoadLocation("America/St_Johns") // of days that begin in the middle of an hour of UTC
	if err != nil {
		panic(err)
	}
	c.Aggregations = []oracle.Aggregation{
		{Name: "short", Size: 10_000, Grace: 5000, Functions: plain},
		{Name: "long", Size: 3_600_000, Offset: 60_000, Functions: every},
		{Name: "visits", Gap: 2500, Grace: 2000, Updates: true, Functions: append([]string{"first", "last"}, plain...)},
		{Name: "steps", Size: 20_000, Step: 7000, Grace: 1000, Functions: []string{"count", "sum"}},
		{Name: "days", Unit: "day", Zone: zone, Functions: plain},
	}
	return c
}

// every is every function, and two of the percentiles.
var every = []string{"count", "sum", "min", "max", "mean", "range", "variance", "stddev", "variance_pop", "stddev_pop", "first",
	"last", "delta", "rate", "time_mean", "distinct", "p50", "p99"}

// Next returns the next line. A fleet never ends.
func (f *Fleet) Next() []byte {
	f.sent++
	number := f.random.IntN(f.devices)
	device := fmt.Sprintf("d%02d", number)
	at := fleetStart + f.sent*fleetStep - f.random.Int64N(fleetJitter)
	if f.behind > 0 && number%4 == 3 {
		at -= f.behind
	}
	if f.behind > 0 && f.sent%100 == 0 {
		device = fmt.Sprintf("once%d", f.sent)
	}
	switch n := f.random.IntN(100); {
	case n < 10:
		at -= f.random.Int64N(fleetDelay)
	case n == 10:
		return f.bad(device, at)
	}
	return fmt.Appendf(nil, `{"device":%q,"ts":%d,"value":%s,"n":%d}`, device, at, f.value(), f.sent)
}

func (f *Fleet) value() string {
	switch f.random.IntN(10) {
	case 0:
		return "1e16"
	case 1:
		return "-1e16"
	case 2:
		return "-0"
	}
	return fmt.Sprintf("%d.%d", f.random.IntN(200)-100, f.random.IntN(100))
}

// bad returns a line that is no reading. The device of some can be read all the same, so that they have a record key.
func (f *Fleet) bad(device string, at int64) []byte {
	forms := []string{
		`{"device":%q,"ts":%d,"value":null}`,
		`{"device":%q,"ts":%d}`,
		`{"device":%q,"ts":%d,"value":"NaN"}`,
		`{"device":%q,"ts":%d,"value":true}`,
		`{"device":%q,"ts":%d,"value":1e400}`,
		`{"device":%q,"ts":%d0000,"value":1}`, // 50,000 years from now
		`{"device":%q,"ts":-%d,"value":1}`,
		`{"device":%q,"ts":"%d","value":1}`,
		`{"device":%q,"ts":%d,"value":1,"value":2}`,
		`{"device":%q,"ts":%d,"value":1,"x":{"y":[{"y":1,"y":2}]}}`,
		`{"device":%q,"ts":%d,"value":1}}`,
		`{"device":%q,"ts":%d,"value":`,
		`{"device":%q,"ts":%d,"value":01}`,
		`{"device":%q,"ts":%d,"value":1,"x":"` + "\xff" + `"}`,
	}
	return fmt.Appendf(nil, forms[f.random.IntN(len(forms))], device, at)
}
