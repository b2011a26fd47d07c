package window

import (
	"archive/zip"
	"bytes"
	_ "embed" // the data base
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// zoneinfo is the IANA time zone data base as Go distributes it. It is ours and not the machine's, so that every
// instance cuts days at the same moments, and the version in the commit record is the one in use (R31). It is brought up to date by
//
//	go test ./window -run ZoneData -update
//
//go:embed zoneinfo.zip
var zoneinfo []byte

//go:embed zoneinfo.version
var zoneinfoVersion string

// TZData is the version of the time zone data that this package carries, such as 2025c.
func TZData() string { return strings.TrimSpace(zoneinfoVersion) }

// zones opens the data base once.
var zones = sync.OnceValues(func() (*zip.Reader, error) {
	return zip.NewReader(bytes.NewReader(zoneinfo), int64(len(zoneinfo)))
})

// Zones are the names of all zones, sorted.
func Zones() []string {
	archive, err := zones()
	if err != nil {
		return nil
	}
	var names []string
	for _, f := range archive.File {
		if !strings.HasSuffix(f.Name, "/") {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Zone returns a zone of the data base. Names are exact: a zone that is Local here would be another one elsewhere.
func Zone(name string) (*time.Location, error) {
	archive, err := zones()
	if err != nil {
		return nil, fmt.Errorf("time zone data: %w", err)
	}
	at := slices.IndexFunc(archive.File, func(f *zip.File) bool { return f.Name == name })
	if name == "" || at < 0 || strings.HasSuffix(name, "/") {
		return nil, fmt.Errorf("zone %q is not in the time zone data (%s): want a name such as Europe/Brussels, America/New_York or UTC", name, TZData())
	}
	file, err := archive.File[at].Open()
	if err != nil {
		return nil, fmt.Errorf("zone %s: %w", name, err)
	}
	data, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("zone %s: %w", name, err)
	}
	location, err := time.LoadLocationFromTZData(name, data)
	if err != nil {
		return nil, fmt.Errorf("zone %s: %w", name, err)
	}
	return location, nil
}
