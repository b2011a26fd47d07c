package proof

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Differ holds what a job published that was killed against what the same job published that nobody disturbed, over the
// same input: all must be the same but for results that are not final, which tell when commits came (I11). It is for
// jobs that have no oracle, and less than one: a mistake that both make is not seen.
func Differ(clean, killed *Sight) []Anomaly {
	var found []Anomaly
	compare := func(where string, want, got []string) {
		count := map[string]int{}
		for _, text := range want {
			count[text]++
		}
		for _, text := range got {
			count[text]--
		}
		for _, text := range slices.Sorted(maps.Keys(count)) {
			switch n := count[text]; {
			case n > 0:
				found = append(found, Anomaly{Kind: Lost, Where: where, Want: text, Found: fmt.Sprintf("%d fewer than in the clean run", n)})
			case n < 0:
				found = append(found, Anomaly{Kind: Unknown, Where: where, Want: "as in the clean run", Found: fmt.Sprintf("%d more of %s", -n, text)})
			}
		}
	}
	compare("state", strings.Split(string(clean.Dump), "\n"), strings.Split(string(killed.Dump), "\n"))
	compare("results", finals(clean.Results), finals(killed.Results))
	compare("late topic", outputTexts(clean.Late), outputTexts(killed.Late))
	compare("dead letter topic", outputTexts(clean.Dead), outputTexts(killed.Dead))
	if !reflect.DeepEqual(clean.Live, killed.Live) {
		found = append(found, Anomaly{Kind: WrongValue, Where: "changelog", Want: "the entries of the clean run, bit for bit", Found: "others"})
	}
	if !reflect.DeepEqual(clean.Counters, killed.Counters) {
		found = append(found, Anomaly{Kind: WrongValue, Where: "counters", Want: fmt.Sprintf("%+v", clean.Counters), Found: fmt.Sprintf("%+v", killed.Counters)})
	}
	return found
}

func finals(lines []Line) []string {
	var texts []string
	for _, l := range lines {
		if l.Final {
			texts = append(texts, fmt.Sprintf("%s [%d, %d) %v overflow %v", l.ID(), l.Start, l.End, l.Numbers, l.Overflow)) // maps print sorted
		}
	}
	return texts
}

func outputTexts(outputs []Output) []string {
	texts := make([]string, len(outputs))
	for i := range outputs {
		texts[i] = fmt.Sprintf("%q", fmt.Sprintf("%+v", outputs[i]))
	}
	return texts
}
