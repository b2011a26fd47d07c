package aggregate

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// trail is what the functions of Trails keep of a window: its readings in the order of their places. The latest
// keptReadings are kept one by one. Those before are settled: of them only the first, the last and the exact sums over
// all steps between are known, so that state is bounded (I13). A reading that belongs between two settled ones would
// change a step that is not known any more: then the trail is lost, and stays so, for a wrong number is worse than none.
//
// What is settled is always all but the latest keptReadings, whatever the order in which they came. So the bytes of a
// trail that is not lost depend on the set of readings alone (I11), and readings can be lost only when at least
// keptReadings of the same window have overtaken them.
type trail struct {
	recent  [keptReadings]mark // the first n of them, in order
	n       int
	settled settled
	lost    bool // nothing else counts
}

// settled are readings that stand before all recent ones; there are some only when recent is full.
type settled struct {
	any         bool
	first, last mark
	rise, area  Sum // over all steps from first to last; of no meaning when no function needs them
}

// keptReadings is how many readings of a key may overtake another one in any case.
const keptReadings = 32

// longestSpan bounds the time from the first to the last reading of a trail, in ns, so that no sum over it can leave the
// range of a Sum. It is 146 years; windows have at most 114.
const longestSpan = 1 << 62

// Heads of an encoded trail; below them it is the number of readings, all recent.
const (
	headSettled = keptReadings + 1
	headLost    = keptReadings + 2
)

const maxTrailBytes = 1 + (2+keptReadings)*(maxAtBytes+numberBytes) + 2*(3+2+maxBytes)

func (t *trail) reset() {
	t.n, t.lost = 0, false
	t.settled.reset()
}

func (s *settled) reset() {
	s.any = false
	s.rise.Reset()
	s.area.Reset()
}

func (t *trail) lose() {
	t.reset()
	t.lost = true
}

// since is the time from a to b in ns, which is not negative; ok is false when it is longer than any trail may be.
func since(a, b *mark) (ns uint64, ok bool) {
	ms := b.at.Time - a.at.Time
	if ms > longestSpan/nanosInMs {
		return 0, false
	}
	ns = uint64(ms*nanosInMs + int64(b.at.Nanos-a.at.Nanos))
	return ns, ns < longestSpan
}

func (m *mark) before(o *mark) bool { return m.at.Compare(&o.at) < 0 }

// first and last are the outermost readings of a trail that has some.
func (t *trail) first() *mark {
	if t.settled.any {
		return &t.settled.first
	}
	return &t.recent[0]
}

func (t *trail) last() *mark { return &t.recent[t.n-1] }

// add takes up a reading of a window whose functions are f.
func (t *trail) add(one *mark, f Functions) {
	if t.lost || t.n > 0 && !t.reaches(one, one) {
		return
	}
	s := &t.settled
	i := t.n
	for i > 0 && one.before(&t.recent[i-1]) {
		i--
	}
	switch {
	case t.n < keptReadings:
		copy(t.recent[i+1:t.n+1], t.recent[i:t.n])
		t.recent[i] = *one
		t.n++
	case i > 0:
		s.append(&t.recent[0], f)
		copy(t.recent[:i-1], t.recent[1:i])
		t.recent[i-1] = *one
	case !s.any || s.last.before(one):
		s.append(one, f)
	case one.before(&s.first):
		s.step(one, &s.first, f)
		s.first = *one
	default:
		t.lose()
	}
}

// reaches tells whether a trail that also has readings from first to last is short enough; it is lost when it is not.
func (t *trail) reaches(first, last *mark) bool {
	if t.first().before(first) {
		first = t.first()
	}
	if last.before(t.last()) {
		last = t.last()
	}
	_, ok := since(first, last)
	if !ok {
		t.lose()
	}
	return ok
}

// append settles a reading that stands behind all settled ones.
func (s *settled) append(one *mark, f Functions) {
	if s.any {
		s.step(&s.last, one, f)
	} else {
		s.any, s.first = true, *one
	}
	s.last = *one
}

// step takes up the step from one reading to the next.
func (s *settled) step(from, to *mark, f Functions) {
	if f&Rises != 0 {
		s.rise.addRise(from, to, f)
	}
	if f&TimeMean != 0 {
		s.area.addArea(from, to, f)
	}
}

// addRise adds how far a counter has risen from one reading to the next: it began again at 0 where the number falls.
func (s *Sum) addRise(from, to *mark, f Functions) {
	if f&Whole != 0 {
		s.addWhole(int64(to.bits))
		if int64(to.bits) >= int64(from.bits) {
			size, negative := sizeOf(int64(from.bits))
			s.addNumber(number{lo: size, unit: unitBias, negative: !negative})
		}
		return
	}
	s.Add(to.float())
	if to.float() >= from.float() {
		s.Add(-from.float())
	}
}

// addArea adds twice the area under the straight line from one reading to the next, in units of ns.
func (s *Sum) addArea(from, to *mark, f Functions) {
	ns, _ := since(from, to)
	s.addTimes(from.number(f), ns)
	s.addTimes(to.number(f), ns)
}

// number is the number of a reading.
func (m *mark) number(f Functions) (n number) {
	if f&Whole == 0 {
		return parts(m.float())
	}
	n.unit = unitBias
	n.lo, n.negative = sizeOf(int64(m.bits))
	return n
}

// addTimes adds n * by exactly; n has at most 64 bits, and by is below 2^62.
func (s *Sum) addTimes(n number, by uint64) {
	if n.hi, n.lo = bits.Mul64(n.lo, by); n.hi|n.lo != 0 {
		s.addNumber(n)
	}
}

// merge takes up the readings of o, which is not changed.
func (t *trail) merge(o *trail, f Functions) {
	switch {
	case t.lost:
	case o.lost:
		t.lose()
	case o.n == 0:
	case t.n == 0:
		t.copy(o)
	case !t.reaches(o.first(), o.last()):
	case !o.settled.any:
		t.addAll(o.recent[:o.n], f)
	case !t.settled.any:
		own, n := t.recent, t.n
		t.copy(o)
		t.addAll(own[:n], f)
	default:
		t.join(o, f)
	}
}

func (t *trail) copy(o *trail) {
	t.recent, t.n = o.recent, o.n
	s := &t.settled
	s.reset()
	s.any, s.first, s.last = o.settled.any, o.settled.first, o.settled.last
	s.rise.Merge(&o.settled.rise)
	s.area.Merge(&o.settled.area)
}

// addAll adds readings that stand in order. Those before all settled ones are added from the last to the first, for
// between one of them and the settled ones there is nothing that is not known.
func (t *trail) addAll(marks []mark, f Functions) {
	early := 0
	if t.settled.any {
		for early < len(marks) && marks[early].before(&t.settled.first) {
			early++
		}
	}
	for i := early - 1; i >= 0; i-- {
		t.add(&marks[i], f)
	}
	for i := early; i < len(marks); i++ {
		t.add(&marks[i], f)
	}
}

// join takes up a trail when both have settled readings: all of one must stand before all of the other.
func (t *trail) join(o *trail, f Functions) {
	early, late := t, o
	if o.settled.first.before(&t.settled.first) {
		early, late = o, t
	}
	first, at, next, last := early.settled.first, early.settled.last, late.settled.first, late.settled.last
	if !at.before(&next) {
		t.lose()
		return
	}
	loose := early.recent
	s := &t.settled
	s.rise.Merge(&o.settled.rise)
	s.area.Merge(&o.settled.area)
	i := 0
	for ; i < keptReadings && loose[i].before(&next); i++ {
		s.step(&at, &loose[i], f)
		at = loose[i]
	}
	s.step(&at, &next, f)
	s.first, s.last, t.recent = first, last, late.recent
	t.addAll(loose[i:], f)
}

// addTo adds to s the sum over all steps, settled or not: of the areas when f holds TimeMean, else of the rises.
func (t *trail) addTo(s *Sum, f Functions) {
	step := settled{} // takes up the steps that are not settled
	if t.settled.any {
		step.step(&t.settled.last, &t.recent[0], f)
	}
	for i := 1; i < t.n; i++ {
		step.step(&t.recent[i-1], &t.recent[i], f)
	}
	if f&TimeMean != 0 {
		s.Merge(&t.settled.area)
		s.Merge(&step.area)
		return
	}
	s.Merge(&t.settled.rise)
	s.Merge(&step.rise)
}

// appendBinary appends the canonical bytes: one of the heads; when some are settled the first and the last of them, and
// the sums that f needs; then the recent readings, the first as in at.go, of the others time and offset as the difference
// to the one before, the time as an unsigned varint and the offset as a zigzag varint.
func (t *trail) appendBinary(dst []byte, f Functions) []byte {
	switch s := &t.settled; {
	case t.lost:
		return append(dst, headLost)
	case !s.any:
		dst = append(dst, byte(t.n))
	default:
		dst = s.last.appendBinary(s.first.appendBinary(append(dst, headSettled)))
		if f&Rises != 0 {
			dst = s.rise.AppendBinary(dst)
		}
		if f&TimeMean != 0 {
			dst = s.area.AppendBinary(dst)
		}
	}
	dst = t.recent[0].appendBinary(dst)
	for i := 1; i < t.n; i++ {
		m, prev := &t.recent[i], &t.recent[i-1]
		dst = binary.AppendUvarint(dst, uint64(m.at.Time-prev.at.Time))
		dst = binary.AppendUvarint(dst, uint64(m.at.Nanos))
		dst = binary.AppendVarint(dst, m.at.Offset-prev.at.Offset)
		dst = binary.AppendUvarint(dst, uint64(m.at.Index))
		dst = binary.LittleEndian.AppendUint64(dst, m.bits)
	}
	return dst
}

// decode reads what appendBinary wrote for f, of a window of count readings, at least one.
func (t *trail) decode(b []byte, f Functions, count int64) (rest []byte, err error) {
	t.reset()
	if len(b) == 0 {
		return nil, errShort
	}
	head := b[0]
	b = b[1:]
	switch {
	case head == headLost && count > 1:
		t.lost = true
		return b, nil
	case head == headSettled && count > keptReadings:
		if b, err = t.settled.decode(b, f, count-keptReadings); err != nil {
			return nil, err
		}
		t.n = keptReadings
	case head <= keptReadings && count == int64(head):
		t.n = int(head)
	default:
		return nil, fmt.Errorf("head %d of %d readings: %w", head, count, errRange)
	}
	for i := range t.n {
		var prev *mark
		if i > 0 {
			prev = &t.recent[i-1]
		} else if t.settled.any {
			prev = &t.settled.last
		}
		if b, err = t.decodeRecent(b, i, prev, f); err != nil {
			return nil, err
		}
	}
	if _, ok := since(t.first(), t.last()); !ok {
		return nil, fmt.Errorf("a span over 146 years: %w", errRange)
	}
	return b, nil
}

// decodeRecent reads the i-th recent reading, behind prev, nil for the very first one.
func (t *trail) decodeRecent(b []byte, i int, prev *mark, f Functions) (rest []byte, err error) {
	m := &t.recent[i]
	if i == 0 {
		b, err = m.decode(b, f)
	} else {
		b, err = m.decodeAfter(b, &prev.at, f)
	}
	if err == nil && prev != nil && !prev.before(m) {
		err = errRange
	}
	return b, err
}

func (s *settled) decode(b []byte, f Functions, count int64) (rest []byte, err error) {
	s.any = true
	if b, err = s.first.decode(b, f); err != nil {
		return nil, err
	}
	if b, err = s.last.decode(b, f); err != nil {
		return nil, err
	}
	if f&Rises != 0 {
		if b, err = s.rise.Decode(b); err != nil {
			return nil, err
		}
	}
	if f&TimeMean != 0 {
		if b, err = s.area.Decode(b); err != nil {
			return nil, err
		}
	}
	if f&Whole != 0 && (!s.rise.isWhole() || !s.area.isWhole()) {
		return nil, fmt.Errorf("steps between whole numbers: %w", errRange)
	}
	alone := s.first == s.last && s.rise.isZero() && s.area.isZero()
	if count == 1 && !alone || count > 1 && !s.first.before(&s.last) {
		return nil, fmt.Errorf("settled readings from %+v to %+v, %d of them: %w", s.first.at, s.last.at, count, errRange)
	}
	return b, nil
}
