package proof

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// Sight is everything that can be seen of a job from outside.
type Sight struct {
	Observed
	Dump []byte // the bytes of `state dump`
}

// Expect reads the input topic and lets the oracle judge it.
func (j *Job) Expect(ctx context.Context, reader *oracle.Reader) (*Expected, error) {
	input, err := reader.Read(ctx, j.Input(), oracle.AtHighWatermark)
	if err != nil {
		return nil, err
	}
	if j.Pairs == nil {
		return j.expect(ctx, reader, &j.Oracle, j.Changelog(), input)
	}
	e := &Expected{Config: &j.Oracle}
	for i := range j.Pairs {
		pair, err := j.expectPair(ctx, reader, &j.Pairs[i], input)
		if err != nil {
			return nil, err
		}
		e.Pairs = append(e.Pairs, pair)
	}
	return e, nil
}

// expect lets the oracle judge an input. What silence has done it is told by the changelog.
func (j *Job) expect(ctx context.Context, reader *oracle.Reader, config *oracle.Config, changelog string, input [][]oracle.Message) (*Expected, error) {
	if j.Idle == 0 {
		return Expect(config, input), nil
	}
	log, err := reader.Read(ctx, changelog, oracle.AtHighWatermark)
	if err != nil {
		return nil, err
	}
	ticking := *config
	for p := range input {
		commits, err := oracle.Commits(log[p])
		if err != nil {
			return nil, err
		}
		ticks, err := config.FindTicks(int32(p), oracle.Records(input[p]), commits, j.Idle.Milliseconds())
		if err != nil {
			return nil, fmt.Errorf("%s/%d: %w", changelog, p, err)
		}
		ticking.Ticks = append(ticking.Ticks, ticks)
	}
	return Expect(&ticking, input), nil
}

// RunUntilIdle runs the job until all input is committed; the exit code must be 0.
func (j *Job) RunUntilIdle(ctx context.Context, name string) error {
	_, err := j.run(ctx, name, "run", "-c", j.Config(), "--until-idle")
	return err
}

// Dump is what state dump prints.
func (j *Job) Dump(ctx context.Context) ([]byte, error) {
	return j.run(ctx, "dump", "state", "dump", "-c", j.Config())
}

// Lag is the number of offsets below the ends of the input that the group does not know as done: what lag tools show.
func (j *Job) Lag(ctx context.Context, reader *oracle.Reader) (lag int64, err error) {
	ends, err := reader.Ends(ctx, j.Input())
	if err != nil {
		return 0, err
	}
	done, err := reader.GroupOffsets(ctx, j.Group(), j.Input(), len(ends))
	if err != nil {
		return 0, err
	}
	for p, end := range ends {
		lag += max(0, end-max(0, done[p]))
	}
	return lag, nil
}

// Look reads the topics and the state dump.
func (j *Job) Look(ctx context.Context, reader *oracle.Reader) (s *Sight, err error) {
	s = &Sight{}
	if s.Dump, err = j.Dump(ctx); err != nil {
		return nil, err
	}
	if s.State, err = ParseDump(s.Dump); err != nil {
		return nil, err
	}
	s.Results, s.Updates = []Line{}, []Line{}
	for _, a := range j.Oracle.Aggregations {
		lines, err := j.readResults(ctx, reader, &a)
		if err != nil {
			return nil, err
		}
		if a.Updates {
			s.Updates = append(s.Updates, lines...)
			lines = slices.DeleteFunc(slices.Clone(lines), func(l Line) bool { return !l.Final })
		}
		s.Results = append(s.Results, lines...)
	}
	if !j.NoLate {
		if s.Late, err = j.outputs(ctx, reader, j.Late()); err != nil {
			return nil, err
		}
	}
	if s.Dead, err = j.outputs(ctx, reader, j.Dead()); err != nil {
		return nil, err
	}
	if j.Pairs != nil {
		return s, j.lookAtPairs(ctx, reader, s)
	}
	return s, s.fold(ctx, reader, j.Changelog())
}

// fold folds the changelog from its beginning, without tidemark: its live entries and the last commit records.
func (s *Observed) fold(ctx context.Context, reader *oracle.Reader, topic string) error {
	partitions, err := reader.Read(ctx, topic, oracle.AtHighWatermark)
	if err != nil {
		return err
	}
	s.Live, s.Counters = []oracle.Entry{}, []Counters{}
	for p, messages := range partitions {
		fold, err := oracle.FoldChangelog(messages)
		if err != nil {
			return err
		}
		if fold.Last == nil {
			return fmt.Errorf("%s/%d: no commit record: the task was never born", topic, p)
		}
		if fold.Last.Live != int64(len(fold.Live)) {
			return fmt.Errorf("%s/%d: commit %d says %d live entries, the changelog holds %d", topic, p, fold.Last.Number,
				fold.Last.Live, len(fold.Live))
		}
		s.Counters = append(s.Counters, Counters{Task: fold.Last.Counters, Aggregations: fold.Last.Aggregations, StreamTime: fold.Last.StreamTime})
		for _, b := range fold.Backwards {
			s.Backwards = append(s.Backwards, fmt.Sprintf("%s in %s/%d", b, topic, p))
		}
		for _, e := range fold.Live {
			s.Live = append(s.Live, e)
		}
	}
	slices.SortFunc(s.Live, func(a, b oracle.Entry) int { return bytes.Compare(sortKey(a), sortKey(b)) })
	return nil
}

func sortKey(e oracle.Entry) []byte { return []byte(oracle.WindowID(e.Aggregation, e.Key, e.Start)) }

// readResults reads one result topic.
func (j *Job) readResults(ctx context.Context, reader *oracle.Reader, a *oracle.Aggregation) ([]Line, error) {
	topic := j.Results(a.Name)
	partitions, err := reader.Read(ctx, topic, oracle.AtHighWatermark)
	if err != nil {
		return nil, err
	}
	var lines []Line
	for _, messages := range partitions {
		for _, m := range messages {
			place := fmt.Sprintf("%s/%d at offset %d", topic, m.Partition, m.Offset)
			l, err := ParseLine(m.Value, place)
			if err != nil {
				return nil, err
			}
			if l.Aggregation != a.Name {
				return nil, fmt.Errorf("%s: a result of aggregation %q", place, l.Aggregation)
			}
			if want := oracle.RecordKey(l.Key); !bytes.Equal(m.Key, want) {
				return nil, fmt.Errorf("%s: key %q, want %q", place, m.Key, want)
			}
			lines = append(lines, l)
		}
	}
	return lines, nil
}

// The headers that say which input record a late reading or dead letter is, and why it is there.
const (
	headerPartition   = "tidemark.partition"
	headerOffset      = "tidemark.offset"
	headerReason      = "tidemark.reason"
	headerAggregation = "tidemark.aggregation"
	headerStart       = "tidemark.window_start"
	headerEnd         = "tidemark.window_end"
	headerStreamTime  = "tidemark.stream_time"
)

// outputs reads the late or dead letter topic.
func (j *Job) outputs(ctx context.Context, reader *oracle.Reader, topic string) ([]Output, error) {
	partitions, err := reader.Read(ctx, topic, oracle.AtHighWatermark)
	if err != nil {
		return nil, err
	}
	out := []Output{}
	for _, messages := range partitions {
		for _, m := range messages {
			o, err := ParseOutput(m)
			if err != nil {
				return nil, fmt.Errorf("%s/%d at offset %d: %w", topic, m.Partition, m.Offset, err)
			}
			out = append(out, o)
		}
	}
	return out, nil
}

// ParseOutput reads a late reading or dead letter by its headers. Of two with one name the last counts: an input record may carry some of its own.
func ParseOutput(m oracle.Message) (Output, error) {
	text := map[string]string{}
	for _, h := range m.Headers {
		text[h.Key] = string(h.Value)
	}
	o := Output{Key: m.Key, Value: m.Value, Reason: text[headerReason], Aggregation: text[headerAggregation]}
	numbers := map[string]*int64{headerOffset: &o.Offset}
	var partition int64
	numbers[headerPartition] = &partition
	if o.Aggregation != "" {
		numbers[headerStart], numbers[headerEnd], numbers[headerStreamTime] = &o.Start, &o.End, &o.StreamTime
	}
	for name, to := range numbers {
		var err error
		if *to, err = strconv.ParseInt(text[name], 10, 64); err != nil {
			return o, fmt.Errorf("header %s is %q, want a number", name, text[name])
		}
	}
	o.Partition = int32(partition)
	return o, nil
}

// Prove compares everything that a job which is idle shows with what the oracle expects; then it starts the job again,
// once as it is and once with its local state deleted: neither may change anything (I1, I6, I10). An error says what is
// wrong.
func (j *Job) Prove(ctx context.Context, reader *oracle.Reader, want *Expected) (*Sight, error) {
	first, err := j.Look(ctx, reader)
	if err != nil {
		return nil, err
	}
	if found := Report(Compare(want, &first.Observed), 20); found != "" {
		return first, errors.New(found)
	}
	if _, err := j.run(ctx, "checkpoint-verify", "checkpoint", "verify", "-c", j.Config()); err != nil {
		return first, err
	}
	if err := j.unchanged(ctx, reader, first, "second-restart"); err != nil {
		return first, err
	}
	if err := j.Wipe(); err != nil {
		return first, err
	}
	return first, j.unchanged(ctx, reader, first, "restart-without-local-state")
}

// unchanged runs the job once more and compares what it shows then with what it showed before.
func (j *Job) unchanged(ctx context.Context, reader *oracle.Reader, before *Sight, name string) error {
	if err := j.RunUntilIdle(ctx, name); err != nil {
		return err
	}
	after, err := j.Look(ctx, reader)
	if err != nil {
		return err
	}
	if err := before.same(after); err != nil {
		return fmt.Errorf("after the %s: %w", name, err)
	}
	return nil
}

// same says in what two looks at a job differ.
func (s *Sight) same(o *Sight) error {
	if !bytes.Equal(s.Dump, o.Dump) {
		return fmt.Errorf("state dump changed: %d lines, then %d", len(s.State), len(o.State))
	}
	for _, part := range []struct {
		name string
		a, b any
	}{{"live entries", s.Live, o.Live}, {"results", s.Results, o.Results}, {"updates", s.Updates, o.Updates}, {"late topic", s.Late, o.Late},
		{"dead letter topic", s.Dead, o.Dead}, {"counters", s.Counters, o.Counters}, {"parts", s.Pairs, o.Pairs}} {
		if !reflect.DeepEqual(part.a, part.b) {
			return fmt.Errorf("%s changed: %d, then %d", part.name, reflect.ValueOf(part.a).Len(), reflect.ValueOf(part.b).Len())
		}
	}
	return nil
}
