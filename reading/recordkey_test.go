package reading

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// TestRecordKey compares record keys with the oracle's, for every byte that may need an escape, and reads them back.
func TestRecordKey(t *testing.T) {
	var awkward []byte
	for c := range byte(0x80) {
		awkward = append(awkward, c)
	}
	for _, fields := range [][]string{
		{"boiler-7"}, {""}, {`a"b`}, {"5.0"},
		{"site", "device"}, {"", ""}, {"café", "[1,2]", "7e3"},
		{string(awkward), "\u2028<>&\U0001F321"},
	} {
		split := make([][]byte, len(fields))
		for i, f := range fields {
			split[i] = []byte(f)
		}
		got := AppendRecordKey([]byte("kept "), split)
		if want := append([]byte("kept "), oracle.RecordKey(fields)...); !bytes.Equal(got, want) {
			t.Errorf("record key of %q is %s, want %s", fields, got, want)
		}
		var back []string
		if len(fields) > 1 {
			if err := json.Unmarshal(got[5:], &back); err != nil || !slices.Equal(back, fields) {
				t.Errorf("record key %s reads back as %q (%v)", got, back, err)
			}
		}
	}
}
