package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// The table of I8 in the code and the one that people read are one.
func TestClassesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../DESIGN.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	line := regexp.MustCompile(`(?m)^\| \*?(\w+)\*? \|([^|]*)\|.*<!-- codes -->$`)
	for _, m := range line.FindAllStringSubmatch(string(text), -1) {
		for _, code := range regexp.MustCompile(`[A-Z][A-Z_]{5,}`).FindAllString(m[2], -1) {
			documented[code] = m[1]
		}
	}
	coded := map[string]string{}
	for code, r := range classes {
		coded[code.Message] = r.class.String()
		if r.why == "" || r.class == kafka.ClassTransient && !turnedAway(code) {
			t.Errorf("%s: class %v, reason %q", code.Message, r.class, r.why)
		}
	}
	var differ []string
	for code, class := range coded {
		if documented[code] != class {
			differ = append(differ, fmt.Sprintf("%s is %s, DESIGN.md says %q", code, class, documented[code]))
		}
	}
	for code, class := range documented {
		if coded[code] == "" {
			differ = append(differ, fmt.Sprintf("%s is not in the code, DESIGN.md says %q", code, class))
		}
	}
	slices.Sort(differ)
	if len(differ) > 0 {
		t.Error(strings.Join(differ, "\n"))
	}
}

func TestClassOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want kafka.Class
	}{
		{errors.New("anything"), kafka.ClassTransient},
		{io.EOF, kafka.ClassTransient},
		{context.DeadlineExceeded, kafka.ClassTransient},
		{kerr.UnknownServerError, kafka.ClassTransient},
		{kerr.NotEnoughReplicas, kafka.ClassTransient},
		{kerr.ErrorForCode(31000), kafka.ClassTransient}, // of a broker newer than we are
		{fmt.Errorf("on the way: %w", kerr.ProducerFenced), kafka.ClassFenced},
		{fmt.Errorf("%w: %w", kerr.TransactionAbortable, kerr.UnknownTopicID), kafka.ClassLost},
		{&kgo.ErrDataLoss{}, kafka.ClassLost},
		{kerr.SaslAuthenticationFailed, kafka.ClassTransient},
	} {
		if got, _ := classOf(c.err); got != c.want {
			t.Errorf("%v: class %v, want %v", c.err, got, c.want)
		}
	}
	// An error that has a class keeps it, whatever is put around it.
	inner := &kafka.Error{Class: kafka.ClassLost, Op: "fetch", Err: io.EOF}
	if err := fail("send", nowhere, fmt.Errorf("while: %w", inner)); kafka.ClassOf(err) != kafka.ClassLost {
		t.Error(err)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	err := fail("send", place{"results", 3, -1}, kerr.TopicAuthorizationFailed)
	for _, part := range []string{"send results/3", "TOPIC_AUTHORIZATION_FAILED", "grant READ, WRITE"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
	if s := fail("create topic", place{"results", -1, -1}, io.EOF).Error(); s != "create topic results: EOF" {
		t.Error(s)
	}
	for code := range hints {
		if _, there := classes[code]; !there {
			t.Errorf("a hint for %s, which is transient", code.Message)
		}
	}
}
