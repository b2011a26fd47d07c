package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-streams/tidemark/internal/record"
)

// plant is a job that has run to the end of its input on a broker in memory.
type plant struct {
	t      *testing.T
	config string
	admin  *kadm.Client
}

func newPlant(t *testing.T) *plant {
	t.Helper()
	_, admin := topic(t)
	p := &plant{t: t, config: filepath.Join(t.TempDir(), "job.yaml"), admin: admin}
	text, err := os.ReadFile("testdata/job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text = fmt.Appendf(text, "\nstate: {dir: %q}\n", filepath.Join(filepath.Dir(p.config), "state"))
	if err := os.WriteFile(p.config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CreateTopics(t.Context(), 2, 1, nil, "hourly", "readings-late", "readings-dead"); err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for i := range 40 {
		fmt.Fprintf(&lines, `{"device":"d%d","ts":%d,"v":%d}`+"\n", i%5, 1704067200000+i*600_000, i)
	}
	for _, args := range [][]string{{"produce", "-c", p.config, "-"}, {"run", "-c", p.config, "--until-idle"}} {
		if code, out, said := p.command(lines.String(), args...); code != done {
			t.Fatalf("%v: exit code %d: %s%s", args, code, out, said)
		}
	}
	return p
}

// command runs a command.
func (p *plant) command(in string, args ...string) (code int, out, said string) {
	var stdout, stderr bytes.Buffer
	code = newEnv(args, strings.NewReader(in), &stdout, &stderr).run(p.t.Context())
	return code, stdout.String(), stderr.String()
}

// write writes a record into the changelog, as no owner would.
func (p *plant) write(key, value []byte) {
	p.t.Helper()
	brokers := strings.Split(os.Getenv("TIDEMARK_KAFKA_BROKERS"), ",")
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		p.t.Fatal(err)
	}
	defer client.Close()
	r := &kgo.Record{Topic: "plant-changelog", Partition: 1, Key: key, Value: value}
	if err := client.ProduceSync(p.t.Context(), r).FirstErr(); err != nil {
		p.t.Fatal(err)
	}
}

// TestChangelogVerify says nothing of a changelog that is whole, and names every fault of one that is not, all in one go.
func TestChangelogVerify(t *testing.T) {
	p := newPlant(t)
	code, out, said := p.command("", "changelog", "verify", "-c", p.config)
	if code != done || strings.Count(out, ": whole: ") != 2 || said != "" {
		t.Fatalf("exit code %d: %s%s", code, out, said)
	}
	if code, out, _ := p.command("", "changelog", "verify", "-c", p.config, "--partition", "1"); code != done || strings.Contains(out, "/0: whole") {
		t.Errorf("one partition: exit code %d: %s", code, out)
	}
	if code, _, said := p.command("", "changelog", "verify", "-c", p.config, "--partition", "2"); code != misused || !strings.Contains(said, "partitions 0 to 1") {
		t.Errorf("a partition that is not there: exit code %d: %s", code, said)
	}
	policy, delete := "cleanup.policy", "delete"
	if _, err := p.admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: policy, Value: &delete}}, "plant-changelog"); err != nil {
		t.Fatal(err)
	}
	p.write([]byte{0x7e}, nil)
	p.write(record.AppendStart(record.AppendField(record.EntryPrefix(nil, "hourly"), []byte("d1")), 0), []byte{1, 2, 3})
	p.write(record.CommitKey, []byte{1})
	code, out, said = p.command("", "changelog", "verify", "-c", p.config)
	if code != refused || !strings.Contains(out, "plant-changelog/0: whole") || !strings.Contains(out, "plant-changelog/1: damaged") {
		t.Errorf("exit code %d: %s", code, out)
	}
	for _, want := range []string{"cleanup.policy=delete, which can lose state", "key 7e is of no kind", "commit record: damaged", "the log folds to"} {
		if strings.Count(said, want) != 1 {
			t.Errorf("%q is not said once, but: %s", want, said)
		}
	}
}

// TestChangelogDump prints each committed record, also what cannot be read.
func TestChangelogDump(t *testing.T) {
	p := newPlant(t)
	p.write([]byte{0x7e}, []byte("<&>"))
	p.write(record.AppendStart(record.AppendField(record.EntryPrefix(nil, "other"), []byte("d1")), 0), []byte{1, 2, 3})
	p.write(record.AppendStart(record.AppendField(record.EntryPrefix(nil, "hourly"), []byte("d1")), 0), nil)
	code, out, said := p.command("", "changelog", "dump", "-c", p.config)
	if code != done || said != "" {
		t.Fatalf("exit code %d: %s", code, said)
	}
	for want, least := range map[string]int{
		`"fence":{"id":"`:                                     2,
		`"commit":{"number":0,"birth":"`:                      2,
		`"counters":{"in":`:                                   4,
		`"entry":{"agg":"hourly","key":["d`:                   4,
		`"tombstone":{"agg":"hourly","key":["d1"],"start":0}`: 1,
		`"not_configured":{"agg":"other","key":["d1"],"start":0},"value_b64":"AQID"}`:                          1,
		`"damaged":"the key is of no kind that changelog format 1 knows","key_b64":"fg==","value_b64":"PCY+"}`: 1,
	} {
		if n := strings.Count(out, want); n < least {
			t.Errorf("%s is there %d times, want %d:\n%s", want, n, least, out)
		}
	}
	if code, only, _ := p.command("", "changelog", "dump", "-c", p.config, "--partition", "0"); code != done || only != out[:len(only)] || len(only) == len(out) {
		t.Errorf("one partition: exit code %d:\n%s", code, only)
	}
}
