package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// begin is the event time of the first reading: 2025-12-01T00:00:00Z, in ms.
const begin = 1_764_547_200_000

// input is a topic with the readings of the plan.
type input struct {
	topic      string
	partitions int32
	readings   int
	sent       int   // with those that close the windows of the readings
	closing    int64 // event time in ms from which on only those come
}

// load returns the input of so many partitions, made the first time it is asked for: readings of random devices, 20 ms of
// event time apart, so that a device has about two readings in each of its hours. After them come readings of several
// hours later, enough that each partition gets some: all windows before are closed then and have results.
func (b *bench) load(partitions int32, p plan) (*input, error) {
	if in, ok := b.loaded[partitions]; ok {
		return in, nil
	}
	const closers, later = 40, 4 * 3_600_000
	in := &input{topic: fmt.Sprintf("readings-%d", partitions), partitions: partitions, readings: p.readings,
		sent: p.readings + closers*int(partitions), closing: begin + 20*int64(p.readings)}
	if err := b.topics(partitions, in.topic); err != nil {
		return nil, err
	}
	b.progress("producing %d readings to %s", in.readings, in.topic)
	random := rand.New(rand.NewPCG(1, 2))
	err := b.produce(in.topic, in.sent, func(i int) (string, int64, float64) {
		if i >= in.readings {
			return "device-" + strconv.Itoa(i-in.readings), in.closing + later, 0
		}
		return "device-" + strconv.Itoa(random.IntN(p.devices)), begin + 20*int64(i), float64(random.IntN(100_000)) / 1000
	})
	b.loaded[partitions] = in
	return in, err
}

// produce sends n readings and waits until all are acknowledged.
func (b *bench) produce(topic string, n int, next func(i int) (device string, at int64, value float64)) error {
	var failed atomic.Pointer[error]
	for i := range n {
		device, at, value := next(i)
		b.client.Produce(b.ctx, reading(topic, device, at, value), func(_ *kgo.Record, err error) {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	if err := b.client.Flush(b.ctx); err != nil {
		return err
	}
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

func reading(topic, device string, at int64, value float64) *kgo.Record {
	text := make([]byte, 0, 80)
	text = append(append(append(text, `{"device":"`...), device...), `","ts":`...)
	text = append(strconv.AppendInt(text, at, 10), `,"value":`...)
	text = append(strconv.AppendFloat(text, value, 'f', 3, 64), '}')
	return &kgo.Record{Topic: topic, Key: []byte(device), Value: text}
}

// pour sends about rate readings a second until stop is closed, as many to each of the devices, with the present time.
func (b *bench) pour(topic string, rate, devices int, stop <-chan struct{}) error {
	const beat = 20 * time.Millisecond
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	next := 0
	for {
		select {
		case <-stop:
			return b.client.Flush(b.ctx)
		case <-b.ctx.Done():
			return b.ctx.Err()
		case now := <-ticker.C:
			for range max(rate*int(beat)/int(time.Second), 1) {
				device := "device-" + strconv.Itoa(next%devices)
				next++
				b.client.Produce(b.ctx, reading(topic, device, now.UnixMilli(), float64(next%1000)/10), nil)
			}
		}
	}
}
