package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-streams/tidemark"
	"github.com/tidemark-streams/tidemark/cmd/tidemark/internal/embedded"
	"github.com/tidemark-streams/tidemark/internal/config"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/client"
	"github.com/tidemark-streams/tidemark/internal/spelling"
)

// configFlag adds the flag that names the job's file.
func configFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVarP(path, "config", "c", "", "file of the job")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml") // for completion; it fails only for a flag that does not exist
}

// load reads the job's file and says its warnings.
func (e *env) load(path string) (*config.Job, error) {
	job, err := e.read(path)
	if err != nil {
		return nil, err
	}
	for _, warning := range job.Warnings {
		e.say("warning: %s", warning)
	}
	return job, nil
}

// read is load for those who say the warnings themselves.
func (e *env) read(path string) (*config.Job, error) {
	if path == "" {
		return nil, usage(errors.New("which job? Name its file with -c job.yaml"))
	}
	return config.Load(path, os.Environ())
}

// open reads the job's file and reaches its brokers, for a command that looks at topics. release lets go of both.
func (e *env) open(ctx context.Context, path string) (c *connection, admin kafka.Admin, release func(), err error) {
	defined, err := e.load(path)
	if err != nil {
		return nil, nil, nil, err
	}
	if c, err = e.connect(ctx, defined); err != nil {
		return nil, nil, nil, err
	}
	if admin, err = c.reach(ctx, e); err != nil {
		c.close()
		return nil, nil, nil, err
	}
	return c, admin, func() { admin.Close(); c.close() }, nil
}

// connection is a command's way to the job's brokers.
type connection struct {
	*client.Cluster
	job   *config.Job
	lease *embedded.Lease // nil with brokers of one's own
}

// connect makes the way to the job's brokers, and with "kafka: embedded" the broker itself when none runs. It does not
// wait for brokers of one's own: see reach.
func (e *env) connect(ctx context.Context, job *config.Job) (*connection, error) {
	return e.connectTelling(ctx, job, prefixed{e})
}

// connectTelling is connect for those who say in a way of their own what a person who waits should know.
func (e *env) connectTelling(ctx context.Context, job *config.Job, tell io.Writer) (*connection, error) {
	c := &connection{job: job}
	options := client.Options{Brokers: job.Kafka.Brokers, AllowTransactionV1: job.Kafka.AllowTransactionV1}
	if job.Kafka.Embedded {
		lease, err := embedded.Ensure(ctx, embedded.Options{
			Dir:        job.Kafka.EmbeddedDir,
			Partitions: job.Kafka.EmbeddedPartitions,
			Linger:     embeddedLinger,
			Log:        tell,
		})
		var at *fs.PathError
		switch {
		case errors.As(err, &at):
			return nil, fmt.Errorf("the embedded broker keeps its data below state.dir: %w: "+
				"state.dir must be a directory in which this user may make files", err)
		case err != nil:
			return nil, unreached(err)
		}
		c.lease, options.Brokers = lease, []string{lease.Addr}
	}
	if sasl := job.Kafka.SASL; sasl != nil {
		options.SASL = &client.SASL{Mechanism: sasl.Mechanism, User: sasl.User, Password: sasl.Password.Reveal(), Renew: sasl.Password.Again}
	}
	if e.crash != nil {
		options.Sent = e.crash.Sent
	}
	var err error
	if job.Kafka.TLS != nil {
		options.TLS, err = job.Kafka.TLS.Config()
	}
	if err == nil {
		c.Cluster, err = client.New(options)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// close lets go of the embedded broker.
func (c *connection) close() {
	if c.lease != nil {
		c.lease.Close()
	}
}

// reach returns a way to ask the brokers, once one has answered.
func (c *connection) reach(ctx context.Context, e *env) (kafka.Admin, error) {
	admin, err := c.Admin()
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	for told := begun; ; {
		_, _, err := admin.Cluster(ctx)
		if err == nil {
			return admin, nil
		}
		away := kafka.ClassOf(err) == kafka.ClassTransient && !kafka.TurnedAway(err)
		if now := time.Now(); away && ctx.Err() == nil && now.Sub(begun) < e.contact {
			if now.Sub(told) > lineEvery {
				told = now
				e.say("no broker has answered for %s: %s", now.Sub(begun).Round(time.Second), err)
			}
			if wait(ctx, contactAgain) {
				continue
			}
		}
		admin.Close()
		switch {
		case ctx.Err() != nil:
			return nil, errInterrupted
		case away:
			return nil, unreached(fmt.Errorf("%w within %s: %w", tidemark.ErrUnreachable, e.contact, err))
		}
		return nil, err
	}
}

// contactAgain is the pause between two tries of first contact.
const contactAgain = 250 * time.Millisecond

// wait waits for d and tells whether the context is still alive.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// topic describes a topic. With the embedded broker one that is missing is made.
func (c *connection) topic(ctx context.Context, admin kafka.Admin, name string, create bool) (kafka.TopicInfo, error) {
	found, err := admin.Topics(ctx, name)
	if err != nil {
		return kafka.TopicInfo{}, err
	}
	if _, ok := found[name]; !ok && create && c.lease != nil {
		if err := admin.Create(ctx, kafka.TopicSpec{Name: name, Partitions: int32(c.job.Kafka.EmbeddedPartitions)}); err != nil {
			return kafka.TopicInfo{}, err
		}
		if found, err = admin.Topics(ctx, name); err != nil {
			return kafka.TopicInfo{}, err
		}
	}
	info, ok := found[name]
	if !ok {
		return kafka.TopicInfo{}, fmt.Errorf("topic %s does not exist%s: create it, or correct the name", name, meant(ctx, admin, name))
	}
	return info, nil
}

// meant asks back about a name that is like that of a topic there is (D21); "" for none.
func meant(ctx context.Context, admin kafka.Admin, name string) string {
	names, err := admin.Names(ctx)
	if like := spelling.Nearest(name, names); err == nil && like != "" {
		return fmt.Sprintf(" (did you mean %s?)", like)
	}
	return ""
}

// prefixed passes whole lines on to say.
type prefixed struct{ env *env }

// Write says the lines.
func (p prefixed) Write(text []byte) (int, error) {
	p.env.say("%s", text)
	return len(text), nil
}

// logged passes whole lines on to a log.
type logged struct{ to *slog.Logger }

// Write logs the lines.
func (l logged) Write(text []byte) (int, error) {
	l.to.Info(strings.TrimSpace(string(text)))
	return len(text), nil
}
