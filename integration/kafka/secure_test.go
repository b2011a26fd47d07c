package kafka

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/integration/kafkarun"
	"github.com/tidemark-streams/tidemark/internal/proof"
)

// Passwords whose every trace can be searched for: the right one, and one that is refused.
const (
	password      = "herring-in-brine-7731"
	wrongPassword = "marlin-under-glass-4402"
)

// authority signs certificates.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	path string // of the certificate, in PEM form
}

// newAuthority makes one whose certificate lies in a file of the test's own.
func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{key: key, path: filepath.Join(t.TempDir(), "ca.pem")}
	a.cert = &x509.Certificate{Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	text := a.sign(t, a.cert, key, time.Hour)
	if err := os.WriteFile(a.path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// sign makes a certificate in PEM form that ends so long from now; what has ended already began a day before.
func (a *authority) sign(t *testing.T, template *x509.Certificate, key *ecdsa.PrivateKey, left time.Duration) []byte {
	t.Helper()
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(min(left, 0)-24*time.Hour), time.Now().Add(left)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// server makes a file with the key and the certificate of a broker on the loopback address.
func (a *authority) server(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "broker.pem")
	a.issue(t, "broker", path, path, 24*time.Hour)
	return path
}

// issue writes a new key and a certificate for it, which ends so long from now, into two files or into one.
func (a *authority) issue(t *testing.T, name, certPath, keyPath string, left time.Duration) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	cert := a.sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, key, left)
	if certPath == keyPath {
		private, cert = nil, append(private, cert...)
	}
	if err := os.WriteFile(certPath, cert, 0o600); err != nil {
		t.Fatal(err)
	}
	if private == nil {
		return
	}
	if err := os.WriteFile(keyPath, private, 0o600); err != nil {
		t.Fatal(err)
	}
}

// secured is a broker whose second listener demands TLS and a login by any of the mechanisms. more are lines of its settings.
func secured(t *testing.T, ca *authority, more ...string) *kafkarun.Broker {
	t.Helper()
	const jaas = ".sasl.jaas.config=org.apache.kafka.common.security."
	return kafkarun.StartWith(t, kafkarun.Options{Secure: "SASL_SSL",
		Logins: []string{"SCRAM-SHA-256=[name=ann,password=" + password + "]", "SCRAM-SHA-512=[name=ann,password=" + password + "]"},
		Settings: append([]string{
			"listener.name.secure.ssl.keystore.type=PEM",
			"listener.name.secure.ssl.keystore.location=" + ca.server(t),
			"listener.name.secure.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
			"listener.name.secure.plain" + jaas + `plain.PlainLoginModule required user_ann="` + password + `";`,
			"listener.name.secure.scram-sha-256" + jaas + "scram.ScramLoginModule required;",
			"listener.name.secure.scram-sha-512" + jaas + "scram.ScramLoginModule required;",
		}, more...)})
}

// TestSecureKafka runs a job through a listener that demands TLS and a login, by each mechanism, the password once from a
// file and once from the environment; then what the broker or tidemark refuses. No secret is in anything that is said.
func TestSecureKafka(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	b := secured(t, ca)
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mechanism, from := range map[string]string{
		"plain":         fmt.Sprintf("password_file: %q", file),
		"scram-sha-256": "password_env: KAFKA_PASSWORD",
		"SCRAM-SHA-512": fmt.Sprintf("password_file: %q", file),
	} {
		t.Run(mechanism, func(t *testing.T) {
			throughTLS(t, b, ca, "sasl: {mechanism: "+mechanism+", user: ann, "+from+"}")
		})
	}
	t.Run("refused", func(t *testing.T) { refusals(t, b, ca, stranger) })
}

// throughTLS lets a job do all it does, and compares what comes out with the oracle.
func throughTLS(t *testing.T, b *kafkarun.Broker, ca *authority, sasl string) {
	c := newCrewAt(t, b.Addr, 1, 4*time.Minute, 2, func(_ int, job *proof.Job) {
		job.Brokers, job.Connect = []string{b.Secure}, []string{fmt.Sprintf("tls: {ca: %q}", ca.path), sasl}
		job.Variables = []string{"KAFKA_PASSWORD=" + password}
	})
	job, fleet := c.jobs[0], proof.NewFleet(7, 50)
	var all [][]byte
	for range 2_000 {
		all = append(all, fleet.Next())
	}
	var said bytes.Buffer
	said.WriteString(c.says(0, "check"))
	said.WriteString(c.says(0, "check", "--live"))
	i := c.start(job)
	c.whole(i)
	_, err := job.Produce(c.ctx, proof.Lines(all))
	c.must(err)
	said.WriteString(c.pages(job))
	said.WriteString(c.says(0, "status", "--json"))
	c.must(i.Stop())
	c.prove(job)
	discreet(t, said.Bytes(), "the commands and pages")
	files := 0
	c.must(filepath.WalkDir(job.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		discreet(t, text, path)
		files++
		return err
	}))
	if files < 10 {
		t.Errorf("%d files were searched: logs, state and configuration are more", files)
	}
}

// pages are all that the running instance shows by HTTP.
func (c *crew) pages(job *proof.Job) string {
	c.t.Helper()
	addr, err := os.ReadFile(filepath.Join(job.StateDir(), "http.addr"))
	c.must(err)
	var all strings.Builder
	for _, page := range []string{"/", "/status", "/livez", "/readyz", "/metrics"} {
		answer, err := http.Get("http://" + strings.TrimSpace(string(addr)) + page)
		c.must(err)
		text, err := io.ReadAll(answer.Body)
		c.must(errors.Join(err, answer.Body.Close()))
		all.Write(text)
	}
	c.wants(all.String(), job.Name)
	return all.String()
}

// discreet fails when a secret is in a text, plain or as the protocols write it.
func discreet(t *testing.T, text []byte, where string) {
	t.Helper()
	for _, secret := range []string{password, wrongPassword} {
		for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte("\x00ann\x00" + secret))} {
			if bytes.Contains(text, []byte(form)) {
				t.Errorf("%s shows the password %s", where, secret)
			}
		}
	}
}

// refusals are the ways in that are closed: each is said with what to change and the exit code of section 9, and those
// that no waiting would open at once.
func refusals(t *testing.T, b *kafkarun.Broker, ca, stranger *authority) {
	trusting := func(ca *authority) string { return fmt.Sprintf("tls: {ca: %q}", ca.path) }
	login := func(mechanism string) string {
		return "sasl: {mechanism: " + mechanism + ", user: ann, password_env: KAFKA_PASSWORD}"
	}
	var commands sync.WaitGroup
	for name, r := range map[string]struct {
		addr     string
		connect  []string
		password string
		code     int
		want     string
	}{
		"plain-password":  {b.Secure, []string{trusting(ca), login("plain")}, wrongPassword, 1, "check kafka.sasl"},
		"scram-password":  {b.Secure, []string{trusting(ca), login("scram-sha-256")}, wrongPassword, 1, "check kafka.sasl"},
		"scram-password2": {b.Secure, []string{trusting(ca), login("scram-sha-512")}, wrongPassword, 1, "check kafka.sasl"},
		"authority":       {b.Secure, []string{trusting(stranger), login("scram-sha-256")}, password, 1, "check kafka.tls"},
		"system":          {b.Secure, []string{"tls: true", login("scram-sha-256")}, password, 1, "check kafka.tls"},
		"name":            {b.Secure, []string{fmt.Sprintf("tls: {ca: %q, server_name: elsewhere}", ca.path), login("plain")}, password, 1, "kafka.tls.server_name"},
		"no-tls":          {b.Secure, []string{login("scram-sha-256")}, password, 4, "a plaintext connection speaking to a tls endpoint"},
		"nothing":         {b.Secure, nil, password, 4, "a plaintext connection speaking to a tls endpoint"},
		"no-login":        {b.Secure, []string{trusting(ca)}, password, 4, "kafka.sasl"},
		"tls-to-plain":    {b.Addr, []string{trusting(ca), login("plain")}, password, 4, "kafka.tls"},
	} {
		c := newCrewAt(t, b.Addr, 1, 3*time.Minute, 1, func(_ int, job *proof.Job) {
			job.Brokers, job.Connect, job.Variables = []string{r.addr}, r.connect, []string{"KAFKA_PASSWORD=" + r.password}
		})
		for _, command := range [][]string{{"run"}, {"check", "--live"}} {
			commands.Go(func() {
				code, said, err := c.ended(command...)
				waited := strings.Contains(said, "no broker answered within 30s")
				if err != nil || code != r.code || !strings.Contains(said, r.want) || waited != (code == 4) {
					t.Errorf("%s, %v: exit code %d, error %v, want %d and %q, and to wait for 30 s only with 4:\n%s", name, command, code, err, r.code, r.want, said)
				}
				discreet(t, []byte(said), name)
			})
		}
	}
	commands.Wait()
}
