package config

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTLSConfig(t *testing.T) {
	job, err := Load("testdata/certificates.good.yml", nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := job.Kafka.TLS.Config()
	if err != nil {
		t.Fatal(err)
	}
	if own, err := config.GetClientCertificate(nil); err != nil || own.Leaf == nil {
		t.Errorf("%+v, %v", own, err)
	}
	if config.RootCAs == nil || config.ServerName != "kafka.example.org" || config.InsecureSkipVerify {
		t.Errorf("%+v", config)
	}
	if config, err := (&TLS{}).Config(); err != nil || config.RootCAs != nil || config.GetClientCertificate != nil {
		t.Errorf("of the system: %+v, %v", config, err)
	}
}

// write makes a certificate of our own that is valid from and to the given times, in hours from now.
func (own *TLS) write(t *testing.T, from, to time.Duration) (end string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(from * time.Hour), NotAfter: time.Now().Add(to * time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{own.Cert: {Type: "CERTIFICATE", Bytes: cert}, own.Key: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if from > 0 {
		return template.NotBefore.UTC().Format(time.RFC3339)
	}
	return template.NotAfter.UTC().Format(time.RFC3339)
}

// D05: a certificate of ours outside its time, or nearly so, is warned of with file, date and repair; it is refused where brokers
// are to see it, and one that was renewed is taken for the next connection.
func TestD05OwnCertificateExpires(t *testing.T) {
	dir := t.TempDir()
	own := &TLS{Cert: filepath.Join(dir, "own.pem"), Key: filepath.Join(dir, "own.key")}
	data, err := os.ReadFile("testdata/certificates.good.yml")
	if err != nil {
		t.Fatal(err)
	}
	data = bytes.ReplaceAll(data, []byte("testdata/client.pem"), []byte(own.Cert))
	data = bytes.ReplaceAll(data, []byte("testdata/client.key"), []byte(own.Key))
	for name, c := range map[string]struct {
		from, to time.Duration // hours from now
		warning  string        // END stands for the date
		refused  bool
	}{
		"valid":    {-1, 24 * 30, "", false},
		"expired":  {-48, -1, own.Cert + " expired on END, put a renewed certificate there", true},
		"too soon": {1, 48, own.Cert + " is not valid before END, compare the clocks", true},
		"soon":     {-1, 24 * 13, own.Cert + " expires on END: renew it", false},
	} {
		warning := strings.ReplaceAll(c.warning, "END", own.write(t, c.from, c.to))
		job, err := Parse(fileName, data, nil)
		if err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		for _, w := range job.Warnings {
			said.WriteString(w.String())
		}
		if !strings.Contains(said.String(), warning) || warning == "" && strings.Contains(said.String(), own.Cert) {
			t.Errorf("%s: warnings %q, want %q", name, said.String(), warning)
		}
		if _, err := job.Kafka.TLS.Config(); (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), warning) {
			t.Errorf("%s: %v, want %q", name, err, warning)
		}
	}

	own.write(t, -1, 48)
	config, err := own.Config()
	if err != nil {
		t.Fatal(err)
	}
	first, err := config.GetClientCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	own.write(t, -48, -1)
	var invalid x509.CertificateInvalidError
	if _, err := config.GetClientCertificate(nil); !errors.As(err, &invalid) || invalid.Reason != x509.Expired {
		t.Errorf("expired while running: %v", err)
	}
	own.write(t, -1, 48)
	if next, err := config.GetClientCertificate(nil); err != nil || bytes.Equal(next.Certificate[0], first.Certificate[0]) {
		t.Errorf("after the renewal: %v", err)
	}
}
