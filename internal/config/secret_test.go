package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const password = "swordfish" // in testdata and in the environments of its files

// TestSecretsAreNotShown prints a job in every way that a careless line of code could, and all faults of testdata.
func TestSecretsAreNotShown(t *testing.T) {
	job, err := Load("testdata/certificates.good.yml", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := job.Kafka.SASL.Password.Reveal(); got != password {
		t.Fatalf("the password is %q, want %q", got, password)
	}
	encoded, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	shown := []string{string(encoded), job.String(), fmt.Sprint(job.Settings())}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		shown = append(shown, fmt.Sprintf(verb, *job.Kafka.SASL), fmt.Sprintf(verb, job.Kafka.SASL.Password), fmt.Sprintf(verb, &job.Kafka.SASL.Password))
	}
	paths, _ := filepath.Glob("testdata/*.bad.yml")
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Parse(path, data, readWanted(data).environ)
		shown = append(shown, err.Error())
	}
	for _, text := range shown {
		if strings.Contains(text, password) || strings.Contains(text, fmt.Sprintf("%x", password)) || strings.Contains(text, "do not show") {
			t.Errorf("a secret is shown:\n%s", text)
		}
	}
}

func TestPasswordFile(t *testing.T) {
	dir := t.TempDir()
	for name, test := range map[string]struct{ content, want, fault string }{
		"plain":     {"abc", "abc", ""},
		"line end":  {"abc\n", "abc", ""},
		"windows":   {"abc\r\n", "abc", ""},
		"one only":  {" a b \n\n", " a b \n", ""},
		"empty":     {"", "", "is empty"},
		"blank":     {"\n", "", "is empty"},
		"too large": {strings.Repeat("x", maxSecretFile+1), "", "has more than 1048576 bytes"},
	} {
		path := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
		if err := os.WriteFile(path, []byte(test.content), 0o600); err != nil {
			t.Fatal(err)
		}
		job, err := withPasswordFile(t, path)
		switch {
		case test.fault != "":
			if err == nil || !strings.Contains(err.Error(), test.fault) {
				t.Errorf("%s: %v, want %s", name, err, test.fault)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case job.Kafka.SASL.Password.Reveal() != test.want:
			t.Errorf("%s: read as %q, want %q", name, job.Kafka.SASL.Password.Reveal(), test.want)
		}
	}
	pipe := filepath.Join(dir, "pipe") // nobody writes into it: reading it would wait for ever
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := withPasswordFile(t, pipe); err == nil || !strings.Contains(err.Error(), "is no regular file") {
		t.Errorf("a pipe: %v", err)
	}
}

func withPasswordFile(t *testing.T, path string) (*Job, error) {
	data, err := os.ReadFile("testdata/certificates.good.yml")
	if err != nil {
		t.Fatal(err)
	}
	return Parse(fileName, bytes.ReplaceAll(data, []byte("testdata/password"), []byte(path)), nil)
}
