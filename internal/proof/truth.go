package proof

import (
	"fmt"
	"strconv"

	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// AgainstTruth compares the open windows of an aggregation, bit for bit, with a truth file that other programs made, without
// the oracle's model in between. The means are left out: those of a truth file are rounded twice.
func (s *Sight) AgainstTruth(aggregation string, truth []oracle.Truth) error {
	state := map[string]*Line{}
	for i := range s.State {
		if s.State[i].Aggregation == aggregation {
			state[s.State[i].ID()] = &s.State[i]
		}
	}
	if len(state) != len(truth) {
		return fmt.Errorf("%s: %d windows, the truth has %d", aggregation, len(state), len(truth))
	}
	for i := range truth {
		want := &truth[i]
		got := state[oracle.WindowID(aggregation, want.Key, want.Start)]
		if got == nil {
			return fmt.Errorf("%s: no window of %q at %d", aggregation, want.Key, want.Start)
		}
		for name, x := range map[string]float64{"count": float64(want.Count), "sum": want.Sum, "min": want.Min, "max": want.Max} {
			y, err := strconv.ParseFloat(got.Numbers[name].Text, 64)
			if err != nil || !oracle.SameBits(x, y) {
				return fmt.Errorf("%s: window of %q at %d: %s is %s, the truth has %v", aggregation, want.Key, want.Start, name, got.Numbers[name].Text, x)
			}
		}
	}
	return nil
}
