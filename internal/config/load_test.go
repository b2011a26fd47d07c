package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tidemark-streams/tidemark/aggregate"
	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/reading"
	"github.com/tidemark-streams/tidemark/window"
)

var update = flag.Bool("update", false, "write what the files of testdata want anew")

// same compares two jobs, secrets included, without where their values came from.
var same = cmp.Options{cmp.AllowUnexported(Secret{}), cmpopts.IgnoreUnexported(Job{}), cmpopts.IgnoreFields(Job{}, "Warnings"),
	cmp.AllowUnexported(window.Calendar{}),
	cmp.Comparer(func(a, b *time.Location) bool {
		return (a == nil) == (b == nil) && (a == nil || a.String() == b.String())
	})}

// A file of testdata says at its end what it wants and what the environment is:
//
//	# env NAME=VALUE
//	# warn LINE: KEY: WHAT
//	# want LINE: KEY: WHAT; HINT
//
// in the very words of the program, all of them, in their order. "environment" stands in place of a line for what the
// environment has wrong.
type wanted struct {
	environ, warnings, faults []string
}

const fileName = "job.yml" // what messages call the files of testdata

func readWanted(data []byte) (w wanted) {
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		for mark, list := range map[string]*[]string{"# env ": &w.environ, "# warn ": &w.warnings, "# want ": &w.faults} {
			if text, ok := strings.CutPrefix(line, mark); ok {
				*list = append(*list, text)
			}
		}
	}
	return w
}

// lines are faults in the form of testdata.
func lines(faults []Fault) (all []string) {
	for _, f := range faults {
		all = append(all, strings.TrimPrefix(strings.TrimPrefix(f.String(), fileName), ":"))
	}
	return all
}

func files(t *testing.T, pattern string, fn func(t *testing.T, path string, data []byte, w wanted)) {
	paths, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no file %s: %v", pattern, err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			fn(t, path, data, readWanted(data))
		})
	}
}

func TestGoodFiles(t *testing.T) {
	files(t, "*.good.yml", func(t *testing.T, path string, data []byte, w wanted) {
		job, err := Parse(fileName, data, w.environ)
		if err != nil {
			t.Fatal(err)
		}
		compare(t, path, data, "# warn ", w.warnings, lines(job.Warnings))
		again, err := Parse(fileName, []byte(job.String()), w.environ)
		if err != nil {
			t.Fatalf("read again: %v\n%s", err, job)
		}
		if diff := cmp.Diff(job, again, same); diff != "" {
			t.Errorf("read again it is another job: -first +again\n%s\n%s", diff, job)
		}
	})
}

func TestBadFiles(t *testing.T) {
	files(t, "*.bad.yml", func(t *testing.T, path string, data []byte, w wanted) {
		_, err := Parse(fileName, data, w.environ)
		var faults Faults
		if !errors.As(err, &faults) || len(faults) == 0 {
			t.Fatalf("error is %T %v, want faults", err, err)
		}
		compare(t, path, data, "# want ", w.faults, lines(faults))
	})
}

// compare compares, or with -update writes, what a file wants.
func compare(t *testing.T, path string, data []byte, mark string, want, got []string) {
	if *update {
		var kept []string
		for line := range strings.Lines(string(data)) {
			if !strings.HasPrefix(line, mark) {
				kept = append(kept, line)
			}
		}
		for _, line := range got {
			kept = append(kept, mark+line+"\n")
		}
		if err := os.WriteFile(path, []byte(strings.Join(kept, "")), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: -want +got\n%s", path, diff)
	}
}

// TestExample reads the example of the design and of the reference page and compares every field.
func TestExample(t *testing.T) {
	got, err := Load("testdata/example.good.yml", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := &Job{
		Name:  "boiler-room",
		Kafka: Kafka{Brokers: []string{"localhost:9092"}},
		Input: Input{
			Topic: "readings",
			Format: reading.Format{Key: []string{"device"}, Values: []string{"temperature"}, Time: "ts",
				Unit: reading.Milliseconds, Min: 946684800000, MaxAhead: 5 * time.Minute},
			PartitionedBy: []string{"device"}, Partitioner: job.Murmur2, Quorum: 1,
		},
		Aggregations: []Aggregation{{Aggregation: job.Aggregation{Name: "hourly", Window: window.Tumbling{Size: 3_600_000}, Grace: 300_000,
			Functions: aggregate.Plain}, Output: "hourly"}},
		Late: "readings-late", DeadLetter: "readings-dead",
		Changelog:  Changelog{Topic: "boiler-room-changelog"},
		State:      State{Dir: "./state"},
		Commit:     Commit{Interval: 100 * time.Millisecond, MaxRecords: 50_000, MaxBytes: 16 << 20},
		Checkpoint: 30 * time.Second,
		Timeouts:   DefaultTimeouts(),
	}
	if diff := cmp.Diff(want, got, same); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestDefaults: a file with nothing but what is required gives the defaults, and the environment changes them.
func TestDefaults(t *testing.T) {
	job, err := Load("testdata/minimal.good.yml", []string{"TIDEMARK_COMMIT_MAX_RECORDS=7", "TIDEMARK_KAFKA_BROKERS=a:1, b:2", "HOME=/"})
	if err != nil {
		t.Fatal(err)
	}
	if job.Late != "boiler-room-late" || job.DeadLetter != "boiler-room-dead" || job.Changelog.Topic != "boiler-room-changelog" {
		t.Errorf("topics %q %q %q", job.Late, job.DeadLetter, job.Changelog.Topic)
	}
	if job.Commit.MaxRecords != 7 || !slices.Equal(job.Kafka.Brokers, []string{"a:1", "b:2"}) {
		t.Errorf("the environment was not heard: %d records, brokers %q", job.Commit.MaxRecords, job.Kafka.Brokers)
	}
	sources := map[string]Setting{}
	for _, s := range job.Settings() {
		sources[s.Key] = s
	}
	for key, want := range map[string]Setting{
		"aggregations[0].window.grace": {Value: "0s", Source: "default"}, // W06
		"commit.max_records":           {Value: "7", Source: "environment"},
		"kafka.brokers":                {Value: `["a:1", "b:2"]`, Source: "environment"},
		"input.topic":                  {Value: "readings", Source: "testdata/minimal.good.yml:4"},
		"input.partitioned_by":         {Value: "[device]", Source: "default"},
		"late.topic":                   {Value: "boiler-room-late", Source: "default"},
	} {
		want.Key = key
		if got := sources[key]; got.Source != want.Source || strings.ReplaceAll(got.Value, `"`, "") != strings.ReplaceAll(want.Value, `"`, "") {
			t.Errorf("%s: %+v, want %+v", key, got, want)
		}
	}
}

func TestUnreadableFile(t *testing.T) {
	for path, want := range map[string]string{
		"testdata/none.yml": "testdata/none.yml: the file cannot be read: no such file or directory; -c names the file of the job",
		"testdata":          "testdata: the file cannot be read: is a directory; -c names the file of the job",
	} {
		_, err := Load(path, nil)
		if err == nil || err.Error() != want {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

func TestHostileFiles(t *testing.T) {
	for name, test := range map[string]struct {
		data, want string
	}{
		"bad UTF-8": {"job: a\nkafka: \xff\n", "job.yml:2: the line is not valid UTF-8; save the file as UTF-8"},
		"UTF-16":    {"\xff\xfej\x00o\x00", "job.yml:1: the line is not valid UTF-8; save the file as UTF-8"},
		"zero byte": {"job: a\x00b\n", "job.yml:1: the line holds a zero byte; save the file as UTF-8"},
		"too large": {strings.Repeat("# \n", maxFileBytes/3+1), "job.yml: the file is larger than 1MiB"},
		"brackets":  {strings.Repeat("[", 100_000), "job.yml:1: not YAML: exceeded max depth of 10000"},
		"deep":      {"a: " + strings.Repeat("[", 40) + strings.Repeat("]", 40), "nested more than 32 deep"},
		"aliases":   {"a: &a [x,x,x]\nb: &b [*a,*a,*a]\nc: &c [*b,*b,*b]\n", "job.yml:2: b[0]: YAML's anchors, aliases and tags are not read here"},
	} {
		_, err := Parse(fileName, []byte(test.data), nil)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v\nwant %s", name, err, test.want)
		}
	}
}

// TestTextsSurvive: whatever text a file holds, or the environment, is read as it stands, and is the same after it was
// written into the effective configuration and read again.
func TestTextsSurvive(t *testing.T) {
	minimal, err := os.ReadFile("testdata/minimal.good.yml")
	if err != nil {
		t.Fatal(err)
	}
	odd := []string{"null", "~", "true", "No", "0x1", "1e3", ".inf", "2000-01-01", "12:30", "- a", "? a", "a: b", "a #b", "#", "&a", "*a", "!a", "|", ">", "%", "@", "`",
		"'", `"`, `\\`, "{", "}", "[", "]", ",", " a ", "<<", "=", "---", "...", "\u00a0", "\u2028", "\ufeff", "é", "😀"}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.SampledFrom(odd), rapid.StringOfN(rapid.RuneFrom(nil, unicode.PrintRanges...), 1, 20, -1)).Draw(t, "text")
		if strings.TrimSpace(text) == "" {
			return
		}
		quotedText, err := json.Marshal(text) // JSON is YAML
		if err != nil {
			t.Fatal(err)
		}
		data := bytes.Replace(minimal, []byte("[device]"), []byte("[device, {name: site, constant: "+string(quotedText)+"}]"), 1)
		environ := []string{"TIDEMARK_STATE_DIR=" + text}
		job, err := Parse(fileName, data, environ)
		if err != nil {
			t.Fatal(err)
		}
		if job.Input.Format.Parts[1].Name != text || job.State.Dir != text {
			t.Fatalf("read as %q and %q, want %q", job.Input.Format.Parts[1].Name, job.State.Dir, text)
		}
		again, err := Parse(fileName, []byte(job.String()), nil)
		if err != nil {
			t.Fatalf("read again: %v\n%s", err, job)
		}
		if diff := cmp.Diff(job, again, same); diff != "" {
			t.Fatalf("read again it is another job: -first +again\n%s\n%s", diff, job)
		}
	})
}

// FuzzParse: whatever file and environment hold, there are faults, or a job that is the same when it is written and
// read again. Nothing panics, and nothing hangs.
func FuzzParse(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.yml")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		w := readWanted(data)
		f.Add(data, strings.Join(w.environ, "\n"))
	}
	f.Fuzz(func(t *testing.T, data []byte, environ string) {
		if bytes.Contains(data, []byte("_file")) || bytes.Contains(data, []byte("tls")) || strings.Contains(environ, "_FILE") || strings.Contains(environ, "TLS") {
			return // would read files of this machine
		}
		env := strings.Split(environ, "\n")
		job, err := Parse(fileName, data, env)
		if err != nil {
			var faults Faults
			if !errors.As(err, &faults) || len(faults) == 0 {
				t.Fatalf("error is %T %v, want faults", err, err)
			}
			for _, f := range faults {
				if f.File == "" || f.What == "" {
					t.Fatalf("empty fault %+v", f)
				}
			}
			return
		}
		again, err := Parse(fileName, []byte(job.String()), env)
		if err != nil {
			t.Fatalf("read again: %v\n%s", err, job)
		}
		if diff := cmp.Diff(job, again, same); diff != "" {
			t.Fatalf("read again it is another job: -first +again\n%s\n%s", diff, job)
		}
	})
}
