package access

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toold-dev/toold/tool"
)

// A CertificateRule maps client certificates to a principal.
type CertificateRule struct {
	// Match is a SPIFFE id, or the whole distinguished name of the subject as in RFC 4514, such as CN=ci,O=Acme. The last part of a SPIFFE id may
	// be *, which matches every id that begins with the parts before it.
	Match string
	// Principal is the principal of clients with a matching certificate. If its subject is empty, the name in the certificate becomes the
	// subject.
	Principal tool.Principal
}

// A certificateRule is a rule that was checked.
type certificateRule struct {
	match  string
	prefix bool // match is a prefix
	id     Identity
}

// maxName bounds the name in a certificate, and the subject and namespace of a token, in bytes.
const maxName = 256

// printable reports whether records and terminals can show a text without escapes.
func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// spiffeID matches SPIFFE ids with a path. The segments "." and ".." are refused separately.
var spiffeID = regexp.MustCompile(`^spiffe://[a-z0-9._-]{1,255}(/[a-zA-Z0-9._-]+)+$`)

func newCertificateRule(r CertificateRule) (certificateRule, error) {
	c := certificateRule{match: r.Match}
	if strings.HasPrefix(r.Match, spiffe) {
		c.match, c.prefix = strings.CutSuffix(r.Match, "*")
		if c.prefix && !strings.HasSuffix(c.match, "/") || !isSPIFFE(c.match+map[bool]string{true: "x"}[c.prefix]) {
			return c, fmt.Errorf("%q is not a SPIFFE id such as spiffe://example.org/ci, or spiffe://example.org/team/* for all ids below it", r.Match)
		}
	} else if !strings.Contains(r.Match, "=") {
		return c, fmt.Errorf("%q is neither a SPIFFE id nor a distinguished name such as CN=ci,O=Acme", r.Match)
	}
	p := r.Principal
	if p.Subject == "" {
		p.Subject = r.Match // only for the check in newIdentity; the subject is removed below
	}
	id, err := newIdentity(p, "certificate")
	if r.Principal.Subject == "" {
		id.Subject = ""
	}
	id.source = id.sourceOf("certificate", []byte(r.Match))
	c.id = id
	return c, err
}

const spiffe = "spiffe://"

func isSPIFFE(id string) bool {
	return len(id) <= maxName && spiffeID.MatchString(id) && !strings.Contains(id+"/", "/./") && !strings.Contains(id+"/", "/../")
}

// identify returns the identity of a certificate, or nil if no rule matches it.
func (r *certificateRule) identify(name string, cert *x509.Certificate) *Identity {
	if name != r.match && !(r.prefix && strings.HasPrefix(name, r.match)) {
		return nil
	}
	id := r.id
	if id.Subject == "" {
		id.Subject = name
	}
	id.Expires = cert.NotAfter
	return &id
}

// certificateName returns the name of a certificate that rules match: its SPIFFE id if it has one, and otherwise its distinguished name.
func certificateName(cert *x509.Certificate) (string, error) {
	for _, uri := range cert.URIs {
		if uri.Scheme != "spiffe" {
			continue
		}
		id := uri.String()
		if len(cert.URIs) > 1 || !isSPIFFE(id) {
			return "", fmt.Errorf("the client certificate has more than one URI, or one that is not a SPIFFE id of at most %d bytes", maxName)
		}
		return id, nil
	}
	// The raw subject contains every attribute. The fields of pkix.Name contain only the last one of several common names.
	var name pkix.RDNSequence
	if rest, err := asn1.Unmarshal(cert.RawSubject, &name); err != nil || len(rest) > 0 {
		return "", errors.New("the subject of the client certificate is malformed")
	}
	text := name.String()
	if text == "" || len(text) > maxName || !printable(text) {
		return "", fmt.Errorf("the client certificate has no subject of at most %d printable bytes", maxName)
	}
	return text, nil
}
