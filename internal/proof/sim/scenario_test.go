package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// scenario is one simulated story. All of it is drawn from the seed; a shrunk one has lost parts and is kept as JSON.
type scenario struct {
	Seed         uint64        `json:"seed"`
	Partitions   int32         `json:"partitions"`
	Instances    int           `json:"instances"`
	Aggregations []aggregation `json:"aggregations"`
	MaxRecords   int           `json:"max_records"`
	MaxBytes     int           `json:"max_bytes"`
	Interval     int64         `json:"interval_ms"`
	Checkpoint   int64         `json:"checkpoint_ms"`
	Narrow       int64         `json:"narrow_ms,omitempty"` // how long the little takes that a fetch of the changelog then brings; 0: all at once
	MaxLag       int64         `json:"max_lag,omitempty"`   // ms; not 0: keys have times of their own, and some lag behind
	Quorum       int           `json:"quorum,omitempty"`    // devices that make stream time
	Dedup        int64         `json:"dedup_ms,omitempty"`  // and readings come twice
	Between      int32         `json:"between,omitempty"`   // partitions of the topic between the parts, 0 without a relay (R3)
	Waves        []wave        `json:"waves"`
	Hurts        [][]hurt      `json:"hurts"` // of each instance, one after the other
	Requests     []request     `json:"requests,omitempty"`
	Disks        []disk        `json:"disks,omitempty"`
	Events       []event       `json:"events,omitempty"`
}

// aggregation is one kind of window; step 0 is tumbling.
type aggregation struct {
	Name      string   `json:"name"`
	Size      int64    `json:"size"`
	Step      int64    `json:"step,omitempty"`
	Offset    int64    `json:"offset,omitempty"`
	Gap       int64    `json:"gap,omitempty"`     // not 0: sessions
	Unit      string   `json:"unit,omitempty"`    // not "": days, weeks or months of zone
	Zone      string   `json:"zone,omitempty"`    //
	Updates   bool     `json:"updates,omitempty"` // results that are not final are published too
	Current   bool     `json:"current,omitempty"` // and the last one of a key is its newest
	Grace     int64    `json:"grace"`
	Functions []string `json:"functions"`
}

// wave is a portion of readings that comes at once.
type wave struct {
	At   int64  `json:"at_ms"`
	N    int    `json:"n"`
	Seed uint64 `json:"seed"`
}

// hurt is something that happens to an instance: at a point, or at the latest some time after the one before it.
type hurt struct {
	Kind   string `json:"kind"` // crash, power, pause, stop
	Op     string `json:"op,omitempty"`
	N      int    `json:"n,omitempty"`    // the n-th since the start of this life, or since the hurt before
	Done   bool   `json:"done,omitempty"` // after the effect, not before it
	Within int64  `json:"within_ms"`
	Down   int64  `json:"down_ms"`          // until it is started again, or wakes
	Wipe   string `json:"wipe,omitempty"`   // checkpoints or directory: lost meanwhile
	Damage uint64 `json:"damage,omitempty"` // seed of what happens to a checkpoint file meanwhile
}

// request is a fault in the n-th request of a kind, whoever sends it.
type request struct {
	Op   string `json:"op"`
	N    int    `json:"n"`
	How  string `json:"how"` // fail, lost, part, hang, fenced
	Part int    `json:"part,omitempty"`
}

// disk is a fault of an instance's disk: of its n-th operation of a kind.
type disk struct {
	Instance int    `json:"instance"`
	Op       string `json:"op"`
	N        int    `json:"n"`
	How      string `json:"how"` // eio, enospc, short, slow, lost (of sync: the data are dropped and later ones succeed)
	Done     bool   `json:"done,omitempty"`
}

// event is something that happens to the cluster at a time.
type event struct {
	At   int64  `json:"at_ms"`
	Kind string `json:"kind"` // compact, clock, markers, away, abort
	For  int64  `json:"for_ms,omitempty"`
}

// String is the scenario as JSON, as it is kept.
func (s *scenario) String() string {
	text, err := json.Marshal(s)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

var functionNames = strings.Fields("count sum min max mean range variance stddev variance_pop stddev_pop first last delta rate time_mean distinct p50 p90 p99")

// The points at which an instance may be hurt, with how often each comes in a short life. Names of requests are those of
// the seam, of files those of storetest, of steps those of the App.
var points = []struct {
	op   string
	most int
}{
	{"fence", 3}, {"send", 12}, {"commit", 12}, {"fetch in", 20}, {"fetch changelog", 8}, {"offsets", 8}, {"ask", 3}, {"set-offset", 8},
	{"group-offsets", 3}, {"join", 1}, {"topics", 2},
	{"file create", 4}, {"file write", 12}, {"file sync", 10}, {"file close", 6}, {"file rename", 4}, {"file opendir", 6}, {"file remove", 3},
	{"file list", 6}, {"file mkdir", 2}, {"fetch between", 15}, {"fetch changelog-rekey", 6},
	{"step recover.identify", 2}, {"step recover.fence", 2}, {"step recover.tail", 2}, {"step recover.birth-send", 1}, {"step recover.birth-commit", 1},
	{"step recover.load", 2}, {"step recover.replay", 2}, {"step recover.prove", 2}, {"step recover.anchor", 2}, {"step recover.done", 2},
	{"step commit.send", 10}, {"step commit.end", 10}, {"step commit.ended", 10}, {"step checkpoint.slice", 4}, {"step checkpoint.publish", 4},
}

// draw makes the scenario of a seed.
func draw(seed uint64) *scenario {
	r := rand.New(rand.NewPCG(seed, 0x51))
	s := &scenario{Seed: seed, Partitions: 1 + r.Int32N(3), Instances: 1 + r.IntN(3), MaxRecords: 4 + r.IntN(30), MaxBytes: 1024 << r.IntN(8),
		Interval: []int64{0, 1, 20, 100}[r.IntN(4)], Checkpoint: []int64{50, 300, 1000, 5000}[r.IntN(4)]}
	if own := rand.New(rand.NewPCG(seed, 0x35)); own.IntN(3) == 0 {
		s.MaxLag = 1 + own.Int64N(120_000)
	}
	if own := rand.New(rand.NewPCG(seed, 0x36)); own.IntN(4) == 0 {
		s.Narrow = []int64{5, 30, 100}[own.IntN(3)]
	}
	if r.IntN(2) == 0 {
		s.Partitions = 1 // many crashes of one task tell more than few of many
	}
	for n := range 1 + r.IntN(2) {
		s.Aggregations = append(s.Aggregations, drawAggregation(r, n))
	}
	drawKinds(rand.New(rand.NewPCG(seed, 0x52)), s)
	length := int64(1000 + r.IntN(18_000)) // ms
	for range 3 + r.IntN(10) {
		s.Waves = append(s.Waves, wave{At: r.Int64N(length), N: 1 + r.IntN(25), Seed: r.Uint64()})
	}
	for range s.Instances {
		var list []hurt
		for range r.IntN(12) {
			list = append(list, drawHurt(r))
		}
		s.Hurts = append(s.Hurts, list)
	}
	for range r.IntN(4) * r.IntN(2) {
		s.Requests = append(s.Requests, drawRequest(r))
	}
	for range r.IntN(4) * r.IntN(2) {
		s.Disks = append(s.Disks, drawDisk(r, s.Instances))
	}
	for range r.IntN(4) * r.IntN(2) {
		kinds := []string{"compact", "clock", "markers", "away", "abort"}
		s.Events = append(s.Events, event{At: r.Int64N(length), Kind: kinds[r.IntN(len(kinds))], For: 1 + r.Int64N(4000)})
	}
	return s
}

func drawAggregation(r *rand.Rand, n int) aggregation {
	a := aggregation{Name: fmt.Sprintf("a%d", n), Size: []int64{3000, 10_000, 30_000, 100_000}[r.IntN(4)], Grace: []int64{0, 1000, 20_000}[r.IntN(3)]}
	if r.IntN(2) == 0 {
		a.Step = max(a.Size/(1+r.Int64N(4))-r.Int64N(500), 500)
	}
	if r.IntN(3) == 0 {
		a.Offset = r.Int64N(max(a.Step, a.Size/4))
		if a.Step > 0 {
			a.Offset %= a.Step
		}
	}
	for _, name := range functionNames {
		odds := 3
		if strings.HasPrefix(name, "stddev") {
			odds = 20 // the oracle takes most of its time for exact roots
		}
		if r.IntN(odds) == 0 {
			a.Functions = append(a.Functions, name)
		}
	}
	if len(a.Functions) == 0 {
		a.Functions = functionNames[:5]
	}
	return a
}

// drawKinds makes some windows sessions or the calendar's, and gives the job more to do: a quorum, dedup, a relay.
func drawKinds(r *rand.Rand, s *scenario) {
	for n := range s.Aggregations {
		a := &s.Aggregations[n]
		switch k := r.IntN(10); {
		case k < 3:
			a.Gap, a.Size, a.Step, a.Offset = []int64{500, 2000, 8000, 40_000}[r.IntN(4)], 0, 0, 0
		case k < 5:
			a.Unit, a.Size, a.Step, a.Offset = []string{"day", "day", "week", "month"}[r.IntN(4)], 0, 0, 0
			a.Zone = []string{"Europe/Brussels", "Asia/Kathmandu", "America/St_Johns", "Australia/Lord_Howe"}[r.IntN(4)]
		}
		a.Updates = r.IntN(4) == 0
		a.Current = a.Updates && r.IntN(2) == 0
	}
	if r.IntN(6) == 0 {
		s.Quorum = 2 + r.IntN(2)
	}
	if r.IntN(4) == 0 {
		s.Dedup = []int64{64, 5000, 60_000, 600_000}[r.IntN(4)]
	}
	if r.IntN(5) == 0 {
		s.Between = 1 + r.Int32N(3)
	}
}

// kinds names what is in a scenario.
func (s *scenario) kinds() (all []string) {
	has := func(name string, ok bool) {
		if ok && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	for i := range s.Aggregations {
		a := &s.Aggregations[i]
		has("sessions", a.Gap > 0)
		has("calendar", a.Unit != "")
		has("hopping", a.Step > 0)
		has("tumbling", a.Gap == 0 && a.Unit == "" && a.Step == 0)
		has("updates", a.Updates)
		has("current", a.Current)
	}
	has("quorum", s.Quorum > 1)
	has("dedup", s.Dedup > 0)
	has("relay", s.Between > 0)
	has("long replays", s.Narrow > 0)
	return all
}

// calendar tells whether there are windows so long that time must fly.
func (s *scenario) calendar() bool {
	return slices.ContainsFunc(s.Aggregations, func(a aggregation) bool { return a.Unit != "" })
}

func drawHurt(r *rand.Rand) hurt {
	h := hurt{Within: 500 + r.Int64N(6000), Down: r.Int64N(1500)}
	switch n := r.IntN(20); {
	case n < 10:
		h.Kind = "crash"
	case n < 14:
		h.Kind = "power"
	case n < 18:
		h.Kind = "pause"
	default:
		h.Kind = "stop"
	}
	if h.Kind != "stop" && r.IntN(5) > 0 {
		p := points[r.IntN(len(points))]
		h.Op, h.N, h.Done = p.op, 1+r.IntN(1+r.IntN(p.most)), r.IntN(2) == 0
	}
	if r.IntN(4) == 0 {
		h.Down += 6000 + r.Int64N(3000) // longer than a session
	}
	if h.Kind != "pause" {
		switch r.IntN(10) {
		case 0:
			h.Wipe = "checkpoints"
		case 1:
			h.Wipe = "directory"
		case 2, 3:
			h.Damage = 1 + r.Uint64N(1<<40)
		}
	}
	return h
}

func drawRequest(r *rand.Rand) request {
	ops := []string{"fence", "send", "send", "commit", "commit", "commit", "fetch", "offsets", "ask", "set-offset", "group-offsets", "topics"}
	q := request{Op: ops[r.IntN(len(ops))], N: 1 + r.IntN(25), How: []string{"fail", "lost", "lost", "hang"}[r.IntN(4)]}
	if q.Op == "send" && r.IntN(2) == 0 {
		q.How, q.Part = "part", 1+r.IntN(6)
	}
	if (q.Op == "send" || q.Op == "commit") && r.IntN(6) == 0 {
		q.How = "fenced"
	}
	return q
}

func drawDisk(r *rand.Rand, instances int) disk {
	ops := []string{"create", "write", "write", "sync", "sync", "sync", "close", "rename", "opendir", "remove", "list", "open", "read", "mkdir", "stat"}
	d := disk{Instance: r.IntN(instances), Op: ops[r.IntN(len(ops))], N: 1 + r.IntN(12), How: []string{"eio", "enospc", "slow"}[r.IntN(3)], Done: r.IntN(2) == 0}
	switch {
	case d.Op == "sync" && r.IntN(2) == 0:
		d.How = "lost"
	case d.Op == "write" && r.IntN(2) == 0:
		d.How = "short"
	}
	return d
}
