package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// TLS says whom to trust and who we are. Its files were readable when the configuration was loaded.
type TLS struct {
	CA         string // file of certificates to trust; "": those of the system
	Cert, Key  string // files of our own certificate and key; "": none
	ServerName string // name expected in the broker's certificate; "": the host that is dialled
}

// Config reads the files and makes what a client needs. The files of our own certificate are read again for each new
// connection, so that one that is renewed in time needs no restart; the error of one that has expired is an
// x509.CertificateInvalidError (D05).
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
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return t.own() }
	_, err := t.own()
	return config, err
}

// own reads our certificate, which has to be valid now.
func (t *TLS) own() (*tls.Certificate, error) {
	pair, err := t.pair()
	if err != nil {
		return nil, err
	}
	if err := t.valid(pair.Leaf, time.Now()); err != nil {
		return nil, err
	}
	return &pair, nil
}

// pair reads our certificate and its key.
func (t *TLS) pair() (pair tls.Certificate, err error) {
	cert, err := readSecretFile(t.Cert)
	key, keyErr := readSecretFile(t.Key)
	if err := errors.Join(err, keyErr); err != nil {
		return pair, err
	}
	if pair, err = tls.X509KeyPair(cert, key); err != nil {
		return pair, fmt.Errorf("%s and %s: %w", t.Cert, t.Key, err)
	}
	return pair, nil
}

// valid refuses a certificate outside its time. A broker's words for it, if there are any, would name neither file nor date.
func (t *TLS) valid(leaf *x509.Certificate, now time.Time) error {
	invalid := x509.CertificateInvalidError{Cert: leaf, Reason: x509.Expired, Detail: "it is " + date(now)}
	switch {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("%s expired on %s, put a renewed certificate there: %w", t.Cert, date(leaf.NotAfter), invalid)
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("%s is not valid before %s, compare the clocks: %w", t.Cert, date(leaf.NotBefore), invalid)
	}
	return nil
}

func date(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// renewal is how long before its end a certificate is warned of.
const renewal = 14 * 24 * time.Hour

// outOfTime is a warning of a certificate that is not valid now, or not for long any more; "" when there is none to give. It is no
// fault of the file: the commands that ask no broker are needed then, too.
func (t *TLS) outOfTime(leaf *x509.Certificate, now time.Time) string {
	if err := t.valid(leaf, now); err != nil {
		return err.Error()
	}
	if leaf.NotAfter.Sub(now) < renewal {
		return fmt.Sprintf("%s expires on %s: renew it; a running job takes the new one for its next connection", t.Cert, date(leaf.NotAfter))
	}
	return ""
}
