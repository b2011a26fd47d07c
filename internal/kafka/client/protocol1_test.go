package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/client"
	"github.com/tidemark-streams/tidemark/internal/kafka/conformance"
)

// oldCluster is an embedded broker of before transaction.version 2, and a client that may use it. verifies is what it
// says of transaction.partition.verification.enable; "" for nothing.
func oldCluster(t *testing.T, verifies string, opts ...kfake.Opt) (*kfake.Cluster, *client.Cluster) {
	t.Helper()
	broker, _ := embedded(t, append([]kfake.Opt{kfake.MaxVersions(kversion.V3_8_0()), kfake.SeedTopics(1, "log")}, opts...)...)
	broker.ControlKey(kmsg.DescribeConfigs.Int16(), func(request kmsg.Request) (kmsg.Response, error, bool) {
		broker.KeepControl()
		asked := request.(*kmsg.DescribeConfigsRequest)
		if asked.Resources[0].ResourceType != kmsg.ConfigResourceTypeBroker {
			return nil, nil, false
		}
		answer := asked.ResponseKind().(*kmsg.DescribeConfigsResponse)
		for _, r := range asked.Resources {
			one := kmsg.NewDescribeConfigsResponseResource()
			one.ResourceType, one.ResourceName = r.ResourceType, r.ResourceName
			if verifies != "" {
				c := kmsg.NewDescribeConfigsResponseResourceConfig()
				c.Name, c.Value = r.ConfigNames[0], &verifies
				one.Configs = append(one.Configs, c)
			}
			answer.Resources = append(answer.Resources, one)
		}
		return answer, nil, true
	})
	c, err := client.New(client.Options{Brokers: broker.ListenAddrs(), AllowTransactionV1: true})
	if err != nil {
		t.Fatal(err)
	}
	return broker, c
}

// R12: the old protocol keeps the whole contract.
func TestConformanceOfProtocol1(t *testing.T) {
	broker, cluster := oldCluster(t, "true")
	conformance.Run(t, conformance.Target{
		Cluster:      cluster,
		Session:      time.Second,
		AnyTopicName: true,
		Protocol1:    true,
		DeleteTopic:  func(_ context.Context, topic string) error { return broker.DeleteTopic(topic) },
		DeleteRecords: func(_ context.Context, topic string, p int32, before int64) error {
			return broker.DeleteRecords(topic, p, before)
		},
	})
}

// R12: a broker that appends unasked, or does not say, is refused even where old transactions are allowed.
func TestOldTransactionsNeedVerification(t *testing.T) {
	for _, verifies := range []string{"", "false"} {
		_, c := oldCluster(t, verifies)
		w, err := c.Writer("txn")
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Fence(t.Context())
		if kafka.ClassOf(err) != kafka.ClassPermanent || !strings.Contains(fmt.Sprint(err), "transaction.partition.verification.enable") {
			t.Errorf("%q: %v", verifies, err)
		}
	}
}

// R12: a commit whose answer was lost succeeds when it is sent again, and is the writer's last: its first request, should
// it come late, meets a new epoch and cannot end the next transaction in the middle. Answered requests cost nothing.
func TestLateCommitTearsNothing(t *testing.T) {
	lose := new(atomic.Int32)
	broker, c := oldCluster(t, "true", kfake.ListenFn(func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		return lossy{l, lose}, err
	}))
	w, err := c.Writer("txn")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	producer, err := w.Fence(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"a", "b"} {
		if err := errors.Join(send(t.Context(), w, value), w.Commit(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	if err := send(t.Context(), w, "c"); err != nil {
		t.Fatal(err)
	}
	loseAnswers(broker, lose, kmsg.EndTxn, 1)
	if err := w.Commit(t.Context()); err != nil || lose.Load() > 0 {
		t.Fatal(err, lose.Load())
	}
	if err := send(t.Context(), w, "never"); kafka.ClassOf(err) != kafka.ClassTransient || !strings.Contains(fmt.Sprint(err), "never answered") {
		t.Fatalf("the next transaction: %v", err)
	}
	next := fenced(t, c)
	if err := send(t.Context(), next, "half"); err != nil {
		t.Fatal(err)
	}
	if err := endOld(t, broker.ListenAddrs()[0], producer); err == nil {
		t.Error("the late commit was carried out")
	}
	fenced(t, c) // "half" was never committed by its owner
	if got := committed(t, c); got != "a b c" {
		t.Errorf("seen: %s", got)
	}
}

// endOld is the late request: EndTxn of the old protocol in the name of a producer.
func endOld(t *testing.T, addr string, producer kafka.Producer) error {
	t.Helper()
	v := kversion.Stable()
	v.SetMaxKeyVersion(kmsg.EndTxn.Int16(), 4)
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.MaxVersions(v))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = "txn", producer.ID, producer.Epoch, true
	resp, err := req.RequestWith(t.Context(), cl)
	if err != nil {
		t.Fatal(err)
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}

// Adding partitions waits for what passes, and ends the writer with the class of the table for the rest.
func TestAddPartitionsErrors(t *testing.T) {
	for _, e := range []struct {
		err    *kerr.Error
		class  kafka.Class
		passes bool
	}{
		{err: kerr.ConcurrentTransactions, passes: true}, {err: kerr.CoordinatorLoadInProgress, passes: true}, {err: kerr.NotCoordinator, passes: true},
		{err: kerr.ProducerFenced, class: kafka.ClassFenced}, {err: kerr.InvalidTxnState, class: kafka.ClassFenced},
		{err: kerr.TransactionalIDAuthorizationFailed, class: kafka.ClassPermanent}, {err: kerr.TopicAuthorizationFailed, class: kafka.ClassPermanent},
		{err: kerr.UnknownServerError, class: kafka.ClassTransient},
	} {
		t.Run(e.err.Message, func(t *testing.T) {
			broker, c := oldCluster(t, "true")
			w := fenced(t, c)
			fault := broker.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.AddPartitionsToTxn}, Err: e.err, Count: 1})
			err := send(t.Context(), w, "v")
			if fault.Hits() != 1 {
				t.Fatalf("answered %d times", fault.Hits())
			}
			if e.passes && err != nil || !e.passes && (err == nil || kafka.ClassOf(err) != e.class) {
				t.Fatalf("class %v: %v", kafka.ClassOf(err), err)
			}
		})
	}
}
