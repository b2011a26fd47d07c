package kafka

import (
	"fmt"
	"strconv"

	"github.com/tidemark-streams/tidemark/internal/defect"
)

// ChangelogConfigs are the settings that a changelog is made with (section 4, R29): what state could be lost by, or what
// the age of a checkpoint is judged by, must hold; see ChangelogFaults. The rest is advice. Callers must not change it.
var ChangelogConfigs = map[string]string{
	"cleanup.policy":                 "compact",
	"segment.bytes":                  strconv.Itoa(64 << 20),
	"segment.ms":                     strconv.Itoa(30 * 60 * 1000),
	"min.cleanable.dirty.ratio":      "0.2",
	"max.compaction.lag.ms":          strconv.Itoa(60 * 60 * 1000),
	"delete.retention.ms":            strconv.Itoa(2 * 60 * 60 * 1000),
	"message.timestamp.type":         "LogAppendTime",
	"unclean.leader.election.enable": "false",
}

// RequiredConfigs are the settings without which a changelog is refused: state would be deleted by age (V5), or the age
// of a checkpoint could not be told (R13).
var RequiredConfigs = []string{"cleanup.policy", "message.timestamp.type"}

// ChangelogFaults lists, with the repair of each, what no changelog may be like. input is the topic whose partitions its
// own must match; without a name it is not compared.
func ChangelogFaults(changelog, input TopicInfo) (faults []string) {
	if input.Name != "" && changelog.Partitions != input.Partitions {
		faults = append(faults, fmt.Sprintf("changelog %s has %d partitions and input %s has %d: they must be equal, for a task is one of each. "+
			"Repair: name another changelog topic, or give the input its old count back", changelog.Name, changelog.Partitions, input.Name, input.Partitions))
	}
	for _, key := range RequiredConfigs {
		have, want := changelog.Configs[key], ChangelogConfigs[key]
		if have != "" && have != want && !defect.NonCompacted {
			faults = append(faults, fmt.Sprintf("changelog %s has %s=%s, which can lose state; wanted %s. "+
				"Repair: kafka-configs.sh --bootstrap-server HOST:PORT --alter --entity-type topics --entity-name %s --add-config %s=%s",
				changelog.Name, key, have, want, changelog.Name, key, want))
		}
	}
	return faults
}

// LeastMessage is the smallest max.message.bytes of a topic that is written: batches have up to 1,000,000 bytes before
// compression, a head of 61 bytes, and not all bytes can be compressed. A broker refuses a larger batch whatever its
// records are, each time it is sent.
const LeastMessage = 1_000_061

// SizeFault says, with the repair, that a topic that is written takes less than a whole batch; "" when it takes one, or
// when its settings are not known.
func SizeFault(t TopicInfo) string {
	n, err := strconv.ParseInt(t.Configs["max.message.bytes"], 10, 64)
	if err != nil || n >= LeastMessage {
		return ""
	}
	return fmt.Sprintf("topic %s has max.message.bytes=%d: batches have up to %d bytes, and one that is refused stops a task. "+
		"Repair: kafka-configs.sh --bootstrap-server HOST:PORT --alter --entity-type topics --entity-name %s --add-config max.message.bytes=1048588",
		t.Name, n, LeastMessage, t.Name)
}
