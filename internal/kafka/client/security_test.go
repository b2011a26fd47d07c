package client_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/client"
)

// contact asks for the cluster's id.
func contact(t *testing.T, options client.Options) error {
	t.Helper()
	c, err := client.New(options)
	if err != nil {
		return err
	}
	admin, err := c.Admin()
	if err != nil {
		return err
	}
	defer admin.Close()
	_, _, err = admin.Cluster(t.Context())
	return err
}

func TestSASL(t *testing.T) {
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		broker, _ := embedded(t, kfake.EnableSASL(), kfake.Superuser(mechanism, "ann", "secret"))
		options := client.Options{Brokers: broker.ListenAddrs(), SASL: &client.SASL{Mechanism: mechanism, User: "ann", Password: "secret"}}
		if err := contact(t, options); err != nil {
			t.Errorf("%s: %v", mechanism, err)
		}
	}
	err := contact(t, client.Options{Brokers: []string{"127.0.0.1:1"}, SASL: &client.SASL{Mechanism: "GSSAPI"}})
	if kafka.ClassOf(err) != kafka.ClassPermanent || !strings.Contains(err.Error(), "SCRAM-SHA-512") {
		t.Errorf("an unknown mechanism: %v", err)
	}
}

func TestTLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	broker, _ := embedded(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}))
	trusted := x509.NewCertPool()
	trusted.AddCert(certificate)
	if err := contact(t, client.Options{Brokers: broker.ListenAddrs(), TLS: &tls.Config{RootCAs: trusted}}); err != nil {
		t.Error(err)
	}
	if err := contact(t, client.Options{Brokers: broker.ListenAddrs(), TLS: &tls.Config{RootCAs: x509.NewCertPool()}}); !kafka.TurnedAway(err) {
		t.Errorf("an unknown authority: %v", err)
	}
}

func TestOptions(t *testing.T) {
	if _, err := client.New(client.Options{Brokers: []string{"a:1", ""}}); kafka.ClassOf(err) != kafka.ClassPermanent || !strings.Contains(err.Error(), "address 2 of 2 is empty") {
		t.Errorf("an empty address: %v", err)
	}
	if _, err := client.New(client.Options{}); kafka.ClassOf(err) != kafka.ClassPermanent {
		t.Error(err)
	}
	c, err := client.New(client.Options{Brokers: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Writer(""); kafka.ClassOf(err) != kafka.ClassPermanent {
		t.Error(err)
	}
	if _, err := c.Group(kafka.GroupOptions{}); kafka.ClassOf(err) != kafka.ClassPermanent {
		t.Error(err)
	}
}
