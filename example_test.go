package tidemark_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/tidemark-streams/tidemark"
	"github.com/tidemark-streams/tidemark/aggregate"
	"github.com/tidemark-streams/tidemark/reading"
	"github.com/tidemark-streams/tidemark/tidemarktest"
	"github.com/tidemark-streams/tidemark/window"
)

// boilers is a job in code: the mean temperature of each device and minute.
func boilers(cluster tidemark.Cluster, stateDir string) tidemark.Options {
	format := reading.DefaultFormat()
	format.Key, format.Values, format.Time = []string{"device"}, []string{"temperature"}, "ts"
	windows := tidemark.Windows{Input: "readings", Format: format, Aggregations: []tidemark.Table{
		{Name: "minutely", Window: window.Tumbling{Size: window.Minute}, Functions: aggregate.Count | aggregate.Mean},
	}}
	return tidemark.Options{
		Job: "boilers", Cluster: cluster, Input: "readings", Results: []string{"minutely"}, DeadLetter: "boilers-dead",
		Changelog: tidemark.Changelog{Topic: "boilers-changelog"}, Processor: windows.Processor, StateDir: stateDir,
	}
}

// A service connects to its brokers and runs until it is told to stop: when the context ends, what is open is committed and
// Run returns nil. With the brokers away for 30 s at the start it returns ErrUnreachable; this one does not wait so long.
func Example() {
	cluster, err := tidemark.Connect(tidemark.Brokers{Brokers: []string{"127.0.0.1:1"}})
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "boilers")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	app, err := tidemark.New(boilers(cluster, dir))
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	switch err := app.Run(ctx); {
	case errors.Is(err, tidemark.ErrUnreachable):
		fmt.Println("no broker answers")
	case err != nil:
		fmt.Println(err)
	default:
		fmt.Println("stopped")
	}
	// Output: stopped
}

// In a test the brokers are in memory. Package tidemarktest has RunUntilIdle for this.
func ExampleApp_Run() {
	broker := tidemarktest.NewBroker()
	for _, topic := range []string{"readings", "minutely", "boilers-dead"} {
		broker.CreateTopic(topic, 1)
	}
	for i, value := range []string{
		`{"device":"a","ts":1767225600000,"temperature":20.5}`,
		`{"device":"a","ts":1767225630000,"temperature":21}`,
		`{"device":"a","ts":1767225660000,"temperature":30}`, // the next minute closes the first
		`{"device":"a"}`,
	} {
		broker.Produce("readings", tidemarktest.Record{Key: []byte("a"), Value: []byte(value), Time: time.UnixMilli(1767225600000 + int64(i)*30_000)})
	}
	dir, err := os.MkdirTemp("", "boilers")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	options := boilers(broker, dir)
	options.UntilIdle = true
	app, err := tidemark.New(options)
	if err != nil {
		log.Fatal(err)
	}
	if err := app.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
	for _, r := range broker.Committed("minutely") {
		fmt.Printf("%s\n", r.Value)
	}
	for _, r := range broker.Committed("boilers-dead") {
		fmt.Printf("dead: %s\n", r.Value)
	}
	// Output:
	// {"agg":"minutely","key":["a"],"start":1767225600000,"end":1767225660000,"count":2,"mean":20.75,"final":true}
	// dead: {"device":"a"}
}

// doors counts how often each door was opened in each 10 minutes of the records' own time, and tells it when they are over.
type doors struct{ counts []uint64 }

const tenMinutes = 10 * 60 * 1000

func (d *doors) Aggregations() []tidemark.Aggregation {
	return []tidemark.Aggregation{{Name: "doors", Fingerprint: 1}}
}

func (d *doors) Process(v *tidemark.View, in *tidemark.Input) error {
	v.Counters().In++
	v.Counters().Accepted++
	v.AdvanceStreamTime(in.Timestamp, in.Key, in.Offset)
	v.RaiseClosedEnd(0, v.StreamTime())
	start := in.Timestamp / tenMinutes * tenMinutes
	if start+tenMinutes <= v.ClosedEnd(0) {
		v.Aggregation(0).Late++
		return nil
	}
	key := tidemark.AppendEntryKey(nil, "doors", start, in.Key)
	slot, _, err := v.Touch(key, tidemark.Place{Start: start, End: start + tenMinutes})
	if err != nil {
		return err
	}
	d.counts[slot]++
	v.Aggregation(0).Folded++
	return nil
}

func (d *doors) Load(slot tidemark.Slot, _, value []byte) error {
	for len(d.counts) <= int(slot) {
		d.counts = append(d.counts, 0)
	}
	d.counts[slot] = 0
	if value != nil {
		d.counts[slot] = binary.BigEndian.Uint64(value)
	}
	return nil
}

func (d *doors) Encode(slot tidemark.Slot, dst []byte) []byte {
	return binary.BigEndian.AppendUint64(dst, d.counts[slot])
}

func (d *doors) Close(v *tidemark.View, slot tidemark.Slot, key []byte, _ tidemark.Place) error {
	parsed, err := tidemark.ParseEntryKey(key)
	if err != nil {
		return err
	}
	v.Emit(tidemark.SinkResult, 0, []byte(parsed.Fields[0]), fmt.Append(nil, d.counts[slot]), nil)
	return nil
}

func (d *doors) Place(key, _ []byte) (tidemark.Place, error) {
	parsed, err := tidemark.ParseEntryKey(key)
	if parsed.Aggregation != "doors" {
		return tidemark.Place{Aggregation: tidemark.Removed}, err
	}
	return tidemark.Place{Start: parsed.Start, End: parsed.Start + tenMinutes}, err
}

// A job of one's own is a Processor. Its state is what it encodes; commits, recovery and proof are the engine's.
func ExampleProcessor() {
	broker := tidemarktest.NewBroker()
	for _, topic := range []string{"opened", "per-10m", "dead"} {
		broker.CreateTopic(topic, 1)
	}
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, minute := range []time.Duration{0, 3, 9, 10} {
		broker.Produce("opened", tidemarktest.Record{Key: []byte("front"), Time: noon.Add(minute * time.Minute)})
	}
	dir, err := os.MkdirTemp("", "doors")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	app, err := tidemark.New(tidemark.Options{
		Job: "doors", Cluster: broker, Input: "opened", Results: []string{"per-10m"}, DeadLetter: "dead",
		Changelog: tidemark.Changelog{Topic: "doors-changelog"}, StateDir: dir, UntilIdle: true,
		Processor: func(int32, int32, tidemark.Limits) (tidemark.Processor, error) { return &doors{}, nil },
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := app.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
	for _, r := range broker.Committed("per-10m") {
		fmt.Printf("%s: %s\n", r.Key, r.Value)
	}
	// Output: front: 3
}
