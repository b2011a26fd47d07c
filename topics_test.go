package tidemark

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/kafkatest"
)

// TestSmallMessagesAreRefused keeps a job away from topics that would refuse a full batch: each is named with its number,
// the one that is needed and the repair, before anything is made, joined or fenced. The input may be as it likes.
func TestSmallMessagesAreRefused(t *testing.T) {
	w := newWorld(t, 2)
	changelog := map[string]string{"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"}
	w.cluster.CreateTopic("changelog", 2, changelog)
	w.cluster.CreateTopic("out", 2, nil)
	small := []string{"changelog", "out"}
	for _, name := range append(small, "in") {
		w.cluster.SetConfig(name, "max.message.bytes", "1000060")
	}
	w.produce(100)
	app, err := New(w.options())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err = app.Run(ctx)
	if kafka.ClassOf(err) != kafka.ClassPermanent {
		t.Fatalf("class %v of %v", kafka.ClassOf(err), err)
	}
	for _, name := range small {
		for _, want := range []string{"topic " + name + " has max.message.bytes=1000060: batches have up to 1000061 bytes",
			"--entity-name " + name + " --add-config max.message.bytes=1048588"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("want %q in %v", want, err)
			}
		}
	}
	if !strings.HasSuffix(err.Error(), "\ntidemark check --live prints the commands with the address of your brokers") {
		t.Errorf("it does not say where its commands are to be had with the address: %v", err)
	}
	if strings.Contains(err.Error(), "topic in ") || w.cluster.Calls(kafkatest.OpFence) > 0 {
		t.Errorf("%d fences, %v", w.cluster.Calls(kafkatest.OpFence), err)
	}
	for _, name := range small {
		w.cluster.SetConfig(name, "max.message.bytes", "1000061")
	}
	w.run(w.options())
	w.results()
}
