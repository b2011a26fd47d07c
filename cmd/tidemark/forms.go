package main

import (
	"github.com/tidemark-streams/tidemark/internal/record"
)

// The forms in which commit and fence records are shown as JSON: every field, ids as hexadecimal digits.

type commitForm struct {
	Number       uint64               `json:"number"`
	Birth        string               `json:"birth"`
	Fence        string               `json:"fence"` // of its writer
	Mark         string               `json:"mark,omitempty"`
	Note         string               `json:"note,omitempty"`
	Position     record.InputPosition `json:"input_position"`
	Epoch        int32                `json:"input_epoch"`
	AnchorOffset int64                `json:"anchor_offset"`
	AnchorHash   string               `json:"anchor_hash"`
	StreamTime   *int64               `json:"stream_time"` // null before the first reading
	SetterKey    string               `json:"setter_key"`
	SetterOffset int64                `json:"setter_offset"`
	Counters     countersForm         `json:"counters"`
	Aggregations []aggregationForm    `json:"aggregations"`
	Digest       string               `json:"digest"`
	Live         record.Count         `json:"live"`
	Records      record.Count         `json:"records"`
	MinRetention int64                `json:"min_retention_ms"`
	SourceHash   string               `json:"source_hash"`
	OutputHash   string               `json:"output_hash"`
	TZData       string               `json:"tz_data"`
}

type countersForm struct {
	In           record.Count `json:"in"`
	Accepted     record.Count `json:"accepted"`
	DeadLettered record.Count `json:"dead_lettered"`
	Filtered     record.Count `json:"filtered"`
	Skipped      record.Count `json:"skipped"`
	Repeated     record.Count `json:"repeated"`
	Ahead        record.Count `json:"ahead"`
	Untimed      record.Count `json:"untimed"`
	Duplicates   record.Count `json:"duplicates"`

	RefusedPeriod record.Count `json:"refused_period"`
	RefusedInIt   record.Count `json:"refused_in_period"`

	Inexact record.Count `json:"-"` // not in the record
}

type aggregationForm struct {
	Name        string       `json:"name"`
	Fingerprint string       `json:"fingerprint"`
	ClosedEnd   *int64       `json:"closed_end"` // null before the first reading
	Since       record.Count `json:"since"`
	Folded      record.Count `json:"folded"`
	PartlyLate  record.Count `json:"partly_late"`
	Late        record.Count `json:"late"`
	Missed      record.Count `json:"missed"`
	Results     record.Count `json:"results"`
}

type fenceForm struct {
	ID            string       `json:"id"`
	Birth         string       `json:"birth"`
	Job           string       `json:"job"`
	Partition     int32        `json:"partition"`
	Host          string       `json:"host"`
	PID           int64        `json:"pid"`
	Version       string       `json:"version"`
	ProducerID    int64        `json:"producer_id"`
	ProducerEpoch int16        `json:"producer_epoch"`
	Cluster       string       `json:"cluster"`
	Input         topicForm    `json:"input"`
	Changelog     topicForm    `json:"changelog"`
	Outputs       []*topicForm `json:"outputs"`
}

type topicForm struct {
	Name       string `json:"name"`
	ID         string `json:"id"`
	Partitions int32  `json:"partitions"`
}

func showCommit(c *record.Commit) *commitForm {
	f := &commitForm{
		Number: c.Number, Birth: c.Birth.String(), Fence: c.Fence.String(), Note: c.Note, Position: c.Position, Epoch: c.Epoch,
		AnchorOffset: c.Anchor.Offset, AnchorHash: c.Anchor.Hash.String(), StreamTime: showTime(c.StreamTime),
		SetterKey: string(c.SetterKey), SetterOffset: c.SetterOffset, Digest: c.Digest.String(), Live: c.Live, Records: c.Records,
		MinRetention: c.MinRetention, SourceHash: showHash(c.SourceHash), OutputHash: showHash(c.OutputHash), TZData: c.TZData,
		Aggregations: []aggregationForm{},
	}
	if c.Mark != record.MarkNone {
		f.Mark = c.Mark.String()
	}
	f.Counters = countersForm(c.Counters)
	for i := range c.Aggregations {
		a := &c.Aggregations[i]
		f.Aggregations = append(f.Aggregations, aggregationForm{Name: a.Name, Fingerprint: showHash(a.Fingerprint), ClosedEnd: showTime(a.ClosedEnd),
			Since: a.Since, Folded: a.Folded, PartlyLate: a.PartlyLate, Late: a.Late, Missed: a.Missed, Results: a.Results})
	}
	return f
}

func showFence(r *record.Fence) *fenceForm {
	f := &fenceForm{
		ID: r.ID.String(), Birth: r.Birth.String(), Job: r.Job, Partition: r.Partition, Host: r.Host, PID: r.PID, Version: r.Version,
		ProducerID: r.ProducerID, ProducerEpoch: r.ProducerEpoch, Cluster: r.Identity.ClusterID, Input: *showTopic(r.Identity.Input),
		Changelog: *showTopic(r.Identity.Changelog), Outputs: []*topicForm{},
	}
	for _, t := range r.Identity.Outputs {
		f.Outputs = append(f.Outputs, showTopic(t))
	}
	return f
}

func showTopic(t record.Topic) *topicForm { return &topicForm{t.Name, t.ID.String(), t.Partitions} }

// showTime is a time in ms, or null for none.
func showTime(ms int64) *int64 {
	if ms == record.NoTime {
		return nil
	}
	return &ms
}

// showHash is a 64-bit hash as ids are written.
func showHash(h uint64) string { return record.FenceID(h).String() }
