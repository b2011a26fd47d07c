package job

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidemark-streams/tidemark/aggregate"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/task"
	"github.com/tidemark-streams/tidemark/reading"
	"github.com/tidemark-streams/tidemark/window"
)

// Config is a job: how records are read, how they must be partitioned, and what is computed of them.
type Config struct {
	Input         string         // topic, for the headers of late readings and dead letters
	Format        reading.Format // key, values, time and its guards
	PartitionedBy []string       // the key fields that make the record key, in order; nil stands for all of them (R3)
	Partitioner   Partitioner
	Aggregations  []Aggregation // none of a Relay
	Quorum        int           // how many devices must have reached a time before stream time does (R11); 0 and 1: any reading does
	MaxLag        int64         // ms; not 0: each key has a stream time of its own, so far behind the task's at most (R35)
	Dedup         Dedup
	MaxBad        MaxBad
	Part          Part
	HandOn        []string // of a Relay: the key fields that readings are handed on under; nil stands for all
	Quiet         bool     // of a Relay: what it refuses is counted only, for another one of the same input publishes it
}

// Aggregation is one table of windows.
type Aggregation struct {
	Name      string
	Window    window.Kind
	Grace     int64 // ms
	Updates   bool  // each commit tells how the windows that it changed stand
	Current   bool  // the results of a key are its current value: see Update
	Functions aggregate.Functions
	Percents  aggregate.Percents // which quantiles, with aggregate.Quantiles
}

// Limits are the largest key plus value plus headers, in bytes, that each topic takes.
type Limits struct {
	Changelog  record.Bytes
	Result     record.Bytes
	Late       record.Bytes
	DeadLetter record.Bytes
}

// Processor makes the Processor of one input partition: New, in the form in which the engine asks for it.
func (c Config) Processor(partition, partitions int32, limits Limits) (task.Processor, error) {
	return New(c, partition, partitions, limits)
}

// Check returns all faults of the configuration, joined, or nil.
func (c *Config) Check() error {
	faults := []error{c.Format.Check(), c.checkPartitioning(), c.checkDedup(), c.checkMaxLag(), c.MaxBad.check()}
	if c.Quorum < 0 || c.Quorum > record.MaxQuorum {
		faults = append(faults, fmt.Errorf("quorum of %d devices: want 0 to %d", c.Quorum, record.MaxQuorum))
	}
	if (len(c.Aggregations) == 0) != (c.Part == Relay) {
		faults = append(faults, fmt.Errorf("aggregations: %d", len(c.Aggregations)))
	}
	for i := range c.Aggregations {
		a := &c.Aggregations[i]
		if slices.ContainsFunc(c.Aggregations[:i], func(b Aggregation) bool { return b.Name == a.Name }) {
			faults = append(faults, fmt.Errorf("aggregation %q is there twice", a.Name))
		}
		if err := a.check(); err != nil {
			faults = append(faults, fmt.Errorf("aggregation %q: %w", a.Name, err))
		}
	}
	return errors.Join(append(faults, c.CheckReach())...)
}

func (a *Aggregation) check() error {
	var faults []error
	if a.Name == MemoryName {
		faults = append(faults, errors.New("the name is that of what dedup remembers"))
	}
	if a.Name == "" || len(a.Name) > record.MaxName || !utf8.ValidString(a.Name) {
		faults = append(faults, fmt.Errorf("name of %d bytes, want 1 to %d bytes of text", len(a.Name), record.MaxName))
	}
	if a.Window == nil {
		faults = append(faults, errors.New("window: none"))
	} else if err := a.Window.Check(); err != nil {
		faults = append(faults, fmt.Errorf("window: %w", err))
	}
	if a.Grace < window.Graces.Min || a.Grace > window.Graces.Max {
		faults = append(faults, fmt.Errorf("grace %s: want %s", window.Format(a.Grace), window.Graces))
	}
	if a.Functions == 0 || a.Functions&^aggregate.All != 0 {
		faults = append(faults, fmt.Errorf("functions %q: want one or more of %s", a.Functions, strings.Join(aggregate.Words(), ", ")))
	}
	if (a.Functions&aggregate.Quantiles != 0) != (a.Percents != 0) || a.Percents&^aggregate.AllPercents != 0 {
		faults = append(faults, fmt.Errorf("functions %q with the percentiles %v", a.Functions, a.Percents.List()))
	}
	return errors.Join(faults...)
}

func (c *Config) checkPartitioning() error {
	var faults []error
	if c.PartitionedBy != nil && len(c.PartitionedBy) == 0 {
		faults = append(faults, errors.New("partitioned_by: no field"))
	}
	for i, name := range c.PartitionedBy {
		switch {
		case !slices.Contains(c.Format.Key, name):
			faults = append(faults, fmt.Errorf("partitioned_by: %q is no key field (%s), and readings of one key would lie in several partitions",
				name, strings.Join(c.Format.Key, ", ")))
		case slices.Contains(c.PartitionedBy[:i], name):
			faults = append(faults, fmt.Errorf("partitioned_by: %q is there twice", name))
		}
	}
	if _, err := c.Format.Determined(c.recordKey()); err != nil && c.Partitioner != Unchecked && c.Part == Whole {
		faults = append(faults, fmt.Errorf("partitioned_by: %w", err))
	}
	for _, name := range c.HandOn {
		if !slices.Contains(c.Format.Key, name) {
			faults = append(faults, fmt.Errorf("hand on: %q is no key field (%s)", name, strings.Join(c.Format.Key, ", ")))
		}
	}
	if c.Partitioner > Unchecked {
		faults = append(faults, fmt.Errorf("partitioner %d is unknown", c.Partitioner))
	}
	return errors.Join(faults...)
}

// recordKey are the names of the key fields that make the record key.
func (c *Config) recordKey() []string {
	if c.PartitionedBy == nil {
		return c.Format.RecordKey()
	}
	return c.PartitionedBy
}

// partitionedBy are the indexes of the key fields that make the record key; determined tells that they come from the
// record key itself, so that there is nothing to be compared.
func (c *Config) partitionedBy() (indexes []int, determined bool) {
	if c.Part == Relayed {
		indexes = make([]int, len(relayedFormat(&c.Format).Key))
		for i := range indexes {
			indexes[i] = i
		}
		return indexes, false
	}
	names := c.recordKey()
	indexes = make([]int, len(names))
	for i, name := range names {
		indexes[i] = slices.Index(c.Format.Key, name)
	}
	determined, _ = c.Format.Determined(names)
	return indexes, determined
}

// Definition is everything that gives the entries of the i-th aggregation their meaning, as one line of text: the
// format of the entry, how bytes become readings, window, functions. What
// may change while entries live is not in it: topics, grace, guards, partitioning (R32).
func (c *Config) Definition(i int) string {
	a := &c.Aggregations[i]
	definition := fmt.Sprintf("entry=%d %s window=%s functions=%s", entryFormat, c.Format.Meaning(), a.Window,
		strings.Join(aggregate.Names(a.Functions, a.Percents), ","))
	if c.MaxLag > 0 {
		definition += " scope=key" // the clocks of keys are a part of the state; how far behind they may be is not
	}
	return definition
}

// Fingerprint is the hash of the i-th aggregation's Definition.
func (c *Config) Fingerprint(i int) uint64 { return record.Hash([]byte(c.Definition(i))) }

// aggregations are the names and fingerprints of all aggregations, the memory of dedup behind them.
func (c *Config) aggregations() []task.Aggregation {
	list := make([]task.Aggregation, len(c.Aggregations))
	for i := range list {
		_, sessions := c.Aggregations[i].Window.(window.Session)
		a := &c.Aggregations[i]
		list[i] = task.Aggregation{Name: a.Name, Fingerprint: c.Fingerprint(i), Ordered: sessions || a.Updates && a.Current || c.MaxLag > 0,
			Keyed: c.MaxLag > 0, Updates: a.Updates}
	}
	if newMemory(c) != nil {
		list = append(list, task.Aggregation{Name: MemoryName, Fingerprint: record.Hash([]byte(c.memoryDefinition())), Silent: true})
	}
	return list
}
