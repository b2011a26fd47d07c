package kafkarun

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Lose cuts the end of a partition off the disk of a stopped broker, from the first batch on that reaches beyond an offset:
// what a power cut does to a broker whose writes were still in the page cache, where no other replica has them. It
// returns where the log ends then. The partition must have one segment.
func (b *Broker) Lose(topic string, partition int32, beyond int64) (end int64, err error) {
	dir := filepath.Join(b.path("data"), fmt.Sprintf("%s-%d", topic, partition))
	segments, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return 0, err
	}
	if len(segments) != 1 {
		return 0, fmt.Errorf("%s has the segments %q, want one", dir, segments)
	}
	data, err := os.ReadFile(segments[0])
	if err != nil {
		return 0, err
	}
	size, end := keep(data, beyond)
	if size == len(data) {
		return 0, fmt.Errorf("%s ends at offset %d: nothing lies beyond %d", segments[0], end, beyond)
	}
	err = os.Truncate(segments[0], int64(size))
	for _, derived := range []string{"*.index", "*.timeindex", "*.txnindex", "*.snapshot", "../.kafka_cleanshutdown"} {
		files, failed := filepath.Glob(filepath.Join(dir, derived))
		err = errors.Join(err, failed)
		for _, file := range files {
			err = errors.Join(err, os.Remove(file))
		}
	}
	return end, err
}

// keep is how many bytes of a segment hold the batches that end at or below an offset, and the offset after them.
func keep(data []byte, beyond int64) (size int, end int64) {
	const header, lastDelta = 12, 23 // offset and length; where the offset of the last record stands, less that of the first
	for size+lastDelta+4 <= len(data) {
		batch := data[size:]
		next := int64(binary.BigEndian.Uint64(batch)) + int64(binary.BigEndian.Uint32(batch[lastDelta:])) + 1
		length := header + int(binary.BigEndian.Uint32(batch[8:]))
		if next > beyond || size+length > len(data) {
			break
		}
		size, end = size+length, next
	}
	return size, end
}
