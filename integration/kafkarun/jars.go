package kafkarun

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

//go:embed pom.xml
var pom []byte

// install says how a machine is made able to run a broker.
const install = "install a JRE of 17 or later and Maven (Debian: apt-get install -y --no-install-recommends default-jre-headless maven)"

// oldestJava is the oldest Java that Apache Kafka 4 runs on.
const oldestJava = 17

// Jars returns a directory with the jars that a pom.xml wants at run time. Maven fills it the first time, and it stays in
// the user's cache directory under the name, which must say the version. A machine without Java, or without Maven where
// that is needed, is told what to install.
func Jars(ctx context.Context, name string, pom []byte) (string, error) {
	if err := requireJava(ctx); err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = filepath.Join(os.TempDir(), "tidemark-cache") // a machine without HOME
	}
	jars := filepath.Join(cache, "tidemark", name)
	if _, err := os.Stat(jars); err == nil {
		return jars, nil
	}
	if _, err := exec.LookPath("mvn"); err != nil {
		return "", fmt.Errorf("mvn is needed once, to fetch the jars of %s: %s: %w", name, install, err)
	}
	if err := os.MkdirAll(filepath.Dir(jars), 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(filepath.Dir(jars), "fetch-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := os.WriteFile(filepath.Join(work, "pom.xml"), pom, 0o644); err != nil {
		return "", err
	}
	mvn := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", filepath.Join(work, "pom.xml"), "dependency:copy-dependencies",
		"-DincludeScope=runtime", "-DoutputDirectory="+filepath.Join(work, "jars"))
	if out, err := mvn.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mvn could not fetch the jars of %s: %w\n%s", name, err, tail(out))
	}
	// Whole or not at all: two tests may fetch at once, and one may be ended in the middle.
	if err := os.Rename(filepath.Join(work, "jars"), jars); err != nil && !errors.Is(err, os.ErrExist) {
		if _, there := os.Stat(jars); there != nil {
			return "", err
		}
	}
	return jars, nil
}

var javaVersion = regexp.MustCompile(`version "(?:1\.)?(\d+)`)

// requireJava looks for a Java that is new enough.
func requireJava(ctx context.Context) error {
	if _, err := exec.LookPath("java"); err != nil {
		return fmt.Errorf("java is needed to run Apache Kafka %s: %s: %w", Version, install, err)
	}
	out, err := exec.CommandContext(ctx, "java", "-version").CombinedOutput()
	if err != nil {
		return fmt.Errorf("java -version: %w: %s\n%s", err, install, tail(out))
	}
	found := javaVersion.FindSubmatch(out)
	if found == nil {
		return fmt.Errorf("java -version does not name a version: %s\n%s", install, tail(out))
	}
	if n, err := strconv.Atoi(string(found[1])); err != nil || n < oldestJava {
		return fmt.Errorf("java is of version %s, Apache Kafka %s needs %d: %s", found[1], Version, oldestJava, install)
	}
	return nil
}
