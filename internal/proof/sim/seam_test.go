package sim

import (
	"context"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// seam is the cluster as one process reaches it.
type seam struct {
	cluster kafka.Cluster
	life    *life
	plant   *plant
	narrow  time.Duration
}

// narrowBytes is how much of the changelog a fetch brings where replays are to be long.
const narrowBytes = 300

// Admin implements kafka.Cluster.
func (s *seam) Admin() (kafka.Admin, error) {
	a, err := s.cluster.Admin()
	return &seamAdmin{a, s.life}, err
}

// Log implements kafka.Cluster.
func (s *seam) Log(topic string, partition int32) (kafka.Log, error) {
	l, err := s.cluster.Log(topic, partition)
	if err != nil {
		return nil, err
	}
	if s.plant.log != nil {
		l = s.plant.log(l, topic)
	}
	if topic == logTopic {
		return &seamLog{l, s.life, topic, s.narrow}, nil
	}
	return &seamLog{l, s.life, topic, 0}, nil
}

// Writer implements kafka.Cluster.
func (s *seam) Writer(transactionalID string) (kafka.Writer, error) {
	if s.plant.id != nil {
		transactionalID = s.plant.id(transactionalID, s.life)
	}
	w, err := s.cluster.Writer(transactionalID)
	if err != nil {
		return nil, err
	}
	if s.plant.writer != nil {
		w = s.plant.writer(w)
	}
	return &seamWriter{w, s.life}, nil
}

// Group implements kafka.Cluster.
func (s *seam) Group(options kafka.GroupOptions) (g kafka.Group, err error) {
	joined := options.Joined
	options.Joined = func(id string) {
		s.life.mu.Lock()
		s.life.members[options.Group] = id
		s.life.mu.Unlock()
		joined(id)
	}
	err = s.life.pass(context.Background(), "join", func() error {
		g, err = s.cluster.Group(options)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &seamGroup{g, s.life}, nil
}

type seamLog struct {
	kafka.Log
	life  *life
	topic string
	takes time.Duration // a fetch that brings something, and then little; 0 for nothing of the kind
}

// Offsets implements kafka.Log.
func (l *seamLog) Offsets(ctx context.Context) (o kafka.Offsets, err error) {
	err = l.life.pass(ctx, "offsets", func() error {
		o, err = l.Log.Offsets(ctx)
		return err
	})
	return o, err
}

// OffsetAt implements kafka.Log.
func (l *seamLog) OffsetAt(ctx context.Context, timestamp int64) (o int64, err error) {
	err = l.life.pass(ctx, "offsets", func() error {
		o, err = l.Log.OffsetAt(ctx, timestamp)
		return err
	})
	return o, err
}

// Fetch implements kafka.Log. A fetch under way is forgotten at the death.
func (l *seamLog) Fetch(ctx context.Context, position int64, maxBytes int, wait time.Duration) (f kafka.Fetched, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-l.life.death:
			cancel()
		case <-ctx.Done():
		}
	}()
	if l.takes > 0 {
		maxBytes = min(maxBytes, narrowBytes)
	}
	err = l.life.pass(ctx, "fetch "+l.topic, func() error {
		if f, err = l.Log.Fetch(ctx, position, maxBytes, wait); len(f.Records) > 0 && l.takes > 0 {
			l.life.sleep(l.takes)
		}
		return err
	})
	return f, err
}

type seamWriter struct {
	kafka.Writer
	life *life
}

// Fence implements kafka.Writer.
func (w *seamWriter) Fence(ctx context.Context) (p kafka.Producer, err error) {
	err = w.life.pass(ctx, "fence", func() error {
		p, err = w.Writer.Fence(ctx)
		return err
	})
	return p, err
}

// Send implements kafka.Writer.
func (w *seamWriter) Send(ctx context.Context, messages []kafka.Message) (offsets []int64, err error) {
	err = w.life.pass(ctx, "send", func() error {
		offsets, err = w.Writer.Send(ctx, messages)
		return err
	})
	return offsets, err
}

// Commit implements kafka.Writer.
func (w *seamWriter) Commit(ctx context.Context) error {
	return w.life.pass(ctx, "commit", func() error { return w.Writer.Commit(ctx) })
}

type seamGroup struct {
	kafka.Group
	life *life
}

// Ask implements kafka.Group.
func (g *seamGroup) Ask(ctx context.Context, partition int32) (ours bool, err error) {
	err = g.life.pass(ctx, "ask", func() error {
		ours, err = g.Group.Ask(ctx, partition)
		return err
	})
	return ours, err
}

// SetOffset implements kafka.Group.
func (g *seamGroup) SetOffset(ctx context.Context, partition int32, next record.InputPosition, metadata string) error {
	return g.life.pass(ctx, "set-offset", func() error { return g.Group.SetOffset(ctx, partition, next, metadata) })
}

// Offsets implements kafka.Group.
func (g *seamGroup) Offsets(ctx context.Context) (o map[int32]kafka.GroupOffset, err error) {
	err = g.life.pass(ctx, "group-offsets", func() error {
		o, err = g.Group.Offsets(ctx)
		return err
	})
	return o, err
}

// Leave implements kafka.Group.
func (g *seamGroup) Leave(ctx context.Context) error {
	return g.life.pass(ctx, "leave", func() error { return g.Group.Leave(ctx) })
}

type seamAdmin struct {
	kafka.Admin
	life *life
}

// Cluster implements kafka.Admin.
func (a *seamAdmin) Cluster(ctx context.Context) (id string, version int16, err error) {
	err = a.life.pass(ctx, "cluster", func() error {
		id, version, err = a.Admin.Cluster(ctx)
		return err
	})
	return id, version, err
}

// Topics implements kafka.Admin.
func (a *seamAdmin) Topics(ctx context.Context, names ...string) (found map[string]kafka.TopicInfo, err error) {
	err = a.life.pass(ctx, "topics", func() error {
		found, err = a.Admin.Topics(ctx, names...)
		return err
	})
	return found, err
}

// Create implements kafka.Admin.
func (a *seamAdmin) Create(ctx context.Context, spec kafka.TopicSpec) error {
	return a.life.pass(ctx, "create", func() error { return a.Admin.Create(ctx, spec) })
}
