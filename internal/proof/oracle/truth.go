package oracle

import (
	"bufio"
	"compress/gzip"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Truth is one row of a truth file: one window of one device and metric, computed elsewhere by other programs.
type Truth struct {
	Key           []string // device, metric
	Start         int64    // ms
	Count         int64
	Min, Max, Sum float64
	SumByCount    float64 // the sum, rounded, divided by the count: rounded twice, so not always the exact mean
}

// DataDir returns the directory with the data sets: TIDEMARK_DATA, or ../shared/data beside the root of the
// repository. The second result is false when it is not there.
func DataDir(root string) (string, bool) {
	dir := os.Getenv("TIDEMARK_DATA")
	if dir == "" {
		dir = filepath.Join(root, "..", "shared", "data")
	}
	_, err := os.Stat(filepath.Join(dir, "nab.truth.csv"))
	return dir, err == nil
}

// ReadTruth reads DIR/SET.truth.csv, or another file of the same form.
func ReadTruth(path string) ([]Truth, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	reader := csv.NewReader(bufio.NewReader(f))
	reader.FieldsPerRecord = 8
	rows, err := reader.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	out := make([]Truth, 0, len(rows))
	for i, row := range rows[1:] {
		t, err := truthRow(row)
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, i+2, err)
		}
		out = append(out, t)
	}
	return out, nil
}

func truthRow(row []string) (Truth, error) {
	t := Truth{Key: row[:2]}
	start, err := time.Parse(time.RFC3339, row[2])
	if err != nil {
		return t, err
	}
	t.Start = start.UnixMilli()
	if t.Count, err = strconv.ParseInt(row[3], 10, 64); err != nil {
		return t, err
	}
	for i, to := range []*float64{&t.Min, &t.Max, &t.Sum, &t.SumByCount} {
		if *to, err = strconv.ParseFloat(row[4+i], 64); err != nil {
			return t, err
		}
	}
	return t, nil
}

// ReadLines reads the lines of a gzipped file of JSON lines, each without its end.
func ReadLines(path string) ([][]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var lines [][]byte
	scanner := bufio.NewScanner(unzipped)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		lines = append(lines, append([]byte(nil), scanner.Bytes()...))
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("%s: line %d: %w", path, len(lines)+1, err)
	}
	return lines, nil
}
