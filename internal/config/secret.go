package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// Secret is a text that does not print: only Reveal returns it.
type Secret struct{ text string }

const redacted = "(secret)"

// String does not return the secret.
func (s Secret) String() string { return redacted }

// GoString does not return the secret.
func (s Secret) GoString() string { return redacted }

// MarshalText does not return the secret.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Reveal returns the secret, for the one place that needs it.
func (s Secret) Reveal() string { return s.text }

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
	return Secret{text}
}

func (s *section) fromFile(path, key string, at place) Secret {
	data, err := readSecretFile(path)
	text := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	switch {
	case err != nil:
		s.d.add(at, join(s.path, key), wrongf("%v", err))
	case text == "":
		s.d.add(at, join(s.path, key), wrongf("%s is empty", path))
	}
	return Secret{text}
}

// TLS says whom to trust and who we are. Its files were readable when the configuration was loaded.
type TLS struct {
	CA         string // file of certificates to trust; "": those of the system
	Cert, Key  string // files of our own certificate and key; "": none
	ServerName string // name expected in the broker's certificate; "": the host that is dialled
}

// Config reads the files and makes what a client needs.
func (t *TLS) Config() (*tls.Config, error) {
	config := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if t.CA != "" {
		data, err := readSecretFile(t.CA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("%s holds no certificate in PEM form", t.CA)
		}
	}
	if t.Cert == "" {
		return config, nil
	}
	cert, err := readSecretFile(t.Cert)
	key, keyErr := readSecretFile(t.Key)
	if err := errors.Join(err, keyErr); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", t.Cert, t.Key, err)
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}
