package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const movedJob = `
job: plant
kafka: {brokers: ["localhost:9092"]}
input: {topic: readings, key: [site, device], values: [v], time: {field: ts, unit: ms}, rekey: {partitions: 2}}
aggregations:
%s
late: {topic: readings-late}
dead_letter: {topic: readings-dead}
state: {dir: %q}
`

// TestMovedAggregation holds that an aggregation which is given another key under its old name does not begin anew
// without a word: run and check --live name both keys and refuse, also when nobody has the old key any more, and the ways
// on that they name work.
func TestMovedAggregation(t *testing.T) {
	_, admin := topic(t)
	p := &plant{t: t, config: filepath.Join(t.TempDir(), "job.yaml"), admin: admin}
	if _, err := admin.CreateTopics(t.Context(), 2, 1, nil, "devices", "sites", "readings-late", "readings-dead"); err != nil {
		t.Fatal(err)
	}
	const devices, sites = "  - {name: devices, window: {tumbling: 1h}, functions: [count], output: {topic: devices}}",
		"  - {name: sites, key: [site], window: {tumbling: 1h}, functions: [count], output: {topic: sites}}"
	run := func(wantCode int, want string, aggregations ...string) {
		t.Helper()
		text := fmt.Sprintf(movedJob, strings.Join(aggregations, "\n"), filepath.Join(filepath.Dir(p.config), "state"))
		if err := os.WriteFile(p.config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, out, said := p.command("", "run", "-c", p.config, "--until-idle"); code != wantCode || !strings.Contains(said, want) {
			t.Errorf("exit code %d, want %d with %q; it said:\n%s%s", code, wantCode, want, out, said)
		}
		if _, out, said := p.command("", "check", "-c", p.config, "--live"); want != "" && !strings.Contains(out, "fault: "+want) || want == "" && strings.Contains(out, "fault") {
			t.Errorf("check --live: %s%s", out, said)
		}
	}
	produce := func() {
		t.Helper()
		if code, _, said := p.command(`{"site":"s","device":"d","ts":1704067200000,"v":1}`, "produce", "-c", "testdata/job.yaml", "-"); code != done {
			t.Fatal(said)
		}
	}
	produce()
	run(done, "", devices, sites)
	moved := strings.Replace(sites, "key: [site]", "key: [device]", 1)
	const refusal = "aggregation sites has the key [device], and its state in changelog plant-changelog-by-site is that of the key [site]"
	run(refused, refusal, devices, moved)
	run(refused, refusal, moved) // nobody has the key [site] or the input's any more
	run(refused, "aggregation devices has the key [site], and its state in changelog plant-changelog is that of the key [site, device]",
		strings.Replace(devices, "devices,", "devices, key: [site],", 1), sites)
	run(done, "", devices, sites)                                                       // the old keys back
	run(done, "", devices, strings.Replace(moved, "name: sites", "name: by-device", 1)) // a new name
	other := strings.Replace(sites, "name: sites", "name: other", 1)
	run(done, "", devices, sites, other)
	run(done, "", devices, other) // once without it
	produce()
	run(done, "", devices, moved, other)
	run(refused, "aggregation sites has the key [site]", devices, sites, other)
	if answer, err := admin.DeleteTopics(t.Context(), "plant-changelog-by-device"); err != nil || answer.Error() != nil {
		t.Fatal(err, answer.Error())
	}
	run(done, "", devices, sites, other)
}
