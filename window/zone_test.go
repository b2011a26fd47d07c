package window

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"flag"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "take the time zone data of this Go installation")

// TestZoneData compares what is carried with this Go installation's, when that is of the same version; with -update it
// takes it.
func TestZoneData(t *testing.T) {
	root := goRoot(t)
	script, err := os.ReadFile(filepath.Join(root, "lib", "time", "update.bash"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^DATA=(\w+)$`).FindSubmatch(script)
	if found == nil {
		t.Fatal("no version in update.bash")
	}
	version := string(found[1])
	theirs := readZip(t, filepath.Join(root, "lib", "time", "zoneinfo.zip"))
	if *update {
		writeZoneData(t, theirs, version)
		return
	}
	if version != TZData() {
		t.Logf("we carry %s, this Go has %s: not compared", TZData(), version)
		return
	}
	ours := readZip(t, "zoneinfo.zip")
	if len(ours) != len(theirs) {
		t.Errorf("%d files, Go has %d", len(ours), len(theirs))
	}
	for name, data := range theirs {
		if !bytes.Equal(ours[name], data) {
			t.Errorf("%s differs", name)
		}
	}
}

func goRoot(t *testing.T) string {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatalf("go env GOROOT of %s: %v", runtime.Version(), err)
	}
	return strings.TrimSpace(string(out))
}

func readZip(t *testing.T, path string) map[string][]byte {
	archive, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	files := map[string][]byte{}
	for _, f := range archive.File {
		if strings.HasSuffix(f.Name, "/") {
			continue
		}
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if files[f.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// writeZoneData packs the files anew, compressed.
func writeZoneData(t *testing.T, files map[string][]byte, version string) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	w.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) { return flate.NewWriter(out, flate.BestCompression) })
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(files[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"zoneinfo.zip": b.Bytes(), "zoneinfo.version": []byte(version + "\n")} {
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
