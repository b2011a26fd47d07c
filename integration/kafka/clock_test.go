package kafka

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/integration/kafkarun"
	"github.com/tidemark-streams/tidemark/integration/wrongclock"
)

// TestW20OnKafka runs the case W25 on a machine whose clock is wrong by a day and by decades: the topics refuse timestamps more
// than an hour away from the broker's time and delete what is old by its timestamp, and nothing is refused and nothing goes,
// for all that is written bears the broker's time. Like the other tests that set a machine's clock it runs when
// TIDEMARK_TEST_CLOCK is set.
func TestW20OnKafka(t *testing.T) {
	if os.Getenv("TIDEMARK_TEST_CLOCK") == "" {
		fmt.Println("a machine's clock is not set: TIDEMARK_TEST_CLOCK is not there")
		return
	}
	binary, err := wrongclock.Build("../..")
	if err != nil {
		t.Fatal(err)
	}
	b := kafkarun.Start(t, "log.retention.check.interval.ms=500", "log.initial.task.delay.ms=500")
	for name, by := range map[string]time.Duration{"in 1970": -time.Duration(time.Now().UnixNano()) + time.Hour, "tomorrow": 24 * time.Hour, "in 2056": 30 * 365 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock, err := wrongclock.New(t.TempDir(), binary, "run")
			if err != nil {
				t.Fatal(err)
			}
			if err := clock.Set(by); err != nil {
				t.Fatal(err)
			}
			c := newCrewAt(t, b.Addr, 1, 4*time.Minute, 1, nil)
			c.jobs[0].Binary = clock.Program
			retentionLeavesResults(c)
		})
	}
}
