package integration_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/proof"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// rawSet is a file as its source has it, with the input section that reads it, and the truth that other programs made of the
// same readings.
type rawSet struct {
	file, truth string
	large       bool
	input       string
	prepare     func(lines []string) []string // what has to be done outside of tidemark, nil for nothing
	rows        bool                          // what is prepared has no header
	until       int64                         // the truth's windows that begin later are of other files, ms; 0 for none
	twice       int64                         // start of the hour that comes twice, ms; 0 for none
	device      func(name string) string      // the truth's name of a device, "" for one that it does not have
	metric      map[string]string             // the truth's names of values
}

var rawSets = map[string]rawSet{
	// Decimal commas, blanks between the columns, line ends of another system; numbers with and without a fraction.
	"decimal comma": {
		file: "ulb_NO5_out.txt.gz", truth: "ulb_no5_motes",
		input: `key: [node], format: csv, csv: {columns: [at, node, seq, volt, inside, humidity, temp, par, tsr], separator: " "},
        values: {temperature: {field: temp, text: true, decimal: comma}, humidity: {field: humidity, text: true, decimal: comma},
                 voltage: {field: inside, text: true, decimal: comma}}, time: {field: at, max_ahead: off}`,
		device: func(name string) string { return "mote-" + name },
		metric: map[string]string{"temperature": "temperature", "humidity": "humidity", "voltage": "internal_voltage"},
	},
	// NA where a station has measured nothing, in a CSV file with a header.
	"NA": {
		file: "nycflights13_weather.csv.gz", truth: "nyc_weather_dst", large: true,
		input: `key: [origin], on_missing: skip, values: {temp: {field: temp, missing: ["NA"]}, humid: {field: humid, missing: ["NA"]},
        wind_gust: {field: wind_gust, missing: ["NA"]}, pressure: {field: pressure, missing: ["NA"]}}, time: {field: time_hour, unit: rfc3339, max_ahead: off}`,
		metric: map[string]string{"temp": "temp", "humid": "humid", "wind_gust": "wind_gust", "pressure": "pressure"},
	},
	// Quoted numbers, and times with the offset of a zone that has summer time.
	"quotes": {
		file: "engie_export_verbruiken.csv.gz", truth: "meters_dst_hourly", large: true,
		input:  `key: [EAN], values: {consumption: {field: Verbruik, text: true}}, time: {field: Datum, unit: rfc3339, max_ahead: off}`,
		device: func(name string) string { return "engie-" + strings.ToLower(strings.Split(name, "-")[1]) },
		metric: map[string]string{"consumption": "consumption"},
	},
	// NaN all night, and the file of one device, which does not say its name. What stands above the rows is left out.
	"NaN": {
		file: "sma_sunny_tripower_5min.csv.gz", truth: "sma_inverter_nan",
		input: `key: [{name: inverter, constant: sma-1}], rekey: true, on_missing: skip, format: csv,
        csv: {columns: [at, out, factor, ext, event, message, hz, watt, wa, wb, wc, va, vb, vc, vab, vbc, vca, aa, ab, ac, health, w1, w2, v1, v2, a1, a2, h1, h2, h3, on, state, riso, leak]},
        values: {hz: {field: hz, missing: ["NaN"]}, watt: {field: watt, missing: ["NaN"]}, out: {field: out, missing: ["NaN"]}, va: {field: va, missing: ["NaN"]}},
        time: {field: at, unit: "DD.MM.YYYY hh:mm:ss", zone: Europe/Brussels, max_ahead: off}`,
		prepare: func(lines []string) []string { return lines[9:] },
		rows:    true,
		metric:  map[string]string{"hz": "GridMs.Hz", "watt": "GridMs.TotW", "out": "Metering.TotWhOut", "va": "GridMs.PhV.phsA"},
	},
	// A date and a time of day in columns of their own, decimal commas between semicolons, an hour that comes twice.
	"two columns": {
		file: "fluvius_electricity_15min.csv.gz", truth: "fluvius_15min_dst",
		input: `key: [Meter, Register], on_missing: skip, values: [{name: volume, field: Volume, text: true, decimal: comma}],
        time: {field: "From (date)", then: "From (time)", unit: "DD/MM/YYYY hh:mm:ss", zone: Europe/Brussels, max_ahead: off}`,
		device: func(string) string { return "fluvius-1" },
		metric: map[string]string{"Offtake Day": "Offtake Day", "Offtake Night": "Offtake Night", "Injection Day": "Injection Day", "Injection Night": "Injection Night"},
		prepare: func(lines []string) []string {
			for i := range lines { // a spreadsheet's way to keep a number a text, which is no CSV
				lines[i] = strings.Replace(lines[i], `="`, `"`, 1)
			}
			return lines
		},
		twice: 1698537600000, // 02:00 of 29 October 2023: texts without a zone cannot say which of the two
	},
	// Year, month, day and hour in columns of their own, as numbers with one digit or two, and NA for no value.
	"four columns": {
		file: "PRSA_Data_Changping_20130301-20170228.csv.gz", truth: "beijing_prsa",
		input: `key: [station], on_missing: skip, values: {pm: {field: "PM2\\.5", missing: ["NA"]}, co: {field: CO, missing: ["NA"]}, temp: {field: TEMP, missing: ["NA"]}},
        time: {field: year, then: [month, day, hour], unit: YYYY M D h, zone: Asia/Shanghai, max_ahead: off}`,
		metric: map[string]string{"pm": "PM2.5", "co": "CO", "temp": "TEMP"},
	},
	// Semicolons and decimal commas, newest first, a local time without seconds: nothing has to be done to the file.
	"newest first": {
		file: "campusiot_d1d1e80000000033_refugegouter.csv.gz", truth: "lorawan_refuge_desc",
		input: `key: [Gateway], values: {rssi: {field: RSSI, text: true, decimal: comma}, snr: {field: SNR, text: true, decimal: comma}},
        time: {field: "Date Time", unit: "DD/MM/YYYY hh:mm", zone: Europe/Paris, max_ahead: off}`,
		device: func(name string) string { return "gw-" + strings.ToLower(name[strings.LastIndex(name, "_")+1:]) },
		metric: map[string]string{"rssi": "rssi", "snr": "snr"},
		twice:  1698537600000,
	},
	// A column for each of hundreds of car parks, most cells of a row empty.
	"wide": {
		file: "parking_2020-03-24.csv.gz", truth: "parking_germany",
		input: `each: $, key: [{name: park, member: 1}], rekey: true, on_missing: skip, values: {free: .},
        time: {field: $.timestamp, unit: rfc3339, max_ahead: off}`,
		metric: map[string]string{"free": "free"},
		until:  1590969600000, // the set has another day as well
	},
	// -7999 for no value, in a column beside others that have one. Year, day of the year and hhmm are no time that a job can
	// be told of, so a date is put in front.
	"sentinel": {
		file: "midc_raw_20181018.txt.gz", truth: "solar_sentinel",
		input: `key: [station], on_missing: skip, values: {chp: {field: "Temp CHP1 [deg C]", missing: [-7999]}, air: {field: "Air Temperature [deg C]", missing: [-7999]}},
        time: {field: at, unit: "YYYY-MM-DD hhmm", zone: America/Phoenix, max_ahead: off}`,
		prepare: func(lines []string) []string {
			lines[0] = "station,at," + lines[0]
			for i := 1; i < len(lines); i++ {
				cells := strings.SplitN(lines[i], ",", 5)
				lines[i] = fmt.Sprintf("midc-nrel,2018-10-18 %04s,%s", cells[3], lines[i])
			}
			return lines
		},
		metric: map[string]string{"chp": "Temp CHP1 [deg C]", "air": "Air Temperature [deg C]"},
	},
}

// TestRealDataRaw reads files as their sources have them, by YAML and produce alone, and compares with the truth of what the
// sets are made of (TIDEMARK_REALDATA=all takes the large ones too): a file may hold more readings than its set, so what is compared are the truth's windows.
func TestRealDataRaw(t *testing.T) {
	dir, found := oracle.DataDir("..")
	if !found {
		fmt.Printf("data sets are not there (%s): raw files are not run\n", dir)
		return
	}
	for name, set := range rawSets {
		if set.large && os.Getenv("TIDEMARK_REALDATA") != "all" {
			continue
		}
		t.Run(name, func(t *testing.T) { set.compare(t, dir) })
	}
}

const rawJob = `job: job
kafka: {embedded: {partitions: 4}}
input: {topic: job-in, %s}
aggregations:
  - {name: hourly, window: {tumbling: 1h, grace: 1000000h}, functions: [count, sum, min, max], output: {topic: hourly}}
state: {dir: %q}
`

func (set *rawSet) compare(t *testing.T, dir string) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	job := &proof.Job{Binary: binary(t), Dir: t.TempDir(), Name: "job", Oracle: proof.FleetConfig(4),
		Render: func(j *proof.Job) ([]byte, error) { return fmt.Appendf(nil, rawJob, set.input, j.StateDir()), nil }}
	if err := job.WriteConfig(); err != nil {
		t.Fatal(err)
	}
	startBroker(ctx, t, job)
	produce := exec.CommandContext(ctx, job.Binary, "produce", "-c", job.Config(), set.source(t, dir))
	produce.Env = []string{"HOME=" + t.TempDir()}
	if said, err := produce.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	if err := job.RunUntilIdle(ctx, "until-idle"); err != nil {
		t.Fatal(err)
	}
	truth, err := oracle.ReadTruth(filepath.Join(dir, set.truth+".truth.csv"))
	if err != nil {
		t.Fatal(err)
	}
	dump, err := job.Dump(ctx)
	if err != nil {
		t.Fatal(err)
	}
	windows, devices := set.windows(t, dump)
	compared := 0
	for _, want := range truth {
		if !devices[want.Key[0]] || !set.has(want.Key[1]) || set.until != 0 && want.Start >= set.until || set.twice != 0 && (want.Start == set.twice || want.Start == set.twice+time.Hour.Milliseconds()) {
			continue
		}
		got, ok := windows[fmt.Sprint(want.Key, want.Start)]
		if compared++; !ok || got.Count != want.Count || got.Sum != want.Sum || got.Min != want.Min || got.Max != want.Max {
			t.Fatalf("%v at %d: %+v, want %+v", want.Key, want.Start, got, want)
		}
	}
	if compared < 30 {
		t.Errorf("only %d windows compared", compared)
	}
	t.Logf("%d windows compared of %d in the dump", compared, len(windows))
}

func (set *rawSet) has(metric string) bool {
	for _, m := range set.metric {
		if m == metric {
			return true
		}
	}
	return false
}

// source is the file to send: the set's own, or what was made of it.
func (set *rawSet) source(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "raw", set.file)
	if set.prepare == nil {
		return path
	}
	raw, err := oracle.ReadLines(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(bytes.Join(raw, []byte("\n"))), "\n")
	path = filepath.Join(t.TempDir(), "prepared.csv")
	if set.rows {
		path = filepath.Join(t.TempDir(), "prepared.txt")
	}
	if err := os.WriteFile(path, []byte(strings.Join(set.prepare(lines), "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// rawWindow is what a dump line says of a window.
type rawWindow struct {
	Key           []string
	Start, Count  int64
	Sum, Min, Max float64
}

// windows are the lines of a dump by the truth's names, with the devices that there are.
func (set *rawSet) windows(t *testing.T, dump []byte) (all map[string]rawWindow, devices map[string]bool) {
	t.Helper()
	all, devices = map[string]rawWindow{}, map[string]bool{}
	for line := range strings.Lines(string(dump)) {
		var w rawWindow
		if err := json.Unmarshal([]byte(line), &w); err != nil {
			t.Fatal(err)
		}
		if set.device != nil {
			w.Key[0] = set.device(w.Key[0])
		}
		devices[w.Key[0]] = true
		w.Key[1] = set.metric[w.Key[1]]
		all[fmt.Sprint(w.Key, w.Start)] = w
	}
	return all, devices
}
