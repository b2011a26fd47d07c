package client

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// group is a seat in a consumer group of the classic protocol. franz-go joins, heartbeats and rejoins; its fetching is
// paused for good, so it only tells who owns what. Everything else that is said to the coordinator goes through a
// second client, which exists before the first joins and after it has stopped.
type group struct {
	options  kafka.GroupOptions
	ops      *kgo.Client
	cl       *kgo.Client
	balancer *balancer
	made     chan struct{}      // closed when cl is set
	stop     context.CancelFunc // stops cl without a word to the group
	stopped  chan struct{}      // closed when the watch has ended

	out chan []int32 // holds the newest list

	mu      sync.Mutex
	seat    kafka.Member
	list    []int32       // of the present generation, nil before the first and after a loss
	holding bool          // list is an assignment, maybe an empty one
	sent    bool          // something was ever put into out
	changed chan struct{} // closed and replaced at each change of the above
	over    error         // why there will be no further assignment
}

var _ kafka.Group = (*group)(nil)

// Group takes a seat in a group and returns at once; the assignment comes when the members have agreed. The member of
// a former life is removed first (R22); where that fails the group waits for its session to end.
func (c *Cluster) Group(options kafka.GroupOptions) (kafka.Group, error) {
	if options.Group == "" || options.Topic == "" {
		return nil, refuse("join group", errors.New("group or topic not named"), "")
	}
	if options.Session == 0 {
		options.Session = 6 * time.Second // the least that brokers allow by default
	}
	if options.Heartbeat == 0 {
		options.Heartbeat = 500 * time.Millisecond
	}
	ops, err := c.open(kgo.MaxVersions(byName()))
	if err != nil {
		return nil, err
	}
	g := &group{
		options: options, ops: ops, made: make(chan struct{}), stopped: make(chan struct{}),
		out: make(chan []int32, 1), changed: make(chan struct{}), seat: kafka.Member{Instance: options.Instance, Generation: -1},
	}
	if options.Evict != "" {
		if err := g.evict(options.Evict); err != nil {
			c.log().Warn("the member of the last run could not be removed; its session has to end first", "group", options.Group, "member", options.Evict, "error", err)
		}
	}
	g.balancer = &balancer{topic: options.Topic, joining: g.joining, generation: -1}
	ctx, stop := context.WithCancel(context.Background())
	g.stop = stop
	if g.cl, err = c.open(g.membership(ctx)...); err != nil {
		stop()
		ops.Close()
		return nil, err
	}
	g.cl.PauseFetchTopics(options.Topic)
	close(g.made)
	go g.watch(ctx)
	return g, nil
}

func (g *group) membership(ctx context.Context) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.WithContext(ctx),
		kgo.ConsumerGroup(g.options.Group),
		kgo.ConsumeTopics(g.options.Topic),
		kgo.Balancers(g.balancer),
		kgo.SessionTimeout(g.options.Session),
		kgo.HeartbeatInterval(g.options.Heartbeat),
		kgo.RebalanceTimeout(g.options.Session), // nobody's callback is slow, so nobody is waited for longer
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) { g.assigned() }),
		kgo.OnPartitionsRevoked(func(context.Context, *kgo.Client, map[string][]int32) {}), // only that a new list will come
		kgo.OnPartitionsLost(func(context.Context, *kgo.Client, map[string][]int32) { g.lost() }),
	}
	if g.options.Instance != "" {
		opts = append(opts, kgo.InstanceID(g.options.Instance))
	}
	return opts
}

// joining runs before every join request. A dynamic member gets its id in the answer to its first one; it is reported
// before the request that takes the seat, so that a seat never exists whose id was not written down.
func (g *group) joining() {
	<-g.made
	g.meet(g.cl.GroupMetadata())
}

// meet notes the member id and reports a new one.
func (g *group) meet(id string, _ int32) {
	g.mu.Lock()
	isNew := id != "" && id != g.seat.ID
	if isNew {
		g.seat.ID = id
	}
	g.mu.Unlock()
	if isNew && g.options.Joined != nil {
		g.options.Joined(id)
	}
}

// assigned runs after every sync; no rejoin begins before it returns.
func (g *group) assigned() {
	<-g.made
	id, generation := g.cl.GroupMetadata()
	g.meet(id, generation)
	list := g.balancer.settled(generation)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seat.Generation = generation
	g.settle(append([]int32{}, list...), true) // an empty list is not nil: the seat is ours
}

// lost runs when the group has gone on without us: the seat, and all that came with it, is someone else's by now.
func (g *group) lost() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.settle(nil, false)
}

// settle is called with mu held, when the assignment may have changed.
func (g *group) settle(list []int32, holding bool) {
	same := g.sent && slices.Equal(list, g.list) && (list == nil) == (g.list == nil)
	g.list, g.holding = list, holding
	close(g.changed)
	g.changed = make(chan struct{})
	if same || g.over != nil {
		return
	}
	g.sent = true
	select {
	case <-g.out: // unread and now old
	default:
	}
	g.out <- slices.Clone(list)
}

// watch collects what the group has to say between assignments. It is the only thing that closes out.
func (g *group) watch(ctx context.Context) {
	defer close(g.stopped)
	for ctx.Err() == nil {
		fetches := g.cl.PollFetches(ctx)
		var session *kgo.ErrGroupSession
		for _, e := range fetches.Errors() {
			if !errors.As(e.Err, &session) {
				continue
			}
			if why := g.hopeless(session.Err); why != nil {
				g.stop()
				g.finish(why)
			}
		}
	}
	g.cl.Close() // its context has ended, so it says nothing to the group
	g.finish(&kafka.Error{Class: kafka.ClassPermanent, Op: "stay in group " + g.options.Group, Offset: -1, Err: kafka.ErrClosed})
	close(g.out)
}

// hopeless makes the error of a membership that trying again cannot bring back: franz-go would ask for a seat for ever,
// and who is asked why nothing moves could only say that no partition has come (I12). Any other answer is nil.
func (g *group) hopeless(err error) error {
	op := "stay in group " + g.options.Group
	if errors.Is(err, kerr.FencedInstanceID) {
		return &kafka.Error{Class: kafka.ClassPermanent, Op: op, Offset: -1, Err: errors.Join(kafka.ErrSeatTaken, err),
			Hint: "instance id " + g.options.Instance + " is used by another host: was the state directory copied?"}
	}
	if class, _ := classOf(err); class != kafka.ClassPermanent {
		return nil
	}
	return fail(op, nowhere, err)
}

// finish notes why the seat is given up; the first reason stays.
func (g *group) finish(why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over != nil {
		return
	}
	g.over = why
	g.settle(nil, false)
}

// Assignments is described in package kafka.
func (g *group) Assignments() <-chan []int32 { return g.out }

// Member is described in package kafka.
func (g *group) Member() kafka.Member {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seat
}

// Leave is described in package kafka. The member stops first: one that still heartbeats would join again.
func (g *group) Leave(ctx context.Context) error {
	g.stop()
	<-g.stopped
	defer g.ops.Close()
	seat := g.Member()
	if seat.ID == "" && seat.Instance == "" {
		return nil
	}
	return remove(ctx, g.ops, g.options.Group, seat)
}

// Close is described in package kafka.
func (g *group) Close() {
	g.stop()
	<-g.stopped
	g.ops.Close()
}
