package oracle

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Set is one data set: lines of JSON, and the truth of its windows of one hour.
type Set struct {
	Name  string // as the file is called, for example "nab" or "sma_inverter_nan.tokens"
	Lines string // path of the gzipped lines
	Truth string // path of the truth file
}

// RealSets are the sets that every run of the tests reads when the data is there.
var RealSets = []string{"nab", "ulb_no5_motes", "sma_inverter_nan", "sma_inverter_nan.tokens", "lorawan_endpoints"}

// Sets lists the data sets in a directory by name. With all it is every set, else RealSets.
func Sets(dir string, all bool) ([]Set, error) {
	names := RealSets
	if all {
		files, err := filepath.Glob(filepath.Join(dir, "*.jsonl.gz"))
		if err != nil {
			return nil, err
		}
		names = nil
		for _, f := range files {
			names = append(names, strings.TrimSuffix(filepath.Base(f), ".jsonl.gz"))
		}
	}
	var sets []Set
	for _, name := range names {
		s := Set{Name: name, Lines: filepath.Join(dir, name+".jsonl.gz"),
			Truth: filepath.Join(dir, strings.TrimSuffix(name, ".tokens")+".truth.csv")}
		for _, path := range []string{s.Lines, s.Truth} {
			if _, err := os.Stat(path); err != nil {
				return nil, err
			}
		}
		sets = append(sets, s)
	}
	return sets, nil
}

var epochTime = regexp.MustCompile(`"ts": *[0-9]`)

// TimeUnit is the unit of the time field of a set, seen in its first line: ms or rfc3339.
func TimeUnit(line []byte) string {
	if epochTime.Match(line) {
		return "ms"
	}
	return "rfc3339"
}
