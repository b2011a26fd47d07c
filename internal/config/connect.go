package config

import (
	"strings"
	"time"
)

func (d *decoder) kafka(root *section) (k Kafka) {
	const hint = "write  kafka: {brokers: [HOST:PORT]}  or, for trying out,  kafka: embedded"
	s, simple := root.sectionOr("kafka", "embedded", "{brokers: [HOST:PORT]}")
	var at []place
	k.Brokers, at = list(s, "brokers", "a list of HOST:PORT", "", address(1))

	embedded, bare := s.sectionOr("embedded", "true", "{partitions: 4}")
	k.Embedded = simple || bare || embedded.present()
	embedded.off = !k.Embedded
	k.EmbeddedPartitions, _ = get(embedded, "partitions", "4", whole(1, 1024))
	embedded.close()

	k.TLS = d.tls(s)
	k.SASL = d.sasl(s, k.TLS != nil)
	var allowed place
	if k.AllowTransactionV1, allowed = get(s, "allow_transaction_v1", "false", truth); k.AllowTransactionV1 {
		d.warn(allowed, "kafka.allow_transaction_v1", "true: a cluster below transaction.version 2 is accepted; each commit takes one request more there, "+
			"and every broker must verify transactions (transaction.partition.verification.enable)")
	}
	s.close()

	switch {
	case k.Embedded && s.has("brokers"):
		where := s.at
		if len(at) > 0 {
			where = at[0]
		}
		d.add(where, "kafka.brokers", wrongf("there is also the embedded broker").hinted("keep one of the two"))
	case k.Embedded && (k.TLS != nil || k.SASL != nil):
		d.add(s.at, "kafka", wrongf("the embedded broker knows neither tls nor sasl").hinted("remove them"))
	case k.Embedded || s.has("brokers") || s.off:
	case s.written:
		d.add(s.at, "kafka", wrongf("names no broker").hinted("%s", hint))
	default:
		d.add(s.at, "kafka", wrongf("is missing").hinted("%s", hint))
	}
	return k
}

func (d *decoder) tls(kafka *section) *TLS {
	s, bare := kafka.sectionOr("tls", "true", "{ca: FILE}")
	s.off = !bare && !s.present()
	t := &TLS{}
	var caAt, certAt, keyAt place
	t.CA, caAt = get(s, "ca", "", anyText)
	t.Cert, certAt = get(s, "cert", "", anyText)
	t.Key, keyAt = get(s, "key", "", anyText)
	t.ServerName, _ = get(s, "server_name", "", anyText)
	s.close()
	if s.off {
		return nil
	}
	if _, err := (&TLS{CA: t.CA}).Config(); err != nil {
		d.add(caAt, "kafka.tls.ca", wrongf("%v", err))
	}
	switch {
	case t.Cert != "" && keyAt.file == "":
		d.add(certAt, "kafka.tls.cert", wrongf("needs kafka.tls.key too").hinted("name the file of the certificate's key"))
	case t.Key != "" && certAt.file == "":
		d.add(keyAt, "kafka.tls.key", wrongf("needs kafka.tls.cert too").hinted("name the file of the key's certificate"))
	case t.Cert != "":
		if pair, err := t.pair(); err != nil {
			d.add(certAt, "kafka.tls.cert", wrongf("%v", err))
		} else if warning := t.outOfTime(pair.Leaf, time.Now()); warning != "" {
			d.warn(certAt, "kafka.tls.cert", "%s", warning)
		}
	}
	if *t == (TLS{}) {
		d.set("kafka.tls", "true", s.at)
	}
	return t
}

// mechanisms are written in small or in large letters, and kept in large ones as the protocol has them.
var mechanism = spec[string]{kind: kindText, want: "plain, scram-sha-256 or scram-sha-512", parse: func(text string) (string, *wrong) {
	lower, w := word([]string{"plain", "scram-sha-256", "scram-sha-512"}).parse(strings.ToLower(text))
	return strings.ToUpper(lower), w
}}

func (d *decoder) sasl(kafka *section, encrypted bool) *SASL {
	s := kafka.section("sasl", "{mechanism: plain, user: NAME, password_env: VARIABLE}")
	s.off = !s.present()
	l := &SASL{}
	var at place
	l.Mechanism, at = need(s, "mechanism", "want plain, scram-sha-256 or scram-sha-512", mechanism)
	l.User, _ = need(s, "user", "name who signs in", anyText)
	l.Password = s.password("password")
	s.close()
	if s.off {
		return nil
	}
	if l.Mechanism == "PLAIN" && !encrypted {
		d.warn(at, "kafka.sasl.mechanism", "plain without tls sends the password in clear text")
	}
	return l
}
