package reading

import (
	"bytes"
	"testing"
)

// TestKeys shows that a record whose time and value are refused still has a place, and that one without a key has none.
func TestKeys(t *testing.T) {
	format := DefaultFormat()
	format.Key, format.Time, format.Values = []string{"site", "device"}, "ts", []string{"v"}
	r, err := NewReader(format)
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{
		`{"device":7.0,"site":"caf\u00e9","ts":"never","v":null}`,
		`{"site":"café","device":7.0}`,
	} {
		keys, refusal := r.Keys(&Record{Value: []byte(value)})
		if refusal != nil || string(bytes.Join(keys, []byte("|"))) != "café|7.0" {
			t.Errorf("%s: keys are %q (%v)", value, keys, refusal)
		}
	}
	for value, want := range map[string]Reason{
		`{"site":"a","ts":1,"v":2}`:         MissingField,
		`{"site":"","device":1}`:            EmptyKey,
		`{"site":null,"device":1}`:          NullField,
		`{"site":"a","device":"b","v":1e}`:  InvalidNumber,
		`{"site":"a","device":"b"} trailer`: TrailingData,
	} {
		if keys, refusal := r.Keys(&Record{Value: []byte(value)}); refusal == nil || refusal.Reason != want {
			t.Errorf("%s: keys are %q, refusal %v, want %v", value, keys, refusal, want)
		}
	}
}
