package client

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// protocolName is what members of one group must share. A balancer whose answers would differ gets another name.
const protocolName = "tidemark-1"

// userDataVersion begins the bytes each member sends to the leader. Version 1 is empty; a leader takes what it does not
// know for a member that is warm nowhere (R23).
const userDataVersion = 1

// balancer spreads one topic's partitions: an owner keeps what it has, counts differ by one at most, and the same
// members always get the same. It is eager: one join round; tasks that stay do not stop, for the driver compares whole
// lists and fencing makes overlap harmless.
type balancer struct {
	topic string
	// joining is called before every join request, with nothing held.
	joining func()

	mu         sync.Mutex
	last       []int32 // of the last sync: franz-go has forgotten it when an eager member rejoins
	generation int32   // of last
}

var (
	_ kgo.GroupBalancer           = (*balancer)(nil)
	_ kgo.ConsumerBalancerBalance = (*balancer)(nil)
)

// ProtocolName and IsCooperative are for the group's handshake.
func (b *balancer) ProtocolName() string { return protocolName }

// IsCooperative says that one join round is enough.
func (b *balancer) IsCooperative() bool { return false }

// JoinGroupMetadata is what this member tells the leader at each join: what it owns, of which generation.
// That is not always the one franz-go names: a member may have joined it and been called to the next before its sync.
func (b *balancer) JoinGroupMetadata(topics []string, _ map[string][]int32, _ int32) []byte {
	b.joining()
	b.mu.Lock()
	defer b.mu.Unlock()
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Version, meta.Topics, meta.Generation = 3, topics, b.generation
	meta.UserData = []byte{userDataVersion}
	if len(b.last) > 0 {
		owned := kmsg.NewConsumerMemberMetadataOwnedPartition()
		owned.Topic, owned.Partitions = b.topic, b.last
		meta.OwnedPartitions = append(meta.OwnedPartitions, owned)
	}
	return meta.AppendTo(nil)
}

// ParseSyncAssignment is called once per sync with what the leader gave this member.
func (b *balancer) ParseSyncAssignment(assignment []byte) (map[string][]int32, error) {
	assigned, err := kgo.ParseConsumerSyncAssignment(assignment)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.last = slices.Clone(assigned[b.topic])
	b.mu.Unlock()
	return assigned, nil
}

// settled notes the generation of the last sync and returns its list, ascending.
func (b *balancer) settled(generation int32) []int32 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.generation = generation
	slices.Sort(b.last)
	return slices.Clone(b.last)
}

// MemberBalancer is called on the leader with every member's metadata.
func (b *balancer) MemberBalancer(members []kmsg.JoinGroupResponseMember) (kgo.GroupMemberBalancer, map[string]struct{}, error) {
	cb, err := kgo.NewConsumerBalancer(b, members)
	if err != nil {
		return nil, nil, err
	}
	return cb, cb.MemberTopics(), nil
}

// Balance makes the plan.
func (b *balancer) Balance(cb *kgo.ConsumerBalancer, topics map[string]int32) kgo.IntoSyncAssignment {
	var members []seat
	cb.EachMember(func(m *kmsg.JoinGroupResponseMember, meta *kmsg.ConsumerMemberMetadata) {
		s := seat{member: m, key: m.MemberID, generation: meta.Generation}
		if m.InstanceID != nil {
			s.key = *m.InstanceID // stays the same over a restart
		}
		for _, owned := range meta.OwnedPartitions {
			if owned.Topic == b.topic {
				s.claims = append(s.claims, owned.Partitions...)
			}
		}
		members = append(members, s)
	})
	plan := cb.NewPlan()
	if topics[b.topic] == 0 { // nobody would own anything until something else happens; failing, franz-go tries again
		cb.SetError(fmt.Errorf("the leader knows no partition of %s", b.topic))
		return plan
	}
	for i, share := range spread(members, topics[b.topic]) {
		for _, p := range share {
			plan.AddPartition(members[i].member, b.topic, p)
		}
	}
	return plan
}

// seat is one member as the leader sees it.
type seat struct {
	member     *kmsg.JoinGroupResponseMember
	key        string
	claims     []int32
	generation int32 // of the claims
}

// spread returns each member's share of the partitions 0 to n-1, in the order of members, which it sorts by key.
func spread(members []seat, n int32) [][]int32 {
	if len(members) == 0 {
		return nil
	}
	slices.SortFunc(members, func(a, b seat) int { return cmp.Compare(a.key, b.key) })
	owner := claim(members, n)

	// The larger shares go to those who own most, so that as little as possible moves.
	owned := make([]int, len(members))
	for _, o := range owner {
		if o >= 0 {
			owned[o]++
		}
	}
	order := make([]int, len(members))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(owned[b], owned[a]) })
	quota := make([]int, len(members))
	for rank, i := range order {
		quota[i] = int(n) / len(members)
		if rank < int(n)%len(members) {
			quota[i]++
		}
	}

	shares := make([][]int32, len(members))
	var free []int32
	for p, o := range owner {
		if o >= 0 && len(shares[o]) < quota[o] {
			shares[o] = append(shares[o], int32(p))
		} else {
			free = append(free, int32(p))
		}
	}
	for _, i := range order {
		take := min(quota[i]-len(shares[i]), len(free))
		shares[i] = append(shares[i], free[:take]...)
		free = free[take:]
		slices.Sort(shares[i])
	}
	return shares
}

// claim tells who owns each partition: the claimant of the highest generation, since an older claim was overruled
// while its member was away; -1 for nobody.
func claim(members []seat, n int32) []int {
	owner := make([]int, n)
	for p := range owner {
		owner[p] = -1
	}
	for i := range members {
		for _, p := range members[i].claims {
			if p < 0 || p >= n {
				continue
			}
			if o := owner[p]; o < 0 || members[i].generation > members[o].generation {
				owner[p] = i
			}
		}
	}
	return owner
}
