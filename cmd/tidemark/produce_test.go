package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/tidemark-streams/tidemark/internal/config"
	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
	"github.com/tidemark-streams/tidemark/reading"
)

// TestLineReader cuts random text, read in portions of every kind, and compares with a plain split.
func TestLineReader(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 50 {
		var text []byte
		var want []string
		for n := range random.IntN(60) {
			size := random.IntN(50)
			if random.IntN(20) == 0 {
				size = random.IntN(3 * lineBlock)
			}
			line := strings.Repeat(string(rune('a'+n%26)), size)
			want = append(want, line)
			text = append(append(text, line...), []string{"\n", "\r\n"}[random.IntN(2)]...)
		}
		if random.IntN(2) == 0 {
			want, text = append(want, "last"), append(text, "last"...)
		}
		from := io.Reader(bytes.NewReader(text))
		switch random.IntN(4) {
		case 0:
			from = iotest.HalfReader(from)
		case 1:
			from = iotest.DataErrReader(from)
		case 2:
			from = iotest.OneByteReader(from)
		}
		var got []string
		lines := &lineReader{from: from}
		for {
			l, err := lines.next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || l.number != int64(len(got)+1) {
				t.Fatalf("line %d: %v", l.number, err)
			}
			got = append(got, string(l.value))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%d lines, want %d", len(got), len(want))
		}
	}
}

// TestLineReaderFails passes errors on after the lines before them, and refuses lines without an end.
func TestLineReaderFails(t *testing.T) {
	lines := &lineReader{from: io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(io.ErrUnexpectedEOF))}
	if l, err := lines.next(); string(l.value) != "a" || err != nil {
		t.Errorf("first line is %q (%v)", l.value, err)
	}
	if _, err := lines.next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error is %v", err)
	}
	lines = &lineReader{from: iotest.DataErrReader(endlessLine{})}
	if _, err := lines.next(); err == nil || !strings.Contains(err.Error(), "line 1 is longer than") {
		t.Errorf("error is %v", err)
	}
}

type endlessLine struct{}

func (endlessLine) Read(p []byte) (int, error) {
	return copy(p, bytes.Repeat([]byte("x"), len(p))), nil
}

// TestPumpDoesNotHoldBack hands on each line as it comes, and ends when it is told to although the source says nothing.
func TestPumpDoesNotHoldBack(t *testing.T) {
	out, in := io.Pipe()
	defer in.Close()
	ctx, cancel := context.WithCancel(t.Context())
	batches := pump(ctx, &lineReader{from: out})
	for n := range 3 {
		if _, err := fmt.Fprintf(in, "line %d\n", n); err != nil {
			t.Fatal(err)
		}
		if b := <-batches; len(b.lines) != 1 || string(b.lines[0].value) != fmt.Sprintf("line %d", n) {
			t.Fatalf("batch is %v", b)
		}
	}
	cancel()
	in.Close()
	for b := range batches {
		if len(b.lines) > 0 {
			t.Errorf("batch %v after the end", b)
		}
	}
}

// TestKeyMaker compares keys and partitions with the oracle's.
func TestKeyMaker(t *testing.T) {
	format := reading.DefaultFormat()
	format.Key, format.Values, format.Time = []string{"site", "device"}, []string{"v"}, "ts"
	for _, by := range [][]string{{"device"}, {"site", "device"}, {"device", "site"}} {
		for _, name := range []job.Partitioner{job.Murmur2, job.CRC32} {
			keys, err := newKeyMaker(&config.Input{Format: format, PartitionedBy: by, Partitioner: name}, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 200 {
				fields := map[string]string{"site": fmt.Sprintf("s\"%d", i%7), "device": fmt.Sprint(i, ".0")}
				value := fmt.Appendf(nil, `{"v":null,"device":%s,"site":%q,"ts":"bad"}`, fields["device"], fields["site"])
				key, _, reason := keys.of(value)
				var chosen []string
				for _, field := range by {
					chosen = append(chosen, fields[field])
				}
				if want := oracle.RecordKey(chosen); !bytes.Equal(key, want) {
					t.Fatalf("key of %s is %q (%s), want %q", value, key, reason, want)
				}
				if got, want := keys.partitioner.Partition(key, 7), oracle.PartitionOf(name.String(), key, 7); got != want {
					t.Fatalf("%s puts %q into partition %d, want %d", name, key, got, want)
				}
			}
		}
	}
}

// TestUnreachable tells brokers that are away from everything else.
func TestUnreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	listener.Close()
	t.Setenv("TIDEMARK_KAFKA_BROKERS", addr)
	var out, said bytes.Buffer
	e := newEnv([]string{"consume", "-c", "testdata/job.yaml", "--topic", "t"}, nil, &out, &said)
	e.contact = time.Millisecond
	if code := e.run(t.Context()); code != unreachable || !strings.Contains(said.String(), "no broker answered within 1ms") {
		t.Errorf("exit code %d, want %d; it said:\n%s", code, unreachable, said.String())
	}
}
