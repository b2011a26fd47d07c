package kafka

import (
	"context"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-streams/tidemark/integration/kafkarun"
)

// TestBrokersAwayForASession: a network that is silent until the broker has given the seat up costs that seat, and not the
// state in memory: when it carries again, every task goes on from its base (I8, R25, D06). A broker that hangs itself would
// not do: it judges nobody before it has read what has come in meanwhile.
func TestBrokersAwayForASession(t *testing.T) {
	p := startProxy(t)
	b := kafkarun.StartWith(t, kafkarun.Options{Settings: []string{p.advertised()}, Addressed: p.serves})
	c := newCrewAt(t, b.Addr, 1, 4*time.Minute, 2, nil)
	direct := c.past(b)
	i := c.settledOnce(c.jobs[0])
	c.flow(12, 500)()
	c.committing(i)
	if n := c.seats(direct); n != 1 {
		t.Fatalf("%d seats before the silence, want 1", n)
	}
	seen := len(i.log())
	speak := p.hush(t)
	c.await("the broker to give the seat up", func() bool { return c.seats(direct) == 0 }, i)
	speak()
	c.await("the loss of the seat", func() bool {
		return slices.ContainsFunc(i.log()[seen:], func(l line) bool { return l.Msg == "assigned" && l.Assigned == nil })
	}, i)
	c.flow(13, 500)()
	c.await("every task to be at work again", func() bool { return i.stand().settled() && len(i.stand().owned) == 2 }, i)
	reports := 0
	for _, l := range i.log()[seen:] {
		if l.Report == nil {
			continue
		}
		if reports++; l.Report.From != "live base" {
			t.Errorf("partition %d recovered from %q, want the live base", l.Report.Partition, l.Report.From)
		}
	}
	if reports < 2 {
		t.Errorf("%d recoveries, want one of each task", reports)
	}
	c.must(i.Stop())
	c.prove(c.jobs[0])
}

// past is a client that goes past the proxy.
func (c *crew) past(b *kafkarun.Broker) *kadm.Client {
	c.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr), kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, b.Addr)
	}))
	c.must(err)
	c.t.Cleanup(cl.Close)
	return kadm.NewClient(cl)
}

// seats is how many members the job's group has.
func (c *crew) seats(direct *kadm.Client) int {
	c.t.Helper()
	groups, err := direct.DescribeGroups(c.ctx, c.jobs[0].Group())
	c.must(err)
	group := groups[c.jobs[0].Group()]
	c.must(group.Err)
	return len(group.Members)
}
