module github.com/tidemark-streams/tidemark

go 1.26.0

require (
	github.com/cockroachdb/pebble/v2 v2.1.7 // its vfs: the file system seam, in memory and crashable
	github.com/google/go-cmp v0.7.0 // differences in tests
	github.com/influxdata/line-protocol/v2 v2.2.1 // produce: line protocol by the rules of its inventor, with line and column
	github.com/pierrec/lz4/v4 v4.1.33 // batches packed in small blocks
	github.com/prometheus/client_golang v1.25.0 // metrics
	github.com/rogpeppe/go-internal v1.16.0 // testscript: the command line's tests
	github.com/schollz/progressbar/v3 v3.19.1 // progress on a terminal
	github.com/spf13/cobra v1.10.2 // commands, flags, completion
	github.com/spf13/pflag v1.0.9 // cobra's flags, for suggestions
	github.com/twmb/franz-go v1.22.3 // the Kafka client
	github.com/twmb/franz-go/pkg/kadm v1.20.0 // offsets for the oracle, topics for tests
	github.com/twmb/franz-go/pkg/kfake v0.0.0-20260918054303-01f206a7e32c // the embedded broker; it has no tags, pinned with franz-go
	github.com/twmb/franz-go/pkg/kmsg v1.15.1 // requests of our own: raw fetches, transactions, heartbeats
	github.com/zeebo/xxh3 v1.1.0 // the digest and the hash of keys
	go.yaml.in/yaml/v3 v3.0.5 // the job's file, with lines
	golang.org/x/sys v0.50.0 // modes of files, memory outside the heap
	golang.org/x/term v0.48.0 // is this a terminal?
	pgregory.net/rapid v1.3.0 // properties in tests
)

require (
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/cockroachdb/crlib v0.0.0-20241112164430-1264a2edc35b // indirect
	github.com/cockroachdb/errors v1.11.3 // indirect
	github.com/cockroachdb/logtags v0.0.0-20230118201751-21c54148d20b // indirect
	github.com/cockroachdb/redact v1.1.5 // indirect
	github.com/getsentry/sentry-go v0.27.0 // indirect
	github.com/gogo/protobuf v1.3.2 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/klauspost/compress v1.20.4 // indirect
	github.com/klauspost/cpuid/v2 v2.2.10 // indirect
	github.com/kr/pretty v0.3.1 // indirect
	github.com/kr/text v0.2.0 // indirect
	github.com/mitchellh/colorstring v0.0.0-20190213212951-d06e56a500db // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/prometheus/client_model v0.6.3 // indirect
	github.com/prometheus/common v0.72.0 // indirect
	github.com/prometheus/procfs v0.22.0 // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
	golang.org/x/text v0.42.0 // indirect
	golang.org/x/tools v0.49.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
