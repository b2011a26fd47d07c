package config

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestParts lists the jobs that a configuration with two keys consists of.
func TestParts(t *testing.T) {
	data, err := os.ReadFile("testdata/rekey.good.yml")
	if err != nil {
		t.Fatal(err)
	}
	job, err := Parse(fileName, data, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range job.Parts() {
		var names []string
		for _, a := range p.Aggregations {
			names = append(names, a.Name)
		}
		under := ""
		if p.HandOn != nil {
			under = fmt.Sprintf(" under %v", p.HandOn)
		}
		if p.Quiet {
			under += ", quiet"
		}
		got = append(got, fmt.Sprintf("%d %s: %s -> %s by %v%s, changelog %s, state %s, late %q, aggregations %v", p.Part, p.Name, p.Input.Topic,
			p.Between, p.Input.Format.Key, under, p.Changelog.Topic, p.State.Dir, p.Late, strings.Join(names, " ")))
	}
	want := []string{
		`1 boiler-room-rekey: readings -> boiler-room-keyed by [site device], changelog boiler-room-changelog-rekey, state state/rekey, late "", aggregations `,
		`1 boiler-room-rekey-by-site: readings -> boiler-room-keyed-by-site by [site device] under [site], quiet, changelog boiler-room-changelog-rekey-by-site, state state/rekey-by-site, late "", aggregations `,
		`2 boiler-room: boiler-room-keyed ->  by [site device], changelog boiler-room-changelog, state ./state, late "boiler-room-late", aggregations a c`,
		`2 boiler-room-by-site: boiler-room-keyed-by-site ->  by [site], changelog boiler-room-changelog-by-site, state state/by-site, late "boiler-room-late", aggregations b`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
