package status

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// maxTaskSeries is how many tasks have series of their own (I13): those that are not green first, then those with the
// lowest partition numbers. Series without the label partition always tell of all tasks.
const maxTaskSeries = 100

// metric is one metric: where its values come from, and what the reference page says of it.
type metric struct {
	name   string
	kind   prometheus.ValueType
	help   string
	labels []string
	of     func(s *Status, emit emit) // of the process; nil for
	task   func(t *Task, emit emit)   // a metric of each task, which has the label partition in front
	desc   *prometheus.Desc
}

// emit gives one sample with the values of the labels.
type emit func(value float64, labels ...string)

const (
	gauge   = prometheus.GaugeValue
	counter = prometheus.CounterValue
)

// commitSeconds is the one histogram.
var commitSeconds = prometheus.NewDesc("tidemark_commit_seconds", "Time from the start of a commit to its answer.", nil, nil)

// metrics are all metrics but commitSeconds. Counters without the label partition count since the start of the process;
// those with it are in the commit record, so they go on where another process left off.
var metrics = describe([]*metric{
	{name: "tidemark_info", kind: gauge, help: "Always 1.", labels: []string{"job", "version"},
		of: func(s *Status, emit emit) { emit(1, s.Job, s.Version) }},
	{name: "tidemark_live", kind: gauge, help: "1 when /livez answers 200, else 0.",
		of: func(s *Status, emit emit) { emit(number(s.Live)) }},
	{name: "tidemark_ready", kind: gauge, help: "1 when /readyz answers 200, else 0.",
		of: func(s *Status, emit emit) { emit(number(s.Ready)) }},
	{name: "tidemark_health", kind: gauge, help: "0 green, 1 amber, 2 red: the worst of the process and its tasks.",
		of: func(s *Status, emit emit) { emit(float64(s.Health.rank())) }},
	{name: "tidemark_tasks", kind: gauge, help: "Tasks of this process by state.", labels: []string{"state"}, of: tasksByState},
	{name: "tidemark_tasks_without_series", kind: gauge, help: "Tasks that have no series of their own, because there are too many.",
		of: func(s *Status, emit emit) { emit(float64(max(0, len(s.Tasks)-maxTaskSeries))) }},
	{name: "tidemark_lag_records", kind: gauge, help: "Input not yet committed, of all tasks; absent while that of one is not known.",
		of: func(s *Status, emit emit) { optional(s.Lag, emit) }},
	{name: "tidemark_seconds_since_progress", kind: gauge, help: "Of the task that has not moved for longest.", of: func(s *Status, emit emit) {
		longest := 0.0
		for i := range s.Tasks {
			longest = max(longest, s.Tasks[i].SinceProgress)
		}
		emit(longest)
	}},
	{name: "tidemark_estimated_recovery_seconds", kind: gauge, help: "Expected time of a restart after a crash, all tasks together.",
		of: func(s *Status, emit emit) { emit(s.EstimatedRecovery) }},
	{name: "tidemark_memory_bytes", kind: gauge, help: "Memory of the state: used is what the limit is compared with.", labels: []string{"kind"},
		of: func(s *Status, emit emit) {
			emit(float64(s.Memory.Used), "used")
			emit(float64(s.Memory.Mapped), "mapped")
		}},
	{name: "tidemark_memory_max_bytes", kind: gauge, help: "state.max_bytes in force.",
		of: func(s *Status, emit emit) { emit(float64(s.Memory.Max)) }},

	{name: "tidemark_commits_total", kind: counter, help: "Commits.",
		of: func(s *Status, emit emit) { emit(float64(s.Totals.Commits)) }},
	{name: "tidemark_records_total", kind: counter, help: "Input records consumed by commits.",
		of: func(s *Status, emit emit) { emit(float64(s.Totals.Records)) }},
	{name: "tidemark_readings_in_total", kind: counter, help: "Readings taken in: the sum of what became of them.",
		of: func(s *Status, emit emit) { emit(float64(s.Totals.Readings.In)) }},
	{name: "tidemark_readings_total", kind: counter, help: "Readings by what became of them.", labels: []string{"outcome"},
		of: func(s *Status, emit emit) { s.Totals.Readings.each(emit) }},
	{name: "tidemark_inexact_values_total", kind: counter, help: "Values of accepted readings that are another number than the one written.",
		of: func(s *Status, emit emit) { emit(float64(s.Totals.Inexact)) }},
	{name: "tidemark_dead_letters_total", kind: counter, help: "Dead letters by reason.", labels: []string{"reason"},
		of: func(s *Status, emit emit) {
			for _, l := range s.Totals.DeadLetters {
				emit(float64(l.Letters), l.Reason)
			}
		}},
	{name: "tidemark_aggregation_readings_total", kind: counter, help: "Accepted readings by what became of them in an aggregation.",
		labels: []string{"aggregation", "outcome"}, of: aggregationReadings},
	{name: "tidemark_results_total", kind: counter, help: "Final results.", labels: []string{"aggregation"},
		of: func(s *Status, emit emit) {
			for i := range s.Totals.Aggregations {
				emit(float64(s.Totals.Aggregations[i].Results), s.Totals.Aggregations[i].Name)
			}
		}},
	{name: "tidemark_recoveries_total", kind: counter, help: "Recoveries by where they began.", labels: []string{"from"},
		of: func(s *Status, emit emit) { s.Totals.Recoveries.each(emit) }},
	{name: "tidemark_replayed_records_total", kind: counter, help: "Changelog records replayed by recoveries.",
		of: func(s *Status, emit emit) { emit(float64(s.Totals.Replayed)) }},
	{name: "tidemark_anchors_unproved_total", kind: counter, help: "Recoveries whose last consumed input record was not retained any more.",
		of: func(s *Status, emit emit) { emit(float64(s.Totals.Unproved)) }},
	{name: "tidemark_failures_total", kind: counter, help: "Failures that led to a recovery or a stop, by class.", labels: []string{"class"},
		of: func(s *Status, emit emit) { s.Totals.Failures.each(emit) }},
	{name: "tidemark_checkpoints_total", kind: counter, help: "Attempts to write a checkpoint.", labels: []string{"outcome"},
		of: func(s *Status, emit emit) {
			emit(float64(s.Totals.Checkpoints), "written")
			emit(float64(s.Totals.CheckpointFailures), "failed")
		}},

	{name: "tidemark_task_health", kind: gauge, help: "0 green, 1 amber, 2 red.",
		task: func(t *Task, emit emit) { emit(float64(t.Health.rank())) }},
	{name: "tidemark_task_seconds_since_progress", kind: gauge, help: "0 while the task moves or has nothing to do.",
		task: func(t *Task, emit emit) { emit(t.SinceProgress) }},
	{name: "tidemark_task_lag_records", kind: gauge, help: "Input not yet committed; absent while it is not known.",
		task: func(t *Task, emit emit) { optional(t.Lag, emit) }},
	{name: "tidemark_task_stream_time_seconds", kind: gauge, help: "Stream time since 1970; absent before the first reading.",
		task: func(t *Task, emit emit) {
			if t.StreamTime != nil {
				emit(float64(*t.StreamTime) / 1000)
			}
		}},
	{name: "tidemark_task_open_windows", kind: gauge, help: "Windows of keys that wait for their end.",
		task: func(t *Task, emit emit) { emit(float64(t.OpenWindows)) }},
	{name: "tidemark_task_due_windows", kind: gauge, help: "Windows of keys whose result is still to be published.",
		task: func(t *Task, emit emit) { emit(float64(t.DueWindows)) }},
	{name: "tidemark_task_key_clocks", kind: gauge, help: "Stream times of keys that are kept, with time.scope: key.",
		task: func(t *Task, emit emit) { emit(float64(t.KeyClocks)) }},
	{name: "tidemark_task_live_entries", kind: gauge, help: "Entries of the committed state.",
		task: func(t *Task, emit emit) { emit(float64(t.LiveEntries)) }},
	{name: "tidemark_task_memory_bytes", kind: gauge, help: "Memory that the state uses.",
		task: func(t *Task, emit emit) { emit(float64(t.MemoryUsed)) }},
	{name: "tidemark_task_commit_number", kind: gauge, help: "Number of the last commit of the task's life.",
		task: func(t *Task, emit emit) {
			if t.Commit != nil {
				emit(float64(t.Commit.Number))
			}
		}},
	{name: "tidemark_task_last_commit_timestamp_seconds", kind: gauge, help: "Time of the last commit of this process.",
		task: func(t *Task, emit emit) {
			if t.Commit != nil && t.Commit.At != nil {
				emit(float64(t.Commit.At.UnixMilli()) / 1000)
			}
		}},
	{name: "tidemark_task_checkpoint_age_seconds", kind: gauge, help: "Age of the newest checkpoint; absent when there is none.",
		task: func(t *Task, emit emit) {
			if t.Checkpoint != nil {
				emit(t.Checkpoint.Age)
			}
		}},
	{name: "tidemark_task_estimated_recovery_seconds", kind: gauge, help: "Expected time of the task's recovery after a crash.",
		task: func(t *Task, emit emit) { emit(t.EstimatedRecovery) }},
	{name: "tidemark_task_readings_in_total", kind: counter, help: "Readings of the task's life taken in.",
		task: func(t *Task, emit emit) { emit(float64(t.Readings.In)) }},
	{name: "tidemark_task_readings_total", kind: counter, help: "Readings of the task's life by what became of them.", labels: []string{"outcome"},
		task: func(t *Task, emit emit) { t.Readings.each(emit) }},
})

// describe completes the table.
func describe(all []*metric) []*metric {
	for _, m := range all {
		labels := m.labels
		if m.task != nil {
			labels = append([]string{"partition"}, labels...)
		}
		m.desc = prometheus.NewDesc(m.name, m.help, labels, nil)
	}
	return all
}

// sample is one value of a metric. Label values must be UTF-8; names out of a program of one's own may be anything.
func (m *metric) sample(value float64, labels ...string) prometheus.Metric {
	for i := range labels {
		labels[i] = strings.ToValidUTF8(labels[i], "\uFFFD")
	}
	return prometheus.MustNewConstMetric(m.desc, m.kind, value, labels...)
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func optional(v *int64, emit emit) {
	if v != nil {
		emit(float64(*v))
	}
}

func tasksByState(s *Status, emit emit) {
	n := map[State]int{}
	for i := range s.Tasks {
		n[s.Tasks[i].State]++
	}
	for _, state := range States {
		emit(float64(n[state]), string(state))
	}
}

func aggregationReadings(s *Status, emit emit) {
	for i := range s.Totals.Aggregations {
		a := &s.Totals.Aggregations[i]
		emit(float64(a.Folded), a.Name, "folded")
		emit(float64(a.PartlyLate), a.Name, "partly_late")
		emit(float64(a.Late), a.Name, "late")
	}
}

// each emits the equation of I9: in is the sum of the five.
func (r *Readings) each(emit emit) {
	emit(float64(r.Accepted), "accepted")
	emit(float64(r.DeadLettered), "dead_lettered")
	emit(float64(r.Filtered), "filtered")
	emit(float64(r.Skipped), "skipped")
	emit(float64(r.Duplicates), "duplicate")
}

func (r *Recoveries) each(emit emit) {
	emit(float64(r.Birth), "birth")
	emit(float64(r.LiveBase), "live_base")
	emit(float64(r.Checkpoint), "checkpoint")
	emit(float64(r.FullReplay), "full_replay")
}

func (f *Failures) each(emit emit) {
	emit(float64(f.Transient), "transient")
	emit(float64(f.Fenced), "fenced")
	emit(float64(f.Permanent), "permanent")
	emit(float64(f.Lost), "lost")
	emit(float64(f.Corrupt), "corrupt")
}

// collector gives the metrics of the present moment, all of one Status.
type collector struct{ now func() *Status }

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	to <- commitSeconds
	for _, m := range metrics {
		to <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	s := c.now()
	tasks := withSeries(s.Tasks)
	for _, m := range metrics {
		if m.of != nil {
			m.of(s, func(value float64, labels ...string) {
				to <- m.sample(value, labels...)
			})
			continue
		}
		for _, t := range tasks {
			partition := strconv.Itoa(int(t.Partition))
			m.task(t, func(value float64, labels ...string) {
				to <- m.sample(value, append([]string{partition}, labels...)...)
			})
		}
	}
	d := &s.Totals.CommitSeconds
	buckets := make(map[float64]uint64, len(d.Bounds))
	for i, bound := range d.Bounds {
		buckets[bound] = uint64(d.AtMost[i])
	}
	to <- prometheus.MustNewConstHistogram(commitSeconds, uint64(d.Count), d.Sum, buckets)
}

// withSeries chooses the tasks that have series of their own.
func withSeries(all []Task) []*Task {
	tasks := make([]*Task, len(all))
	for i := range all {
		tasks[i] = &all[i]
	}
	slices.SortStableFunc(tasks, func(a, b *Task) int {
		return cmp.Or(cmp.Compare(number(a.Health == Green), number(b.Health == Green)), cmp.Compare(a.Partition, b.Partition))
	})
	return tasks[:min(len(tasks), maxTaskSeries)]
}
