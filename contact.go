package tidemark

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/status"
)

// firstContact is how long Run waits for the first answer of brokers. Until there is one nothing has begun.
const firstContact = 30 * time.Second

// prepare waits for a broker and for the input topic. Brokers that stay away end the wait; a missing topic is waited for as
// long as it takes, unless UntilIdle (S82). The topics are known when it returns nil, unless ctx has ended.
func (a *App) prepare(ctx context.Context) error {
	first := a.contact()
	for {
		t, err := a.prepareTopics(ctx, a.admin)
		if err == nil {
			a.known.Store(t)
			return nil
		}
		if again, err := first.again(ctx, err); !again {
			return err
		}
	}
}

// contact is a wait for brokers that have not answered yet, or for the input topic.
type contact struct {
	app           *App
	started, told time.Time
	pause         time.Duration
	answered      bool   // the brokers have answered: they know us
	like          string // the topic that was perhaps meant by a missing one, "" for none
	listed        time.Time
}

func (a *App) contact() *contact { return &contact{app: a, started: time.Now(), pause: firstBackoff} }

// again waits a while after err, and tells whether to try again. If not, it returns what ends the start; nil when ctx has
// ended. What is waited for is shown, and told in the log at once and then now and then (I12, D13).
func (c *contact) again(ctx context.Context, err error) (again bool, failure error) {
	var missing *missingInput
	switch {
	case ctx.Err() != nil:
		return false, nil
	case errors.As(err, &missing):
		missing.like = c.meant(ctx, missing.topic)
		if c.app.options.UntilIdle {
			return false, &kafka.Error{Class: kafka.ClassPermanent, Op: "start", Offset: -1, Err: err}
		}
		what, args := "topic "+missing.topic+" to be made", []any{"topic", missing.topic}
		if !c.app.options.Topics.InputLater { // else it is named by nobody, and made by another part of the job
			what += missing.advice()
			args = append(args, "repair", missing.repair())
		}
		if missing.like != "" {
			args = append(args, "did_you_mean", missing.like)
		}
		c.app.await(status.ForInputTopic, what)
		c.tell("waiting for the input topic", args...)
		c.started, c.answered = time.Now(), true
	case kafka.ClassOf(err) != kafka.ClassTransient || kafka.TurnedAway(err) && !c.answered:
		return false, err
	case time.Since(c.started) > firstContact:
		return false, fmt.Errorf("%w within %s: %w", ErrUnreachable, firstContact, err)
	default:
		c.app.await(status.ForBroker, "the brokers: "+err.Error())
		c.tell("waiting for the brokers", "at_most_seconds", firstContact.Seconds(), "error", err)
	}
	again = wait(ctx, c.pause)
	c.pause = min(2*c.pause, 2*time.Second)
	return again, nil
}

// meant looks now and then for a topic whose name is like that of the missing one (D21). That there is none, or that it
// cannot be found out, is no matter: it is a hint.
func (c *contact) meant(ctx context.Context, topic string) string {
	if c.app.options.Topics.InputLater || !c.listed.IsZero() && time.Since(c.listed) < tellEvery {
		return c.like
	}
	c.listed = time.Now()
	if like, err := c.app.meant(ctx, c.app.admin, topic); err == nil {
		c.like = like
	}
	return c.like
}

func (c *contact) tell(message string, args ...any) {
	if now := time.Now(); c.told.IsZero() || now.Sub(c.told) >= tellEvery {
		c.told = now
		c.app.log.Warn(message, args...)
	}
}
