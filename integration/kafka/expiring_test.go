package kafka

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-streams/tidemark/integration/kafkarun"
	"github.com/tidemark-streams/tidemark/internal/proof"
)

// fences takes a transactional id away from its task, which has to connect anew and to recover.
func (c *crew) fences(partition int) {
	c.t.Helper()
	id := fmt.Sprintf("%s-%d", c.jobs[0].Changelog(), partition)
	c.await("the task to be fenced", func() bool {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID, req.TransactionTimeoutMillis = &id, 60_000
		req.ProducerID, req.ProducerEpoch = -1, -1
		resp, err := req.RequestWith(c.ctx, c.client)
		c.must(err)
		return kerr.ErrorForCode(resp.ErrorCode) == nil // else one of its transactions is being ended
	})
}

// identity is the certificate that a job shows to brokers.
type identity struct{ cert, key string }

func (o *identity) renew(t *testing.T, by *authority, left time.Duration) {
	t.Helper()
	by.issue(t, "job", o.cert, o.key, left)
}

// mutual is a job on a broker that demands a certificate of whoever connects, with readings on their way.
func mutual(t *testing.T, ca *authority, server string) (*kafkarun.Broker, *crew, *identity) {
	t.Helper()
	b := kafkarun.StartWith(t, kafkarun.Options{Secure: "SSL", Settings: []string{
		"listener.name.secure.ssl.keystore.type=PEM",
		"listener.name.secure.ssl.keystore.location=" + server,
		"listener.name.secure.ssl.truststore.type=PEM",
		"listener.name.secure.ssl.truststore.location=" + ca.path,
		"listener.name.secure.ssl.client.auth=required",
	}})
	dir := t.TempDir()
	o := &identity{filepath.Join(dir, "own.pem"), filepath.Join(dir, "own.key")}
	o.renew(t, ca, 24*time.Hour)
	c := newCrewAt(t, b.Addr, 1, 4*time.Minute, 2, nil)
	return b, c, o
}

// through lets the job connect by TLS from here on.
func (c *crew) through(b *kafkarun.Broker, ca *authority, o *identity) *proof.Job {
	c.t.Helper()
	job := c.jobs[0]
	job.Brokers, job.Connect = []string{b.Secure}, []string{fmt.Sprintf("tls: {ca: %q, cert: %q, key: %q}", ca.path, o.cert, o.key)}
	c.must(job.WriteConfig())
	return job
}

// TestD05CertificatesExpire lets first the job's certificate and then the broker's end while the job runs. What is connected
// stays so. With the next connection the job waits, red, and names the date and the repair; any start ends with it. When a new
// certificate is in place the job goes on, and needs no restart. Nothing is lost.
func TestD05CertificatesExpire(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	server := ca.server(t)
	b, c, o := mutual(t, ca, server)
	finish := c.flowsPast(81, 300)
	job := c.through(b, ca, o)
	yesterday := time.Now().Add(-24 * time.Hour).UTC().Format("2006-01-02")
	i := c.start(job)
	c.whole(i)
	c.committing(i)

	o.renew(t, ca, -24*time.Hour)
	expired := []string{o.cert + " expired on " + yesterday, "put a renewed certificate there"}
	c.wants(c.says(0, "check"), append(expired, "warning")...)
	c.closed(expired...)
	c.passes(0, i)
	c.passes(1, i)
	c.fences(0)
	c.reddens(i, expired...)
	c.passes(1, i)
	o.renew(t, ca, 24*time.Hour)
	c.mended(i)

	o.renew(t, stranger, 24*time.Hour)
	c.closed("the broker does not accept who we are; check kafka.tls.cert")
	c.fences(1)
	c.reddens(i, "the broker does not accept who we are; check kafka.tls.cert")
	o.renew(t, ca, 24*time.Hour)
	c.mended(i)

	ca.issue(t, "broker", server, server, -24*time.Hour)
	c.must(b.Stop())
	c.must(b.Restart(c.ctx))
	expired = []string{"the broker's certificate expired on " + yesterday, "renew it"}
	c.closed(expired...)
	c.reddens(i, expired...)
	ca.issue(t, "broker", server, server, 24*time.Hour)
	c.must(b.Stop())
	c.must(b.Restart(c.ctx))
	c.mended(i)
	finish()
	c.must(i.Stop())
	c.prove(job)
}

// flowsPast lets readings flow by the listener that lets everybody in, whatever the job's file says later.
func (c *crew) flowsPast(seed uint64, rate int) (finish func() int) {
	c.t.Helper()
	finish = c.flow(seed, rate)
	c.await("the first reading", func() bool { return c.endOf(c.jobs[0].Input()) > 0 })
	return finish
}

// closed holds that no start, in another state directory, waits for what waiting does not bring.
func (c *crew) closed(words ...string) {
	c.t.Helper()
	job := c.jobs[0]
	defer func(variables []string) { job.Variables = variables }(job.Variables)
	job.Variables = append(slices.Clone(job.Variables), "TIDEMARK_STATE_DIR="+c.t.TempDir())
	for _, command := range [][]string{{"check", "--live"}, {"run"}} {
		said := c.says(1, command...)
		c.wants(said, words...)
		if strings.Contains(said, "no broker answered within") {
			c.t.Errorf("%v waited for brokers:\n%s", command, said)
		}
	}
}

// reddens waits until the job's status is red for a reason.
func (c *crew) reddens(i *instance, words ...string) {
	c.t.Helper()
	c.await(fmt.Sprintf("health to be red, for %q", words), func() bool {
		said := c.waits()
		return c.health() == "red" && !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(said, word) })
	}, i)
}

// mended waits until the job has gone on by itself.
func (c *crew) mended(i *instance) {
	c.t.Helper()
	c.await("health to be green", func() bool {
		return c.health() == "green" && i.stand().settled() && len(i.stand().owned) == int(c.partitions)
	}, i)
	for p := range c.partitions {
		c.passes(int(p), i)
	}
}

// TestD05SigningInAnew demands of every connection to sign in again and again while readings flow: no task notices. Then the
// user's password is changed: the job, which is connected already, is turned away, which shows that it did sign in anew, waits,
// red, and says so. With the new password in its file it goes on without a restart, and nothing is lost.
func TestD05SigningInAnew(t *testing.T) {
	const lifetime, partitions = 3 * time.Second, 4
	ca := newAuthority(t)
	b := secured(t, ca, fmt.Sprintf("connections.max.reauth.ms=%d", lifetime.Milliseconds()))
	c := newCrewAt(t, b.Addr, 1, 4*time.Minute, partitions, nil)
	finish := c.flowsPast(82, 1500)
	file := filepath.Join(t.TempDir(), "password")
	job := c.jobs[0]
	job.Brokers = []string{b.Secure}
	job.Connect = []string{fmt.Sprintf("tls: {ca: %q}", ca.path), fmt.Sprintf("sasl: {mechanism: scram-sha-512, user: ann, password_file: %q}", file)}
	c.must(job.WriteConfig())
	c.must(os.WriteFile(file, []byte(password+"\n"), 0o600))
	i := c.start(job)
	c.whole(i)
	c.committing(i)
	seen, until := len(i.log()), time.Now().Add(5*lifetime)
	c.await("every connection to have signed in anew", func() bool { return time.Now().After(until) }, i)
	for p := range partitions {
		c.passes(p, i)
	}
	if again := i.recoveries(seen); len(again) > 0 {
		t.Errorf("recoveries by partition %v while connections signed in anew", again)
	}
	for _, l := range i.log()[seen:] {
		if slices.Contains([]string{"WARN", "ERROR"}, l.Level) {
			t.Errorf("said meanwhile: %+v", l)
		}
	}

	const changed = "sprat-in-tomato-2205"
	altered, err := c.admin.AlterUserSCRAMs(c.ctx, nil, []kadm.UpsertSCRAM{{User: "ann", Mechanism: kadm.ScramSha512, Iterations: 4096, Password: changed}})
	c.must(err)
	c.must(altered.Error())
	c.reddens(i, "SASL_AUTHENTICATION_FAILED", "user or password is wrong; check kafka.sasl")
	c.closed("SASL_AUTHENTICATION_FAILED", "check kafka.sasl")
	discreet(t, []byte(c.waits()), "the status")
	c.must(os.WriteFile(file, []byte(changed+"\n"), 0o600))
	c.mended(i)
	finish()
	c.must(i.Stop())
	c.prove(job)
}
