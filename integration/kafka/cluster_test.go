package kafka

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-streams/tidemark/integration/kafkarun"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/proof"
)

// These tests need several brokers: leaders and coordinators that change, replicas that are missing, elections that lose
// data.

// TestThreeBrokers shares one cluster among them; each leaves it whole.
func TestThreeBrokers(t *testing.T) {
	cluster := kafkarun.StartCluster(t, 3, kafkarun.Options{})
	for _, test := range []struct {
		name string
		do   func(*testing.T, *fleet)
	}{
		{"LeadersAndCoordinatorsChange", leadersChange},
		{"NotEnoughReplicas", notEnoughReplicas},
		{"UncleanElection", uncleanElection},
		{"UncleanElectionUnnoticed", uncleanElectionUnnoticed},
	} {
		t.Run(test.name, func(t *testing.T) {
			all := &fleet{Cluster: cluster}
			all.crew = newCrewAt(t, cluster.Brokers[0].Addr, 1, 3*time.Minute, 2, func(_ int, job *proof.Job) { job.Brokers = cluster.Addrs() })
			test.do(t, all)
			if err := cluster.Settled(all.ctx, all.topics()...); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// fleet is a job on a cluster.
type fleet struct {
	*kafkarun.Cluster
	*crew
}

func (f *fleet) topics() []string { return append(f.jobs[0].Topics(), f.jobs[0].Changelog()) }

// makeChangelog makes the job's changelog with its replicas on given brokers, the first of which leads.
func (f *fleet) makeChangelog(settings map[string]string, replicas ...int32) {
	f.t.Helper()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = f.jobs[0].Changelog(), -1, -1
	for p := range f.partitions {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = p, replicas
		topic.ReplicaAssignment = append(topic.ReplicaAssignment, a)
	}
	for name, value := range map[string]string{"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime", "segment.ms": "1800000"} {
		if _, ok := settings[name]; !ok {
			settings[name] = value
		}
	}
	for name, value := range settings {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = name, &value
		topic.Configs = append(topic.Configs, c)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis, req.Topics = 10_000, append(req.Topics, topic)
	resp, err := req.RequestWith(f.ctx, f.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	f.must(err)
	f.must(f.Settled(f.ctx, f.jobs[0].Changelog()))
}

// leader is who leads a partition; -1 for nobody.
func (f *fleet) leader(topic string, partition int32) int32 {
	f.t.Helper()
	found, err := f.admin.Metadata(f.ctx, topic)
	f.must(err)
	return found.Topics[topic].Partitions[partition].Leader
}

// advances waits until every task has committed twice more: its changelog grows.
func (f *fleet) advances(alive ...*instance) {
	f.t.Helper()
	var before []int64
	f.await("every task to commit", func() bool {
		ends, err := f.ends()
		if err != nil {
			return false // a partition without a leader has no end
		}
		if before == nil {
			before = ends
		}
		for p, end := range ends {
			if end < before[p]+8 { // a commit is a commit record and a marker at least
				return false
			}
		}
		return true
	}, alive...)
}

// ends are those of the changelog. One look is bounded: what is asked of a broker that is killed under it may stay unanswered.
func (f *fleet) ends() ([]int64, error) {
	ctx, cancel := context.WithTimeout(f.ctx, 10*time.Second)
	defer cancel()
	return f.reader.Ends(ctx, f.jobs[0].Changelog())
}

// leadersChange kills and stops, one after the other, who leads the changelog, the input and the results, and who
// coordinates the group and the transactions, while a job works. Each time somebody else takes over, the job goes on by
// itself, and in the end nothing is lost, doubled or torn (R25, S12).
func leadersChange(t *testing.T, f *fleet) {
	finish := f.flow(1, 300)
	i := f.start(f.jobs[0])
	f.whole(i)
	f.committing(i)
	job := f.jobs[0]
	input := job.Topics()[0]
	for _, round := range []struct {
		what string
		who  func() int32
		kill bool
	}{
		{"leader of changelog/0", func() int32 { return f.leader(job.Changelog(), 0) }, true},
		{"leader of input/1", func() int32 { return f.leader(input, 1) }, true},
		{"leader of results/0", func() int32 { return f.leader(job.Topics()[3], 0) }, false},
		{"coordinator of the group", func() int32 { return f.admin.FindGroupCoordinators(f.ctx, job.Group())[job.Group()].NodeID }, false},
		{"coordinator of the transactions of task 0", func() int32 {
			id := job.Changelog() + "-0"
			return f.admin.FindTxnCoordinators(f.ctx, id)[id].NodeID
		}, true},
	} {
		was := round.who()
		victim, began := f.Broker(was), time.Now()
		if round.kill {
			f.must(victim.Kill())
		} else {
			f.must(victim.Stop())
		}
		f.await("another "+round.what, func() bool { is := round.who(); return is > 0 && is != was }, i)
		f.advances(i)
		t.Logf("%s was broker %d, killed %v: all tasks commit again after %v", round.what, was, round.kill, time.Since(began).Round(time.Millisecond))
		f.must(victim.Restart(f.ctx))
		f.must(f.Settled(f.ctx, f.topics()...))
	}
	finish()
	f.must(i.Stop())
	f.prove(job)
}

// notEnoughReplicas takes a replica away that the changelog's min.insync.replicas needs: the job stands still, says what
// it waits for, and goes on when the replica returns (V5, I12).
func notEnoughReplicas(t *testing.T, f *fleet) {
	f.makeChangelog(map[string]string{"min.insync.replicas": "2"}, 2, 3)
	finish := f.flow(2, 300)
	i := f.start(f.jobs[0])
	f.whole(i)
	f.committing(i)
	f.must(f.Broker(3).Kill())
	f.await("health to name what is waited for", func() bool {
		code, said := f.runs("status", "--json")
		return code == 1 && strings.Contains(said, "waiting for replicas of "+f.jobs[0].Changelog()) && strings.Contains(said, "1 in sync, min.insync.replicas is 2")
	}, i)
	w := open(t, connect(t, f.Addrs()[0]), f.jobs[0].Name+"-other")
	if _, err := w.Send(t.Context(), numbered(f.jobs[0].Changelog(), 1)); kafka.ClassOf(err) != kafka.ClassTransient || !errors.Is(err, kerr.NotEnoughReplicas) {
		t.Errorf("a record for which there are not enough replicas: class %v: %v", kafka.ClassOf(err), err)
	}
	f.must(f.Broker(3).Restart(f.ctx))
	f.advances(i)
	f.await("health to be green again", func() bool {
		code, said := f.runs("status", "--json")
		return code == 0 && !strings.Contains(said, "min.insync.replicas")
	}, i)
	finish()
	f.must(i.Stop())
	f.prove(f.jobs[0])
}

// cut makes broker 3, which has not seen the newest commits, leader of the changelog, and returns the ends before and
// after. Whoever reads and writes meanwhile is between.
func (f *fleet) cut(between func()) (before, after []int64) {
	f.t.Helper()
	changelog := f.jobs[0].Changelog()
	f.must(f.Broker(3).Kill())
	f.await("broker 3 to be out of sync", func() bool {
		found, err := f.admin.Metadata(f.ctx, changelog)
		f.must(err)
		return len(found.Topics[changelog].Partitions[0].ISR) == 1 && len(found.Topics[changelog].Partitions[1].ISR) == 1
	})
	f.advances()
	between()
	before = f.marks()
	f.must(f.Broker(2).Kill())
	f.must(f.Broker(3).Restart(f.ctx))
	f.await("broker 3 to lead", func() bool { return f.leader(changelog, 0) == 3 && f.leader(changelog, 1) == 3 })
	after = f.marks()
	for p := range before {
		if after[p] >= before[p] {
			f.t.Fatalf("partition %d ended at %d and ends at %d: nothing was cut", p, before[p], after[p])
		}
	}
	f.must(f.Broker(2).Restart(f.ctx))
	f.must(f.Settled(f.ctx, f.topics()...))
	return before, after
}

// unclean are the settings of a changelog that an election may cut.
func unclean() map[string]string {
	return map[string]string{"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
}

// uncleanElection cuts the end of the changelog of a job that was killed (R15): a start stops and names both commits, with
// or without its checkpoints, --accept-loss goes on once, and what it makes then is proved like any other state.
func uncleanElection(t *testing.T, f *fleet) {
	f.makeChangelog(unclean(), 2, 3)
	finish := f.flow(3, 300)
	i := f.start(f.jobs[0])
	f.whole(i)
	f.committing(i)
	before, after := f.cut(func() {
		finish()
		f.must(i.Kill())
	})
	t.Logf("the changelog ended at %v and ends at %v", before, after)
	f.wants(f.says(1, "run", "--until-idle"), "the changelog ends with commit", "run --accept-loss")
	f.must(exec.Command("rm", "-rf", f.jobs[0].LocalState()).Run())
	f.wants(f.says(1, "run", "--until-idle"), "the changelog ends with commit", "run --accept-loss")
	f.wants(f.says(0, "run", "--until-idle", "--accept-loss", "--who", "anna@plant", "--why", "unclean election"), "A LOSS WAS ACCEPTED", "unclean election")
	f.says(0, "run", "--until-idle")
	f.says(0, "state", "dump")
}

// uncleanElectionUnnoticed cuts it while the job runs and has nothing to write, so that no request fails: its next commit
// would hide the hole. It stops instead.
func uncleanElectionUnnoticed(t *testing.T, f *fleet) {
	f.makeChangelog(unclean(), 2, 3)
	finish := f.flow(4, 300)
	i := f.start(f.jobs[0])
	f.whole(i)
	f.committing(i)
	f.cut(func() {
		finish()
		f.await("everything to be committed", func() bool {
			lag, err := f.jobs[0].Lag(f.ctx, f.reader)
			return err == nil && lag == 0
		}, i)
	})
	var lines [][]byte
	feed := proof.NewFleet(5, 300)
	for range 500 {
		lines = append(lines, feed.Next())
	}
	_, err := f.jobs[0].Produce(f.ctx, proof.Lines(lines))
	f.must(err)
	select {
	case <-i.Done():
	case <-f.ctx.Done():
		t.Fatal("the job writes on behind a hole: ", context.Cause(f.ctx))
	}
	err = i.Failure()
	if err == nil || !strings.Contains(err.Error(), "exit status 1") || !strings.Contains(err.Error(), "the end of the changelog is gone") && !strings.Contains(err.Error(), "the changelog ends with commit") {
		t.Errorf("the job ended with %v", err)
	}
	f.wants(f.says(1, "run", "--until-idle"), "the changelog ends with commit", "run --accept-loss")
	f.says(0, "run", "--until-idle", "--accept-loss")
	f.says(0, "state", "dump")
}

// runs is says for a command whose exit code is what is asked.
func (c *crew) runs(args ...string) (code int, said string) {
	c.t.Helper()
	code, said, err := c.ended(args...)
	c.must(err)
	return code, said
}

// ended is runs for one command of many at a time: it leaves the test alone.
func (c *crew) ended(args ...string) (code int, said string, err error) {
	cmd := exec.CommandContext(c.ctx, c.jobs[0].Binary, append(args, "-c", c.jobs[0].Config())...)
	cmd.Env = slices.DeleteFunc(cmd.Environ(), func(v string) bool { return strings.HasPrefix(v, "TIDEMARK_") })
	cmd.Env = append(cmd.Env, c.jobs[0].Variables...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode(), string(out), nil
	}
	return 0, string(out), err
}
