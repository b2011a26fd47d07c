package kafka

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tidemark-streams/tidemark/integration/kafkarun"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/preflight"
	"github.com/tidemark-streams/tidemark/internal/proof"
)

// guarded is a broker with an authorizer whose second listener demands a login; who comes to the first one may do all.
func guarded(t *testing.T) *kafkarun.Broker {
	t.Helper()
	return kafkarun.StartWith(t, kafkarun.Options{Secure: "SASL_PLAINTEXT", Logins: []string{"SCRAM-SHA-256=[name=ann,password=swordfish]"}, Settings: []string{
		"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users=User:ANONYMOUS",
		"listener.name.secure.sasl.enabled.mechanisms=SCRAM-SHA-256",
		"listener.name.secure.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;",
	}})
}

// TestCheckLive lets check --live find many faults at once on a broker with an authorizer, none of which it mends by
// itself, then a clean topic set, then rights that are missing one by one.
func TestCheckLive(t *testing.T) {
	b := guarded(t)
	password := t.TempDir() + "/password"
	if err := os.WriteFile(password, []byte("swordfish\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := newCrewAt(t, b.Addr, 1, 4*time.Minute, 2, nil)
	job := c.jobs[0]
	job.Brokers, job.Connect = []string{b.Secure}, []string{fmt.Sprintf("sasl: {mechanism: scram-sha-256, user: ann, password_file: %q}", password)}
	c.must(job.WriteConfig())
	admin, err := connect(t, b.Addr).Admin()
	c.must(err)
	defer admin.Close()
	c.must(admin.Create(c.ctx, kafka.TopicSpec{Name: job.Changelog(), Partitions: 3,
		Configs: map[string]string{"cleanup.policy": "delete", "max.message.bytes": "500000", "unclean.leader.election.enable": "true"}}))
	c.grant("ann", kadm.OpDescribe, kadm.OpDescribeConfigs)
	c.wants(c.says(1, "check", "--live"), "has no right to Read topic "+job.Topics()[0], "has no right to Read, Write topic "+job.Changelog(),
		"no right to Read group", "no right to Write transactional ids", "cleanup.policy=delete, which can lose state", "message.timestamp.type=CreateTime, which can lose state",
		"max.message.bytes=500000", "unclean.leader.election.enable=true", "has 3 partitions and input", "kafka-acls.sh --bootstrap-server "+b.Secure+" --add --allow-principal User:ann")

	c.wants(c.says(1, "run"), "cleanup.policy=delete, which can lose state", "max.message.bytes=500000: batches have up to 1000061 bytes",
		"--entity-name "+job.Changelog()+" --add-config max.message.bytes=1048588")
	deleted, err := c.admin.DeleteTopics(c.ctx, job.Changelog())
	c.must(err)
	c.must(deleted.Error())
	c.grant("ann", kadm.OpAll)
	c.await("the rights to be in force", func() bool { // brokers answer before they are
		code, said := c.runs("check", "--live")
		if code != 0 {
			t.Logf("not in force yet:\n%s", said)
		}
		return code == 0
	})
	c.cleanly()
	lines := proof.NewFleet(1, 50)
	var all [][]byte
	for range 200 {
		all = append(all, lines.Next())
	}
	_, err = job.Produce(c.ctx, proof.Lines(all))
	c.must(err)
	c.says(0, "run", "--until-idle")
	c.cleanly()
	c.denied()
}

// cleanly lets check --live say, with exit code 0, that there is no fault.
func (c *crew) cleanly() {
	c.t.Helper()
	for line := range strings.Lines(c.says(0, "check", "--live", "--json")) {
		var f preflight.Finding
		if err := json.Unmarshal([]byte(line), &f); err != nil || f.Fault {
			c.t.Errorf("%v: %s", err, line)
		}
	}
}

// denied takes the rights away one by one: each is named, it alone, with the command that gives it.
func (c *crew) denied() {
	c.t.Helper()
	job := c.jobs[0]
	topics := func(names ...string) *kadm.ACLBuilder { return kadm.NewACLs().Topics(names...) }
	results := job.Results(job.Oracle.Aggregations[0].Name)
	for _, d := range []struct {
		on         *kadm.ACLBuilder
		operation  kadm.ACLOperation
		want, give string
	}{
		{topics(job.Input()), kadm.OpRead, "no right to Read topic " + job.Input(), "--operation Read --topic " + job.Input()},
		{topics(job.Input()), kadm.OpDescribeConfigs, "no right to DescribeConfigs topic " + job.Input(), "--operation DescribeConfigs --topic " + job.Input()},
		{topics(job.Input()), kadm.OpDescribe, "nothing is known of topic " + job.Input(), "--operation Read --operation Describe --operation DescribeConfigs --topic " + job.Input()},
		{topics(job.Changelog()), kadm.OpRead, "no right to Read topic " + job.Changelog(), "--operation Read --topic " + job.Changelog()},
		{topics(job.Changelog()), kadm.OpWrite, "no right to Write topic " + job.Changelog(), "--operation Write --topic " + job.Changelog()},
		{topics(results), kadm.OpWrite, "no right to Write topic " + results, "--operation Write --topic " + results},
		{topics(job.Late()), kadm.OpWrite, "no right to Write topic " + job.Late(), "--operation Write --topic " + job.Late()},
		{topics(job.Dead()), kadm.OpRead, "no right to Read topic " + job.Dead(), "--operation Read --topic " + job.Dead()},
		{kadm.NewACLs().Groups(job.Group()), kadm.OpRead, "no right to Read group " + job.Group(), "--operation Read --group " + job.Group()},
		{kadm.NewACLs().TransactionalIDs(job.Changelog() + "-0"), kadm.OpWrite, "no right to Write transactional ids " + job.Changelog() + "-N",
			"--operation Write --operation Describe --transactional-id " + job.Changelog() + "- --resource-pattern-type prefixed"},
	} {
		acl := d.on.Deny("User:ann").DenyHosts().Operations(d.operation).ResourcePatternType(kadm.ACLPatternLiteral)
		made, err := c.admin.CreateACLs(c.ctx, acl)
		c.must(err)
		for _, one := range made {
			c.must(one.Err)
		}
		c.await(d.want, func() bool {
			code, said := c.runs("check", "--live")
			if code == 0 {
				return false // not in force yet
			}
			c.wants(said, d.want, "--add --allow-principal User:ann "+d.give+"\n", "1 fault and ")
			return true
		})
		_, err = c.admin.DeleteACLs(c.ctx, acl)
		c.must(err)
		c.await("the right to be back", func() bool {
			code, _ := c.runs("check", "--live")
			return code == 0
		})
	}
}

// grant gives a user rights on everything.
func (c *crew) grant(user string, operations ...kadm.ACLOperation) {
	c.t.Helper()
	acls := kadm.NewACLs().Allow("User:" + user).AllowHosts().Topics("*").Groups("*").TransactionalIDs("*").Clusters().
		Operations(operations...).ResourcePatternType(kadm.ACLPatternLiteral)
	made, err := c.admin.CreateACLs(c.ctx, acls)
	c.must(err)
	for _, one := range made {
		c.must(one.Err)
	}
}
