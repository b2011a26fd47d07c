package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// verify reads the results of a job, committed ones only, and fails unless they hold each reading of the input once. Of a
// program that publishes updates the last one of a window counts; otherwise a second result of a window is a fault. The
// windows of the readings that close all others are left out: not every program has closed those.
func (b *bench) verify(topic string, in *input, updates bool) error {
	windows := map[string]int64{}
	err := b.read(topic, func(r *kgo.Record) error {
		window, start, count, err := result(r, updates)
		if err != nil {
			return fmt.Errorf("%s/%d at offset %d: %w", topic, r.Partition, r.Offset, err)
		}
		if start >= in.closing {
			return nil
		}
		if before, twice := windows[window]; twice && !updates {
			return fmt.Errorf("%s/%d at offset %d: a second result of %s, of %d readings after %d", topic, r.Partition, r.Offset, window, count, before)
		}
		windows[window] = count
		return nil
	})
	if err != nil {
		return err
	}
	var held int64
	for _, count := range windows {
		held += count
	}
	if held != int64(in.readings) {
		return fmt.Errorf("the results in %s hold %d readings in %d windows, %d were sent", topic, held, len(windows), in.readings)
	}
	b.progress("%s: %d readings in %d windows, none lost and none twice", topic, held, len(windows))
	return nil
}

// result reads a result: the JSON of a final one, or an update of Peer.java, whose key is device@start.
func result(r *kgo.Record, update bool) (window string, start, count int64, err error) {
	if update {
		_, at, found := strings.Cut(string(r.Key), "@")
		if !found || len(r.Value) < 8 {
			return "", 0, 0, fmt.Errorf("no update: %q", r.Key)
		}
		start, err = strconv.ParseInt(at, 10, 64)
		return string(r.Key), start, int64(binary.BigEndian.Uint64(r.Value)), err
	}
	var v struct {
		Key          []string
		Start, Count int64
	}
	if err := json.Unmarshal(r.Value, &v); err != nil || len(v.Key) != 1 {
		return "", 0, 0, fmt.Errorf("no result: %q (%w)", r.Value, err)
	}
	return fmt.Sprintf("%s@%d", v.Key[0], v.Start), v.Start, v.Count, nil
}
