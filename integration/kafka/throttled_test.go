package kafka

import (
	"bytes"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-streams/tidemark/integration/kafkarun"
)

// TestThrottledOnKafka: a broker that tells clients to wait, because they are above their quota, is obeyed, and that is no
// error; what takes longer than a commit may take is one of unknown outcome, which the next writer settles. A quota in force
// costs speed and nothing else.
func TestThrottledOnKafka(t *testing.T) {
	p := startProxy(t)
	b := kafkarun.StartWith(t, kafkarun.Options{Settings: []string{p.advertised()}, Addressed: p.serves})
	c := newCrewAt(t, b.Addr, 1, 4*time.Minute, 2, nil)
	job := c.jobs[0]
	finish := c.flow(41, 500)
	i := c.start(job)
	c.whole(i)
	c.committing(i)
	for _, told := range []struct {
		key      kmsg.Key
		ms       int32
		recovers bool
	}{
		{key: kmsg.Produce, ms: 3000}, {key: kmsg.EndTxn, ms: 3000}, {key: kmsg.Fetch, ms: 3000}, {key: kmsg.Produce, ms: 12_000, recovers: true},
	} {
		seen, begun := len(i.log()), time.Now()
		f := p.inject(fault{key: told.key, do: changed, which: ofTask(job), answer: func(_ kmsg.Request, response kmsg.Response) {
			switch r := response.(type) {
			case *kmsg.ProduceResponse:
				r.ThrottleMillis = told.ms
			case *kmsg.EndTxnResponse:
				r.ThrottleMillis = told.ms
			case *kmsg.FetchResponse:
				r.ThrottleMillis = told.ms
			}
		}})
		c.await("the broker to ask for patience", func() bool { return len(f.hits) == 1 }, i)
		c.passes(0, i) // which may be that of the transaction that is open
		c.passes(0, i)
		took := time.Since(begun)
		failures := 0
		for _, l := range i.log()[seen:] {
			if l.Msg == "recovering" {
				failures++
			}
		}
		waited := told.key == kmsg.Fetch || took >= time.Duration(told.ms)*time.Millisecond/2 // of fetches two are ahead
		if told.recovers != (failures > 0) || !told.recovers && !waited {
			t.Errorf("%s throttled for %d ms: %d recoveries, the next commit after %v", told.key.Name(), told.ms, failures, took)
		}
		t.Logf("%s throttled for %d ms: %d recoveries, commits go on after %v", told.key.Name(), told.ms, failures, took.Round(time.Millisecond))
	}
	c.quota(p, i)
	finish()
	p.clear()
	c.must(i.Stop())
	c.prove(job)
}

// quota lets the broker throttle the job by itself, until it has done so a few times.
func (c *crew) quota(p *proxy, i *instance) {
	c.t.Helper()
	var throttled atomic.Int32
	p.inject(fault{key: kmsg.Produce, do: changed, count: 1 << 30, which: ofTask(c.jobs[0]), answer: func(_ kmsg.Request, response kmsg.Response) {
		if response.(*kmsg.ProduceResponse).ThrottleMillis > 0 {
			throttled.Add(1)
		}
	}})
	client := "tidemark"
	set := func(op ...kadm.AlterClientQuotaOp) {
		done, err := c.admin.AlterClientQuotas(c.ctx, []kadm.AlterClientQuotaEntry{{
			Entity: kadm.ClientQuotaEntity{{Type: "client-id", Name: &client}}, Ops: op}})
		c.must(err)
		for _, d := range done {
			c.must(d.Err)
		}
	}
	set(kadm.AlterClientQuotaOp{Key: "producer_byte_rate", Value: 20_000}, kadm.AlterClientQuotaOp{Key: "consumer_byte_rate", Value: 50_000})
	c.await("the broker to throttle", func() bool { return throttled.Load() > 3 }, i)
	c.passes(0, i)
	set(kadm.AlterClientQuotaOp{Key: "producer_byte_rate", Remove: true}, kadm.AlterClientQuotaOp{Key: "consumer_byte_rate", Remove: true})
	c.passes(0, i)
	text, err := i.Log()
	c.must(err)
	c.t.Logf("%d answers to produce requests were throttled; %d recoveries in all", throttled.Load(), bytes.Count(text, []byte(`"msg":"recovering"`)))
}
