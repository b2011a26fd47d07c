package recovery

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/store"
)

// planIdentity is an identity with ids made of one byte.
func planIdentity(cluster string, input, changelog byte) record.Identity {
	return record.Identity{
		ClusterID: cluster,
		Input:     record.Topic{Name: "in", ID: record.TopicID{input}, Partitions: 4},
		Changelog: record.Topic{Name: "log", ID: record.TopicID{changelog}, Partitions: 4},
	}
}

const (
	minute = int64(60_000)
	hour   = 60 * minute
)

// The plan is a pure function of the end of the changelog and the headers; every rule of section 6 is a row. The end:
// F = 1000 at broker time 100 h, last commit 50 of birth 1, retention 2 h, so that the limit is 2 h - 12 min.
func TestChoose(t *testing.T) {
	is := planIdentity("c", 1, 2)
	type change = func(*image)
	at := func(position int64, number uint64, age int64, changes ...change) image {
		img := image{Entry: store.Entry{Path: "new", Info: &store.Info{Header: store.Header{
			Begin: record.ChangelogPosition(position), BrokerTime: 100*hour - age,
			Commit: record.Commit{Birth: 1, Number: number}, Fence: record.Fence{Job: "j", Identity: is},
		}}}}
		for _, change := range changes {
			change(&img)
		}
		return img
	}
	named := func(name string) change { return func(img *image) { img.Path = name } }
	identity := func(id record.Identity) change { return func(img *image) { img.Info.Fence.Identity = id } }
	failed := func(kind store.Kind) change {
		return func(img *image) { img.Info, img.Err = nil, &store.Error{Kind: kind, Err: errors.New("bad header")} }
	}
	birth := func(b record.BirthID) change { return func(img *image) { img.Info.Commit.Birth = b } }
	live := func(img *image) { img.live, img.Path = true, "live" }
	unknown := is
	unknown.Input.ID = record.TopicID{}
	wide := is
	wide.Input.Partitions = 6
	limit := 2*hour - 12*minute

	rows := []struct {
		name   string
		images []image
		start  int64
		use    string // name, "" for a full replay
		aside  []string
		lost   string
		why    string
	}{
		{name: "none", why: "there is no checkpoint"},
		{name: "newest", images: []image{at(900, 40, 0, named("old")), at(950, 45, 0)}, use: "new", why: "newest"},
		{name: "position at the end", images: []image{at(1001, 50, 0)}, use: "new"},
		{name: "position 0 is valid", images: []image{at(0, 0, 0)}, use: "new"},
		{name: "one below the limit", images: []image{at(950, 45, limit-1)}, use: "new"},
		{name: "at the limit", images: []image{at(950, 45, limit)}, aside: []string{"is 1h48m0s old, less than 1h48m0s is allowed"}},
		{name: "equal commit number at any age", images: []image{at(950, 50, 99*hour)}, use: "new"},
		{name: "equal number though the clock went back", images: []image{at(950, 50, -99*hour)}, use: "new"},
		{name: "broker's clock a little back", images: []image{at(950, 45, -minute)}, use: "new"},
		{name: "broker's clock far back", images: []image{at(950, 45, -minute-1)}, aside: []string{"clock went back"}},
		{name: "next older one", images: []image{at(950, 45, 0, failed(store.KindDamaged)), at(900, 40, 0, named("old"))}, use: "old",
			aside: []string{"bad header"}, why: "newest that is usable"},
		{name: "newer format is left alone", images: []image{at(950, 45, 0, failed(store.KindNewer))}, aside: []string{"kept: bad header"},
			why: "no checkpoint is usable: new: bad header"},
		{name: "another cluster", images: []image{at(950, 45, 0, identity(planIdentity("d", 1, 2)))}, aside: []string{`cluster "d", not of "c"`}},
		{name: "another input topic", images: []image{at(950, 45, 0, identity(planIdentity("c", 9, 2)))}, aside: []string{"of input in (id 09"}},
		{name: "another changelog", images: []image{at(950, 45, 0, identity(planIdentity("c", 1, 9)))}, aside: []string{"of changelog log (id 09"}},
		{name: "unknown id equals nothing", images: []image{at(950, 45, 0, identity(unknown))}, aside: []string{"id unknown"}},
		{name: "another partition count", images: []image{at(950, 45, 0, identity(wide))}, aside: []string{"6 partitions), not of in"}},
		{name: "another partition", images: []image{at(950, 45, 0, func(img *image) { img.Info.Fence.Partition = 3 })}, aside: []string{"partition 3, not of job"}},
		{name: "another birth is foreign, not later", images: []image{at(950, 99, 0, birth(2))}, aside: []string{"belongs to birth 0000000000000002"}},
		{name: "another birth beyond the end too", images: []image{at(9999, 45, 0, birth(2))}, aside: []string{"belongs to birth"}},
		{name: "later commit of the same birth", images: []image{at(950, 51, 0)}, lost: "new knows commit 51 of birth 0000000000000001, the changelog ends with commit 50"},
		{name: "later commit in an older file", images: []image{at(950, 45, 0), at(10, 51, 0, named("old"))}, lost: "old knows commit 51"},
		{name: "beyond the end", images: []image{at(1002, 50, 0)}, lost: "stands at changelog offset 1002, the changelog ends at 1001"},
		{name: "absurd position", images: []image{at(math.MaxInt64, 50, 0)}, lost: "stands at changelog offset"},
		{name: "negative position", images: []image{at(-4, 45, 0)}, aside: []string{"position -4"}},
		{name: "another job", images: []image{at(950, 45, 0, func(img *image) { img.Info.Fence.Job = "k" })}, aside: []string{`job "k" partition 0, not of job "j"`}},
		{name: "unreadable just now is left alone", images: []image{at(950, 45, 0, failed(store.KindIO))}, aside: []string{"kept: bad header"}},
		{name: "at the log start", start: 950, images: []image{at(950, 45, 0)}, use: "new"},
		{name: "below the log start", start: 951, images: []image{at(950, 45, 0)}, aside: []string{"log start 951 > stored position 950"}},
		{name: "the live base first", images: []image{at(950, 45, 0), at(940, 44, 0, live)}, use: "live"},
		{name: "the live base was away too long", images: []image{at(950, 45, 0), at(940, 44, 25*hour, live)}, use: "new", aside: []string{"25h0m0s old"}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			e := end{job: "j", start: row.start, fenceAt: 1000, fenceMS: 100 * hour, last: &record.Commit{Birth: 1, Number: 50},
				identity: &is, retentionMS: 2 * hour}
			p := choose(e, row.images)
			use := ""
			if p.use >= 0 {
				use = row.images[p.use].Path
			}
			if use != row.use {
				t.Errorf("uses %q, want %q", use, row.use)
			}
			if lost := p.lost != nil; lost != (row.lost != "") || lost && !strings.Contains(p.lost.Error(), row.lost) {
				t.Errorf("lost: %v, want %q", p.lost, row.lost)
			}
			if len(p.aside) != len(row.aside) {
				t.Fatalf("aside %+v, want %q", p.aside, row.aside)
			}
			for i, want := range row.aside {
				reason, keep := strings.CutPrefix(want, "kept: ")
				if a := p.aside[i]; !strings.Contains(a.Reason, reason) || a.Left != keep {
					t.Errorf("aside %+v, want %q", a, want)
				}
			}
			if !strings.Contains(p.why, row.why) {
				t.Errorf("why %q, want %q", p.why, row.why)
			}
		})
	}
}

// The limit does not overflow, and a small retention leaves none.
func TestAgeLimit(t *testing.T) {
	for retention, want := range map[int64]int64{0: -minute, minute: 0, 10 * minute: 9 * minute, 24 * hour: 24*hour - 144*minute,
		math.MaxInt64: math.MaxInt64 - math.MaxInt64/10} {
		if got := ageLimit(retention); got != want {
			t.Errorf("retention %d: limit %d, want %d", retention, got, want)
		}
	}
	if milliseconds(math.MaxInt64) <= 0 || milliseconds(math.MinInt64) >= 0 {
		t.Error("a duration overflowed")
	}
}
