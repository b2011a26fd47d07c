package kafka

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-streams/tidemark/internal/proof"
)

// TestVerifyOnKafka tries a job on the user's brokers, with the user's own readings: nothing may be found, and nothing of
// the job may be touched or left behind (R37). TIDEMARK_KILLS is the number of kills; with TIDEMARK_REPORT, the name of a
// file, readings are generated and the report is written there.
func TestVerifyOnKafka(t *testing.T) {
	kills, report := 6, os.Getenv("TIDEMARK_REPORT")
	if text := os.Getenv("TIDEMARK_KILLS"); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	config := onKafka(t, "kills")
	seed := randomSeed(t)%1_000_000 + 1
	args := []string{"verify", "-c", config, "--json", "--kills", fmt.Sprint(kills), "--seed", fmt.Sprint(seed)}
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.Addr))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if report != "" {
		args = append(args, "--report", report, "--parallel", "2")
	} else {
		own(t, client, kills)
	}
	before := names(t, client)
	program, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	said := tried(t, program, kills, args...)
	if report == "" && !strings.Contains(said, "readings of kills-readings") {
		t.Errorf("the user's own readings were not used: %s", said)
	}
	if after := names(t, client); !slices.Equal(before, after) {
		t.Errorf("topics and groups before %q, after %q", before, after)
	}
}

// tried runs a trial that must find nothing, and returns what it said.
func tried(t *testing.T, program string, kills int, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TIDEMARK_") })
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v; it said:\n%s\n%s", err, &said, &out)
	}
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	var v struct {
		Useful    int `json:"useful_kills"`
		Anomalies int `json:"anomalies"`
	}
	if err := json.Unmarshal(lines[len(lines)-1], &v); err != nil || v.Useful < kills || v.Anomalies != 0 {
		t.Errorf("%s, error %v", lines[len(lines)-1], err)
	}
	t.Logf("%s", lines[len(lines)-1])
	return said.String()
}

// TestVerifyKindsOnKafka tries a job with updates and current values, whose consumers see the last record of each key, and one
// with stages, whose topics are the trial's too. Then one is interrupted: nothing is left behind either.
func TestVerifyKindsOnKafka(t *testing.T) {
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.Addr))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	program, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	before := names(t, client)
	for _, job := range []string{"kinds", "rekey"} {
		tried(t, program, 6, "verify", "-c", onKafka(t, job), "--json", "--kills", "6", "--seed", fmt.Sprint(randomSeed(t)%1_000_000+1))
	}
	cmd := exec.Command(program, "verify", "-c", onKafka(t, "rekey"), "--json", "--kills", "1000")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for n := 0; n < 4 && lines.Scan(); n++ { // kills
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
	}
	_ = cmd.Wait() // an exit code that is not 0 is an error here
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit code %d after an interruption", code)
	}
	if after := names(t, client); !slices.Equal(before, after) {
		t.Errorf("topics and groups before %q, after %q", before, after)
	}
}

// onKafka writes the file of the job with the test's broker.
func onKafka(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../testdata/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	embedded := regexp.MustCompile(`(?m)^kafka: .*$`)
	if !embedded.Match(text) {
		t.Fatalf("no kafka in the file")
	}
	path := filepath.Join(t.TempDir(), "job.yaml")
	if err := os.WriteFile(path, embedded.ReplaceAll(text, []byte("kafka: {brokers: [\""+broker.Addr+"\"]}")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// own writes the user's own readings.
func own(t *testing.T, client *kgo.Client, kills int) {
	t.Helper()
	if _, err := kadm.NewClient(client).CreateTopic(t.Context(), 2, 1, nil, "kills-readings"); err != nil {
		t.Fatal(err)
	}
	fleet := proof.NewFleet(1, 50)
	config := proof.FleetConfig(1)
	var records []*kgo.Record
	for range 3000 * kills {
		line := fleet.Next()
		reading, _ := config.Read(line)
		records = append(records, &kgo.Record{Topic: "kills-readings", Key: reading.Record, Value: line})
	}
	if err := client.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// names lists all topics and groups.
func names(t *testing.T, client *kgo.Client) []string {
	t.Helper()
	admin := kadm.NewClient(client)
	topics, err := admin.ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	groups, err := admin.ListGroups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(topics.Names(), groups.Groups())
}
