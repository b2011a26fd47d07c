package main

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/internal/config"
)

// fence is a block of code of a page: its language and its text.
var fence = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")

// TestReadmeRuns does what the README tells a first user to do, word by word, but for the trial at the end: the job is
// saved, its readings are made, and each command ends well; then there are results and an open window.
func TestReadmeRuns(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Cleanup(func() { endBroker(t, filepath.Join(dir, "state", "broker", "lock")) })
	said := map[string]string{}
	run := func(name, line string) {
		cmd := exec.Command("bash", "-c", strings.Replace(line, "bin/tidemark", "tidemark", 1))
		var faults bytes.Buffer
		cmd.Dir, cmd.Stderr = dir, &faults
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%s: %v\n%s", line, err, &faults)
		}
		said[name] = string(out)
	}
	for _, block := range fence.FindAllStringSubmatch(string(page), -1) {
		switch text := block[2]; {
		case block[1] == "yaml":
			if err := os.WriteFile(filepath.Join(dir, "job.yaml"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		case strings.HasPrefix(text, "for i in"):
			run("readings", text)
		case strings.Contains(text, "-c job.yaml"):
			for line := range strings.Lines(text) {
				if name := strings.Fields(line)[1]; name != "verify" {
					run(name, line)
				}
			}
		}
	}
	if n := strings.Count(said["consume"], `"final":true`); n != 400 {
		t.Errorf("%d results, want those of 50 devices and 8 hours", n)
	}
	if n := strings.Count(said["state"], "\n"); n != 50 {
		t.Errorf("%d windows are open, want one of each device", n)
	}
}

// TestJobsOfPages: every job that a page shows is one that the program takes.
func TestJobsOfPages(t *testing.T) {
	jobs := 0
	look := func(path string, page []byte) {
		for _, block := range fence.FindAllSubmatch(page, -1) {
			if string(block[1]) != "yaml" || !bytes.HasPrefix(block[2], []byte("job:")) {
				continue
			}
			jobs++
			if _, err := config.Parse(path, block[2], nil); err != nil {
				t.Errorf("%v", err)
			}
		}
	}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		page, err := os.ReadFile(path)
		look(path, page)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if jobs < 3 {
		t.Errorf("only %d jobs found: the test looks at the wrong place", jobs)
	}
}
