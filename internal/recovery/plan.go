package recovery

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-streams/tidemark/internal/defect"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/store"
)

// image is a copy of the state before it is used: a checkpoint by its header, or a live base in the same words.
type image struct {
	store.Entry
	live bool
}

// left tells whether a file that cannot be used stays where it is: it is of a newer format, or could not be read just
// now, and may be in perfect order (I6).
func left(err error) bool {
	return store.KindOf(err) == store.KindNewer || store.KindOf(err) == store.KindIO
}

// end is what is known of the changelog once the fence record has been read back, and of the task it belongs to.
type end struct {
	job         string
	partition   int32
	identity    *record.Identity // of the configuration, which is that of the log
	start       int64            // log start
	fenceAt     int64            // F
	fenceMS     int64            // broker time of the fence record: now, by no clock of ours
	last        *record.Commit
	lastAt      int64
	retentionMS int64 // smallest delete.retention.ms ever seen
	goOn        bool  // without committed data that is gone: what knows of it is set aside
}

// plan says from where to go on.
type plan struct {
	use   int // index of the image to use, -1 for a replay from the log start into an empty store
	why   string
	aside []Aside
	at    []int // index of the image of each Aside
	lost  error // committed data is gone: a stop (I6)
}

// refusal is why an image is not used: a word for its file's name, and the reason in full.
type refusal struct{ word, text string }

func refuse(word, format string, args ...any) *refusal {
	return &refusal{word, fmt.Sprintf(format, args...)}
}

// wordLost names an image that knows of committed data that is gone.
const wordLost = "lost-branch"

const whyUsable = "newest that is usable"

// choose decides which image to use: the newest usable one. It is a pure function, so that every row of its table is a
// test. All images are judged, for an older one may still know of data that is gone.
func choose(e end, images []image) plan {
	p := plan{use: -1, why: "there is no checkpoint"}
	order := make([]int, len(images))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return newer(&images[a], &images[b]) })
	for _, i := range order {
		img := &images[i]
		refused, lost := e.judge(img)
		if lost != nil && e.goOn {
			refused, lost = refuse(wordLost, "%v", lost), nil
		}
		switch {
		case lost != nil && p.lost == nil:
			p.lost = lost
		case refused != nil:
			p.aside = append(p.aside, Aside{Name: img.Path, Word: refused.word, Reason: refused.text, Left: img.Err != nil && left(img.Err)})
			p.at = append(p.at, i)
		case p.use < 0:
			p.use = i
		}
	}
	switch {
	case p.lost != nil:
		p.use = -1
	case p.use >= 0 && len(p.aside) == 0:
		p.why = "newest"
	case p.use >= 0:
		p.why = whyUsable
	case len(p.aside) > 0:
		p.why = "no checkpoint is usable: " + p.aside[0].Name + ": " + p.aside[0].Reason
	}
	return p
}

// newer orders images: a live base first, then by position, unreadable ones last.
func newer(a, b *image) int {
	rank := func(img *image) (int, record.ChangelogPosition) {
		switch {
		case img.Info == nil:
			return 0, 0
		case img.live:
			return 2, img.Info.Begin
		}
		return 1, img.Info.Begin
	}
	ra, pa := rank(a)
	rb, pb := rank(b)
	return cmp.Or(cmp.Compare(rb, ra), cmp.Compare(pb, pa))
}

// judge returns why an image must not be used, nil when it may; lost is set when it knows of committed data that the
// changelog does not hold (I6, R15). "Later" is said by birth id and commit number.
func (e *end) judge(img *image) (refused *refusal, lost error) {
	if img.Err != nil {
		return refuse(store.KindOf(img.Err).String(), "%v", errors.Unwrap(img.Err)), nil
	}
	if err := img.Info.Belongs(e.job, e.partition, e.identity); err != nil {
		return refuse("foreign", "%v", errors.Unwrap(err)), nil
	}
	begin, c := int64(img.Info.Begin), &img.Info.Commit
	switch {
	case begin < 0:
		return refuse("damaged", "position %d is impossible", begin), nil
	case c.Birth != e.last.Birth:
		return refuse("foreign", "belongs to birth %v, the changelog to %v", c.Birth, e.last.Birth), nil
	case c.Number > e.last.Number:
		return nil, fmt.Errorf("%s knows commit %d of birth %v, the changelog ends with commit %d", img.Path, c.Number, e.last.Birth, e.last.Number)
	case begin > e.fenceAt+1:
		return nil, fmt.Errorf("%s stands at changelog offset %d, the changelog ends at %d", img.Path, begin, e.fenceAt+1)
	case begin < e.start:
		return refuse("log-start", "log start %d > stored position %d: what lies between was deleted", e.start, begin), nil
	case c.Number == e.last.Number && !img.isPart():
		return nil, nil // nothing was committed after it, so no tombstone can be missing, at any age
	}
	return e.judgeAge(img), nil
}

// skew is what two brokers' clocks may differ by before a time in the future counts as unknown.
const skew = time.Minute

// judgeAge applies the tombstone rule (S04, R13): whatever was deleted after B must still have its tombstone in the log.
func (e *end) judgeAge(img *image) *refusal {
	if defect.StaleCheckpoint {
		return nil
	}
	age, limit := e.fenceMS-img.Info.BrokerTime, ageLimit(e.retentionMS)
	switch {
	case age < -skew.Milliseconds():
		return refuse("too-old", "its broker time %d lies %v after the fence record's %d: the broker's clock went back, so its age is unknown",
			img.Info.BrokerTime, milliseconds(-age), e.fenceMS)
	case age >= limit:
		return refuse("too-old", "is %v old, less than %v is allowed (delete.retention.ms %d less a margin): tombstones after it may be gone",
			milliseconds(age), milliseconds(limit), e.retentionMS)
	}
	return nil
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

// Differences says in words how two identities differ in what must stay the same: cluster, input, changelog. It is ""
// when they are the same. An unknown topic id equals nothing (R33).
func Differences(was, is *record.Identity) string {
	var parts []string
	growing := is.Growing // R34
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
		if was.Partitions != is.Partitions && !growing {
			parts = append(parts, fmt.Sprintf("%s topic %s had %d partitions, has %d", role, is.Name, was.Partitions, is.Partitions))
		}
	}
	topic("input", was.Input, is.Input)
	topic("changelog", was.Changelog, is.Changelog)
	return strings.Join(parts, "; ")
}
