package config

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// Secret is a text that does not print: only Reveal returns it.
type Secret struct {
	text string
	file string // that it was read from, "" for none
}

const redacted = "(secret)"

// String does not return the secret.
func (s Secret) String() string { return redacted }

// GoString does not return the secret.
func (s Secret) GoString() string { return redacted }

// MarshalText does not return the secret.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Reveal returns the secret, for the one place that needs it.
func (s Secret) Reveal() string { return s.text }

// Again returns the secret as it is now: one in a file may have been replaced since. It may be called by several goroutines.
func (s Secret) Again() (string, error) {
	if s.file == "" {
		return s.text, nil
	}
	return secretIn(s.file)
}

// secretIn reads a secret; one line end after it is not part of it.
func secretIn(path string) (string, error) {
	data, err := readSecretFile(path)
	if err != nil {
		return "", err
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	if text == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return text, nil
}

// maxSecretFile bounds the files that hold secrets and certificates.
const maxSecretFile = 1 << 20

// readSecretFile reads a regular file of a sensible size: a pipe or a device would be waited for without an end.
func readSecretFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	if err == nil && len(data) > maxSecretFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxSecretFile)
	}
	return data, err
}

var variableForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// password asks for a secret under one of two keys. The secret itself is refused, and not shown.
func (s *section) password(key string) Secret {
	hint := fmt.Sprintf("write  %s_env: VARIABLE  or  %s_file: PATH", key, key)
	written, isWritten := s.find(key, known{})
	if isWritten {
		s.d.add(written.at, written.key, wrongf("a secret does not belong into this file").hinted("%s", hint))
	}
	variable, fromEnv := get(s, key+"_env", "", spec[string]{kind: kindText, want: "the name of a variable", parse: func(text string) (string, *wrong) {
		if !variableForm.MatchString(text) {
			return "", wrongf("this is not the name of a variable").hinted("%s", hint)
		}
		return text, nil
	}})
	file, fromFile := get(s, key+"_file", "", anyText)
	switch {
	case fromEnv.file != "" && fromFile.file != "":
		s.d.add(fromFile, join(s.path, key+"_file"), wrongf("there is also %s_env (%v)", key, fromEnv).hinted("keep one of the two"))
	case variable != "":
		s.d.used[variable] = true
		return s.fromVariable(variable, key+"_env", fromEnv)
	case file != "":
		return s.fromFile(file, key+"_file", fromFile)
	case fromEnv.file == "" && fromFile.file == "" && !isWritten && !s.off:
		s.d.add(s.at, join(s.path, key+"_env"), wrongf("is missing").hinted("%s", hint))
	}
	return Secret{}
}

func (s *section) fromVariable(variable, key string, at place) Secret {
	text, ok := s.d.environ[variable]
	switch {
	case !ok:
		s.d.add(at, join(s.path, key), wrongf("the variable %s is not set", variable))
	case text == "":
		s.d.add(at, join(s.path, key), wrongf("the variable %s is empty", variable))
	}
	return Secret{text: text}
}

func (s *section) fromFile(path, key string, at place) Secret {
	text, err := secretIn(path)
	if err != nil {
		s.d.add(at, join(s.path, key), wrongf("%v", err))
	}
	return Secret{text, path}
}
