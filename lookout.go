package tidemark

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/recovery"
)

// ErrInputGrown is returned by Run when partitions were added to the input of a Relay: a new App goes on with all of them.
var ErrInputGrown = errors.New("partitions were added to the input")

// How often a running job looks at what it stands on, and how soon again when something is wrong: a broker that has
// just started may not have heard of the newest topics yet, so a fault counts when it is seen twice in a row.
const (
	lookoutEvery = 5 * time.Second
	lookoutAgain = time.Second
)

// lookout looks at cluster, topics and their settings while the job runs. Its rule: what a start refuses, a running job
// stops for, within 10 s (S10, S61, S62, D17). Everything else that has changed is told, and what can be taken up is: a
// new output (R33), a shorter delete.retention.ms (R13).
type lookout struct {
	app  *App
	soon chan struct{} // asks for a look now
	lost chan error    // the fault that ends the job
	end  context.CancelFunc
	done chan struct{}

	turn   chan struct{} // holds a token while somebody looks; what follows belongs to him
	last   map[string]kafka.TopicInfo
	gone   map[string]bool // outputs that are not there
	at     time.Duration   // when the last look began ...
	failed error           // ... and why nothing was seen
}

func (a *App) startLookout() *lookout {
	ctx, end := context.WithCancel(context.Background())
	l := &lookout{app: a, soon: make(chan struct{}, 1), lost: make(chan error, 1), end: end, done: make(chan struct{}),
		turn: make(chan struct{}, 1), last: a.topics().found, gone: map[string]bool{}, at: a.topics().asked}
	go l.run(ctx)
	return l
}

func (l *lookout) stop() {
	l.end()
	<-l.done
}

// hurry makes the next look come at once.
func (l *lookout) hurry() {
	select {
	case l.soon <- struct{}{}:
	default:
	}
}

func (l *lookout) run(ctx context.Context) {
	defer close(l.done)
	for {
		timer := time.NewTimer(lookoutEvery)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-l.soon:
			timer.Stop()
		case <-timer.C:
		}
		if err := l.check(ctx, now()); err != nil && kafka.ClassOf(err) != kafka.ClassTransient {
			l.lost <- err
			return
		}
	}
}

// check looks, unless somebody has since the given time, twice if something is wrong, and returns the fault that the job must stop for. A broker that does not
// answer is a transient error: nothing is known then, and those who wait for it say so.
func (l *lookout) check(ctx context.Context, since time.Duration) error {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if l.at > since {
		return l.failed
	}
	for again := false; ; again = true {
		fault, err := l.look(ctx)
		l.at, l.failed = now(), nil
		if kafka.ClassOf(err) == kafka.ClassPermanent {
			fault, err = err, nil // rights that are gone: no look will see anything, and a start would refuse the same
		}
		switch {
		case err != nil:
			l.failed = &kafka.Error{Class: kafka.ClassTransient, Op: "look at the topics", Offset: -1, Err: err}
			return l.failed
		case fault == nil:
			return nil
		case again:
			return fault
		}
		if !wait(ctx, lookoutAgain) {
			return ctx.Err()
		}
	}
}

// look compares what is there with what the job stands on.
func (l *lookout) look(ctx context.Context) (fault, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, session, fmt.Errorf("no answer within %s", session))
	defer cancel()
	a := l.app
	cluster, _, err := a.admin.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	found, err := a.admin.Topics(ctx, a.topicNames()...)
	if err != nil {
		return nil, err
	}
	if fault := l.identity(cluster, found); fault != nil {
		return fault, nil
	}
	if was, is := a.topics().identity.Input, found[a.options.Input]; a.options.Relay != nil && is.Partitions > was.Partitions {
		return &kafka.Error{Class: kafka.ClassLost, Op: "look at the topics", Topic: was.Name, Partition: -1, Offset: -1,
			Err: fmt.Errorf("%w: it had %d, it has %d", ErrInputGrown, was.Partitions, is.Partitions)}, nil
	}
	if fault := refuse(a.checkChangelog(found)); fault != nil {
		return fault, nil
	}
	l.settings(found)
	l.outputs(found)
	l.takeUp(cluster, found)
	return nil, nil
}

// identity is the fault of a job whose cluster, input or changelog is not what its state belongs to any more.
func (l *lookout) identity(cluster string, found map[string]kafka.TopicInfo) error {
	was := &l.app.topics().identity
	for _, t := range []record.Topic{was.Input, was.Changelog} {
		if _, ok := found[t.Name]; !ok {
			return l.fault(t.Name, fmt.Sprintf("topic %s, id %v, of %d partitions, does not exist any more", t.Name, t.ID, t.Partitions))
		}
	}
	is := record.Identity{ClusterID: cluster, Input: found[was.Input.Name].Topic, Changelog: found[was.Changelog.Name].Topic, Growing: was.Growing}
	diff := recovery.Differences(was, &is)
	if diff == "" {
		return nil
	}
	name := was.Input.Name
	if !was.Changelog.ID.Equal(is.Changelog.ID) || was.Changelog.Partitions != is.Changelog.Partitions {
		name = was.Changelog.Name
	}
	return l.fault(name, diff)
}

func (l *lookout) fault(topic, what string) error {
	return &kafka.Error{Class: kafka.ClassLost, Op: "look at the topics", Topic: topic, Partition: -1, Offset: -1,
		Err:  fmt.Errorf("the state belongs to something else: %s", what),
		Hint: recovery.OtherSourceHint}
}

// settings tells what has changed in the settings of the topics.
func (l *lookout) settings(found map[string]kafka.TopicInfo) {
	for _, name := range slices.Sorted(maps.Keys(found)) {
		was, is := l.last[name].Configs, found[name].Configs
		if was == nil {
			continue // it was not there
		}
		var changes []string
		for _, key := range slices.Sorted(maps.Keys(is)) {
			if was[key] != is[key] {
				changes = append(changes, fmt.Sprintf("%s was %q, is %q", key, was[key], is[key]))
			}
		}
		if len(changes) > 0 {
			l.app.log.Warn("settings of a topic have changed", "topic", name, "what", strings.Join(changes, "; "))
		}
	}
	l.last = found
}

// outputs tells what has become of the outputs: loud, but no stop (section 4).
func (l *lookout) outputs(found map[string]kafka.TopicInfo) {
	for _, was := range l.app.topics().identity.Outputs {
		is, ok := found[was.Name]
		switch {
		case !ok && !l.gone[was.Name]:
			l.app.log.Warn("AN OUTPUT TOPIC IS GONE: commits that write to it wait until it is made again", "topic", was.Name, "id", was.ID.String())
		case ok && !was.ID.Equal(is.ID):
			l.app.log.Warn("AN OUTPUT TOPIC WAS MADE AGAIN: what was published is gone with the old one, and is not published again",
				"topic", was.Name, "was", was.ID.String(), "is", is.ID.String())
		case ok && was.Partitions != is.Partitions:
			l.app.log.Warn("THE NUMBER OF PARTITIONS OF AN OUTPUT TOPIC HAS CHANGED: from its next recovery on a task writes to its own number modulo the new one",
				"topic", was.Name, "was", was.Partitions, "is", is.Partitions)
		}
		l.gone[was.Name] = !ok
	}
}

// takeUp makes what was found the topics that the next recovery of a task goes by. An output that is gone keeps what is
// known of it: writing to it must fail, not be left out.
func (l *lookout) takeUp(cluster string, found map[string]kafka.TopicInfo) {
	a := l.app
	was, is := a.topics(), a.describeTopics(cluster, found)
	for i, t := range is.identity.Outputs {
		if !t.ID.Known() {
			is.identity.Outputs[i] = was.identity.Outputs[i]
		}
	}
	if is.retention <= 0 {
		is.retention = was.retention
	}
	a.known.Store(is)
	if is.retention < was.retention {
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, r := range a.runners {
			r.wake()
		}
	}
}

// isOutput tells whether an error is about a topic that is written, and no more than that: it may be made again without
// harm to the state.
func (a *App) isOutput(topic string) bool {
	return topic != a.options.Input && topic != a.options.Changelog.Topic && slices.Contains(a.outputNames(), topic)
}
