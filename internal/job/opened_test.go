package job

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/tidemark-streams/tidemark/aggregate"
	"github.com/tidemark-streams/tidemark/internal/task"
	"github.com/tidemark-streams/tidemark/window"
)

// TestReadingAheadChangesNothing: what a commit holds is the same with records read ahead and one by one, with refused, late and
// repeated ones among them, whatever parts they are folded in (I11).
func TestReadingAheadChangesNothing(t *testing.T) {
	const readings = 8000 // of half as many devices: the task begins to look ahead on the way
	seed := rand.Uint64()
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	for _, kind := range []window.Kind{hourly, tenfold, window.Session{Gap: window.Hour}} {
		run := func(ahead int, part func(*rand.Rand) int) []string {
			random := rand.New(rand.NewPCG(seed, 1))
			machine, j, in := newBench(t, readings, readings/2, kind, aggregate.Plain, 0)
			j.lineup.list = j.lineup.list[:ahead]
			last := &j.lineup.list[ahead-1]
			for i := range in {
				switch random.IntN(10) {
				case 0:
					in[i].Value = []byte(`{"device":"dev-000001","ts":` + fmt.Sprint(random.IntN(100)))
				case 1:
					in[i].Value = fmt.Appendf(nil, `{"device":"%s","ts":%d,"value":1}`, in[i].Key, in[i].Timestamp-int64(random.IntN(5))*window.Hour)
				case 2:
					in[i].Offset = int64(random.IntN(i + 1)) // most of them repeat what was folded
				}
			}
			for folded := 0; folded < len(in); {
				n := min(len(in)-folded, part(random))
				fold(t, machine, in[folded:folded+n])
				folded += n
			}
			if c := machine.Committed(); c.Number != 0 {
				t.Fatalf("commit %d was begun", c.Number)
			}
			if ahead > 1 && last.record.Value == nil {
				t.Fatal("no record was read ahead")
			}
			return messagesOf(t, machine)
		}
		want := run(1, func(*rand.Rand) int { return readings })
		for name, got := range map[string][]string{
			"all at once": run(maxAhead, func(*rand.Rand) int { return readings }),
			"in parts":    run(maxAhead, func(r *rand.Rand) int { return 1 + r.IntN(2*maxAhead) }),
		} {
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%v, %s: %d messages, without reading ahead %d, or others", kind, name, len(got), len(want))
			}
		}
	}
}

// messagesOf are the messages of a commit as texts.
func messagesOf(t *testing.T, machine *task.Task) (list []string) {
	batch, err := machine.Begin()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range batch.Messages {
		list = append(list, fmt.Sprintf("%d %d %q %q", m.Sink, m.Aggregation, m.Key, m.Value))
	}
	return list
}

// TestPanicAheadIsNotItsPredecessors: a record that cannot be read for a fault of the program is met at its own turn, not while
// the records before it are waiting to be folded: skip would pass one of those (I8).
func TestPanicAheadIsNotItsPredecessors(t *testing.T) {
	machine, j, in := newBench(t, maxAhead, maxAhead, hourly, aggregate.Plain, 0)
	j.lineup.list[3].reader = nil
	readsAhead(t, machine, j, in, 3)
}

// readsAhead fails unless the first want records are read ahead and no more, and all are folded.
func readsAhead(t *testing.T, machine *task.Task, j *Job, in []task.Input, want int) {
	t.Helper()
	j.Prepare(in, nil)
	if j.lineup.past != want {
		t.Errorf("%d records were read ahead, want %d", j.lineup.past, want)
	}
	fold(t, machine, in)
	if got := machine.Position(); int(got) != len(in) {
		t.Errorf("position %d, want %d", got, len(in))
	}
}

// TestLargeRecordsAreNotReadAhead: only one reader of a task grows with what its records hold (I13).
func TestLargeRecordsAreNotReadAhead(t *testing.T) {
	machine, j, in := newBench(t, maxAhead, maxAhead, hourly, aggregate.Plain, 0)
	for _, i := range []int{2, 5} {
		in[i].Value = append(in[i].Value, bytes.Repeat([]byte{' '}, maxSmall)...)
	}
	readsAhead(t, machine, j, in, 2)
}
