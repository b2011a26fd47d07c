package preflight

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// Times below which a setting of the input or the changelog deserves a look.
const (
	leastInput   = 24 * time.Hour   // retention.ms of the input: a job that is down for longer loses readings
	leastDeleted = 10 * time.Minute // delete.retention.ms of the changelog: older checkpoints are of no use
)

// settings judges a topic's settings.
func (j *judge) settings(name string, t *kafka.SurveyedTopic) {
	if t.ConfigsErr != nil {
		return
	}
	switch name {
	case j.Input:
		j.inputSettings(t.Configs)
	case j.Changelog:
		j.changelogSettings(t.Configs)
	default:
		if strings.Contains(t.Configs["cleanup.policy"], "compact") {
			j.warn(name, j.set(name, "cleanup.policy", "delete"), "%s has cleanup.policy=%s: of the records of one key only the last is kept", name, t.Configs["cleanup.policy"])
		}
	}
	if n, ok := number(t.Configs, "max.message.bytes"); ok && name != j.Input && n < kafka.LeastMessage {
		j.fault(name, j.set(name, "max.message.bytes", "1048588"), "%s has max.message.bytes=%d: batches have up to %d bytes, and one that is refused stops a task", name, n, kafka.LeastMessage)
	}
}

func (j *judge) inputSettings(configs map[string]string) {
	name := j.Input
	if policy := configs["cleanup.policy"]; strings.Contains(policy, "compact") {
		j.warn(name, j.set(name, "cleanup.policy", "delete"), "input %s has cleanup.policy=%s: of the readings of one key only the last is sure to be there", name, policy)
	}
	if ms, ok := number(configs, "retention.ms"); ok && ms >= 0 && ms < leastInput.Milliseconds() {
		j.warn(name, j.set(name, "retention.ms", "604800000"), "input %s has retention.ms=%d: a job that is down for longer loses readings", name, ms)
	}
	if configs["message.timestamp.type"] == "CreateTime" {
		j.warn(name, "", "input %s has message.timestamp.type=CreateTime: where the producers' record timestamps are the devices' own clocks, a device with a fast clock can close the windows of the others (input.time.max_ahead compares the clock with itself)", name)
	}
}

func (j *judge) changelogSettings(configs map[string]string) {
	name := j.Changelog
	for _, key := range slices.Sorted(maps.Keys(kafka.ChangelogConfigs)) {
		have, want := configs[key], kafka.ChangelogConfigs[key]
		switch {
		case have == "" || have == want || key == "unclean.leader.election.enable": // that one is judged for all topics
		case slices.Contains(kafka.RequiredConfigs, key):
			j.fault(name, j.set(name, key, want), "changelog %s has %s=%s, which can lose state; wanted %s", name, key, have, want)
		case key == "delete.retention.ms":
			if ms, ok := number(configs, key); ok && ms < leastDeleted.Milliseconds() {
				j.warn(name, j.set(name, key, want), "changelog %s has %s=%s: checkpoints older than that are of no use", name, key, have)
			}
		default:
			j.warn(name, j.set(name, key, want), "changelog %s has %s=%s, made by the job it would have %s: a replay may take longer", name, key, have, want)
		}
	}
}
