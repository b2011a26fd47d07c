package recovery

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-streams/tidemark/internal/record"
)

// Image is what is known of a copy of the state before it is used: the header of a checkpoint, or a live base.
type Image struct {
	Name     string
	Identity record.Identity
	Position record.ChangelogPosition // B: replay goes on from here
	TimeMS   int64                    // broker time at B; errors make it older, never younger
	Commit   *record.Commit           // in force at B
	Damaged  error                    // why the header could not be used; the other fields but Name are not set then
	Newer    bool                     // with Damaged: a newer program wrote it, or it could not be read just now; it is left alone
	Live     bool                     // a live base, not a file
}

// end is what is known of the changelog once the fence record has been read back.
type end struct {
	start       int64 // log start
	fenceAt     int64 // F
	fenceMS     int64 // broker time of the fence record: now, by no clock of ours
	last        *record.Commit
	lastAt      int64
	identity    *record.Identity // of the configuration, which is that of the log
	retentionMS int64            // smallest delete.retention.ms ever seen
}

// plan says from where to go on.
type plan struct {
	use   int // index of the image to use, -1 for a replay from the log start into an empty store
	why   string
	aside []Aside
	at    []int // index of the image of each Aside
	lost  error // committed data is gone: a stop (I6)
}

// choose decides which image to use: the newest usable one. It is a pure function, so that every row of its table is a
// test. All images are judged, for an older one may still know of data that is gone.
func choose(e end, images []Image) plan {
	p := plan{use: -1, why: "there is no checkpoint"}
	order := make([]int, len(images))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return newer(&images[a], &images[b]) })
	for _, i := range order {
		img := &images[i]
		reason, lost := e.judge(img)
		switch {
		case lost != nil && p.lost == nil:
			p.lost = lost
		case reason != "":
			p.aside = append(p.aside, Aside{Name: img.Name, Reason: reason, Kept: img.Newer})
			p.at = append(p.at, i)
		case p.use < 0:
			p.use = i
		}
	}
	switch {
	case p.use >= 0 && len(p.aside) == 0:
		p.why = "newest"
	case p.use >= 0:
		p.why = "newest that is usable"
	case len(p.aside) > 0:
		p.why = p.aside[0].Name + ": " + p.aside[0].Reason
	}
	return p
}

// newer orders images: a live base first, then by position, unreadable ones last.
func newer(a, b *Image) int {
	rank := func(img *Image) int {
		switch {
		case img.Live:
			return 2
		case img.Damaged == nil:
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(rank(b), rank(a)), cmp.Compare(b.Position, a.Position))
}

// judge returns why an image must not be used, "" when it may; lost is set when it knows of committed data that the
// changelog does not hold (I6, R15). "Later" is said by birth id and commit number.
func (e *end) judge(img *Image) (reason string, lost error) {
	switch {
	case img.Damaged != nil:
		return img.Damaged.Error(), nil
	case img.Position < 0 || img.Commit == nil:
		return fmt.Sprintf("position %d or commit record %v is impossible", img.Position, img.Commit), nil
	}
	if diff := differences(&img.Identity, e.identity); diff != "" {
		return "belongs to something else: " + diff, nil
	}
	n, last := img.Commit.Number, e.last.Number
	switch {
	case img.Commit.Birth != e.last.Birth:
		return fmt.Sprintf("belongs to birth %v, the changelog to %v", img.Commit.Birth, e.last.Birth), nil
	case n > last:
		return "", fmt.Errorf("%s knows commit %d of birth %v, the changelog ends with commit %d", img.Name, n, e.last.Birth, last)
	case int64(img.Position) > e.fenceAt+1:
		return "", fmt.Errorf("%s stands at changelog offset %d, the changelog ends at %d", img.Name, img.Position, e.fenceAt+1)
	case int64(img.Position) < e.start:
		return fmt.Sprintf("log start %d > stored position %d: what lies between was deleted", e.start, img.Position), nil
	case n == last:
		return "", nil // nothing was committed after it, so no tombstone can be missing, at any age
	}
	return e.judgeAge(img), nil
}

// skew is what two brokers' clocks may differ by before a time in the future counts as unknown.
const skew = time.Minute

// judgeAge applies the tombstone rule (S04, R13): whatever was deleted after B must still have its tombstone in the log.
func (e *end) judgeAge(img *Image) string {
	age, limit := e.fenceMS-img.TimeMS, ageLimit(e.retentionMS)
	switch {
	case age < -skew.Milliseconds():
		return fmt.Sprintf("its broker time %d lies %v after the fence record's %d: the broker's clock went back, its age is unknown",
			img.TimeMS, milliseconds(-age), e.fenceMS)
	case age >= limit:
		return fmt.Sprintf("%v old, older than %v allow (delete.retention.ms %d less a margin): tombstones after it may be gone",
			milliseconds(age), milliseconds(limit), e.retentionMS)
	}
	return ""
}

// ageLimit is the smallest delete.retention.ms ever seen less the larger of a minute and a tenth of it.
func ageLimit(retentionMS int64) int64 {
	return retentionMS - max(time.Minute.Milliseconds(), retentionMS/10)
}

// milliseconds makes a duration that does not overflow.
func milliseconds(ms int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(max(-most, min(most, ms))) * time.Millisecond
}

// differences says in words how two identities differ in what must stay the same: cluster, input, changelog. It is ""
// when they are the same. An unknown topic id equals nothing (R33).
func differences(was, is *record.Identity) string {
	var parts []string
	if was.ClusterID != is.ClusterID {
		parts = append(parts, fmt.Sprintf("cluster id was %q, is %q", was.ClusterID, is.ClusterID))
	}
	topic := func(role string, was, is record.Topic) {
		if was.Name != is.Name {
			parts = append(parts, fmt.Sprintf("%s topic was %q, is %q", role, was.Name, is.Name))
		}
		if !was.ID.Equal(is.ID) {
			parts = append(parts, fmt.Sprintf("id of %s topic %s was %v, is %v", role, is.Name, was.ID, is.ID))
		}
		if was.Partitions != is.Partitions {
			parts = append(parts, fmt.Sprintf("%s topic %s had %d partitions, has %d", role, is.Name, was.Partitions, is.Partitions))
		}
	}
	topic("input", was.Input, is.Input)
	topic("changelog", was.Changelog, is.Changelog)
	return strings.Join(parts, "; ")
}
