package kafka

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/integration/kafkarun"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/proof"
)

// The soak's own numbers.
const (
	soakInstances  = 3
	soakPartitions = 6
	soakRate       = 1000             // readings a second, if TIDEMARK_SOAK_RATE does not say otherwise
	soakWork       = 2 * time.Minute  // after a fault, until everything is at work again and the input is caught up with
	settled        = 10 * time.Minute // a shorter run is not judged for growth: heap and windows are still filling
)

// soakMinutes is TIDEMARK_SOAK_MINUTES; without it the soak is a short one beside the other tests.
func soakMinutes() (minutes float64, long bool) {
	minutes, err := strconv.ParseFloat(os.Getenv("TIDEMARK_SOAK_MINUTES"), 64)
	if err != nil || minutes <= 0 {
		return 0.5, false
	}
	return minutes, true
}

// soakSettings are the settings of the broker that a long soak has for itself: compaction runs all the time.
func soakSettings() []string {
	if _, long := soakMinutes(); !long {
		return nil
	}
	return []string{"log.cleaner.backoff.ms=2000"}
}

// soakBroker is the shared one for a long soak, which is the only test then; else one that may be harmed.
func soakBroker(t *testing.T, long bool) *kafkarun.Broker {
	if long {
		return broker
	}
	return kafkarun.Start(t)
}

// TestSoak lets three instances share a job, each with its own disk, and hurts them and the broker at random all the time
// while readings flow: SIGKILL, with checkpoints damaged, deleted, or the whole machine lost; SIGSTOP, shorter than a
// session and for so long that others take over; planned restarts; SIGKILL and SIGSTOP of the broker. After each fault
// everything must be at work again. The first instance is never killed: its memory, open files, goroutines and disk must
// stay flat. At the end state, results, late readings, dead letters and counters must be as the oracle says.
// make soak MINUTES=60 [SEED=..] [RATE=..]; a long run writes a report.
func TestSoak(t *testing.T) {
	minutes, long := soakMinutes()
	length := time.Duration(minutes * float64(time.Minute))
	seed, rate := randomSeed(t), soakRate
	if text := os.Getenv("TIDEMARK_SOAK_RATE"); text != "" {
		var err error
		if rate, err = strconv.Atoi(text); err != nil || rate < 1 {
			t.Fatalf("TIDEMARK_SOAK_RATE=%s: want a number of readings a second", text)
		}
	}
	t.Logf("seed %d, %v, %d readings/s", seed, length, rate)
	b := soakBroker(t, long)
	s := &soak{broker: b, rate: rate, random: rand.New(rand.NewPCG(seed, 7)), faults: map[string]int{}, recovered: map[string]int{}}
	s.crew = newCrewAt(t, b.Addr, soakInstances, 3*length+20*time.Minute, soakPartitions, nil)
	s.changelog()
	finish := s.flow(seed, rate)
	for _, job := range s.jobs {
		s.members = append(s.members, s.start(job))
	}
	s.atWork("the start")
	s.began = time.Now()
	stop := s.watch(s.members[0])
	for time.Since(s.began) < length {
		s.rest(2*time.Second, 10*time.Second)
		s.hurt()
	}
	s.atWork("the last fault")
	stop()
	for _, i := range s.members {
		s.gather(i)
		s.must(i.Stop())
	}
	s.lines, s.took = finish(), time.Since(s.began)
	s.judge()
	if long {
		s.write(seed)
	}
}

// soak is a crew in trouble for hours.
type soak struct {
	*crew
	broker  *kafkarun.Broker
	rate    int
	random  *rand.Rand
	members []*instance // by job; the first is never killed
	began   time.Time

	samples   samples
	faults    map[string]int
	recovered map[string]int // recoveries by where they began
	aside     int            // checkpoints set aside
	torn      int            // kills and pauses in the middle of a transaction
	back      []time.Duration
	lines     int
	took      time.Duration
	sight     *proof.Sight
}

// changelog makes the changelog with segments so short that the cleaner is at work all the time, and with tombstones that
// go after five minutes: a checkpoint older than that is of no use (R13).
func (s *soak) changelog() {
	admin, err := connect(s.t, s.broker.Addr).Admin()
	s.must(err)
	defer admin.Close()
	s.must(admin.Create(s.ctx, kafka.TopicSpec{Name: s.jobs[0].Changelog(), Partitions: s.partitions, Configs: map[string]string{
		"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime", "segment.ms": "30000", "min.cleanable.dirty.ratio": "0.01",
		"max.compaction.lag.ms": "60000", "delete.retention.ms": "300000", "unclean.leader.election.enable": "false"}}))
}

// rest lets everything run for a random time. No instance may end by itself.
func (s *soak) rest(least, most time.Duration) {
	timer := time.NewTimer(least + time.Duration(s.random.Int64N(int64(most-least)+1)))
	defer timer.Stop()
	<-timer.C
	s.alive()
}

func (s *soak) alive() {
	s.t.Helper()
	for _, i := range s.members {
		select {
		case <-i.Done():
			s.t.Fatalf("an instance of %s ended by itself: %v", i.job.Dir, i.Failure())
		default:
		}
	}
}

// hurt does one thing at random and waits until everything is at work again.
func (s *soak) hurt() {
	younger := 1 + s.random.IntN(len(s.members)-1)
	anyone := s.random.IntN(len(s.members))
	kinds := []struct {
		weight int
		name   string
		do     func()
	}{
		{22, "SIGKILL", func() { s.kill(younger, nil) }},
		{8, "SIGKILL, checkpoints deleted", func() { s.kill(younger, func(j *proof.Job) error { return os.RemoveAll(j.LocalState()) }) }},
		{6, "SIGKILL, machine lost", func() { s.kill(younger, func(j *proof.Job) error { return os.RemoveAll(j.StateDir()) }) }},
		{12, "SIGKILL, checkpoint damaged", func() { s.kill(younger, s.damage) }},
		{5, "SIGKILL, away for longer than a session", func() {
			s.kill(younger, func(*proof.Job) error { s.idle(session, 2*session); return nil })
		}},
		{4, "SIGKILL of all but the first", func() { s.killAll() }},
		{5, "SIGKILL in the start", func() { s.kill(younger, nil); s.idle(0, 2*time.Second); s.kill(younger, nil) }},
		{10, "planned restart", func() { s.restart(younger) }},
		{10, "SIGSTOP, shorter than a session", func() { s.pause(anyone, 100*time.Millisecond, session/2) }},
		{8, "SIGSTOP, others take over", func() { s.pause(anyone, 2*session, 3*session) }},
		{6, "broker SIGKILL", func() { s.brokerDies() }},
		{4, "broker SIGSTOP", func() { s.brokerHangs() }},
	}
	sum := 0
	for _, k := range kinds {
		sum += k.weight
	}
	at := s.random.IntN(sum)
	for _, k := range kinds {
		if at -= k.weight; at < 0 {
			s.faults[k.name]++
			began := time.Now()
			k.do()
			s.alive()
			s.atWork(k.name)
			s.t.Logf("%s %s: at work again after %s", time.Since(s.began).Round(time.Second), k.name, time.Since(began).Round(time.Millisecond))
			return
		}
	}
}

// idle waits without looking at anybody.
func (s *soak) idle(least, most time.Duration) {
	timer := time.NewTimer(least + time.Duration(s.random.Int64N(int64(most-least)+1)))
	defer timer.Stop()
	<-timer.C
}

// end kills an instance and notes what its log said.
func (s *soak) end(number int) *instance {
	i := s.members[number]
	s.torn += s.inTransaction(i)
	s.must(i.Kill())
	s.gather(i)
	return i
}

// inTransaction is 1 when the instance has a transaction open. It is paused for the look, and stays so.
func (s *soak) inTransaction(i *instance) int {
	s.must(i.Pause())
	live := i.stand().live
	if slices.ContainsFunc(s.open(), func(p int32) bool { return live[p] }) {
		return 1
	}
	return 0
}

// kill kills an instance, lets something happen to its directory, and starts it again.
func (s *soak) kill(number int, meanwhile func(*proof.Job) error) {
	dead := s.end(number)
	if meanwhile != nil {
		s.must(meanwhile(dead.job))
	}
	s.members[number] = s.start(dead.job)
}

// killAll leaves the first instance alone for a while.
func (s *soak) killAll() {
	var dead []*instance
	for number := 1; number < len(s.members); number++ {
		dead = append(dead, s.end(number))
	}
	s.idle(0, 2*session)
	for n, i := range dead {
		s.members[n+1] = s.start(i.job)
	}
}

func (s *soak) restart(number int) {
	i := s.members[number]
	s.must(i.Stop())
	s.gather(i)
	s.members[number] = s.start(i.job)
}

func (s *soak) pause(number int, least, most time.Duration) {
	i := s.members[number]
	s.torn += s.inTransaction(i)
	s.idle(least, most)
	s.must(i.Resume())
}

func (s *soak) brokerDies() {
	s.must(s.broker.Kill())
	s.idle(0, 5*time.Second)
	s.must(s.broker.Restart(s.ctx))
}

func (s *soak) brokerHangs() {
	s.must(s.broker.Signal(syscall.SIGSTOP))
	s.idle(500*time.Millisecond, 10*time.Second)
	s.must(s.broker.Signal(syscall.SIGCONT))
}

// damage flips a bit of a random checkpoint, cuts it, or zeroes a stretch of it. A directory may have none yet.
func (s *soak) damage(job *proof.Job) error {
	files, err := filepath.Glob(filepath.Join(job.LocalState(), "p*", "*.checkpoint"))
	if err != nil || len(files) == 0 {
		return err
	}
	path := files[s.random.IntN(len(files))]
	text, err := os.ReadFile(path)
	if err != nil || len(text) == 0 {
		return err
	}
	at := s.random.IntN(len(text))
	switch s.random.IntN(3) {
	case 0:
		text[at] ^= 1 << s.random.IntN(8)
	case 1:
		text = text[:at]
	default:
		clear(text[at:min(len(text), at+512)])
	}
	return os.WriteFile(path, text, 0o600)
}

// atWork waits until every partition is at work and the job has caught up with its input: the group's offsets are at
// most a few seconds of readings behind.
func (s *soak) atWork(after string) {
	s.t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(s.ctx, soakWork)
	defer cancel()
	s.whole(s.members...)
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	for {
		lag, err := s.jobs[0].Lag(ctx, s.reader)
		if err == nil && lag < int64(3*s.rate) {
			break
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			s.t.Fatalf("%v after %s the job is not at work: lag %d, %v", time.Since(began), after, lag, err)
		}
	}
	s.whole(s.members...)
	s.alive()
	s.back = append(s.back, time.Since(began))
}

// gather counts the recoveries that an instance has logged.
func (s *soak) gather(i *instance) {
	for _, l := range i.log() {
		if l.Report != nil {
			s.recovered[l.Report.From]++
			s.aside += len(l.Report.Aside)
		}
	}
}

// judge compares everything with the oracle, from each state directory, and the first and the last part of the samples.
func (s *soak) judge() {
	for n, job := range s.jobs[1:] {
		s.must(job.RunUntilIdle(s.ctx, fmt.Sprintf("until-idle-%d", n)))
	}
	s.sight = s.prove(s.jobs[0])
	verify := exec.CommandContext(s.ctx, s.jobs[0].Binary, "changelog", "verify", "-c", s.jobs[0].Config())
	verify.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TIDEMARK_") })
	if said, err := verify.CombinedOutput(); err != nil {
		s.t.Errorf("changelog verify: %v\n%s", err, said)
	}
	if s.took >= settled {
		for _, grown := range s.samples.grown() {
			s.t.Error("the instance that was never killed does not stay flat: ", grown)
		}
	}
	if len(s.sight.Results) == 0 || len(s.sight.Late) == 0 || len(s.sight.Dead) == 0 {
		s.t.Error("the run proves little: no results, no late readings or no dead letters")
	}
	if _, long := soakMinutes(); long && (s.torn == 0 || s.recovered["checkpoint"] == 0 || s.recovered["full replay"] == 0) {
		s.t.Errorf("not every fault has hit: %d in open transactions, recoveries %v", s.torn, s.recovered)
	}
	s.t.Log(s.summary())
}
