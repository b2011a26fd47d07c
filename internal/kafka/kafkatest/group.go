package kafkatest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// group is one consumer group. Rebalances take no time: every change of membership is a new generation at once.
type group struct {
	topic      string
	generation int32
	made       int     // members ever made
	members    []*seat // in the order of joining
	evicted    []*seat // whose processes have not come back
	offsets    map[int32]kafka.GroupOffset
}

// seat is one member of a group, and the kafka.Group of the process that holds it.
type seat struct {
	cluster     *Cluster
	group       *group
	name        string
	options     kafka.GroupOptions
	member      kafka.Member
	in          bool // still a member
	closed      bool
	assigned    []int32
	assignments chan []int32
}

func (c *Cluster) groupLocked(name string) *group {
	g := c.groups[name]
	if g == nil {
		g = &group{offsets: map[int32]kafka.GroupOffset{}}
		c.groups[name] = g
	}
	return g
}

// Group implements kafka.Cluster: it joins at once.
func (c *Cluster) Group(options kafka.GroupOptions) (kafka.Group, error) {
	var s *seat
	err := c.pass(context.Background(), Call{Op: OpJoin, Group: options.Group, Topic: options.Topic}, func(int) error {
		t := c.topics[options.Topic]
		if t == nil {
			return fail(kafka.ClassTransient, "join", options.Topic, 0, -1, errUnknownTopic)
		}
		g := c.groupLocked(options.Group)
		g.topic = options.Topic
		g.made++
		s = &seat{
			cluster: c, group: g, name: options.Group, options: options, in: true,
			member:      kafka.Member{ID: fmt.Sprintf("%s-member-%d", options.Group, g.made), Instance: options.Instance},
			assignments: make(chan []int32, 1),
		}
		g.removeLocked(func(o *seat) bool { return options.Evict != "" && o.member.ID == options.Evict })
		g.joinLocked(s, t.Partitions)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if options.Joined != nil {
		options.Joined(s.member.ID)
	}
	return s, nil
}

// joinLocked takes a member in. A static member that comes back takes the seat of its former life, with the same
// partitions and without a new generation; any other makes everybody's assignment new.
func (g *group) joinLocked(s *seat, partitions int32) {
	for i, o := range g.members {
		if s.member.Instance != "" && o.member.Instance == s.member.Instance {
			assigned := o.assigned
			o.outLocked()
			g.members[i] = s
			s.member.Generation = g.generation
			s.deliverLocked(assigned)
			return
		}
	}
	g.members = append(g.members, s)
	g.rebalanceLocked(partitions)
}

// removeLocked takes members out; their partitions are spread at the next rebalance.
func (g *group) removeLocked(which func(*seat) bool) bool {
	before := len(g.members)
	g.members = slices.DeleteFunc(g.members, func(s *seat) bool {
		if !which(s) {
			return false
		}
		s.outLocked()
		return true
	})
	return len(g.members) < before
}

// rebalanceLocked spreads the partitions evenly: partition p goes to member p mod members.
func (g *group) rebalanceLocked(partitions int32) {
	g.generation++
	for i, s := range g.members {
		own := []int32{} // nil would mean that the seat is lost
		for p := int32(i); p < partitions; p += int32(len(g.members)) {
			own = append(own, p)
		}
		s.member.Generation = g.generation
		s.deliverLocked(own)
	}
}

// outLocked ends a membership. The process learns it as an empty list.
func (s *seat) outLocked() {
	s.in = false
	s.deliverLocked(nil)
}

// deliverLocked puts the newest list in the place of an unread older one.
func (s *seat) deliverLocked(assigned []int32) {
	s.assigned = assigned
	if s.closed {
		return
	}
	select {
	case <-s.assignments:
	default:
	}
	s.assignments <- slices.Clone(assigned)
}

// Evict takes a member out of its group, as the end of its session does, and rebalances. It reports whether there was
// such a member.
func (c *Cluster) Evict(groupName, memberID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.groupLocked(groupName)
	gone := g.removeLocked(func(s *seat) bool {
		if s.member.ID == memberID {
			g.evicted = append(g.evicted, s)
		}
		return s.member.ID == memberID
	})
	if gone {
		g.rebalanceLocked(c.partitionsLocked(g.topic))
	}
	return gone
}

// Readmit lets the processes that were evicted from a group join it again, as clients do by themselves when they find
// their seat lost. It returns their number.
func (c *Cluster) Readmit(groupName string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.groupLocked(groupName)
	back := g.evicted
	g.evicted = nil
	for _, s := range back {
		g.made++
		s.in, s.member.ID = true, fmt.Sprintf("%s-member-%d", groupName, g.made)
		g.members = append(g.members, s)
	}
	if len(back) > 0 {
		g.rebalanceLocked(c.partitionsLocked(g.topic))
	}
	return len(back)
}

// partitionsLocked counts a topic's partitions; a topic that is gone has none.
func (c *Cluster) partitionsLocked(name string) int32 {
	if t := c.topics[name]; t != nil {
		return t.Partitions
	}
	return 0
}

// Members implements kafka.Admin.
func (a admin) Members(ctx context.Context, groupName string) (members []kafka.GroupMember, err error) {
	err = a.c.pass(ctx, Call{Op: OpMembers, Group: groupName}, func(int) error {
		for _, s := range a.c.groupLocked(groupName).members {
			members = append(members, kafka.GroupMember{ID: s.member.ID, Instance: s.member.Instance})
		}
		return nil
	})
	slices.SortFunc(members, func(a, b kafka.GroupMember) int { return strings.Compare(a.ID, b.ID) })
	return members, err
}

// GroupOffsets implements kafka.Admin. A group of the fake reads one topic.
func (a admin) GroupOffsets(ctx context.Context, groupName, topic string) (offsets map[int32]kafka.GroupOffset, err error) {
	err = a.c.pass(ctx, Call{Op: OpGroupOffsets, Group: groupName, Topic: topic}, func(int) error {
		offsets = maps.Clone(a.c.groupLocked(groupName).offsets)
		return nil
	})
	return offsets, err
}

// SetGroupOffset implements kafka.Admin.
func (a admin) SetGroupOffset(ctx context.Context, groupName, topic string, partition int32, offset kafka.GroupOffset) error {
	return a.c.pass(ctx, Call{Op: OpSetOffset, Group: groupName, Topic: topic, Partition: partition}, func(int) error {
		g := a.c.groupLocked(groupName)
		if len(g.members) > 0 {
			return fail(kafka.ClassFenced, "set offset", topic, partition, int64(offset.Next), errMember)
		}
		g.offsets[partition] = offset
		return nil
	})
}

// Remove implements kafka.Admin.
func (a admin) Remove(ctx context.Context, groupName string, member kafka.GroupMember) error {
	return a.c.pass(ctx, Call{Op: OpLeave, Group: groupName}, func(int) error {
		g := a.c.groupLocked(groupName)
		if g.removeLocked(func(s *seat) bool { return s.member.ID == member.ID }) {
			g.rebalanceLocked(a.c.partitionsLocked(g.topic))
		}
		return nil
	})
}

// SetGroupOffset sets a group's offset and metadata by hand, as an operator may.
func (c *Cluster) SetGroupOffset(groupName string, partition int32, offset kafka.GroupOffset) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.groupLocked(groupName).offsets[partition] = offset
}

// DeleteGroupOffset removes a group's offset, as its expiry does.
func (c *Cluster) DeleteGroupOffset(groupName string, partition int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.groupLocked(groupName).offsets, partition)
}

// Assignments implements kafka.Group.
func (s *seat) Assignments() <-chan []int32 { return s.assignments }

// Ask implements kafka.Group.
func (s *seat) Ask(ctx context.Context, partition int32) (ours bool, err error) {
	err = s.cluster.pass(ctx, Call{Op: OpAsk, Group: s.name, Topic: s.options.Topic, Partition: partition}, func(int) error {
		ours = s.in && slices.Contains(s.assigned, partition)
		return nil
	})
	return ours && err == nil, err
}

// SetOffset implements kafka.Group.
func (s *seat) SetOffset(ctx context.Context, partition int32, next record.InputPosition, metadata string) error {
	call := Call{Op: OpSetOffset, Group: s.name, Topic: s.options.Topic, Partition: partition}
	return s.cluster.pass(ctx, call, func(int) error {
		if !s.in {
			return fail(kafka.ClassTransient, "set offset", s.options.Topic, partition, int64(next), errMember)
		}
		s.group.offsets[partition] = kafka.GroupOffset{Next: next, Metadata: metadata}
		return nil
	})
}

// Offsets implements kafka.Group.
func (s *seat) Offsets(ctx context.Context) (map[int32]kafka.GroupOffset, error) {
	var offsets map[int32]kafka.GroupOffset
	err := s.cluster.pass(ctx, Call{Op: OpGroupOffsets, Group: s.name, Topic: s.options.Topic}, func(int) error {
		offsets = maps.Clone(s.group.offsets)
		return nil
	})
	return offsets, err
}

// Member implements kafka.Group.
func (s *seat) Member() kafka.Member {
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	return s.member
}

// Leave implements kafka.Group.
func (s *seat) Leave(ctx context.Context) error {
	c := s.cluster
	err := c.pass(ctx, Call{Op: OpLeave, Group: s.name, Topic: s.options.Topic}, func(int) error {
		if s.group.removeLocked(func(o *seat) bool { return o == s }) {
			s.group.rebalanceLocked(c.partitionsLocked(s.group.topic))
		}
		return nil
	})
	s.Close()
	return err
}

// Close implements kafka.Group. The seat is kept until Evict.
func (s *seat) Close() {
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.assignments)
	}
}
