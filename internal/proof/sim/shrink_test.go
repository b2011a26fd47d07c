package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
)

// shrinkTries is how often a scenario must pass before it is taken for one that does not fail: the order of goroutines is
// not part of it.
const shrinkTries = 8

// failing plays a scenario up to so many times and returns the first failure.
func failing(t *testing.T, s *scenario, p *plant, tries int) error {
	for range tries {
		if _, err := play(t, s, p); err != nil {
			return err
		}
	}
	return nil
}

// shrink leaves out what a failing scenario does not need to fail, one part after the other, until nothing more can go.
func shrink(t *testing.T, s *scenario, p *plant) (smallest *scenario, failure error) {
	smallest = s
	for n := 0; ; {
		candidates := smallest.smaller()
		if n >= len(candidates) {
			return smallest, failure
		}
		if err := failing(t, candidates[n], p, shrinkTries); err != nil {
			smallest, failure, n = candidates[n], err, 0
			continue
		}
		n++
	}
}

// smaller are the scenarios with one part less: a hurt, a fault, an event, a wave, an aggregation, an instance, a
// partition, or all but the simplest of the first aggregation.
func (s *scenario) smaller() (all []*scenario) {
	add := func(change func(c *scenario)) {
		c := s.clone()
		change(c)
		all = append(all, c)
	}
	if last := s.Instances - 1; last > 0 {
		add(func(c *scenario) {
			c.Instances, c.Hurts = last, c.Hurts[:last]
			c.Disks = slices.DeleteFunc(c.Disks, func(d disk) bool { return d.Instance == last })
		})
	}
	for i := range s.Hurts {
		for n := range s.Hurts[i] {
			add(func(c *scenario) { c.Hurts[i] = slices.Delete(c.Hurts[i], n, n+1) })
		}
	}
	for n := range s.Requests {
		add(func(c *scenario) { c.Requests = slices.Delete(c.Requests, n, n+1) })
	}
	for n := range s.Disks {
		add(func(c *scenario) { c.Disks = slices.Delete(c.Disks, n, n+1) })
	}
	for n := range s.Events {
		add(func(c *scenario) { c.Events = slices.Delete(c.Events, n, n+1) })
	}
	for n := range s.Waves {
		add(func(c *scenario) { c.Waves = slices.Delete(c.Waves, n, n+1) })
	}
	if s.Narrow > 0 {
		add(func(c *scenario) { c.Narrow = 0 })
	}
	if s.MaxLag > 0 {
		add(func(c *scenario) { c.MaxLag = 0 })
	}
	if s.Dedup > 0 {
		add(func(c *scenario) { c.Dedup = 0 })
	}
	if s.Quorum > 0 {
		add(func(c *scenario) { c.Quorum = 0 })
	}
	if s.Between > 0 {
		add(func(c *scenario) { c.Between-- })
	}
	if s.Partitions > 1 {
		add(func(c *scenario) { c.Partitions-- })
	}
	for n := range s.Aggregations {
		if len(s.Aggregations) > 1 {
			add(func(c *scenario) { c.Aggregations = slices.Delete(c.Aggregations, n, n+1) })
		}
		if s.Aggregations[n].Updates {
			add(func(c *scenario) { c.Aggregations[n].Updates, c.Aggregations[n].Current = false, false })
		}
		if a := s.Aggregations[n]; a.Step != 0 || a.Offset != 0 || len(a.Functions) > 1 {
			add(func(c *scenario) {
				c.Aggregations[n].Step, c.Aggregations[n].Offset, c.Aggregations[n].Functions = 0, 0, functionNames[:1]
			})
		}
	}
	return all
}

func (s *scenario) clone() *scenario {
	c, err := parse([]byte(s.String()))
	if err != nil {
		panic(err)
	}
	return c
}

// parse reads a scenario that was kept.
func parse(text []byte) (*scenario, error) {
	s := new(scenario)
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("scenario %.80q: %w", text, err)
	}
	return s, nil
}
