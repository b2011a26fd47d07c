package task

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/tidemark-streams/tidemark/internal/record"
)

// dueIndex orders entries by the end of their window. It holds at least one element for every live entry of the View
// and may hold elements for entries that are gone: whoever takes an element looks the entry up and forgets the element
// when there is none. So overlays need no index of their own; only what a dropped overlay took out is put back.
//
// Elements of one (aggregation, start, end) share a bucket and cost eight bytes each.
type dueIndex struct {
	buckets map[Place]*bucket
	open    []bucketHeap // by aggregation: buckets that are not due
	due     bucketHeap   // all due buckets, in the order of emission
	waiting int          // live elements in due buckets, and all of ripe

	growing []elements // by aggregation: entries whose end may grow, not due by what is known of it here
	ripe    elements   // those that are due, or were merged away, dropped, or have grown since
}

type bucket struct {
	place Place
	set   hashSet
	stale int // elements whose entry is gone
	due   bool
}

func (b *bucket) live() int { return b.set.len() - b.stale }

func newDueIndex(aggregations int) *dueIndex {
	return &dueIndex{buckets: map[Place]*bucket{}, open: make([]bucketHeap, aggregations), growing: make([]elements, aggregations)}
}

// add puts an element in. Its bucket is due when closed says so.
func (x *dueIndex) add(place Place, hash uint64, closed int64) {
	b := x.buckets[place]
	if b == nil {
		b = &bucket{place: place}
		x.buckets[place] = b
		x.queue(b, closed)
	}
	b.set.add(hash, 0)

	if b.due {
		x.waiting++
	}
}

func (x *dueIndex) queue(b *bucket, closed int64) {
	b.due = b.place.Aggregation == Removed || b.place.End <= closed
	if b.due {
		heap.Push(&x.due, b)
		x.waiting += b.live()
		return
	}
	heap.Push(&x.open[b.place.Aggregation], b)
}

// close makes every bucket of an aggregation with end <= closed due.
func (x *dueIndex) close(aggregation int, closed int64) {
	open := &x.open[aggregation]
	for len(*open) > 0 && (*open)[0].place.End <= closed {
		b := heap.Pop(open).(*bucket)
		b.due = true
		x.waiting += b.live()
		heap.Push(&x.due, b)
	}
	x.ripen(aggregation, closed)
}

// next returns the end of the first open bucket of an aggregation that has a live element, record.NoTime for none.
func (x *dueIndex) next(aggregation int) int64 {
	open := x.open[aggregation]
	if len(open) == 0 {
		return record.NoTime
	}
	if open[0].live() > 0 {
		return open[0].place.End
	}
	end := record.NoTime
	for _, b := range open {
		if b.live() > 0 && (end == record.NoTime || b.place.End < end) {
			end = b.place.End
		}
	}
	return end
}

// take removes and returns the next due element in the order (end, start, aggregation, hash). One of an entry that moves
// may stand for nothing, or for an entry that ends later by now.
func (x *dueIndex) take() (place Place, hash uint64, moving, ok bool) {
	for {
		var b *bucket
		if len(x.due) > 0 {
			b = x.due[0]
		}
		if len(x.ripe) > 0 && (b == nil || comparePlaces(x.ripe[0].place(), b.place) < 0) {
			x.waiting--
			e := x.ripe.pop()
			return e.place(), e.hash, true, true
		}
		if b == nil {
			return Place{}, 0, false, false
		}
		if hash, ok = b.set.take(); ok {
			x.waiting--
			return b.place, hash, false, true
		}
		heap.Pop(&x.due)
		delete(x.buckets, b.place)
	}
}

// ahead returns the hashes that take will return next, as far as they are at hand: at most len(dst), which they are put in.
func (x *dueIndex) ahead(dst []uint64) []uint64 {
	if len(x.due) == 0 {
		return dst[:0]
	}
	return dst[:copy(dst, x.due[0].set.next(len(dst)))]
}

// missed tells that the entry of an element just taken is gone.
func (x *dueIndex) missed(place Place) {
	x.buckets[place].stale--
	x.waiting++
}

// forget tells that the entry of an element, still in the index, is gone.
func (x *dueIndex) forget(place Place) {
	b := x.buckets[place]
	b.stale++
	if b.due {
		x.waiting--
	}
}

// requeue sorts all buckets anew after closed ends went back with a dropped overlay.
func (x *dueIndex) requeue(closed func(Place) int64) {
	x.due, x.waiting = x.due[:0], 0
	for i := range x.open {
		x.open[i] = x.open[i][:0]
	}
	for place, b := range x.buckets {
		x.queue(b, closed(place))
	}
	ripe := x.ripe
	x.ripe = nil
	for _, e := range ripe {
		x.addMoving(e.place(), e.hash, closed(e.place()))
	}
	for i := range x.growing {
		x.ripen(i, closed(Place{Aggregation: i, Start: ClockStart}))
	}
}

// bucketHeap is a heap of buckets in the order of emission.
type bucketHeap []*bucket

func (h bucketHeap) Len() int           { return len(h) }
func (h bucketHeap) Less(i, j int) bool { return comparePlaces(h[i].place, h[j].place) < 0 }
func (h bucketHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push and Pop serve container/heap.
func (h *bucketHeap) Push(b any) { *h = append(*h, b.(*bucket)) }

// Pop removes the last bucket.
func (h *bucketHeap) Pop() any {
	last := len(*h) - 1
	b := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return b
}

// comparePlaces is the order of emission of section 4 as far as the window goes.
func comparePlaces(a, b Place) int {
	return cmp.Or(cmp.Compare(a.End, b.End), cmp.Compare(a.Start, b.Start), cmp.Compare(a.Aggregation, b.Aggregation))
}

// hashSet is a multiset of hashes that gives them back in ascending order without ever sorting more than a leaf: a
// window of ten million keys that falls due must not stop the task for a sort (hot.md D3). A full leaf bursts into 256
// by the next byte of the hash.
type hashSet struct {
	leaf   []uint64
	sorted bool // descending, so that taking the least is cutting the end
	kids   *[256]hashSet
	first  int // no kid below this one holds anything
	size   int
}

const (
	leafMax  = 4096
	maxDepth = 7 // bytes of the hash; equal hashes end in one leaf of any size
)

func (s *hashSet) len() int { return s.size }

func (s *hashSet) add(hash uint64, depth int) {
	s.size++
	if s.kids != nil {
		s.addKid(hash, depth)
		return
	}
	s.leaf = append(s.leaf, hash)
	s.sorted = false
	if len(s.leaf) <= leafMax || depth == maxDepth {
		return
	}
	s.kids = new([256]hashSet)
	for _, h := range s.leaf {
		s.addKid(h, depth)
	}
	s.leaf = nil
}

func (s *hashSet) addKid(hash uint64, depth int) {
	i := int(hash >> (56 - 8*depth) & 0xff)
	s.first = min(s.first, i)
	s.kids[i].add(hash, depth+1)
}

// next returns up to n hashes that take will return next, in any order; none where their leaf is not sorted yet.
func (s *hashSet) next(n int) []uint64 {
	for s.kids != nil {
		s = &s.kids[s.first]
	}
	if !s.sorted {
		return nil
	}
	return s.leaf[max(0, len(s.leaf)-n):]
}

func (s *hashSet) take() (uint64, bool) {
	if s.size == 0 {
		return 0, false
	}
	s.size--
	if s.kids == nil {
		if !s.sorted {
			slices.SortFunc(s.leaf, func(a, b uint64) int { return cmp.Compare(b, a) })
			s.sorted = true
		}
		last := s.leaf[len(s.leaf)-1]
		s.leaf = s.leaf[:len(s.leaf)-1]
		return last, true
	}
	for s.kids[s.first].size == 0 {
		s.kids[s.first] = hashSet{}
		s.first++
	}
	return s.kids[s.first].take()
}
