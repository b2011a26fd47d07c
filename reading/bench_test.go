package reading

import (
	"encoding/json"
	"testing"
)

// sink keeps what benchmarks compute.
var sink float64

// Record timestamp and event time of the benchmarks.
const benchNow = 1704067200123

var benchmarks = []struct{ name, document, unit string }{
	{"plain", `{"device":"d-000123","ts":1704067200123,"value":21.53}`, "ms"},
	{"fields8", `{"device":"d-000123","site":"north-4","fw":"2.11.0","ts":1704067200123,"value":21.53,"unit":"C","rssi":-71,"ok":true}`, "ms"},
	{"nested", `{"device":"d-000123","meta":{"gateway":{"id":"gw-7","rssi":-71,"snr":9.5},"tags":["a","b",{"c":null}]},"ts":1704067200123,"value":21.53}`, "ms"},
	{"rfc3339", `{"device":"d-000123","ts":"2024-01-01T00:00:00.123Z","value":21.53}`, "rfc3339"},
	{"digits17", `{"device":"d-000123","ts":1704067200123,"value":10.357019999999999}`, "ms"},
}

func BenchmarkRead(b *testing.B) {
	for _, c := range benchmarks {
		b.Run(c.name, func(b *testing.B) {
			format := DefaultFormat()
			format.Key, format.Time, format.Values = []string{"device"}, "ts", []string{"value"}
			format.Unit, _ = ParseUnit(c.unit)
			r, err := NewReader(format)
			if err != nil {
				b.Fatal(err)
			}
			document := []byte(c.document)
			b.SetBytes(int64(len(document)))
			b.ReportAllocs()
			for b.Loop() {
				got, refusal := r.Read(document, benchNow)
				if refusal != nil {
					b.Fatal(refusal)
				}
				sink += got.Values[0]
			}
		})
	}
}

// BenchmarkStandard is encoding/json on the same documents: the limit to compare with, in the same run.
func BenchmarkStandard(b *testing.B) {
	for _, c := range benchmarks {
		b.Run(c.name, func(b *testing.B) {
			document := []byte(c.document)
			b.SetBytes(int64(len(document)))
			b.ReportAllocs()
			for b.Loop() {
				var got struct {
					Device string          `json:"device"`
					TS     json.RawMessage `json:"ts"`
					Value  float64         `json:"value"`
				}
				if err := json.Unmarshal(document, &got); err != nil {
					b.Fatal(err)
				}
				sink += got.Value
			}
		})
	}
}
