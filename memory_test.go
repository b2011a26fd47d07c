package tidemark

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/status"
)

// TestMemoryLimit reads the limits as systems write them.
func TestMemoryLimit(t *testing.T) {
	meminfo := "MemFree:  100 kB\nMemTotal:       16384 kB\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
		from  string
	}{
		"machine": {map[string]string{"proc/meminfo": meminfo}, 16 << 20, "the machine"},
		"version 2, in a parent": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/kube/pod/one\n",
			"sys/fs/cgroup/kube/pod/one/memory.max": "max\n", "sys/fs/cgroup/kube/pod/memory.max": "4194304\n"}, 4 << 20, "/sys/fs/cgroup/kube/pod/memory.max"},
		"version 2, in a container": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/../../one\n",
			"sys/fs/cgroup/memory.max": "8388608\n"}, 8 << 20, "/sys/fs/cgroup/memory.max"},
		"version 1": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "5:cpu,cpuacct:/a\n4:memory:/docker/x\n0::/\n",
			"sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes": "2097152\n"}, 2 << 20, "limit_in_bytes"},
		"version 1 without a limit": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "4:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 16 << 20, "the machine"},
		"larger than the machine": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "99999999999\n"},
			16 << 20, "the machine"},
	} {
		files := fstest.MapFS{}
		for path, text := range c.files {
			files[path] = &fstest.MapFile{Data: []byte(text)}
		}
		if got, from := memoryLimit(files); got != c.want || !strings.Contains(from, c.from) {
			t.Errorf("%s: %d from %q, want %d from %q", name, got, from, c.want, c.from)
		}
	}
	if limit, from := MemoryLimit(); limit < 1<<20 {
		t.Errorf("this machine: %d from %s", limit, from)
	}
	if l := stateLimit(&Options{MaxBytes: 5}); l.bytes != 5 {
		t.Errorf("configured: %+v", l)
	}
}

// hoarder keeps an entry of 4 KiB for every record, for ever.
type hoarder struct{ tally }

func (*hoarder) Process(v *View, in *Input) error {
	v.Counters().In++
	v.Counters().Accepted++
	v.Aggregation(0).Folded++
	key := record.AppendStart(record.AppendField(record.EntryPrefix(nil, "tally"), fmt.Appendf(nil, "%0100d", in.Offset)), 0)
	_, _, err := v.Touch(key, Place{Aggregation: 0, End: 1 << 60})
	return err
}

func (*hoarder) Load(Slot, []byte, []byte) error     { return nil }
func (*hoarder) Encode(_ Slot, dst []byte) []byte    { return append(dst, make([]byte, 4096)...) }
func (*hoarder) Place([]byte, []byte) (Place, error) { return Place{Aggregation: 0, End: 1 << 60}, nil }
func hoards(int32, int32, Limits) (Processor, error) { return &hoarder{}, nil }

// TestR30StateThatDoesNotFit: red at 90 %, a stop before the fold at 100 %, with the position kept and the advice; a
// restart with the same limit stops before it loads, one with more memory goes on where the state stands.
func TestR30StateThatDoesNotFit(t *testing.T) {
	const limit = 8 << 20
	watched(t, func(w *world) {
		change := func(o *Options) {
			o.Processor, o.MaxBytes, o.Commit.MaxRecords, o.Checkpoint = hoards, limit, 50, time.Second
		}
		d := w.daemonize(change)
		for d.app.used.Load() < limit*9/10 {
			if d.after(time.Second).Health != status.Green {
				t.Fatalf("not green with %d of %d bytes: %+v", d.app.used.Load(), limit, d.app.Status().Reasons)
			}
			w.produce(100)
			d.after(time.Second)
		}
		s := d.after(5 * time.Second)
		if r := s.Reasons; s.Ready || !s.Live || len(r) != 1 || r[0].Code != "memory" || r[0].Health != status.Red {
			t.Fatalf("with %d of %d bytes: %+v", d.app.used.Load(), limit, r)
		}
		w.produce(4000)
		<-d.ended
		var stop *kafka.Error
		if !errors.As(d.err, &stop) || stop.Class != kafka.ClassPermanent || !strings.Contains(d.err.Error(), "store: disk") ||
			!strings.Contains(d.err.Error(), "state.max_bytes is 8388608") {
			t.Fatalf("Run says %v", d.err)
		}
		second := w.daemonize(change)
		<-second.ended
		if second.err == nil || !strings.Contains(second.err.Error(), "state.max_bytes") {
			t.Fatalf("with the same limit Run says %v", second.err)
		}
		third := w.daemonize(func(o *Options) { change(o); o.MaxBytes = 100 << 20 })
		s = third.healthy()
		for i := range s.Tasks {
			if end := w.cluster.Offsets("in", int32(i)).HighWatermark; s.Tasks[i].LiveEntries != end || s.Tasks[i].Readings.In != end {
				t.Errorf("partition %d: %d entries of %d records", i, s.Tasks[i].LiveEntries, end)
			}
		}
	})
}

// TestR30CheckpointThatDoesNotFit stops before it is loaded.
func TestR30CheckpointThatDoesNotFit(t *testing.T) {
	watched(t, func(w *world) {
		w.produce(1000)
		o := w.options()
		o.Processor = hoards
		w.run(o)
		d := w.daemonize(func(o *Options) { o.Processor, o.MaxBytes = hoards, 1<<20 })
		<-d.ended
		if d.err == nil || !strings.Contains(d.err.Error(), "load ") || !strings.Contains(d.err.Error(), ".checkpoint") {
			t.Fatalf("Run says %v", d.err)
		}
	})
}
