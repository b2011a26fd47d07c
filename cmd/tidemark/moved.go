package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-streams/tidemark/internal/config"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/preflight"
	"github.com/tidemark-streams/tidemark/internal/recovery"
)

// movedAggregations finds aggregations whose state is that of another key than the configuration gives them. Each key has
// a changelog of its own, so the fingerprint, which refuses every other change of what state means (D11), never meets the
// old state: under its old name the aggregation would begin anew without a word, and, where its old key is in use still,
// the old windows would be removed without a result. Only input.rekey makes several keys possible.
func (e *env) movedAggregations(ctx context.Context, c *connection, admin kafka.Admin) (found []preflight.Finding, err error) {
	if !c.job.Input.Rekey.On {
		return nil, nil
	}
	keyed := c.job.Keyed()
	names := make([]string, len(keyed))
	for i := range keyed {
		names[i] = keyed[i].Changelog
	}
	topics, err := admin.Topics(ctx, names...)
	if err != nil {
		return nil, err
	}
	for i := range keyed {
		topic, ok := topics[keyed[i].Changelog]
		if !ok {
			continue
		}
		known, err := c.aggregationsOf(ctx, topic)
		if err != nil {
			return nil, err
		}
		found = append(found, moved(c.job, &keyed[i], known)...)
	}
	return found, nil
}

// moved are the aggregations that are known under one key and configured with another.
func moved(defined *config.Job, have *config.Keyed, known []string) (found []preflight.Finding) {
	for i := range defined.Aggregations {
		a := &defined.Aggregations[i]
		key := defined.KeyOf(a)
		if slices.Equal(key, have.Key) || !slices.Contains(known, a.Name) {
			continue
		}
		found = append(found, preflight.Finding{Fault: true, Topic: have.Changelog,
			What: fmt.Sprintf("aggregation %s has the key [%s], and its state in changelog %s is that of the key [%s]: under its old name it would begin anew",
				a.Name, strings.Join(key, ", "), have.Changelog, strings.Join(have.Key, ", ")),
			Repair: fmt.Sprintf("give it a new name and output, or its old key back; to let its old windows go, run the job without it until each partition has had input, "+
				"or delete topic %s when no aggregation has that key any more", have.Changelog)})
	}
	return found
}

// aggregationsOf are the aggregations that have had readings, by the last commits of all tasks. One that a task was born
// with and never fed has no state, and a task without input does not take down that it is gone.
func (c *connection) aggregationsOf(ctx context.Context, changelog kafka.TopicInfo) (names []string, err error) {
	for partition := range changelog.Partitions {
		log, err := c.Log(changelog.Name, partition)
		if err != nil {
			return nil, err
		}
		commit, err := recovery.Last(ctx, log, changelog.Name, partition)
		log.Close()
		if err != nil {
			return nil, err
		}
		if commit == nil {
			continue
		}
		for i := range commit.Aggregations {
			if a := &commit.Aggregations[i]; a.Folded+a.PartlyLate+a.Late > 0 && !slices.Contains(names, a.Name) {
				names = append(names, a.Name)
			}
		}
	}
	return names, nil
}

// refuseMoved refuses to run a job with such aggregations.
func (e *env) refuseMoved(ctx context.Context, c *connection) error {
	if !c.job.Input.Rekey.On {
		return nil
	}
	admin, err := c.reach(ctx, e)
	if err != nil {
		return err
	}
	defer admin.Close()
	found, err := e.movedAggregations(ctx, c, admin)
	if err != nil || len(found) == 0 {
		return err
	}
	lines := make([]string, len(found))
	for i, f := range found {
		lines[i] = f.What + ": " + f.Repair
	}
	return fmt.Errorf("%s", strings.Join(lines, "\n"))
}
