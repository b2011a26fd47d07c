// Package client implements the parts of package kafka for real brokers, with franz-go; the embedded broker speaks the
// same protocol. It is the only package that knows franz-go, and it promises what franz-go alone does not:
//
//   - a Log never moves a position by itself: out of range, another topic id or a cut log is an error (R16);
//   - a Writer lives from one fence to its first error and checks every acknowledgement (I3, I8);
//   - a Group fetches nothing and answers Ask from the coordinator, not from memory (V11);
//   - every error carries a class out of one table (I8, classes.go).
//
// What it asks of brokers and what the embedded one does not do is written in ../DESIGN.md.
package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// The bounds of this package (R24). Each names what gives up after it; the caller's context can only shorten them.
const (
	requestTimeout  = 5 * time.Second  // one request without an answer: its connection is dropped
	patience        = 10 * time.Second // a read without any success: transient error naming the last answer
	deliveryTimeout = 10 * time.Second // Send without every acknowledgement, Commit without an answer, Fence without an id
	txnTimeout      = 15 * time.Second // the broker aborts what a dead writer left open
	maxOpening      = 32               // writers being opened at once; more overflow a broker's listen backlog (R21)
)

// A broker has answered a question that was not asked.
var (
	errOtherPartition = errors.New("the broker's answer is not about the partition asked for")
	errOtherGroup     = errors.New("the broker's answer is not about the group asked for")
)

// Compression of what writers send.
type Compression uint8

// The compressions. The default is the one that measured best for changelog records, see DESIGN.md.
const (
	CompressionDefault Compression = iota
	CompressionNone
	CompressionLZ4
	CompressionSnappy
	CompressionZstd
)

func (c Compression) codec() kgo.CompressionCodec {
	switch c {
	case CompressionNone:
		return kgo.NoCompression()
	case CompressionSnappy:
		return kgo.SnappyCompression()
	case CompressionZstd:
		return kgo.ZstdCompression()
	}
	return kgo.Lz4Compression()
}

// SASL names a mechanism and its credentials.
type SASL struct {
	Mechanism string // PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512
	User      string
	Password  string
	Renew     func() (string, error) // asked for the password at each sign-in, where it may change; nil: it is Password
}

// Options say how to reach a cluster.
type Options struct {
	Brokers     []string    // host:port of at least one broker
	ClientID    string      // shown in the brokers' logs and quotas; "" is "tidemark"
	TLS         *tls.Config // nil for plain text
	SASL        *SASL       // nil for none
	Logger      *slog.Logger
	Compression Compression
	// Sent is called when a request has been written to a broker and is not answered yet, with the request's name in the
	// protocol, for crash tests; may be nil.
	Sent func(request string)
	// AllowTransactionV1 admits clusters below transaction.version 2, with what makes their transactions whole (R12).
	AllowTransactionV1 bool
}

// Cluster makes the parts of package kafka. Each part has connections of its own, for a waiting fetch blocks its
// connection and a writer ends with its fence; logs share those of requests that do not wait. Safe for concurrent use.
type Cluster struct {
	options Options
	base    []kgo.Opt
	opening chan struct{} // semaphore of maxOpening

	buffers sync.Pool // of *[]byte, for batches being written

	mu       sync.Mutex
	admitted bool // transaction.version was seen to be high enough ...
	old      bool // ... or low, and that is allowed
	shared   *kgo.Client
	sharing  int // logs that are open
}

var _ kafka.Cluster = (*Cluster)(nil)

// New checks the options; it does not connect.
func New(options Options) (*Cluster, error) {
	if len(options.Brokers) == 0 {
		return nil, refuse("connect", errors.New("no broker address"), "set kafka.brokers")
	}
	if i := slices.Index(options.Brokers, ""); i >= 0 {
		return nil, refuse("connect", fmt.Errorf("broker address %d of %d is empty", i+1, len(options.Brokers)), "an address is host:port")
	}
	if options.ClientID == "" {
		options.ClientID = "tidemark"
	}
	base := []kgo.Opt{
		kgo.SeedBrokers(options.Brokers...),
		kgo.ClientID(options.ClientID),
		kgo.SoftwareNameAndVersion("tidemark", "1"),
		kgo.DialTimeout(requestTimeout),
		kgo.RequestTimeoutOverhead(requestTimeout),
		kgo.RetryTimeout(patience),
		kgo.RetryBackoffFn(backoff),
		kgo.MetadataMinAge(20 * time.Millisecond), // R20
		kgo.DisableClientMetrics(),
	}
	if options.TLS != nil {
		base = append(base, kgo.DialTLSConfig(options.TLS))
	}
	if options.SASL != nil {
		mechanism, err := options.SASL.mechanism()
		if err != nil {
			return nil, err
		}
		base = append(base, kgo.SASL(mechanism))
	}
	if options.Logger != nil {
		base = append(base, kgo.WithLogger(logger{options.Logger}))
	}
	if options.Sent != nil {
		base = append(base, kgo.WithHooks(sentHook(options.Sent)))
	}
	if err := kgo.ValidateOpts(base...); err != nil {
		return nil, refuse("connect", err, "")
	}
	return &Cluster{
		options: options, base: base, opening: make(chan struct{}, maxOpening),
		buffers: sync.Pool{New: func() any { return new([]byte) }},
	}, nil
}

// sentHook hands franz-go's writes to Options.Sent.
type sentHook func(request string)

var _ kgo.HookBrokerWrite = sentHook(nil)

// OnBrokerWrite is called by franz-go after each write.
func (h sentHook) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if err == nil {
		h(kmsg.NameForKey(key))
	}
}

func (s *SASL) mechanism() (sasl.Mechanism, error) {
	switch s.Mechanism {
	case "PLAIN":
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			password, err := s.password()
			return plain.Auth{User: s.User, Pass: password}, err
		}), nil
	case "SCRAM-SHA-256":
		return scram.Sha256(s.scram), nil
	case "SCRAM-SHA-512":
		return scram.Sha512(s.scram), nil
	}
	return nil, refuse("connect", errors.New("unknown SASL mechanism "+s.Mechanism), "use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
}

func (s *SASL) scram(context.Context) (scram.Auth, error) {
	password, err := s.password()
	return scram.Auth{User: s.User, Pass: password}, err
}

// password is the one in force now.
func (s *SASL) password() (string, error) {
	if s.Renew == nil {
		return s.Password, nil
	}
	password, err := s.Renew()
	if err != nil {
		return "", fmt.Errorf("read the password for kafka.sasl again: %w", err)
	}
	return password, nil
}

// Dialing are franz-go's options to reach the same cluster, for readers that share nothing else with this package.
func (c *Cluster) Dialing() []kgo.Opt { return slices.Clone(c.base) }

// backoff is the pause before try n + 1 of one request: short at first, for most such errors are a leader or a
// coordinator that has just moved.
func backoff(n int) time.Duration {
	return min(5*time.Millisecond<<min(n, 6), 250*time.Millisecond)
}

// pause waits, or returns why ctx ended.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// open makes a franz-go client out of the common options and more.
func (c *Cluster) open(more ...kgo.Opt) (*kgo.Client, error) {
	cl, err := kgo.NewClient(append(append([]kgo.Opt{}, c.base...), more...)...)
	if err != nil {
		return nil, refuse("connect", err, "")
	}
	return cl, nil
}

// share returns the client that all open logs have in common, and opens it for the first.
func (c *Cluster) share() (_ *kgo.Client, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shared == nil {
		if c.shared, err = c.open(); err != nil {
			return nil, err
		}
	}
	c.sharing++
	return c.shared, nil
}

// unshare ends one log's use of the shared client, and with the last one the client.
func (c *Cluster) unshare() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sharing--; c.sharing == 0 {
		c.shared.Close()
		c.shared = nil
	}
}

// log returns the logger of the options, or one that drops everything.
func (c *Cluster) log() *slog.Logger {
	if c.options.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.options.Logger
}

// logger hands franz-go's lines to slog. Its info lines tell of every join and transaction, so they are debug here.
type logger struct{ to *slog.Logger }

// Level asks slog, so that lines nobody wants are not made.
func (l logger) Level() kgo.LogLevel {
	switch {
	case l.to.Enabled(context.Background(), slog.LevelDebug):
		return kgo.LogLevelInfo
	case l.to.Enabled(context.Background(), slog.LevelWarn):
		return kgo.LogLevelWarn
	}
	return kgo.LogLevelError
}

// Log passes one line on.
func (l logger) Log(level kgo.LogLevel, message string, pairs ...any) {
	to := slog.LevelDebug
	switch level {
	case kgo.LogLevelError:
		to = slog.LevelError
	case kgo.LogLevelWarn:
		to = slog.LevelWarn
	}
	l.to.Log(context.Background(), to, "kafka: "+message, pairs...)
}
