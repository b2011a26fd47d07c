package task

// element stands for an entry whose end may grow. Buckets would not do: nearly every session has a place of its own.
type element struct {
	end, start  int64
	hash        uint64
	aggregation int32
}

func (e *element) place() Place {
	return Place{Aggregation: int(e.aggregation), Start: e.start, End: e.end}
}

func (e *element) before(o *element) bool {
	switch {
	case e.end != o.end:
		return e.end < o.end
	case e.start != o.start:
		return e.start < o.start
	case e.aggregation != o.aggregation:
		return e.aggregation < o.aggregation
	}
	return e.hash < o.hash
}

// elements is a heap in the order of emission, without pointers and without boxing.
type elements []element

func (h *elements) push(e element) {
	*h = append(*h, e)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s[i].before(&s[up]) {
			return
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

func (h *elements) pop() element {
	s := *h
	first, last := s[0], len(s)-1
	s[0] = s[last]
	s = s[:last]
	for i := 0; ; {
		least := i
		for down := 2*i + 1; down <= 2*i+2 && down < len(s); down++ {
			if s[down].before(&s[least]) {
				least = down
			}
		}
		if least == i {
			break
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
	*h = s
	return first
}

// addMoving puts in the element of an entry of an ordered aggregation.
func (x *dueIndex) addMoving(place Place, hash uint64, closed int64) {
	e := element{end: place.End, start: place.Start, hash: hash, aggregation: int32(place.Aggregation)}
	if e.end <= closed {
		x.ripe.push(e)
		x.waiting++
		return
	}
	x.growing[place.Aggregation].push(e)
}

// ripen moves what is due by now.
func (x *dueIndex) ripen(aggregation int, closed int64) {
	for g := &x.growing[aggregation]; len(*g) > 0 && (*g)[0].end <= closed; {
		x.ripe.push(g.pop())
		x.waiting++
	}
}

// moving is the number of elements of ordered aggregations, whatever they stand for.
func (x *dueIndex) moving() int {
	n := len(x.ripe)
	for _, g := range x.growing {
		n += len(g)
	}
	return n
}

// forgetMoving takes all of them out.
func (x *dueIndex) forgetMoving() {
	x.waiting -= len(x.ripe)
	x.ripe = nil
	clear(x.growing)
}

// firstMoving is the first element of an aggregation that is not due, and dropMoving takes it out.
func (x *dueIndex) firstMoving(aggregation int) (place Place, hash uint64, ok bool) {
	g := x.growing[aggregation]
	if len(g) == 0 {
		return Place{}, 0, false
	}
	return g[0].place(), g[0].hash, true
}

func (x *dueIndex) dropMoving(aggregation int) { x.growing[aggregation].pop() }
