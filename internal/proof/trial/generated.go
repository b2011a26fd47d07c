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
	strewn bool  // keys are of no partition in particular, and records have none
	last   []Reading
}

// perWindow is how many readings pass while event time moves by the shortest window, and devices how many keys there are.
const (
	perWindow = 600
	devices   = 24
)

// longest bounds how event time moves where windows are longer than what there is of the past, ms.
const longest = 10 * 24 * 60 * 60 * 1000

// Generated is a source that never ends; the same seed gives the same readings. With strewn they are of no partition in
// particular. It fails for a Shape for which it finds no records.
func Generated(config *oracle.Config, strewn bool) (func(seed uint64) Source, error) {
	if config.Shape != nil {
		if _, err := newShaped(newGenerated(config, 1, strewn)); err != nil {
			return nil, err
		}
	}
	return func(seed uint64) Source {
		g := newGenerated(config, seed, strewn)
		next := g.next
		if config.Shape != nil {
			s, _ := newShaped(g) // as above
			next = s.next
		}
		if config.Dedup.Within == 0 {
			return next
		}
		return func() (Reading, bool) { return g.repeat(next) }
	}, nil
}

func newGenerated(config *oracle.Config, seed uint64, strewn bool) *generated {
	g := &generated{random: rand.New(rand.NewPCG(seed, 3)), config: config, strewn: strewn}
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
	return g
}

// repeat gives one of the last readings once more, now and then.
func (g *generated) repeat(next Source) (Reading, bool) {
	const remembered = 50
	if len(g.last) > 0 && g.random.IntN(8) == 0 {
		return g.last[g.random.IntN(len(g.last))], true
	}
	r, ok := next()
	g.last = append(g.last[max(0, len(g.last)-remembered+1):len(g.last):len(g.last)], r)
	return r, ok
}

// key is the text of one key field; of later ones there are fewer.
func (g *generated) key(i int, name string) string {
	return fmt.Sprintf("%s-%02d", name, g.random.IntN(max(1, devices>>(2*i))))
}

// instant is the event time of the next reading, ms.
func (g *generated) instant() int64 {
	at := g.start + g.sent*g.size/perWindow - g.random.Int64N(g.size/3+1)
	if g.random.IntN(10) == 0 {
		at -= g.random.Int64N(g.delay + 1)
	}
	return at
}

func (g *generated) next() (Reading, bool) {
	g.sent++
	fields := map[string]any{}
	for i, name := range g.config.Key {
		fields[name] = g.key(i, name)
	}
	var key []string
	for _, name := range g.config.RecordKeyFields() {
		key = append(key, fields[name].(string))
	}
	for _, name := range g.config.Values {
		fields[name] = g.value()
	}
	if name := g.config.Dedup.Sequence; name != "" {
		fields[name] = g.sent
	}
	fields[g.config.Time.Name] = instant(g.instant(), g.config.Time.Unit)
	r := Reading{Key: oracle.RecordKey(key)}
	r.Partition = g.partitionOf(r.Key)
	if g.strewn {
		r.Key = nil
	}
	if g.random.IntN(100) == 0 {
		g.spoil(fields)
	}
	r.Value, _ = json.Marshal(fields) // of text and numbers: it cannot fail
	if g.random.IntN(200) == 0 {
		r.Value = r.Value[:len(r.Value)-1-g.random.IntN(len(r.Value)/2)]
	}
	return r, true
}

// partitionOf is where a record belongs, or anywhere.
func (g *generated) partitionOf(key []byte) int32 {
	if g.strewn {
		return g.random.Int32N(g.config.Partitions)
	}
	return oracle.PartitionOf(g.partitioner(), key, g.config.Partitions)
}

func (g *generated) partitioner() string {
	if g.config.Partitioner == "unchecked" {
		return "murmur2"
	}
	return g.config.Partitioner
}

func (g *generated) value() json.Number {
	if g.config.Whole {
		return json.Number([]string{"9007199254740993", "-9007199254740993", "12.0", "-0", fmt.Sprint(g.random.IntN(2000) - 1000)}[g.random.IntN(5)])
	}
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
