package kafkarun

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A machine without Java or Maven, or with an old Java, is told what to install: never a skip.
func TestMachineThatCannotRunKafka(t *testing.T) {
	for name, c := range map[string]struct {
		java, want string
	}{
		"no java":       {"", "java is needed"},
		"old java":      {`echo 'openjdk version "11.0.2" 2019' >&2`, "java is of version 11"},
		"very old java": {`echo 'java version "1.8.0_202"' >&2`, "java is of version 8"},
		"broken java":   {"exit 3", "java -version: exit status 3"},
		"strange java":  {"echo hello", "does not name a version"},
		"no maven":      {`echo 'openjdk version "17.0.15" 2025' >&2`, "mvn is needed once"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if c.java != "" {
				if err := os.WriteFile(filepath.Join(dir, "java"), []byte("#!/bin/sh\n"+c.java+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", dir)
			t.Setenv("XDG_CACHE_HOME", t.TempDir())
			t.Setenv("HOME", t.TempDir())
			_, err := Jars(t.Context(), "kafka-"+Version, pom)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "apt-get install -y --no-install-recommends default-jre-headless maven") {
				t.Errorf("%v, want %q and what to install", err, c.want)
			}
		})
	}
}
