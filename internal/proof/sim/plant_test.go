package sim

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/store/storetest"
	"github.com/tidemark-streams/tidemark/window"
)

// plant is a promise that is broken on purpose, to show that the simulation notices. The zero plant breaks none.
type plant struct {
	name   string
	id     func(transactionalID string, l *life) string
	writer func(kafka.Writer) kafka.Writer
	log    func(l kafka.Log, topic string) kafka.Log
	disk   func(vfs.FS) vfs.FS
	job    func(*job.Config)
}

// plants are the defects that the simulation must see.
var plants = []plant{
	{name: "commit record left out", writer: func(w kafka.Writer) kafka.Writer {
		return &filter{Writer: w, drop: func(n int, m *kafka.Message) bool { return n%5 == 4 && bytes.Equal(m.Key, record.CommitKey) }}
	}},
	{name: "an update left out", writer: func(w kafka.Writer) kafka.Writer {
		return &filter{Writer: w, drop: func(n int, m *kafka.Message) bool {
			return n%5 == 4 && m.Topic == logTopic && m.Key[0] == byte(record.KindEntry)
		}}
	}},
	{name: "tombstones left out", writer: func(w kafka.Writer) kafka.Writer {
		return &filter{Writer: w, drop: func(_ int, m *kafka.Message) bool { return m.Topic == logTopic && m.Value == nil }}
	}},
	{name: "a result outside the transaction's commit", writer: func(w kafka.Writer) kafka.Writer {
		return &filter{Writer: w, drop: func(n int, m *kafka.Message) bool { return n%7 == 6 && strings.HasPrefix(m.Topic, "results") }}
	}},
	{name: "a commit that did not happen taken for one", writer: func(w kafka.Writer) kafka.Writer { return &optimist{Writer: w} }},
	{name: "applied before it is committed", writer: func(w kafka.Writer) kafka.Writer { return &hasty{Writer: w} }},
	{name: "no fencing", id: func(id string, l *life) string { return fmt.Sprintf("%s of %p", id, l) }},
	{name: "input position off by one", log: func(l kafka.Log, topic string) kafka.Log {
		if topic == inTopic {
			return &skipping{Log: l}
		}
		return l
	}},
	{name: "an empty fetch taken for the end of the changelog", log: func(l kafka.Log, topic string) kafka.Log {
		if topic == logTopic {
			return &forgetful{Log: l}
		}
		return l
	}},
	{name: "no fsync of files", disk: func(fs vfs.FS) vfs.FS {
		return without(fs, func(path string) bool { return strings.HasSuffix(path, ".tmp") })
	}},
	{name: "no fsync of directories", disk: func(fs vfs.FS) vfs.FS {
		return without(fs, func(path string) bool { return !strings.HasSuffix(path, ".tmp") })
	}},
	{name: "a relay that leaves readings out", writer: func(w kafka.Writer) kafka.Writer {
		return &filter{Writer: w, drop: func(n int, m *kafka.Message) bool { return n%5 == 4 && m.Topic == between }}
	}},
	{name: "a relay that hands its last reading on again", writer: func(w kafka.Writer) kafka.Writer { return &stutter{Writer: w} }},
	{name: "what dedup knows is not in the changelog", writer: func(w kafka.Writer) kafka.Writer {
		return &filter{Writer: w, drop: func(_ int, m *kafka.Message) bool {
			return m.Topic == logTopic && bytes.Contains(m.Key, []byte(job.MemoryName))
		}}
	}},
	{name: "what is told before the end left out", writer: func(w kafka.Writer) kafka.Writer {
		return &filter{Writer: w, drop: func(n int, m *kafka.Message) bool {
			return n%3 == 2 && strings.HasPrefix(m.Topic, "results") && bytes.Contains(m.Value, []byte(`"final":false`))
		}}
	}},
	{name: "dedup that remembers for half the time", job: func(c *job.Config) { c.Dedup.Within /= 2 }},
	{name: "any device makes stream time", job: func(c *job.Config) { c.Quorum = 0 }},
	{name: "sessions a little too long", job: func(c *job.Config) {
		windows(c, func(kind window.Kind) window.Kind {
			if s, ok := kind.(window.Session); ok {
				return window.Session{Gap: s.Gap + s.Gap/8}
			}
			return kind
		})
	}},
	{name: "days of another zone", job: func(c *job.Config) {
		windows(c, func(kind window.Kind) window.Kind {
			if k, ok := kind.(window.Calendar); ok {
				kind, _ = window.NewCalendar(k.Unit(), "UTC") // which is known everywhere
			}
			return kind
		})
	}},
	{name: "windows that overlap a little later", job: func(c *job.Config) {
		windows(c, func(kind window.Kind) window.Kind {
			if h, ok := kind.(window.Hopping); ok {
				h.Offset = (h.Offset + 1) % h.Step
				return h
			}
			return kind
		})
	}},
}

// windows changes the windows of all aggregations.
func windows(c *job.Config, change func(window.Kind) window.Kind) {
	for i := range c.Aggregations {
		c.Aggregations[i].Window = change(c.Aggregations[i].Window)
	}
}

// stutter hands the last reading of one commit on once more in the next one.
type stutter struct {
	kafka.Writer
	last *kafka.Message
}

// Send implements kafka.Writer.
func (s *stutter) Send(ctx context.Context, messages []kafka.Message) ([]int64, error) {
	all := messages
	if s.last != nil && len(messages) > 0 {
		all = append([]kafka.Message{*s.last}, messages...)
	}
	for i := range messages {
		if messages[i].Topic == between {
			one := messages[i]
			one.Key, one.Value = bytes.Clone(one.Key), bytes.Clone(one.Value)
			s.last = &one
		}
	}
	offsets, err := s.Writer.Send(ctx, all)
	return offsets[min(len(offsets), len(all)-len(messages)):], err
}

// filter leaves messages out, and says that they were written. n counts the sends of the writer from 1.
type filter struct {
	kafka.Writer
	drop func(n int, m *kafka.Message) bool
	n    int
}

// Send implements kafka.Writer.
func (f *filter) Send(ctx context.Context, messages []kafka.Message) ([]int64, error) {
	f.n++
	var left []kafka.Message
	var at []int
	for i := range messages {
		if !f.drop(f.n, &messages[i]) {
			left, at = append(left, messages[i]), append(at, i)
		}
	}
	written, err := f.Writer.Send(ctx, left)
	if err != nil || len(left) == len(messages) {
		return written, err
	}
	offsets := make([]int64, len(messages))
	for i, offset := range written {
		offsets[at[i]] = offset
	}
	for i := 1; i < len(offsets); i++ {
		offsets[i] = max(offsets[i], offsets[i-1]) // of what was left out: those of the one before
	}
	return offsets, nil
}

// optimist takes an error of a commit for a success.
type optimist struct{ kafka.Writer }

// Commit implements kafka.Writer.
func (o *optimist) Commit(ctx context.Context) error {
	if err := o.Writer.Commit(ctx); err != nil && ctx.Err() != nil {
		return err
	}
	return nil
}

// hasty says that a commit has succeeded before it has: it ends with the next send.
type hasty struct {
	kafka.Writer
	owed bool
}

// Send implements kafka.Writer.
func (h *hasty) Send(ctx context.Context, messages []kafka.Message) ([]int64, error) {
	if h.owed {
		h.owed = false
		if err := h.Writer.Commit(ctx); err != nil {
			return nil, err
		}
	}
	return h.Writer.Send(ctx, messages)
}

// Commit implements kafka.Writer.
func (h *hasty) Commit(context.Context) error {
	h.owed = true
	return nil
}

// skipping reads one record further than it was asked to, the first time.
type skipping struct {
	kafka.Log
	read bool
}

// Fetch implements kafka.Log.
func (s *skipping) Fetch(ctx context.Context, position int64, maxBytes int, wait time.Duration) (kafka.Fetched, error) {
	f, err := s.Log.Fetch(ctx, position, maxBytes, wait)
	if err == nil && !s.read && position > 0 && len(f.Records) > 0 {
		f.Records = f.Records[1:]
	}
	s.read = s.read || err == nil
	return f, err
}

// forgetful delivers nothing of what lies in the middle of a long log.
type forgetful struct{ kafka.Log }

// Fetch implements kafka.Log.
func (f *forgetful) Fetch(ctx context.Context, position int64, maxBytes int, wait time.Duration) (kafka.Fetched, error) {
	got, err := f.Log.Fetch(ctx, position, maxBytes, wait)
	if n := len(got.Records); err == nil && n > 12 {
		got.Records = append(got.Records[:6:6], got.Records[n-3:]...)
	}
	return got, err
}

// without leaves fsyncs out.
func without(fs vfs.FS, which func(path string) bool) vfs.FS {
	return storetest.Hook(fs, func(op storetest.Op, do func() error) error {
		if op.Kind == "sync" && which(op.Path) {
			return nil
		}
		return do()
	})
}

// plantTries is how many scenarios a defect may live through.
const plantTries = 300

// TestSimSeesPlantedDefects shows that the simulation can fail: each defect is seen after a few scenarios. A defect that
// makes the job stand still counts as seen, for that is what a user would see.
func TestSimSeesPlantedDefects(t *testing.T) {
	var mu sync.Mutex
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			for n := range uint64(plantTries) {
				counted, err := play(t, draw(7_000_000+n), &p)
				if err == nil {
					continue
				}
				mu.Lock()
				defer mu.Unlock()
				first, _, _ := strings.Cut(err.Error(), "\n")
				t.Logf("seen in scenario %d, the last of them with %d crashes: %.200s", n+1, counted.crashes, first)
				return
			}
			t.Errorf("not seen in %d scenarios", plantTries)
		})
	}
}
