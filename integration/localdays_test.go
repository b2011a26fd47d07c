package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/proof"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// localDays is a job of days in a zone, none of which closes.
const localDays = `job: job
kafka: {embedded: {partitions: 4}}
input: {topic: job-in, key: [device, metric], values: [value], time: {field: ts, unit: rfc3339, max_ahead: off}}
aggregations:
  - {name: daily, window: {calendar: day, zone: %s, grace: 1000000h}, functions: [count, sum], output: {topic: daily}}
state: {dir: %q}
`

// TestLocalDays folds real readings of three sets across both changes of the clock into days of their zone. The sets write
// local time with its offset, so the truth is the date that stands in the text: no zone data is needed for it (W12).
func TestLocalDays(t *testing.T) {
	dir, found := oracle.DataDir("..")
	if !found {
		fmt.Printf("data sets are not there (%s): days of zones are not run\n", dir)
		return
	}
	for set, zone := range map[string]string{"meters_dst_hourly": "Europe/Amsterdam", "nyc_weather_dst": "America/New_York", "fluvius_15min_dst": "Europe/Brussels"} {
		t.Run(set, func(t *testing.T) {
			lines, err := oracle.ReadLines(filepath.Join(dir, set+".jsonl.gz"))
			if err != nil {
				t.Fatal(err)
			}
			sameDays(t, zone, lines)
		})
	}
}

// dayOf is what a day of a device and metric must hold.
type dayOf struct {
	count int64
	sum   *big.Rat
}

func sameDays(t *testing.T, zone string, lines [][]byte) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	job := &proof.Job{Binary: binary(t), Dir: t.TempDir(), Name: "job", Oracle: proof.FleetConfig(4),
		Render: func(j *proof.Job) ([]byte, error) { return fmt.Appendf(nil, localDays, zone, j.StateDir()), nil }}
	if err := job.WriteConfig(); err != nil {
		t.Fatal(err)
	}
	startBroker(ctx, t, job)
	if n, err := job.Produce(ctx, proof.Lines(lines)); err != nil || n != len(lines) {
		t.Fatalf("produced %d of %d lines: %v", n, len(lines), err)
	}
	if err := job.RunUntilIdle(ctx, "until-idle"); err != nil {
		t.Fatal(err)
	}
	want := daysOf(t, lines)
	dump, err := job.Dump(ctx)
	if err != nil {
		t.Fatal(err)
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	lengths := map[int64]int{}
	for text := range strings.Lines(string(dump)) {
		var l struct {
			Key        []string
			Start, End int64
			Count      int64
			Sum        float64
		}
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatal(err)
		}
		key := fmt.Sprint(l.Key, time.UnixMilli(l.Start).In(location).Format(" 2006-01-02 15:04"))
		day, ok := want[key]
		if !ok {
			t.Fatalf("a window that there is not: %s", text)
		}
		if sum, _ := day.sum.Float64(); day.count != l.Count || sum != l.Sum {
			t.Errorf("%s: count %d sum %v, want %d and %v", key, l.Count, l.Sum, day.count, sum)
		}
		lengths[(l.End-l.Start)/time.Hour.Milliseconds()]++
		delete(want, key)
	}
	if len(want) > 0 || lengths[25] == 0 || lengths[24] == 0 {
		t.Errorf("%d days missing; lengths in hours %v", len(want), lengths)
	}
	t.Logf("%d readings, lengths of days in hours: %v", len(lines), lengths)
}

// daysOf adds the readings up by the date that their text begins with.
func daysOf(t *testing.T, lines [][]byte) map[string]*dayOf {
	days := map[string]*dayOf{}
	for _, line := range lines {
		var r struct {
			Device, Metric, TS string
			Value              json.Number
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if r.Value == "" { // null
			continue
		}
		v, err := r.Value.Float64()
		if err != nil {
			t.Fatal(err)
		}
		key := fmt.Sprint([]string{r.Device, r.Metric}, " ", r.TS[:10], " 00:00")
		if days[key] == nil {
			days[key] = &dayOf{sum: new(big.Rat)}
		}
		days[key].count++
		days[key].sum.Add(days[key].sum, new(big.Rat).SetFloat64(v))
	}
	return days
}
