package kafkatest

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
)

func newGroupRig(t *testing.T) rig {
	c := New("cluster-a")
	c.CreateTopic("in", 4, nil)
	return rig{c, t}
}

func (r rig) join(options kafka.GroupOptions) kafka.Group {
	r.t.Helper()
	options.Group, options.Topic = "g", "in"
	g, err := r.Group(options)
	if err != nil {
		r.t.Fatal(err)
	}
	return g
}

func (r rig) wantAssigned(g kafka.Group, want ...int32) {
	r.t.Helper()
	if diff := cmp.Diff(want, <-g.Assignments()); diff != "" {
		r.t.Fatalf("assignment (-want +got):\n%s", diff)
	}
}

func (r rig) ask(g kafka.Group, partition int32) bool {
	r.t.Helper()
	ours, err := g.Ask(context.Background(), partition)
	if err != nil {
		r.t.Fatal(err)
	}
	return ours
}

func TestGroupSpreadsEvenly(t *testing.T) {
	r := newGroupRig(t)
	a := r.join(kafka.GroupOptions{})
	r.wantAssigned(a, 0, 1, 2, 3)
	b := r.join(kafka.GroupOptions{})
	r.wantAssigned(a, 0, 2)
	r.wantAssigned(b, 1, 3)
	if !r.ask(a, 0) || r.ask(a, 1) || a.Member().Generation != 2 {
		t.Fatalf("member %+v", a.Member())
	}
	if err := b.Leave(context.Background()); err != nil {
		t.Fatal(err)
	}
	r.wantAssigned(a, 0, 1, 2, 3)
	for range b.Assignments() { // closed by Leave, perhaps after one unread list
	}
	r.AddPartitions("in", 5)
	r.wantAssigned(a, 0, 1, 2, 3, 4)
}

func TestEvictedMemberLosesItsPartitions(t *testing.T) {
	r := newGroupRig(t)
	a, b := r.join(kafka.GroupOptions{}), r.join(kafka.GroupOptions{})
	if !r.Evict("g", a.Member().ID) || r.Evict("g", a.Member().ID) {
		t.Fatal("a member is evicted once")
	}
	r.wantAssigned(b, 0, 1, 2, 3)
	r.wantAssigned(a)
	if r.ask(a, 0) || !r.ask(b, 0) {
		t.Fatal("the evicted member still owns partition 0")
	}
	wantClass(t, a.SetOffset(context.Background(), 0, 5, ""), kafka.ClassTransient)
}

func TestEvictAtJoin(t *testing.T) {
	r := newGroupRig(t)
	var id string
	a := r.join(kafka.GroupOptions{Joined: func(member string) { id = member }})
	if id != a.Member().ID {
		t.Fatalf("joined as %q, told %q", a.Member().ID, id)
	}
	b := r.join(kafka.GroupOptions{Evict: id})
	r.wantAssigned(b, 0, 1, 2, 3)
}

func TestStaticMemberKeepsItsSeat(t *testing.T) {
	r := newGroupRig(t)
	r.join(kafka.GroupOptions{})
	old := r.join(kafka.GroupOptions{Instance: "host-1"})
	r.wantAssigned(old, 1, 3)
	old.Close()
	back := r.join(kafka.GroupOptions{Instance: "host-1"})
	r.wantAssigned(back, 1, 3)
	if back.Member().Generation != 2 || back.Member().ID == old.Member().ID {
		t.Fatalf("member %+v after %+v; want generation 2 and another id", back.Member(), old.Member())
	}
}

func TestGroupOffsets(t *testing.T) {
	r := newGroupRig(t)
	a := r.join(kafka.GroupOptions{})
	if err := a.SetOffset(context.Background(), 2, record.InputPosition(7), "m"); err != nil {
		t.Fatal(err)
	}
	r.SetGroupOffset("g", 3, kafka.GroupOffset{Next: 9})
	r.SetGroupOffset("g", 1, kafka.GroupOffset{Next: 1})
	r.DeleteGroupOffset("g", 1)
	got, err := a.Offsets(context.Background())
	want := map[int32]kafka.GroupOffset{2: {Next: 7, Metadata: "m"}, 3: {Next: 9}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Fatal(err, diff)
	}
}

func TestAdmin(t *testing.T) {
	r := newGroupRig(t)
	a, _ := r.Admin()
	r.SetTransactionVersion(1)
	r.SetID("cluster-b")
	if id, version, err := a.Cluster(context.Background()); id != "cluster-b" || version != 1 || err != nil {
		t.Fatal(id, version, err)
	}
	spec := kafka.TopicSpec{Name: "new", Partitions: 2, Configs: map[string]string{"cleanup.policy": "compact"}}
	for range 2 { // the second time it exists, which is no error
		if err := a.Create(context.Background(), spec); err != nil {
			t.Fatal(err)
		}
	}
	infos, err := a.Topics(context.Background(), "new", "missing")
	if err != nil || len(infos) != 1 {
		t.Fatal(infos, err)
	}
	info := infos["new"]
	if info.Partitions != 2 || !info.ID.Known() || info.Configs["cleanup.policy"] != "compact" || info.Configs["delete.retention.ms"] == "" {
		t.Fatalf("%+v", info)
	}
	wantClass(t, a.Create(context.Background(), kafka.TopicSpec{Name: "none"}), kafka.ClassPermanent)
}
