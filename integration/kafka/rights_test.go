package kafka

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tidemark-streams/tidemark/internal/proof"
)

// TestRightsLostOnKafka takes one right after the other from jobs that are running: each stops, names what it may not do any
// more and how that is given back, and has lost nothing when it is started again.
func TestRightsLostOnKafka(t *testing.T) {
	b := guarded(t)
	password := t.TempDir() + "/password"
	if err := os.WriteFile(password, []byte("swordfish\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	first := newCrewAt(t, b.Addr, 1, 4*time.Minute, 1, nil)
	first.grant("ann", kadm.OpAll)
	for name, d := range map[string]struct {
		on        func(*proof.Job) *kadm.ACLBuilder
		operation kadm.ACLOperation
		says      []string // NAME is the job
	}{
		"write the changelog": {func(j *proof.Job) *kadm.ACLBuilder { return kadm.NewACLs().Topics(j.Changelog()) }, kadm.OpWrite,
			[]string{"send NAME-changelog/0", "TOPIC_AUTHORIZATION_FAILED", "grant READ, WRITE, DESCRIBE"}},
		"read the input": {func(j *proof.Job) *kadm.ACLBuilder { return kadm.NewACLs().Topics(j.Input()) }, kadm.OpRead,
			[]string{"NAME-in", "TOPIC_AUTHORIZATION_FAILED", "grant READ, WRITE, DESCRIBE"}},
		"see the settings": {func(j *proof.Job) *kadm.ACLBuilder { return kadm.NewACLs().Topics(j.Changelog()) }, kadm.OpDescribeConfigs,
			[]string{"ask for topic settings NAME-changelog", "TOPIC_AUTHORIZATION_FAILED", "grant READ, WRITE, DESCRIBE"}},
		"use the transactional id": {func(j *proof.Job) *kadm.ACLBuilder { return kadm.NewACLs().TransactionalIDs(j.Changelog() + "-0") }, kadm.OpWrite,
			[]string{"TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "grant WRITE and DESCRIBE on the transactional id"}},
		"be in the group": {func(j *proof.Job) *kadm.ACLBuilder { return kadm.NewACLs().Groups(j.Group()) }, kadm.OpRead,
			[]string{"GROUP_AUTHORIZATION_FAILED", "grant READ on the group"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrewAt(t, b.Addr, 1, 4*time.Minute, 1, nil)
			job := c.jobs[0]
			finish := c.flow(51, 300) // by the listener that lets everybody in
			job.Brokers, job.Connect = []string{b.Secure}, []string{fmt.Sprintf("sasl: {mechanism: scram-sha-256, user: ann, password_file: %q}", password)}
			c.must(job.WriteConfig())
			c.await("the rights to be in force", func() bool { code, _ := c.runs("check", "--live"); return code == 0 })
			i := c.start(job)
			c.whole(i)
			c.committing(i)
			acl := d.on(job).Deny("User:ann").DenyHosts().Operations(d.operation).ResourcePatternType(kadm.ACLPatternLiteral)
			made, err := c.admin.CreateACLs(c.ctx, acl)
			c.must(err)
			for _, one := range made {
				c.must(one.Err)
			}
			says := strings.Split(strings.ReplaceAll(strings.Join(d.says, "\n"), "NAME", job.Name), "\n")
			c.stops(i, says...)
			finish()
			_, err = c.admin.DeleteACLs(c.ctx, acl)
			c.must(err)
			c.await("the right to be back", func() bool { code, _ := c.runs("check", "--live"); return code == 0 })
			c.prove(job)
		})
	}
}
