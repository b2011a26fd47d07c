package store

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/tidemark-streams/tidemark/internal/record"
)

// benchEntries is the size of the store under measurement: a million, or TIDEMARK_BENCH_10M=1.
func benchEntries() int {
	if os.Getenv("TIDEMARK_BENCH_10M") != "" {
		return 10_000_000
	}
	return 1_000_000
}

const (
	benchKey   = 40
	benchValue = 60
)

// benchKeyOf writes key i: 40 bytes, in no order.
func benchKeyOf(dst []byte, i int) []byte {
	dst = append(dst[:0], "\x01\x06hourly\x14device-0000000000000"...)
	for at, n := len(dst)-1, i; n > 0; at, n = at-1, n/10 {
		dst[at] = '0' + byte(n%10)
	}
	return binary.BigEndian.AppendUint64(dst, uint64(i)*0x9E3779B97F4A7C15)[:benchKey]
}

func benchMemory(b *testing.B, n int, presize bool) *Memory {
	expected := record.Count(0)
	if presize {
		expected = record.Count(n)
	}
	m := NewMemory(expected)
	b.Cleanup(func() {
		if err := m.Close(); err != nil {
			b.Error(err)
		}
	})
	var key []byte
	value, buf := make([]byte, benchValue), make([]byte, 0, benchKey+benchValue)
	for i := range n {
		key = benchKeyOf(key, i)
		binary.LittleEndian.PutUint64(value, uint64(i))
		buf = append(append(buf[:0], key...), value...)
		m.Put(record.Hash(key), key, value, record.EntryDigest(buf, len(key)))
	}
	return m
}

// BenchmarkInsert measures inserts into a growing store, key building and hash included, and reports memory.
func BenchmarkInsert(b *testing.B) {
	for _, presize := range []bool{false, true} {
		b.Run(fmt.Sprintf("presized=%v", presize), func(b *testing.B) {
			b.ReportAllocs()
			n := benchEntries()
			for b.Loop() {
				m := benchMemory(b, n, presize)
				u := m.Usage()
				b.ReportMetric(float64(u.Used)/float64(u.Raw), "used/raw")
				b.ReportMetric(float64(u.Mapped)/float64(u.Raw), "mapped/raw")
				b.StopTimer()
				if err := m.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/entry")
		})
	}
}

// BenchmarkAccess measures single operations on random keys of a full store, key building and hash included.
func BenchmarkAccess(b *testing.B) {
	n := benchEntries()
	m := benchMemory(b, n, false)
	rng := rand.New(rand.NewPCG(1, 1))
	var key []byte
	value := make([]byte, benchValue+8)
	b.Run("get", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			key = benchKeyOf(key, rng.IntN(n))
			if _, ok := m.Get(record.Hash(key), key); !ok {
				b.Fatal("missing")
			}
		}
	})
	b.Run("miss", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			key = benchKeyOf(key, n+rng.IntN(n))
			if _, ok := m.Get(record.Hash(key), key); ok {
				b.Fatal("there")
			}
		}
	})
	b.Run("update", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			key = benchKeyOf(key, rng.IntN(n))
			m.Put(record.Hash(key), key, value[:benchValue], record.Digest{})
		}
	})
	b.Run("prove", func(b *testing.B) {
		for b.Loop() {
			m.Prove()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/entry")
	})
	b.Run("update and grow", func(b *testing.B) {
		b.ReportAllocs()
		size := benchValue
		for i := 0; b.Loop(); i++ {
			if i%n == 0 {
				size += 8 // one more unit for every key of the round
				value = make([]byte, size)
			}
			key = benchKeyOf(key, i%n)
			m.Put(record.Hash(key), key, value, record.Digest{})
		}
		u := m.Usage()
		b.ReportMetric(float64(u.Used)/float64(u.Raw), "used/raw")
	})
}

// BenchmarkDelete measures deleting every entry, in no order.
func BenchmarkDelete(b *testing.B) {
	b.ReportAllocs()
	n := benchEntries()
	order := rand.New(rand.NewPCG(2, 2)).Perm(n)
	var key []byte
	for b.Loop() {
		b.StopTimer()
		m := benchMemory(b, n, false)
		worst := 0.0
		b.StartTimer()
		for i, k := range order {
			key = benchKeyOf(key, k)
			m.Delete(record.Hash(key), key, record.Digest{})
			if i%(n/20) == 0 && i < n*9/10 {
				u := m.Usage()
				worst = max(worst, float64(u.Used)/float64(u.Raw))
			}
		}
		b.ReportMetric(worst, "worst-used/raw")
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/entry")
}

// BenchmarkTurnover closes windows and opens as many others, a tenth of the store at a time: what one of each takes.
func BenchmarkTurnover(b *testing.B) {
	b.ReportAllocs()
	n := benchEntries()
	order := rand.New(rand.NewPCG(3, 3)).Perm(n)
	m := benchMemory(b, n, false)
	var key []byte
	value := make([]byte, benchValue+16)
	worst, first, done := 0.0, 0, 0
	for b.Loop() {
		for burst := range slices.Chunk(order, n/10) {
			for _, k := range burst {
				key = benchKeyOf(key, first+k)
				m.Delete(record.Hash(key), key, record.Digest{})
			}
			for _, k := range burst {
				key = benchKeyOf(key, first+n+k)
				m.Put(record.Hash(key), key, value[:benchValue+k%17], record.Digest{})
			}
			u := m.Usage()
			worst = max(worst, float64(u.Used)/float64(u.Raw))
		}
		first, done = first+n, done+n
	}
	b.ReportMetric(worst, "worst-used/raw")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(done), "ns/entry")
}

// BenchmarkScan measures the slices of a scan: what one costs the task.
func BenchmarkScan(b *testing.B) {
	n := benchEntries()
	m := benchMemory(b, n, false)
	var buf []byte
	var took []time.Duration
	total := 0
	for b.Loop() {
		s := m.StartScan()
		for done := false; !done; {
			start := time.Now()
			buf, done = s.Next(buf[:0])
			took = append(took, time.Since(start))
			total += len(buf)
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(total)/b.Elapsed().Seconds()/1e6, "MB/s")
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs/slice")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs/slice")
	b.ReportMetric(float64(took[len(took)-1].Microseconds()), "max-µs/slice")
}

// BenchmarkCheckpoint measures writing a checkpoint to a real file, fsync included, and loading it.
func BenchmarkCheckpoint(b *testing.B) {
	n := benchEntries()
	m := benchMemory(b, n, false)
	m.Prove()
	d := openDir(b, vfs.Default, Path(vfs.Default, b.TempDir(), "bench", 0))
	var p Published
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			p = writeCheckpoint(b, d, m, sampleHeader())
		}
		b.ReportMetric(float64(p.Length)*float64(b.N)/b.Elapsed().Seconds()/1e6, "MB/s")
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/entry")
	})
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprintf("load with %d", workers), func(b *testing.B) {
			for b.Loop() {
				loaded := NewMemory(0)
				if _, err := Load(vfs.Default, p.Path, loaded, workers); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := loaded.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/entry")
			b.ReportMetric(float64(p.Length)*float64(b.N)/b.Elapsed().Seconds()/1e6, "MB/s")
		})
	}
}
