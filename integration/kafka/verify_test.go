package kafka

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	config := onKafka(t)
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
	if report == "" && !strings.Contains(said.String(), "readings of kills-readings") {
		t.Errorf("the user's own readings were not used: %s", &said)
	}
	if after := names(t, client); !slices.Equal(before, after) {
		t.Errorf("topics and groups before %q, after %q", before, after)
	}
	t.Logf("%s", lines[len(lines)-1])
}

// onKafka writes the file of the job with the test's broker.
func onKafka(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../testdata/kills.yaml")
	if err != nil {
		t.Fatal(err)
	}
	embedded, brokers := "kafka: {embedded: {partitions: 2}}", "kafka: {brokers: ["+broker.Addr+"]}"
	if !bytes.Contains(text, []byte(embedded)) {
		t.Fatalf("no %q in the file", embedded)
	}
	path := filepath.Join(t.TempDir(), "job.yaml")
	if err := os.WriteFile(path, bytes.Replace(text, []byte(embedded), []byte(brokers), 1), 0o600); err != nil {
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
