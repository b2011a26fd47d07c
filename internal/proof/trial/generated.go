package trial

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// generated makes readings that fit a configuration and hold what is hard: times out of order, late ones, values that a
// loop of plain additions gets wrong, and records that must be refused.
type generated struct {
	random *rand.Rand
	config *oracle.Config
	sent   int64
	start  int64 // ms
	size   int64 // of the shortest window, ms
	delay  int64 // the longest, ms
}

// perWindow is how many readings pass while event time moves by the shortest window, and devices how many keys there are.
const (
	perWindow = 600
	devices   = 24
)

// longest bounds how event time moves where windows are longer than what there is of the past, ms.
const longest = 10 * 24 * 60 * 60 * 1000

// Generated is a source that never ends; the same seed gives the same readings.
func Generated(config *oracle.Config) func(seed uint64) Source {
	return func(seed uint64) Source {
		g := &generated{random: rand.New(rand.NewPCG(seed, 3)), config: config}
		for _, a := range config.Aggregations {
			length := a.Size
			switch {
			case a.Gap > 0:
				length = 4 * a.Gap
			case a.Unit != "":
				length = 24 * 60 * 60 * 1000
			}
			size := length
			if a.Step > 0 {
				size = a.Step
			}
			if g.size == 0 || size < g.size {
				g.size = size
			}
			g.delay = max(g.delay, min(length+2*a.Grace, 4*length))
		}
		g.size, g.delay = min(g.size, longest), min(g.delay, 2*longest)
		// It ends long before now: event time must not run ahead of the records' own.
		const windows = 400
		g.start = max(time.Now().UnixMilli()-windows*g.size, config.Min+g.size+g.delay)
		return g.next
	}
}

func (g *generated) next() (Reading, bool) {
	g.sent++
	fields := map[string]any{}
	var key []string
	for i, name := range g.config.Key {
		field := fmt.Sprintf("%s-%02d", name, g.random.IntN(max(1, devices>>(2*i))))
		fields[name] = field
	}
	for _, name := range g.config.RecordKeyFields() {
		key = append(key, fields[name].(string))
	}
	at := g.start + g.sent*g.size/perWindow - g.random.Int64N(g.size/3+1)
	if g.random.IntN(10) == 0 {
		at -= g.random.Int64N(g.delay + 1)
	}
	for _, name := range g.config.Values {
		fields[name] = g.value()
	}
	fields[g.config.Time.Name] = instant(at, g.config.Time.Unit)
	record := oracle.RecordKey(key)
	r := Reading{Key: record, Partition: oracle.PartitionOf(g.partitioner(), record, g.config.Partitions)}
	if g.random.IntN(100) == 0 {
		g.spoil(fields)
	}
	r.Value, _ = json.Marshal(fields) // of text and numbers: it cannot fail
	if g.random.IntN(200) == 0 {
		r.Value = r.Value[:len(r.Value)-1-g.random.IntN(len(r.Value)/2)]
	}
	return r, true
}

func (g *generated) partitioner() string {
	if g.config.Partitioner == "unchecked" {
		return "murmur2"
	}
	return g.config.Partitioner
}

func (g *generated) value() json.Number {
	switch g.random.IntN(10) {
	case 0:
		return "1e16"
	case 1:
		return "-1e16"
	case 2:
		return "-0"
	}
	return json.Number(fmt.Sprintf("%d.%d", g.random.IntN(200)-100, g.random.IntN(100)))
}

// spoil makes a record that must be refused.
func (g *generated) spoil(fields map[string]any) {
	names := append([]string{g.config.Time.Name}, g.config.Values...)
	name := names[g.random.IntN(len(names))]
	switch g.random.IntN(4) {
	case 0:
		delete(fields, name)
	case 1:
		fields[name] = nil
	case 2:
		fields[name] = true
	default:
		fields[g.config.Time.Name] = instant(1_000, g.config.Time.Unit) // 1970
	}
}

// instant writes a time in ms in a unit of the configuration.
func instant(ms int64, unit string) any {
	switch unit {
	case "s":
		return json.Number(fmt.Sprintf("%d.%03d", ms/1000, ms%1000))
	case "us":
		return ms * 1000
	case "ns":
		return ms * 1_000_000
	case "rfc3339":
		return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z07:00")
	}
	return ms
}
