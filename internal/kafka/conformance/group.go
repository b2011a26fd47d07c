package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// soon is how long a change takes at most that does not wait for a session to end: a heartbeat and a join round.
const soon = 4 * time.Second

// join takes a seat. more may change the options.
func (s *suite) join(group, topic string, more func(*kafka.GroupOptions)) kafka.Group {
	s.Helper()
	o := kafka.GroupOptions{Group: group, Topic: topic, Session: s.Session, Heartbeat: 200 * time.Millisecond}
	if more != nil {
		more(&o)
	}
	g := must[kafka.Group](s)(s.Cluster.Group(o))
	s.Cleanup(func() {
		if s.Failed() {
			s.Logf("seat at the end: %+v", g.Member())
		}
		g.Close()
	})
	return g
}

func instance(id string) func(*kafka.GroupOptions) {
	return func(o *kafka.GroupOptions) { o.Instance = id }
}

// lists waits until the newest list of a group has n partitions.
func (s *suite) lists(g kafka.Group, n int, within time.Duration) []int32 {
	s.Helper()
	end := time.NewTimer(within)
	defer end.Stop()
	var came [][]int32
	for {
		var list []int32
		select {
		case l, open := <-g.Assignments():
			if !open {
				s.Fatal("the assignments ended")
			}
			list = l
			came = append(came, l)
		case <-end.C:
			s.Fatalf("%+v: no list of %d partitions within %v, only %v", g.Member(), n, within, came)
		}
		if !slices.IsSorted(list) {
			s.Fatalf("list %v is not ascending", list)
		}
		if len(list) == n {
			return list
		}
	}
}

func (s *suite) ask(g kafka.Group, partition int32, want bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, soon)
	defer cancel()
	if got, err := g.Ask(ctx, partition); err != nil || got != want {
		s.Fatalf("partition %d: %v, %v, want %v", partition, got, err, want)
	}
}

var groupTests = map[string]func(*suite){
	"Alone": func(s *suite) {
		topic := s.topic(4)
		var ids []string
		g := s.join(s.name("group"), topic, func(o *kafka.GroupOptions) { o.Joined = func(id string) { ids = append(ids, id) } })
		if list := s.lists(g, 4, limit); !slices.Equal(list, []int32{0, 1, 2, 3}) {
			s.Fatal(list)
		}
		s.ask(g, 3, true)
		s.ask(g, 4, false)
		m := g.Member()
		if m.ID == "" || m.Generation < 0 || m.Instance != "" || !slices.Equal(ids, []string{m.ID}) {
			s.Errorf("seat %+v, ids reported %q", m, ids)
		}
		g.Close()
		if _, open := <-g.Assignments(); open {
			s.Error("the assignments go on after Close")
		}
		if is, err := g.Ask(s.ctx, 0); is || !errors.Is(err, kafka.ErrClosed) {
			s.Errorf("asked a closed group: %v, %v", is, err)
		}
	},

	// Eager, but an owner keeps what it can; a leaver's share moves at once.
	"JoinAndLeave": func(s *suite) {
		topic, name := s.topic(7), s.name("group")
		a := s.join(name, topic, nil)
		s.lists(a, 7, limit)
		began := time.Now()
		b := s.join(name, topic, nil)
		mine, theirs := s.lists(a, 4, soon), s.lists(b, 3, soon)
		s.Logf("second member had its share after %v", time.Since(began))
		both := slices.Concat(mine, theirs)
		slices.Sort(both)
		if !slices.Equal(both, []int32{0, 1, 2, 3, 4, 5, 6}) {
			s.Fatalf("%v and %v", mine, theirs)
		}
		for p := range int32(7) {
			s.ask(a, p, slices.Contains(mine, p))
			s.ask(b, p, slices.Contains(theirs, p))
		}
		c := s.join(name, topic, nil)
		s.lists(c, 2, soon)
		for _, p := range s.lists(a, 3, soon) {
			if !slices.Contains(mine, p) {
				s.Errorf("partition %d went to a member that gives away: had %v", p, mine)
			}
		}
		s.lists(b, 2, soon) // who still has the round before last claims what it had then
		began = time.Now()
		s.ok(c.Leave(s.ctx))
		s.lists(a, 4, soon)
		s.ok(a.Leave(s.ctx))
		s.lists(b, 7, soon)
		s.Logf("two left, all moved within %v", time.Since(began))
	},

	// V11: asked while the group is being made anew, the answer is that of the generation to come.
	"AskDuringRebalance": func(s *suite) {
		topic, name := s.topic(2), s.name("group")
		a := s.join(name, topic, nil)
		s.lists(a, 2, limit)
		b := s.join(name, topic, nil)
		end := time.Now().Add(soon)
		for owned := 2; owned == 2; {
			owned = 0
			for p := range int32(2) {
				is, err := a.Ask(s.ctx, p)
				if err != nil {
					s.Fatal(err)
				}
				if is {
					owned++
				}
			}
			if time.Now().After(end) {
				s.Fatal("the answers did not follow the group")
			}
		}
		list := s.lists(b, 1, soon)
		s.ask(a, list[0], false)
		s.ask(a, 1-list[0], true)
	},

	// R22: Close keeps the seat until the session ends.
	"CloseKeepsTheSeat": func(s *suite) {
		topic, name := s.topic(4), s.name("group")
		a := s.join(name, topic, nil)
		s.lists(a, 4, limit)
		b := s.join(name, topic, nil)
		s.lists(b, 2, soon)
		began := time.Now()
		a.Close()
		s.lists(b, 4, s.Session+soon)
		took := time.Since(began)
		s.Logf("the seat was kept for %v of a session of %v", took, s.Session)
		if took < s.Session/2 {
			s.Errorf("moved after %v, the session is %v", took, s.Session)
		}
	},

	// R22: a killed dynamic member's next life does not wait for its session.
	"Evict": func(s *suite) {
		topic, name := s.topic(4), s.name("group")
		a := s.join(name, topic, nil)
		s.lists(a, 4, limit)
		old := a.Member().ID
		a.Close()
		began := time.Now()
		b := s.join(name, topic, func(o *kafka.GroupOptions) { o.Evict = old })
		s.lists(b, 4, soon)
		s.Logf("restart of a dynamic member: %v", time.Since(began))
		c := s.join(name, topic, func(o *kafka.GroupOptions) { o.Evict = old }) // gone already
		s.lists(c, 2, soon)
	},

	// Evicted while alive: Ask waits for what comes after, and in the end each partition has one owner.
	"EvictedWhileAlive": func(s *suite) {
		topic, name := s.topic(3), s.name("group")
		a := s.join(name, topic, nil)
		s.lists(a, 3, limit)
		old := a.Member().ID
		b := s.join(name, topic, func(o *kafka.GroupOptions) { o.Evict = old })
		end := time.Now().Add(2 * soon)
		for owners := "start"; owners != "1 1 1"; {
			var count [3]int
			for p := range int32(3) {
				for _, g := range []kafka.Group{a, b} {
					is, err := g.Ask(s.ctx, p)
					if err != nil {
						s.Fatal(err)
					}
					if is {
						count[p]++
					}
				}
			}
			owners = fmt.Sprint(count[0], count[1], count[2])
			if a.Member().ID == old {
				owners = "not yet evicted"
			}
			if time.Now().After(end) {
				s.Fatalf("owners by partition: %s", owners)
			}
		}
	},

	// R22: with an instance id a restart changes nothing for anybody.
	"StaticRestart": func(s *suite) {
		topic, name := s.topic(6), s.name("group")
		a := s.join(name, topic, instance("one"))
		s.lists(a, 6, limit)
		b := s.join(name, topic, instance("two"))
		mine := s.lists(a, 3, soon)
		s.lists(b, 3, soon)
		generation := b.Member().Generation
		a.Close()
		began := time.Now()
		a = s.join(name, topic, instance("one"))
		if again := s.lists(a, 3, soon); !slices.Equal(again, mine) {
			s.Errorf("had %v, after the restart %v", mine, again)
		}
		s.Logf("restart of a static member: %v", time.Since(began))
		s.ask(a, mine[0], true)
		s.ask(b, mine[0], false)
		if now := b.Member().Generation; now != generation {
			s.Logf("the other member had to join again: generation %d, then %d", generation, now)
		}
		began = time.Now()
		s.ok(a.Leave(s.ctx)) // a planned end does give the seat up
		s.lists(b, 6, soon)
		s.Logf("leave of a static member: %v", time.Since(began))
	},

	// R22: two hosts with one id must not fence each other for ever: the older one ends.
	"SeatTaken": func(s *suite) {
		topic, name := s.topic(2), s.name("group")
		a := s.join(name, topic, instance("one"))
		s.lists(a, 2, limit)
		b := s.join(name, topic, instance("one"))
		s.lists(b, 2, soon)
		end := time.After(soon)
		for open := true; open; {
			select {
			case _, open = <-a.Assignments():
			case <-end:
				s.Fatal("the older holder of the id does not notice")
			}
		}
		is, err := a.Ask(s.ctx, 0)
		if is || !errors.Is(err, kafka.ErrSeatTaken) {
			s.Errorf("asked the older one: %v, %v", is, err)
		}
		s.fails(err, kafka.ClassPermanent)
		s.ask(b, 0, true)
	},

	// V4: offset and metadata come back; a member that is none any more cannot set them.
	"Offsets": func(s *suite) {
		topic, name := s.topic(3), s.name("group")
		a := s.join(name, topic, nil)
		s.lists(a, 3, limit)
		if o := must[map[int32]kafka.GroupOffset](s)(a.Offsets(s.ctx)); len(o) != 0 {
			s.Fatal(o)
		}
		want := map[int32]kafka.GroupOffset{}
		for p := range int32(2) {
			want[p] = kafka.GroupOffset{Next: record.InputPosition(100 + p), Metadata: fmt.Sprintf("%016x/%d", 0xabc, p)}
			s.ok(a.SetOffset(s.ctx, p, want[p].Next, want[p].Metadata))
		}
		if o := must[map[int32]kafka.GroupOffset](s)(a.Offsets(s.ctx)); fmt.Sprint(o) != fmt.Sprint(want) {
			s.Errorf("%v, want %v", o, want)
		}
		a.Close() // alive, it would take a new seat at once
		other := s.join(name, topic, func(o *kafka.GroupOptions) { o.Evict = a.Member().ID })
		s.lists(other, 3, soon)
		want[1] = kafka.GroupOffset{Next: 50, Metadata: "lower is allowed"}
		s.ok(other.SetOffset(s.ctx, 1, 50, want[1].Metadata))
		if o := must[map[int32]kafka.GroupOffset](s)(other.Offsets(s.ctx)); fmt.Sprint(o) != fmt.Sprint(want) {
			s.Errorf("%v, want %v", o, want)
		}
	},

	// R37: repairs see who is there without a seat of their own, and take a seat away.
	"SeenFromOutside": func(s *suite) {
		admin := must[kafka.Admin](s)(s.Cluster.Admin())
		defer admin.Close()
		topic, name := s.topic(2), s.name("group")
		if m := must[[]kafka.GroupMember](s)(admin.Members(s.ctx, name)); len(m) != 0 {
			s.Fatalf("members of a group that never was: %v", m)
		}
		if o := must[map[int32]kafka.GroupOffset](s)(admin.GroupOffsets(s.ctx, name, topic)); len(o) != 0 {
			s.Fatalf("offsets of a group that never was: %v", o)
		}
		a := s.join(name, topic, nil)
		s.lists(a, 2, limit)
		b := s.join(name, topic, instance("one"))
		s.lists(b, 1, soon)
		s.lists(a, 1, soon) // it is of the new generation too
		s.ok(a.SetOffset(s.ctx, 1, 42, "some words"))
		want := map[int32]kafka.GroupOffset{1: {Next: 42, Metadata: "some words"}}
		if o := must[map[int32]kafka.GroupOffset](s)(admin.GroupOffsets(s.ctx, name, topic)); fmt.Sprint(o) != fmt.Sprint(want) {
			s.Errorf("%v, want %v", o, want)
		}
		s.fails(admin.SetGroupOffset(s.ctx, name, topic, 0, kafka.GroupOffset{Next: 7}), kafka.ClassFenced)
		seats := map[string]string{a.Member().ID: "", b.Member().ID: "one"}
		members := must[[]kafka.GroupMember](s)(admin.Members(s.ctx, name))
		for _, m := range members {
			if instance, ok := seats[m.ID]; !ok || instance != m.Instance {
				s.Errorf("%v, want the seats %v", m, seats)
			}
		}
		if len(members) != 2 {
			s.Errorf("%v, want the seats %v", members, seats)
		}
		a.Close()
		b.Close()
		for _, m := range members {
			s.ok(admin.Remove(s.ctx, name, m))
			s.ok(admin.Remove(s.ctx, name, m)) // gone already
		}
		if m := must[[]kafka.GroupMember](s)(admin.Members(s.ctx, name)); len(m) != 0 {
			s.Errorf("still there: %v", m)
		}
		want[0] = kafka.GroupOffset{Next: 7, Metadata: "nobody's"}
		s.ok(admin.SetGroupOffset(s.ctx, name, topic, 0, want[0]))
		if o := must[map[int32]kafka.GroupOffset](s)(admin.GroupOffsets(s.ctx, name, topic)); fmt.Sprint(o) != fmt.Sprint(want) {
			s.Errorf("%v, want %v", o, want)
		}
	},
}
