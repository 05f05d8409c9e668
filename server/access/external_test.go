package access_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/tool"
)

// certificate returns a self-signed certificate. The chain does not matter here: endpoints pass only certificates that TLS verified.
func certificate(t testing.TB, subject pkix.RDNSequence, uris ...string) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	raw, err := asn1.Marshal(subject)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), RawSubject: raw, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	for _, text := range uris {
		u, err := url.Parse(text)
		must(t, err)
		template.URIs = append(template.URIs, u)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return cert
}

// named returns a subject with these values: organizations O and common names CN.
func named(pairs ...string) (name pkix.RDNSequence) {
	for _, pair := range pairs {
		kind, value, _ := strings.Cut(pair, "=")
		oid := map[string]asn1.ObjectIdentifier{"CN": {2, 5, 4, 3}, "O": {2, 5, 4, 10}}[kind]
		name = append(name, pkix.RelativeDistinguishedNameSET{{Type: oid, Value: value}})
	}
	return name
}

func rule(match, subject string, roles ...string) access.CertificateRule {
	return access.CertificateRule{Match: match, Principal: tool.Principal{Namespace: "default", Subject: subject, Roles: roles}}
}

func newExternal(t *testing.T, v access.TokenVerifier, rules ...access.CertificateRule) *access.External {
	t.Helper()
	e, err := access.NewExternal(v, rules)
	must(t, err)
	return e
}

func TestNamesOfCertificates(t *testing.T) {
	a, err := access.NewAuth(nil, nil)
	must(t, err)
	a.SetExternal(newExternal(t, nil,
		rule("spiffe://prod.example/ci", "ci", "operator"), rule("spiffe://prod.example/team/*", "", "caller"), rule("CN=ci,O=Acme", "", "viewer"), rule("CN=root", "boss", "admin")))
	for _, tt := range []struct {
		name    string
		cert    *x509.Certificate
		subject string // empty means that the certificate is refused
	}{
		{"exact id", certificate(t, nil, "spiffe://prod.example/ci"), "ci"},
		{"id below a path", certificate(t, nil, "spiffe://prod.example/team/a/b"), "spiffe://prod.example/team/a/b"},
		{"the path itself", certificate(t, nil, "spiffe://prod.example/team"), ""},
		{"longer than the exact id", certificate(t, nil, "spiffe://prod.example/ci/x"), ""},
		{"other trust domain", certificate(t, nil, "spiffe://test.example/ci"), ""},
		{"other case", certificate(t, nil, "spiffe://prod.example/CI"), ""},
		{"dots", certificate(t, nil, "spiffe://prod.example/team/../ci"), ""},
		{"escaped", certificate(t, nil, "spiffe://prod.example/team/%2e%2e/ci"), ""},
		{"query", certificate(t, nil, "spiffe://prod.example/ci?x"), ""},
		{"two ids", certificate(t, nil, "spiffe://prod.example/ci", "spiffe://prod.example/team/a"), ""},
		{"an id beside another URI", certificate(t, nil, "https://prod.example", "spiffe://prod.example/ci"), ""},
		{"long id", certificate(t, nil, "spiffe://prod.example/team/"+strings.Repeat("a", 256)), ""},
		{"subject", certificate(t, named("O=Acme", "CN=ci")), "CN=ci,O=Acme"},
		{"subject beside an id that matches nothing", certificate(t, named("O=Acme", "CN=ci"), "spiffe://prod.example/x"), ""},
		{"subject beside another URI", certificate(t, named("O=Acme", "CN=ci"), "https://acme.example"), "CN=ci,O=Acme"},
		{"subject in another order", certificate(t, named("CN=ci", "O=Acme")), ""},
		{"part of the subject", certificate(t, named("CN=ci")), ""},
		{"a second common name", certificate(t, named("CN=eve", "CN=root")), ""},
		{"a common name with a comma", certificate(t, named("CN=ci,O=Acme")), ""},
		{"control character", certificate(t, named("CN=ci\n")), ""},
		{"no name", certificate(t, nil), ""},
		{"fixed subject", certificate(t, named("CN=root")), "boss"},
	} {
		id, err := a.Identify(t.Context(), access.Credential{Certificate: tt.cert})
		if tt.subject == "" {
			refused(t, tt.name, err, "TOKEN_REQUIRED")
			continue
		}
		if err != nil || id.Subject != tt.subject || id.Method != "certificate" || !id.Expires.Equal(tt.cert.NotAfter) {
			t.Errorf("%s: %+v, %v", tt.name, id, err)
		}
	}
}

// refused fails the test unless err is a refusal with this reason.
func refused(t *testing.T, name string, err error, reason string) {
	t.Helper()
	if r, ok := errors.AsType[*call.Refusal](err); !ok || r.Reason != reason {
		t.Errorf("%s: error %v, want %s", name, err, reason)
	}
}

func TestCertificateRulesThatAreRefused(t *testing.T) {
	for _, match := range []string{"", "ci", "spiffe://", "spiffe://prod.example", "spiffe://prod.example/ci*", "spiffe://prod.example/*/x", "spiffe://prod.example/../*", "spiffe://Prod.example/x", "spiffe://*"} {
		if _, err := access.NewExternal(nil, []access.CertificateRule{rule(match, "", "caller")}); err == nil {
			t.Errorf("%q is accepted", match)
		}
	}
	if _, err := access.NewExternal(nil, []access.CertificateRule{rule("CN=a", "toold", "caller")}); err == nil {
		t.Error("the subject of the daemon is accepted")
	}
}

// TestTokenBeforeCertificate checks that a token takes precedence over a certificate, and that a certificate does not authenticate without
// rules.
func TestTokenBeforeCertificate(t *testing.T) {
	a, err := access.NewAuth([]access.Token{configured("default", "vera", time.Time{}, "viewer")}, nil)
	must(t, err)
	c := access.Credential{Certificate: certificate(t, named("CN=ci"))}
	_, err = a.Identify(t.Context(), c)
	refused(t, "no rules", err, "TOKEN_REQUIRED")
	a.SetExternal(newExternal(t, nil, rule("CN=ci", "", "caller")))
	id, err := a.Identify(t.Context(), c)
	must(t, err)
	if id.Subject != "CN=ci" {
		t.Errorf("the certificate is %q", id.Subject)
	}
	c.Authorization = []string{"Bearer " + textOf("vera")}
	id, err = a.Identify(t.Context(), c)
	must(t, err)
	if id.Subject != "vera" {
		t.Errorf("the token is %q", id.Subject)
	}
	c.Authorization = []string{"Bearer " + textOf("nobody")}
	_, err = a.Identify(t.Context(), c)
	refused(t, "a wrong token", err, "TOKEN_INVALID")
}

// An issuerOf accepts the tokens "<subject>.x.<padding>" for 20 minutes, and counts how often it is asked.
type issuerOf struct {
	roles  []string
	asked  int
	during func() // called during each verification, unless it is nil
}

func (i *issuerOf) Verify(_ context.Context, text string) (tool.Principal, time.Time, error) {
	i.asked++
	if i.during != nil {
		i.during()
	}
	subject, _, _ := strings.Cut(text, ".")
	if subject == "eve" {
		return tool.Principal{}, time.Time{}, call.Refuse(call.Unauthenticated, "TOKEN_INVALID", "no")
	}
	return tool.Principal{Namespace: "default", Subject: subject, Roles: i.roles}, time.Now().Add(20 * time.Minute), nil
}

func (i *issuerOf) Sources() map[string]string {
	return map[string]string{"corp": "issuer:corp:" + strings.Join(i.roles, " ")}
}

func (i *issuerOf) MayGrant(namespace string, who *tool.Approvers) bool {
	return namespace == "default" && who.Admit(tool.Principal{Roles: i.roles})
}

// A verified token is remembered for five minutes, and a refused token is not. Replacing the External ends the streams of its principals.
func TestVerifiedTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := access.NewAuth(nil, nil)
		must(t, err)
		v := &issuerOf{roles: []string{"caller"}}
		a.SetExternal(newExternal(t, v))
		identify := func(subject string) (*access.Identity, error) {
			return a.Identify(t.Context(), access.Credential{Authorization: []string{"Bearer " + subject + ".x." + strings.Repeat("y", 20)}})
		}
		var id *access.Identity
		for range 100 {
			id, err = identify("alice")
			must(t, err)
		}
		if v.asked != 1 || id.Subject != "alice" || id.Method != "jwt" {
			t.Errorf("%+v after %d verifications", id, v.asked)
		}
		for range 3 {
			_, err := identify("eve")
			refused(t, "eve", err, "TOKEN_INVALID")
		}
		time.Sleep(5 * time.Minute)
		_, err = identify("alice")
		must(t, err)
		if v.asked != 5 {
			t.Errorf("%d verifications, want 5", v.asked)
		}
		// Only 4,096 tokens are remembered, so most of these 10,000 people are verified again.
		v.asked = 0
		for range 2 {
			for i := range 10000 {
				_, err := identify("person-" + string(rune('a'+i%26)) + big.NewInt(int64(i)).String())
				must(t, err)
			}
		}
		if v.asked < 10000+10000-4096 {
			t.Errorf("%d verifications of 20,000: more than 4,096 tokens are remembered", v.asked)
		}

		ctx, stop := id.While(t.Context())
		defer stop()
		a.SetExternal(newExternal(t, v))
		<-ctx.Done()
		refused(t, "stream", context.Cause(ctx), "ACCESS_CHANGED")

		id, err = identify("alice")
		must(t, err)
		ctx, stop = id.While(t.Context())
		defer stop()
		began := time.Now()
		<-ctx.Done()
		refused(t, "stream", context.Cause(ctx), "TOKEN_EXPIRED")
		if lasted := time.Since(began); lasted != 20*time.Minute {
			t.Errorf("the stream lasted %v", lasted)
		}
	})
}

// TestT137CreatedByIssuer (T137) checks tokens that were created with a token of an issuer. They end when the rights of the issuer change
// or the issuer is removed, also while the daemon does not run.
func TestT137CreatedByIssuer(t *testing.T) {
	s := newMemoryStore()
	signed := access.Credential{Authorization: []string{"Bearer corp:alice.x." + strings.Repeat("y", 20)}}
	a := start(t, s)
	a.SetExternal(newExternal(t, &issuerOf{roles: []string{"operator"}}))
	create := func() string {
		t.Helper()
		alice, err := a.Identify(t.Context(), signed)
		must(t, err)
		text, _, err := a.Create(t.Context(), alice, grant("operator"))
		must(t, err)
		return text
	}
	expectRevoked := func(what, text string) {
		t.Helper()
		_, err := a.Identify(t.Context(), access.Credential{Authorization: []string{"Bearer " + text}})
		refused(t, what, err, "TOKEN_INVALID")
		if n := len(s.all()); n != 0 {
			t.Errorf("%s: %d credentials are still stored", what, n)
		}
	}
	first := create()
	a.SetExternal(newExternal(t, &issuerOf{roles: []string{"operator"}}))
	as(t, a, first)
	a.SetExternal(newExternal(t, &issuerOf{roles: []string{"caller"}}))
	expectRevoked("other roles", first)
	a.SetExternal(newExternal(t, &issuerOf{roles: []string{"operator"}}))
	second := create()
	a.SetExternal(newExternal(t, nil))
	expectRevoked("no issuer", second)
	a.SetExternal(newExternal(t, &issuerOf{roles: []string{"operator"}}))
	third := create()
	a = start(t, s) // without the issuer
	expectRevoked("no issuer after a restart", third)
}

// TestReplacedDuringVerification checks that a token is refused when a reload replaces its issuer while the token is verified.
func TestReplacedDuringVerification(t *testing.T) {
	a := start(t, newMemoryStore())
	v := &issuerOf{roles: []string{"caller"}}
	v.during = func() { a.SetExternal(newExternal(t, nil)) }
	a.SetExternal(newExternal(t, v))
	_, err := a.Identify(t.Context(), access.Credential{Authorization: []string{"Bearer corp:alice.x." + strings.Repeat("y", 20)}})
	refused(t, "the issuer is removed", err, "ACCESS_CHANGED")
}

// TestApproversNobodyListed checks that CanApprove counts issuers and rules without a fixed subject as any number of people, and a rule
// with a fixed subject as one person.
func TestApproversNobodyListed(t *testing.T) {
	a, err := access.NewAuth(nil, []access.Peer{{UID: 1, Principal: tool.Principal{Namespace: "default", Subject: "local", Roles: []string{"approver"}}}})
	must(t, err)
	in := func(namespace, role string, count int, not ...string) bool {
		return a.CanApprove(namespace, &tool.Approvers{Roles: []string{role}, Count: count}, not...)
	}
	can := func(count int, not ...string) bool { return in("default", "approver", count, not...) }
	if can(2) || can(1, "local") {
		t.Error("there is one person only")
	}
	a.SetExternal(newExternal(t, nil, rule("CN=a", "anna", "approver")))
	if !can(2) || can(3) || can(2, "local") || !can(1, "local") {
		t.Error("a rule with a fixed subject is not one person")
	}
	a.SetExternal(newExternal(t, nil, rule("spiffe://a/*", "", "approver")))
	if !can(10, "local") || in("other", "approver", 1) || in("default", "operator", 1) {
		t.Error("a rule for many certificates is not any number of people in its namespace with its role")
	}
	a.SetExternal(newExternal(t, &issuerOf{roles: []string{"approver"}}))
	if !can(10, "local") || in("other", "approver", 1) {
		t.Error("an issuer is not any number of people in its namespace")
	}
}

func BenchmarkIdentify(b *testing.B) {
	a, err := access.NewAuth([]access.Token{configured("default", "vera", time.Time{}, "viewer")}, nil)
	must(b, err)
	e, err := access.NewExternal(&issuerOf{roles: []string{"caller"}}, []access.CertificateRule{rule("CN=ci", "", "caller")})
	must(b, err)
	a.SetExternal(e)
	for name, c := range map[string]access.Credential{
		"token":       {Authorization: []string{"Bearer " + textOf("vera")}},
		"jwt":         {Authorization: []string{"Bearer alice.x." + strings.Repeat("y", 700)}},
		"certificate": {Certificate: certificate(b, named("CN=ci"))},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := a.Identify(b.Context(), c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
