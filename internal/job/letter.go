package job

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/task"
	"github.com/tidemark-streams/tidemark/reading"
)

// Reason is why a record became a dead letter: a reason of package reading by its name, or one of these.
type Reason string

// The reasons that concern a record's place and size rather than its value.
const (
	WrongKey       Reason = "wrong_key"       // the record key is not the one that the key fields make
	WrongPartition Reason = "wrong_partition" // the partitioner puts the record key elsewhere
	TooLarge       Reason = "too_large"       // the entry or its result would not fit its topic

	TooManyUpdates Reason = "too_many_updates" // with those before it, the reading would change more than one record may
)

// Reasons returns all reasons: those of package reading in their order, then those of this one.
func Reasons() []Reason {
	var list []Reason
	for _, r := range reading.Reasons() {
		list = append(list, Reason(r.String()))
	}
	return append(list, WrongKey, WrongPartition, TooLarge, TooManyUpdates)
}

// headerPrefix begins the names of all headers that late readings and dead letters get. A record that carries such
// headers already, because it has been a dead letter before, loses them, so that records do not grow from round to
// round (C15).
const headerPrefix = "tidemark."

// The headers of dead letters and late readings. Numbers are decimal text, times ms since the epoch.
const (
	HeaderTopic     = headerPrefix + "topic"     // where the record was read: topic,
	HeaderPartition = headerPrefix + "partition" // partition
	HeaderOffset    = headerPrefix + "offset"    // and offset
	HeaderAttempt   = headerPrefix + "attempt"   // how many times the record has come here, 1 for the first
	HeaderIndex     = headerPrefix + "index"     // of a record that may hold several readings: which of them, as 0,3-5; long ones as a bitmap

	HeaderReason   = headerPrefix + "reason"   // dead letters: one of Reasons
	HeaderPosition = headerPrefix + "position" // byte of the value at which the fault is; 0 when it is the whole record's
	HeaderField    = headerPrefix + "field"    // the configured field concerned, if any
	HeaderDetail   = headerPrefix + "detail"   // for people

	HeaderAggregation = headerPrefix + "aggregation"  // late readings: for which aggregation
	HeaderWindowStart = headerPrefix + "window_start" // the window that was missed, the first of several,
	HeaderWindowEnd   = headerPrefix + "window_end"   // its end not included
	HeaderStreamTime  = headerPrefix + "stream_time"  // stream time after this reading; with MaxLag that of its key: closed end + grace
	HeaderLateness    = headerPrefix + "lateness"     // closed end - window end: a grace longer by more than this had been enough

	HeaderTruncated       = headerPrefix + "truncated"         // "true" when the topic did not take the whole record
	HeaderOriginalSize    = headerPrefix + "original_size"     // bytes of the whole value
	HeaderSHA256          = headerPrefix + "sha256"            // of the whole value
	HeaderOriginalKeySize = headerPrefix + "original_key_size" // when the key was cut too: bytes of the whole key
	HeaderKeySHA256       = headerPrefix + "key_sha256"        // of the whole key
	HeaderHeadersDropped  = headerPrefix + "headers_dropped"   // how many of the record's own headers were left out
)

// minLetter is the least a topic of dead letters or late readings must take: our own headers with long names, and some
// of the record.
const minLetter = 4096

// letter is a late reading or a dead letter in the making.
type letter struct {
	key     []byte
	value   []byte
	own     []task.Header // the record's own headers
	headers []task.Header // ours
}

// newLetter begins the letter of a record; its slices are the record's.
func newLetter(topic string, partition int32, in *task.Input) *letter {
	l := &letter{key: in.Key, value: in.Value, own: in.Headers, headers: make([]task.Header, 0, 12)}
	attempt := 1
	if slices.ContainsFunc(in.Headers, ours) {
		l.own = slices.DeleteFunc(slices.Clone(in.Headers), ours)
		attempt += lastAttempt(in.Headers)
	}
	l.text(HeaderTopic, topic)
	l.number(HeaderPartition, int64(partition))
	l.number(HeaderOffset, in.Offset)
	l.number(HeaderAttempt, int64(attempt))
	return l
}

func ours(h task.Header) bool { return strings.HasPrefix(h.Key, headerPrefix) }

// lastAttempt is the attempt that a record's headers name, 1 when they name none.
func lastAttempt(headers []task.Header) int {
	for _, h := range headers {
		if h.Key == HeaderAttempt {
			if n, err := strconv.ParseUint(string(h.Value), 10, 31); err == nil {
				return int(n)
			}
		}
	}
	return 1
}

func (l *letter) text(name, value string) {
	l.headers = append(l.headers, task.Header{Key: name, Value: []byte(value)})
}

func (l *letter) number(name string, value int64) { l.text(name, strconv.FormatInt(value, 10)) }

// fit cuts the letter to what its topic takes: the value first, then the record's own headers, then the key (C14). What
// is cut off is named by size and hash.
func (l *letter) fit(limit record.Bytes) {
	room := int(limit) - headerBytes(l.headers)
	if len(l.key)+len(l.value)+headerBytes(l.own) <= room {
		return
	}
	l.text(HeaderTruncated, "true")
	l.number(HeaderOriginalSize, int64(len(l.value)))
	l.text(HeaderSHA256, hash(l.value))
	room = int(limit) - headerBytes(l.headers)
	if len(l.own) > 0 && len(l.key)+headerBytes(l.own) > room {
		l.number(HeaderHeadersDropped, int64(len(l.own)))
		l.own = nil
		room = int(limit) - headerBytes(l.headers)
	}
	if len(l.key) > room {
		l.number(HeaderOriginalKeySize, int64(len(l.key)))
		l.text(HeaderKeySHA256, hash(l.key))
		room = int(limit) - headerBytes(l.headers)
		l.key = l.key[:min(len(l.key), room)]
	}
	if l.value != nil {
		l.value = l.value[:min(len(l.value), room-len(l.key)-headerBytes(l.own))]
	}
}

// perHeader is what a header may cost beside its name and value.
const perHeader = 8

func headerBytes(headers []task.Header) (n int) {
	for _, h := range headers {
		n += len(h.Key) + len(h.Value) + perHeader
	}
	return n
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// all are the headers of the letter: the record's own, copied because the task keeps them longer than the record, then
// ours.
func (l *letter) all() []task.Header {
	all := slices.Clone(l.own)
	for i := range all {
		all[i].Value = bytes.Clone(all[i].Value)
	}
	return append(all, l.headers...)
}

// fault is why a record is refused.
type fault struct {
	reason   Reason
	position int
	field    string
	detail   string
}

// String is the fault for people: the field, what is wrong with it, and the reason by which the dead letters can be told apart.
func (f fault) String() string {
	text := f.detail
	if f.field != "" {
		text = fmt.Sprintf("field %q: %s", f.field, f.detail)
	}
	return fmt.Sprintf("%s (%s)", text, f.reason)
}

// maxDetail bounds the detail of a dead letter, maxField the name of a field in it.
const (
	maxDetail = 512
	maxField  = 256
)

// faultOf is the fault of a refusal.
func faultOf(r *reading.Refusal) fault {
	return fault{Reason(r.Reason.String()), r.Pos, r.Field, r.Detail}
}

// refuse counts a record that is or would be one reading as dead-lettered and emits it.
func (j *Job) refuse(v *task.View, in *task.Input, f fault) {
	v.Counters().DeadLettered++
	j.emitDead(v, in, f, nil)
}

// emitDead emits a dead letter, with the record's untouched key and value. which are the readings concerned where there
// are several.
func (j *Job) emitDead(v *task.View, in *task.Input, f fault, which []int32) {
	if j.config.Quiet && f.reason != TooLarge && f.reason != TooManyUpdates { // what one relay may not hand on another may
		return
	}
	l := newLetter(j.config.Input, j.routing.partition, in)
	l.text(HeaderReason, string(f.reason))
	l.number(HeaderPosition, int64(f.position))
	if f.field != "" {
		l.text(HeaderField, string(cutText([]byte(f.field), maxField)))
	}
	l.text(HeaderDetail, string(cutText([]byte(f.detail), maxDetail)))
	l.indexes(which)
	l.fit(j.limits.DeadLetter)
	v.Emit(task.SinkDead, 0, l.key, l.value, l.all())
}

// emitLate emits a record that came too late for every window of an aggregation; one that is in time for some of them is
// only counted (I9, R18). The miss is that of the first of them, so that a grace longer by more than the lateness had
// been enough for all.
func (j *Job) emitLate(v *task.View, in *task.Input, aggregation int, m miss, which []int32) {
	l := newLetter(j.config.Input, j.routing.partition, in)
	l.text(HeaderAggregation, j.config.Aggregations[aggregation].Name)
	l.number(HeaderWindowStart, m.start)
	l.number(HeaderWindowEnd, m.end)
	l.number(HeaderStreamTime, m.streamTime)
	l.number(HeaderLateness, m.closed-m.end)
	l.indexes(which)
	l.fit(j.limits.Late)
	v.Emit(task.SinkLate, aggregation, l.key, l.value, l.all())
}

// tooLarge is the fault of a reading whose changelog key would have size bytes.
func (j *Job) tooLarge(size int) fault {
	return fault{reason: TooLarge, detail: fmt.Sprintf("the changelog key would have %d bytes, at most %d fit the topics of changelog and results",
		size, j.maxKey)}
}
