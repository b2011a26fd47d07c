package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// door are the broker's answers to a login that it refuses.
var door = []*kerr.Error{kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState}

// turnedAway tells whether a certificate or a login is what err is about. It may be mended while a job runs, by whoever
// renews what has expired, so its class is transient (kafka.TurnedAway).
func turnedAway(err error) bool {
	return certificateHint(err) != "" || slices.ContainsFunc(door, func(code *kerr.Error) bool { return errors.Is(err, code) })
}

// certificateHint says what to do about a certificate that was refused, by us or by the broker, with the date of one that
// has expired (D05); "" when err is about none.
func certificateHint(err error) string {
	var refused *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var elsewhere x509.HostnameError
	switch {
	case errors.As(err, &refused) && errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return outOfTime(refused, invalid.Cert, time.Now())
	case errors.As(err, &refused) && errors.As(err, &elsewhere):
		return "the broker's certificate is another host's; check the address in kafka.brokers, or name in kafka.tls.server_name whom the certificate is for"
	case errors.As(err, &refused) || errors.As(err, &unknown):
		return "the broker's certificate is not trusted; check kafka.tls"
	case errors.As(err, &invalid):
		return "the certificate in kafka.tls.cert cannot be used" // its error names file, date and repair
	}
	return alertHint(err)
}

// outOfTime is about a broker's certificate, or one of those that vouch for it, before or after its time.
func outOfTime(refused *tls.CertificateVerificationError, cert *x509.Certificate, now time.Time) string {
	whose := "the broker's certificate"
	if len(refused.UnverifiedCertificates) > 0 && !refused.UnverifiedCertificates[0].Equal(cert) {
		whose = fmt.Sprintf("the certificate of %s, which vouches for the broker's,", cert.Subject)
	}
	if now.Before(cert.NotBefore) {
		return fmt.Sprintf("%s is not valid before %s; compare the clocks", whose, cert.NotBefore.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("%s expired on %s; renew it", whose, cert.NotAfter.UTC().Format(time.RFC3339))
}

// alertHint is about a broker that refuses our certificate, or that we have none. What it says is an alert of TLS, which
// Go tells as text only.
func alertHint(err error) string {
	var said *net.OpError
	if !errors.As(err, &said) || said.Op != "remote error" || !strings.Contains(said.Err.Error(), "certificate") {
		return ""
	}
	return "the broker does not accept who we are; check kafka.tls.cert and kafka.tls.key, their date, and whom the broker trusts"
}
