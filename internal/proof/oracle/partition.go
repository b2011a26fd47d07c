package oracle

import (
	"bytes"
	"fmt"
	"hash/crc32"
)

// RecordKey makes the record key that input must carry: one field is its text, several are a compact JSON array of
// strings in the order given. A number's text is its JSON token.
func RecordKey(fields []string) []byte {
	if len(fields) == 1 {
		return []byte(fields[0])
	}
	var b bytes.Buffer
	b.WriteByte('[')
	for i, f := range fields {
		if i > 0 {
			b.WriteByte(',')
		}
		writeString(&b, f)
	}
	b.WriteByte(']')
	return b.Bytes()
}

// writeString writes a JSON string with the fewest escapes: quote, backslash, and control characters.
func writeString(b *bytes.Buffer, s string) {
	short := map[byte]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}
	b.WriteByte('"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case short[c] != "":
			b.WriteString(short[c])
		case c < 0x20:
			fmt.Fprintf(b, `\u%04x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
}

// PartitionOf returns the partition that a partitioner gives a key: murmur2 is that of the Java client, crc32 that of
// librdkafka.
func PartitionOf(partitioner string, key []byte, partitions int32) int32 {
	if partitioner == "crc32" {
		return int32(crc32.ChecksumIEEE(key) % uint32(partitions))
	}
	return int32((murmur2(key) & 0x7fffffff) % uint32(partitions))
}

// murmur2 is the 32-bit MurmurHash2 with the seed of Kafka's Java client.
func murmur2(data []byte) uint32 {
	const (
		seed = 0x9747b28c
		m    = 0x5bd1e995
		r    = 24
	)
	h := uint32(seed) ^ uint32(len(data))
	for ; len(data) >= 4; data = data[4:] {
		k := uint32(data[0]) | uint32(data[1])<<8 | uint32(data[2])<<16 | uint32(data[3])<<24
		k *= m
		k ^= k >> r
		k *= m
		h *= m
		h ^= k
	}
	switch len(data) {
	case 3:
		h ^= uint32(data[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(data[1]) << 8
		fallthrough
	case 1:
		h ^= uint32(data[0])
		h *= m
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}
