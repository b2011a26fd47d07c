# tidemark: make build && bin/tidemark demo
#
#   build     bin/tidemark, one static binary
#   faulty    bin/tidemark-faulty, which makes a mistake that tidemark-faulty verify --defect NAME must find
#   faulty-test  every seeded mistake, and who catches it after how many kills: about ten minutes
#   test      what CI runs: build, vet, every test that is not long, some of them on Apache Kafka, which they start by
#             themselves: needs Go, Java 17 and Maven (.ci/run installs the last two)
#   check     golangci-lint at the version that tools/go.mod pins; the first run compiles it
#   page      pictures of the status page, wide and narrow, by the browser that BROWSER names: bin/page
#   bench     benchmarks, with the machine and the Go version in the output
#   bench-kafka  the whole job beside Kafka Streams and Flink on Apache Kafka, which it starts, then the parts: needs a JDK 17 and Maven
#   sim       whole instances on virtual time, hurt as SEED says: crashes, power failures, pauses, broker and disk faults.
#             [SEED=..] [RUNS=..] [TIME=60s], and everything that ever failed; a report is added to the file that
#             TIDEMARK_REPORT names, as docs/reports/sim-DATE.md
#   sweep     every pair of crash positions of the step machine, every triple of a small run, and many more; repairs; every
#             damage of a checkpoint; the log under a million bad records and a million late ones. [SEED=..]
#   agree     the fast reader against encoding/json and the oracle on 10 million documents, once a week; the seed is printed
#   clock     the real program on a machine whose wall clock is set by days and years while it runs, on the embedded broker and on
#             Apache Kafka, which it starts: the standard library is compiled anew for that, which takes a minute
#   realdata  every set of ../shared/data against its truth file, as it arrived, by local day, and as its source wrote it, when the data is there
#   kafka     all that needs Apache Kafka, one broker and three: many minutes. TIDEMARK_KILLS=100 for more
#   kills     tidemark verify with N=10000 kills on the embedded broker; the report goes to docs/reports. [SEED=..]
#   kills-kafka  the same with N=1000 kills on Apache Kafka, which it starts
#   due       2 million windows of one task close at once on Apache Kafka, with a SIGKILL in the middle
#   oneshot   a million devices that send one reading each, in ten rounds, with all local state lost while they are open:
#             nothing of them is left (W28). [DEVICES=1000000]
#   soak      three instances on Apache Kafka, hurt at random for MINUTES=120: memory, files and goroutines stay flat,
#             everything equals the oracle; the report goes to docs/reports. [SEED=..] [RATE=1000, readings/s]

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)

# The race detector needs a C compiler. Without one the same tests run without it, and say so.
RACE := $(if $(shell command -v $$($(GO) env CC)),-race)

BROWSER ?= chromium

# The tests on Apache Kafka that are quick enough for every change: the contract of the client, a restart, and a short storm
# of kills and zombies.
KAFKA_QUICK := ^(TestConformance|TestRestartDoesNotWaitForTheSession|TestTwoInstancesKilledAndPaused)$$

.PHONY: agree build bench bench-kafka check clean clock due faulty faulty-test kafka kafka-down kafka-up kills kills-kafka oneshot page realdata sim soak sweep test

build:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/tidemark ./cmd/tidemark

# The same program with seeded mistakes, to be caught: verify --list-defects. Never for data.
faulty:
	CGO_ENABLED=0 $(GO) build -tags faulty -trimpath -ldflags '-s -w -X main.version=$(VERSION)-faulty' -o bin/tidemark-faulty ./cmd/tidemark

faulty-test: faulty build
	TIDEMARK_BIN=$(CURDIR)/bin/tidemark TIDEMARK_FAULTY=all TIDEMARK_FAULTY_BIN=$(CURDIR)/bin/tidemark-faulty \
		$(GO) test -v -count 1 -timeout 120m -run Defect ./integration

test: build faulty
	$(GO) vet ./...
	@$(if $(RACE),:,echo 'no C compiler: testing without the race detector')
	$(GO) test $(RACE) -timeout 15m $$($(GO) list ./... | grep -v /integration)
	$(GO) test -v -count 1 -run '^TestSim$$' ./internal/proof/sim -args -sim.time 60s
	TIDEMARK_BIN=$(CURDIR)/bin/tidemark TIDEMARK_FAULTY_BIN=$(CURDIR)/bin/tidemark-faulty TIDEMARK_TEST_CLOCK=1 $(GO) test -v -timeout 15m ./integration
	$(GO) test ./integration/kafkarun
	TIDEMARK_BIN=$(CURDIR)/bin/tidemark TIDEMARK_KILLS=3 $(GO) test -v -timeout 10m -run '$(KAFKA_QUICK)' ./integration/kafka

check:
	$(GO) tool -modfile=tools/go.mod golangci-lint run ./...

page:
	@mkdir -p bin/page
	TIDEMARK_TEST_BROWSER=$(BROWSER) TIDEMARK_TEST_PICTURES=$(CURDIR)/bin/page $(GO) test -count=1 -run PageInABrowser ./internal/status
	@ls bin/page/*.png

bench:
	@$(GO) version; uname -srm; grep -m1 'model name' /proc/cpuinfo 2>/dev/null || true
	$(GO) test -run '^$$' -bench . -benchmem $$($(GO) list ./... | grep -v /integration)

bench-kafka: build
	$(GO) run ./integration/peers -tidemark bin/tidemark
	@$(GO) version; uname -srm; grep -m1 'model name' /proc/cpuinfo 2>/dev/null || true
	$(GO) test -run '^$$' -bench . -benchmem -timeout 30m ./integration/kafka

agree:
	TIDEMARK_SWEEP=10000000 $(GO) test -v -count 1 -timeout 300m -run TestRandomDocuments ./reading
	TIDEMARK_DOCUMENTS=20000 $(GO) test -v -count 1 -timeout 120m -run 'TestReadersAgree|TestShapesAgree' ./internal/proof

clock: build
	TIDEMARK_BIN=$(CURDIR)/bin/tidemark TIDEMARK_TEST_CLOCK=1 $(GO) test -v -count 1 -timeout 30m -run W20 . ./internal/kafka/client ./integration ./integration/kafka

realdata: build
	TIDEMARK_BIN=$(CURDIR)/bin/tidemark TIDEMARK_REALDATA=all $(GO) test -v -count 1 -timeout 60m -run 'RealData|RealArrivals|LocalDays' ./integration

kafka: build
	TIDEMARK_BIN=$(CURDIR)/bin/tidemark $(GO) test -v -count 1 -timeout 120m -parallel 6 ./integration/kafka

TOPICS ?= readings readings-late readings-dead minutely

kafka-up:
	@mkdir -p bin
	@$(GO) build -o bin/kafkaup ./integration/kafkaup
	@bin/kafkaup bin/kafkaup.pid $(TOPICS) > bin/kafkaup.log 2>&1 & up=$$!; \
	until [ -f bin/kafkaup.pid ]; do kill -0 $$up 2>/dev/null || { cat bin/kafkaup.log; exit 1; }; sleep 0.2; done
	@echo 'Apache Kafka listens on 127.0.0.1:19092, with the topics $(TOPICS); make kafka-down stops it and deletes its topics'

kafka-down:
	@pid=$$(cat bin/kafkaup.pid 2>/dev/null) || { echo 'no broker of make kafka-up is running'; exit 0; }; \
	kill $$pid; while kill -0 $$pid 2>/dev/null; do sleep 0.1; done; echo 'stopped'

kills: N ?= 10000
kills: build
	@mkdir -p docs/reports
	bin/tidemark verify -c integration/testdata/kills.yaml --kills $(N) --parallel 3 --seed $(or $(SEED),0) --report docs/reports/kills-embedded.md

kills-kafka: N ?= 1000
kills-kafka: build
	@mkdir -p docs/reports
	TIDEMARK_BIN=$(CURDIR)/bin/tidemark TIDEMARK_KILLS=$(N) TIDEMARK_REPORT=$(CURDIR)/docs/reports/kills-kafka.md \
		$(GO) test -v -count 1 -timeout 24h -run '^TestVerifyOnKafka$$' ./integration/kafka

due: build
	TIDEMARK_BIN=$(CURDIR)/bin/tidemark TIDEMARK_TEST_DUE=2000000 $(GO) test -v -count 1 -timeout 30m -run ManyWindowsClose ./integration/kafka

DEVICES ?= 1000000
oneshot:
	TIDEMARK_TEST_DEVICES=$(DEVICES) $(GO) test -v -count 1 -timeout 2h -run OneShotDevices .

MINUTES ?= 120
soak: build
	TIDEMARK_BIN=$(CURDIR)/bin/tidemark TIDEMARK_SOAK_MINUTES=$(MINUTES) TIDEMARK_SEED=$(SEED) TIDEMARK_SOAK_RATE=$(RATE) \
		$(GO) test -v -count 1 -timeout 24h -run '^TestSoak$$' ./integration/kafka

# RUNS=1 replays one scenario, many times; without RUNS new ones are told for TIME.
TIME ?= 60s
sim:
	$(GO) test -v -count 1 -timeout 0 -run '^TestSim(Kept)?$$' ./internal/proof/sim -args -sim.seed $(or $(SEED),0) -sim.runs $(or $(RUNS),0) -sim.time $(TIME) $(if $(TIDEMARK_REPORT),-sim.report $(abspath $(TIDEMARK_REPORT)))

sweep:
	$(GO) test -v -timeout 120m -run Sweep ./internal/proof -args -sweep.stride 1 -sweep.deep 20000 -sweep.seed $(or $(SEED),0)
	$(GO) test -v -run Sweep ./internal/repair -args -sweep.stride 1
	TIDEMARK_TEST_BAD=1000000 $(GO) test -v -count 1 -run D13LogIsNoFlood .
	TIDEMARK_DAMAGE=1 $(GO) test -v -count 1 -run EveryDamage ./internal/recovery

clean:
	rm -rf bin
