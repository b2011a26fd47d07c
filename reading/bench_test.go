package reading_test

import (
	"encoding/json"
	"testing"

	"github.com/tidemark-streams/tidemark/reading"
)

// sink keeps what benchmarks compute.
var sink float64

// benchmarks are the documents that are measured.
var benchmarks = []struct {
	name, document string
	unit           reading.Unit
}{
	{"plain", `{"device":"d-000123","ts":1704067200123,"value":21.53}`, reading.Milliseconds},
	{"fields8", `{"device":"d-000123","site":"north-4","fw":"2.11.0","ts":1704067200123,"value":21.53,"unit":"C","rssi":-71,"ok":true}`, reading.Milliseconds},
	{"nested", `{"device":"d-000123","meta":{"gateway":{"id":"gw-7","rssi":-71,"snr":9.5},"tags":["a","b",{"c":null}]},"ts":1704067200123,"value":21.53}`, reading.Milliseconds},
	{"rfc3339", `{"device":"d-000123","ts":"2024-01-01T00:00:00.123Z","value":21.53}`, reading.RFC3339},
	{"digits17", `{"device":"d-000123","ts":1704067200123,"value":10.357019999999999}`, reading.Milliseconds},
	{"fraction", `{"device":"d-000123","ts":1704067200.123,"value":21.53}`, reading.Seconds},
	{"escapes", `{"device":"caf\u00e9 \"7\"","ts":1704067200123,"value":21.53}`, reading.Milliseconds},
}

func benchFormat(unit reading.Unit) reading.Format {
	format := formats()[0]
	format.Unit = unit
	return format
}

func BenchmarkRead(b *testing.B) {
	for _, c := range benchmarks {
		b.Run(c.name, func(b *testing.B) {
			r := newReader(b, benchFormat(c.unit))
			document := []byte(c.document)
			b.SetBytes(int64(len(document)))
			b.ReportAllocs()
			for b.Loop() {
				got, refusal := r.Read(document, now)
				if refusal != nil {
					b.Fatal(refusal)
				}
				sink += got.Values[0]
			}
		})
	}
}

// BenchmarkStandard is encoding/json on the same documents: what to compare with, in the same run. It checks less.
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

// BenchmarkRefuse shows what bad records cost: they must not slow a task down much more than good ones (D13).
func BenchmarkRefuse(b *testing.B) {
	for _, c := range []struct{ name, document string }{
		{"wrong_type", `{"device":"d-000123","ts":1704067200123,"value":"21.53"}`},
		{"syntax", `{"device":"d-000123","ts":1704067200123,"value":21.53;}`},
		{"not_finite", `{"device":"d-000123","ts":1704067200123,"value":NaN}`},
		{"implausible_time", `{"device":"d-000123","ts":1704067200,"value":21.53}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := newReader(b, benchFormat(reading.Milliseconds))
			document := []byte(c.document)
			b.ReportAllocs()
			for b.Loop() {
				if got, _ := r.Read(document, now); got != nil {
					b.Fatal("accepted")
				}
			}
		})
	}
}

// BenchmarkPath is a reading whose fields lie three deep beside the same fields in one object: a path of depth 3 may
// cost 1.5 times as much.
func BenchmarkPath(b *testing.B) {
	for _, c := range []struct {
		name, document, key, time, value string
	}{
		{"plain", `{"device":"d-000123","ts":1704067200123,"value":21.53}`, "device", "ts", "value"},
		{"depth3", `{"device":"d-000123","ts":1704067200123,"up":{"data":{"value":21.53}}}`, "device", "ts", "up.data.value"},
	} {
		b.Run(c.name, func(b *testing.B) {
			format := formats()[0]
			format.Key, format.Time, format.Values = []string{c.key}, c.time, []string{c.value}
			r := newReader(b, format)
			document := []byte(c.document)
			b.ReportAllocs()
			for b.Loop() {
				got, refusal := r.Read(document, now)
				if refusal != nil {
					b.Fatal(refusal)
				}
				sink += got.Values[0]
			}
		})
	}
}
