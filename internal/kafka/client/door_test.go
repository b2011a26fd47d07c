package client_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/client"
)

// signer is an authority or, with itself as parent, one at the root.
type signer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// signed makes a certificate that is valid from and to the given times from now.
func (s *signer) signed(t *testing.T, name string, address net.IP, from, to time.Duration) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(from),
		NotAfter: time.Now().Add(to), IPAddresses: []net.IP{address}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		IsCA: s == nil, BasicConstraintsValid: true}
	parent, by := template, key
	if s != nil {
		parent, by = s.cert, s.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &signer{cert, key}
}

func (s *signer) pair() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{s.cert.Raw}, PrivateKey: s.key, Leaf: s.cert}
}

// D05: a certificate that is refused, by us or by the broker, is told with whose it is, the date where it is the date, and
// what to do.
func TestD05RefusedCertificates(t *testing.T) {
	const day = 24 * time.Hour
	here, there := net.IPv4(127, 0, 0, 1), net.IPv4(10, 1, 2, 3)
	var none *signer
	ca, oldCA, stranger := none.signed(t, "ca", here, -day, day), none.signed(t, "old ca", here, -2*day, -day), none.signed(t, "stranger", here, -day, day)
	trusted := x509.NewCertPool()
	trusted.AddCert(ca.cert)
	trusted.AddCert(oldCA.cert)
	date := func(d time.Duration) string { return time.Now().Add(d).UTC().Format("2006-01-02T15") }
	for name, c := range map[string]struct {
		broker   *signer
		own      *signer // nil for none
		demanded bool    // the broker wants to know who we are
		wants    []string
	}{
		"expired":         {ca.signed(t, "broker", here, -2*day, -day), nil, false, []string{"the broker's certificate expired on " + date(-day), "renew it"}},
		"too soon":        {ca.signed(t, "broker", here, day, 2*day), nil, false, []string{"the broker's certificate is not valid before " + date(day), "compare the clocks"}},
		"old authority":   {oldCA.signed(t, "broker", here, -2*day, day), nil, false, []string{"the certificate of CN=old ca, which vouches for the broker's, expired on " + date(-day)}},
		"elsewhere":       {ca.signed(t, "broker", there, -day, day), nil, false, []string{"valid for 10.1.2.3, not 127.0.0.1", "kafka.tls.server_name"}},
		"stranger":        {stranger.signed(t, "broker", here, -day, day), nil, false, []string{"the broker's certificate is not trusted; check kafka.tls"}},
		"none of our own": {ca.signed(t, "broker", here, -day, day), nil, true, []string{"certificate required", "check kafka.tls.cert"}},
		"not accepted":    {ca.signed(t, "broker", here, -day, day), stranger.signed(t, "us", here, -day, day), true, []string{"the broker does not accept who we are; check kafka.tls.cert"}},
	} {
		t.Run(name, func(t *testing.T) {
			serves := &tls.Config{Certificates: []tls.Certificate{c.broker.pair()}}
			if c.demanded {
				serves.ClientAuth, serves.ClientCAs = tls.RequireAndVerifyClientCert, trusted
			}
			broker, _ := embedded(t, kfake.TLS(serves))
			ours := &tls.Config{RootCAs: trusted}
			if c.own != nil {
				ours.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
					pair := c.own.pair()
					return &pair, nil
				}
			}
			err := contact(t, client.Options{Brokers: broker.ListenAddrs(), TLS: ours})
			if !kafka.TurnedAway(err) || kafka.ClassOf(err) != kafka.ClassTransient {
				t.Errorf("%s: %v", kafka.ClassOf(err), err)
			}
			for _, want := range c.wants {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q", err, want)
				}
			}
		})
	}
}

// D05: what our own files say of an expired certificate is passed on.
func TestD05OwnCertificateIsRefused(t *testing.T) {
	var none *signer
	ca := none.signed(t, "ca", net.IPv4(127, 0, 0, 1), -time.Hour, time.Hour)
	trusted := x509.NewCertPool()
	trusted.AddCert(ca.cert)
	broker, _ := embedded(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{ca.pair()}, ClientAuth: tls.RequestClientCert}))
	ours := &tls.Config{RootCAs: trusted, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return nil, x509.CertificateInvalidError{Cert: ca.cert, Reason: x509.Expired, Detail: "own.pem of yesterday"}
	}}
	err := contact(t, client.Options{Brokers: broker.ListenAddrs(), TLS: ours})
	if !kafka.TurnedAway(err) || kafka.ClassOf(err) != kafka.ClassTransient || !strings.Contains(err.Error(), "own.pem of yesterday") || !strings.Contains(err.Error(), "kafka.tls.cert") {
		t.Errorf("%s: %v", kafka.ClassOf(err), err)
	}
}
