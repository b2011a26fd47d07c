package proof

import "testing"

// Each part of what is published must matter, and nothing else.
func TestDiffer(t *testing.T) {
	whole := func() *Sight {
		return &Sight{Dump: []byte("a\nb\n"), Observed: Observed{
			Results: []Line{{Aggregation: "m", Final: true, Place: "here", Numbers: map[string]Number{"count": {Text: "3"}}}, {Aggregation: "m"}},
			Late:    []Output{{Offset: 1}}, Dead: []Output{{Offset: 2, Reason: "syntax"}}, Counters: []Counters{{StreamTime: 5}}}}
	}
	same := whole()
	same.Results[0].Place, same.Results = "elsewhere", same.Results[:1]
	if found := Differ(whole(), same); len(found) != 0 {
		t.Errorf("the same differs: %v", found)
	}
	for name, change := range map[string]func(*Sight){
		"state":    func(s *Sight) { s.Dump = []byte("a\nc\n") },
		"lost":     func(s *Sight) { s.Results = nil },
		"twice":    func(s *Sight) { s.Results = append(s.Results, s.Results[0]) },
		"number":   func(s *Sight) { s.Results[0].Numbers["count"] = Number{Text: "4"} },
		"late":     func(s *Sight) { s.Late[0].Offset++ },
		"dead":     func(s *Sight) { s.Dead[0].Reason = "" },
		"counters": func(s *Sight) { s.Counters[0].StreamTime++ },
	} {
		other := whole()
		change(other)
		if len(Differ(whole(), other)) == 0 {
			t.Errorf("%s: not seen", name)
		}
	}
}
