package oidc_test

import (
	"context"
	"crypto"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/server/access/oidc"
	"github.com/toold-dev/toold/tool"
)

func TestEveryAlgorithm(t *testing.T) {
	i := newIssuer(t)
	p256, p384, p521, ed := ecKey(t, elliptic.P256()), ecKey(t, elliptic.P384()), ecKey(t, elliptic.P521()), edKey(t)
	i.publish(map[string]crypto.PublicKey{"rsa": rsaKey().Public(), "p256": p256.Public(), "p384": p384.Public(), "p521": p521.Public(), "ed": ed.Public()})
	v := newVerifier(t, i.config("corp"))
	for _, tt := range []struct {
		algorithm jose.SignatureAlgorithm
		key       any
		kid       string
	}{
		{jose.RS256, rsaKey(), "rsa"}, {jose.RS512, rsaKey(), "rsa"}, {jose.PS256, rsaKey(), "rsa"},
		{jose.ES256, p256, "p256"}, {jose.ES384, p384, "p384"}, {jose.ES512, p521, "p521"}, {jose.EdDSA, ed, "ed"},
	} {
		p, expires, err := v.Verify(t.Context(), sign(t, tt.algorithm, tt.key, kid(tt.kid), i.claims(map[string]any{"groups": []string{"ops", "staff"}})))
		must(t, err)
		if p.Subject != "corp:alice" || p.Namespace != "default" || !slices.Equal(p.Roles, []string{"approver", "caller", "operator"}) ||
			!slices.Equal(p.Groups, []string{"ops"}) { // The configuration does not name the group staff.
			t.Errorf("%s: %+v", tt.algorithm, p)
		}
		if left := time.Until(expires) - oidc.Skew; left < 50*time.Minute || left > time.Hour {
			t.Errorf("%s: accepted for %v", tt.algorithm, left)
		}
	}
	_, _, err := v.Verify(t.Context(), sign(t, jose.ES256, p256, kid("p256"), i.claims(map[string]any{"aud": []string{"x", "https://toold.example/mcp"}})))
	must(t, err)
	// Without a key id, every key of the issuer that fits the algorithm counts.
	_, _, err = v.Verify(t.Context(), sign(t, jose.ES256, p256, nil, i.claims(nil)))
	must(t, err)
	if n := i.count("/keys"); n != 1 {
		t.Errorf("the keys were fetched %d times", n)
	}
}

// TestT55ForgedTokens (T55) sends tokens that the issuer did not sign, or signed for another purpose. None is accepted, and no key is
// fetched from a place that a token names.
func TestT55ForgedTokens(t *testing.T) {
	i, evil := newIssuer(t), newIssuer(t)
	own := ecKey(t, elliptic.P256())
	i.publish(map[string]crypto.PublicKey{"rsa": rsaKey().Public()})
	evil.publish(map[string]crypto.PublicKey{"rsa": own.Public(), "evil": own.Public()})
	v := newVerifier(t, i.config("corp"))
	der, err := x509.MarshalPKIXPublicKey(rsaKey().Public())
	must(t, err)
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	good := sign(t, jose.RS256, rsaKey(), kid("rsa"), i.claims(nil))
	signed := func(changes map[string]any) string {
		return sign(t, jose.RS256, rsaKey(), kid("rsa"), i.claims(changes))
	}
	with := func(name string, value any) string {
		return sign(t, jose.RS256, rsaKey(), map[string]any{"kid": "rsa", name: value}, i.claims(nil))
	}
	parts := strings.Split(good, ".")
	part := func(v any) string {
		text, err := json.Marshal(v)
		must(t, err)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	const invalid, expired = "TOKEN_INVALID", "TOKEN_EXPIRED"
	tests := []struct{ name, token, reason string }{
		{"expired", signed(map[string]any{"exp": time.Now().Add(-oidc.Skew - time.Second).Unix()}), expired},
		{"no expiry", signed(map[string]any{"exp": nil}), invalid},
		{"expiry is a text", signed(map[string]any{"exp": "never"}), invalid},
		{"expiry in the last minute of the calendar", signed(map[string]any{"exp": 253402300799}), invalid},
		{"expiry beyond the calendar", signed(map[string]any{"exp": 1e300}), invalid},
		{"not yet valid", signed(map[string]any{"nbf": time.Now().Add(2 * oidc.Skew).Unix()}), invalid},
		{"issued in the future", signed(map[string]any{"iat": time.Now().Add(2 * oidc.Skew).Unix()}), invalid},
		{"other audience", signed(map[string]any{"aud": []string{"other", "toold2"}}), invalid},
		{"no audience", signed(map[string]any{"aud": nil}), invalid},
		{"other issuer", signed(map[string]any{"iss": evil.URL}), invalid},
		{"issuer with another case", signed(map[string]any{"iss": nil, "ISS": i.URL}), invalid},
		{"no subject", signed(map[string]any{"sub": nil, "Sub": "root"}), invalid},
		{"subject with a control character", signed(map[string]any{"sub": "alice\x1b[2J"}), invalid},
		{"subject with a bidirectional character", signed(map[string]any{"sub": "alice\u202e"}), invalid},
		{"long subject", signed(map[string]any{"sub": strings.Repeat("a", 252)}), invalid},
		{"algorithm none", part(map[string]string{"alg": "none"}) + "." + parts[1] + ".", invalid},
		{"algorithm none with a signature", part(map[string]string{"alg": "None", "kid": "rsa"}) + "." + parts[1] + "." + parts[2], invalid},
		{"HMAC with the public key as PEM", sign(t, jose.HS256, publicPEM, kid("rsa"), i.claims(nil)), invalid},
		{"HMAC with the public key as DER", sign(t, jose.HS256, der, kid("rsa"), i.claims(nil)), invalid},
		{"signed by another key with the same id", sign(t, jose.ES256, own, kid("rsa"), i.claims(nil)), invalid},
		{"signed by an unknown key", sign(t, jose.ES256, own, kid("evil"), i.claims(nil)), invalid},
		{"jku", sign(t, jose.ES256, own, map[string]any{"kid": "evil", "jku": evil.URL + "/keys"}, i.claims(nil)), invalid},
		{"jku on a token of the issuer", with("jku", evil.URL+"/keys"), invalid},
		{"x5u", with("x5u", evil.URL+"/keys"), invalid},
		{"key in the header", sign(t, jose.ES256, own, map[string]any{"jwk": jose.JSONWebKey{Key: own.Public()}}, i.claims(nil)), invalid},
		{"critical extension", with("crit", []string{"b64"}), invalid},
		{"changed claims", parts[0] + "." + part(i.claims(map[string]any{"sub": "root"})) + "." + parts[2], invalid},
		{"changed signature", parts[0] + "." + parts[1] + "." + base64.RawURLEncoding.EncodeToString(make([]byte, 256)), invalid},
		{"no JSON", "a.b.c", invalid},
		{"JSON serialization", `{"payload":"..","signatures":[]}`, invalid},
		{"huge", signed(map[string]any{"padding": strings.Repeat("A", oidc.MaxToken)}), invalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, _, err := v.Verify(t.Context(), tt.token)
			refused(t, err, call.Unauthenticated, tt.reason)
			if p.Subject != "" {
				t.Errorf("the refused token has the principal %+v", p)
			}
		})
	}
	if n := evil.count("/keys") + evil.count("/.well-known/openid-configuration"); n != 0 {
		t.Errorf("the other issuer got %d requests", n)
	}
	if _, _, err := v.Verify(t.Context(), good); err != nil {
		t.Errorf("the unchanged token: %v", err)
	}
}

// TestT136TwoIssuersWithOneSubject (T136) checks two issuers that use the same sub. The tokens belong to two people. The second issuer also
// names a group admin: this group has an effect only for the issuer whose configuration lists it.
func TestT136TwoIssuersWithOneSubject(t *testing.T) {
	corp, partner := newIssuer(t), newIssuer(t)
	key := ecKey(t, elliptic.P256())
	corp.publish(map[string]crypto.PublicKey{"a": rsaKey().Public()})
	partner.publish(map[string]crypto.PublicKey{"a": key.Public()})
	first := corp.config("corp")
	first.Groups = []oidc.Group{{Name: "admin", Roles: []string{"admin"}}}
	v := newVerifier(t, first, partner.config("partner"))
	admin := map[string]any{"groups": []string{"admin"}}

	p, _, err := v.Verify(t.Context(), sign(t, jose.RS256, rsaKey(), kid("a"), corp.claims(admin)))
	must(t, err)
	if p.Subject != "corp:alice" || !p.HasRole("admin") {
		t.Errorf("corp: %+v", p)
	}
	p, _, err = v.Verify(t.Context(), sign(t, jose.ES256, key, kid("a"), partner.claims(admin)))
	must(t, err)
	if p.Subject != "partner:alice" || !slices.Equal(p.Roles, []string{"caller"}) {
		t.Errorf("partner: %+v", p)
	}
	// A token that is signed with a key of one issuer is not valid for the other issuer.
	_, _, err = v.Verify(t.Context(), sign(t, jose.ES256, key, kid("a"), corp.claims(admin)))
	refused(t, err, call.Unauthenticated, "TOKEN_INVALID")
}

func TestNamespaceAndRolesFollowTheConfiguration(t *testing.T) {
	i := newIssuer(t)
	i.publish(map[string]crypto.PublicKey{"a": rsaKey().Public()})
	c := i.config("corp")
	c.Namespace, c.NamespaceClaim, c.Namespaces, c.Roles = "", "tenant", []string{"blue", "green"}, nil
	v := newVerifier(t, c)
	verify := func(claims map[string]any) (string, error) {
		p, _, err := v.Verify(t.Context(), sign(t, jose.RS256, rsaKey(), kid("a"), i.claims(claims)))
		return p.Namespace, err
	}
	if ns, err := verify(map[string]any{"tenant": "green", "groups": "ops"}); err != nil || ns != "green" {
		t.Errorf("namespace %q, %v", ns, err)
	}
	for _, claims := range []map[string]any{
		{"tenant": "red", "groups": "ops"},                       // not allowed
		{"groups": "ops"},                                        // no namespace
		{"tenant": []string{"blue", "green"}, "groups": "ops"},   // not one text
		{"tenant": "blue", "groups": "staff"},                    // no role
		{"tenant": "blue", "Groups": "ops"},                      // another claim
		{"tenant": "blue", "groups": map[string]any{"ops": "y"}}, // neither a text nor a list
	} {
		_, err := verify(claims)
		refused(t, err, call.PermissionDenied, "NOT_ADMITTED")
	}
	for _, tt := range []struct {
		namespace, role, group string
		want                   bool
	}{
		{"blue", "operator", "", true}, {"green", "approver", "", true}, {"red", "operator", "", false}, {"blue", "admin", "", false},
		{"blue", "operator", "ops", true}, {"blue", "operator", "staff", false},
	} {
		who := tool.Approvers{Roles: []string{tt.role}}
		if tt.group != "" {
			who.Groups = []string{tt.group}
		}
		if got := v.MayGrant(tt.namespace, &who); got != tt.want {
			t.Errorf("MayGrant(%s, %s, %s) = %t", tt.namespace, tt.role, tt.group, got)
		}
	}
}

// TestSources checks that the source of an issuer changes when the rights of its tokens change, but not when its keys change.
func TestSources(t *testing.T) {
	i := newIssuer(t)
	source := func(change func(*oidc.Issuer)) string {
		c := i.config("corp")
		change(&c)
		return newVerifier(t, c).Sources()["corp"]
	}
	same := source(func(*oidc.Issuer) {})
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: rsaKey().Public(), KeyID: "a"}}})
	must(t, err)
	if got := source(func(c *oidc.Issuer) { c.Keys = keys }); got != same || same == "" {
		t.Errorf("with other keys, the source is %q and not %q", got, same)
	}
	for what, change := range map[string]func(*oidc.Issuer){
		"URL": func(c *oidc.Issuer) { c.URL += "/x" }, "audience": func(c *oidc.Issuer) { c.Audiences = c.Audiences[:1] },
		"namespace": func(c *oidc.Issuer) { c.Namespace = "other" }, "claim": func(c *oidc.Issuer) { c.NamespaceClaim = "x" },
		"namespaces": func(c *oidc.Issuer) { c.Namespaces = []string{"x"} }, "roles": func(c *oidc.Issuer) { c.Roles = nil },
		"claim of groups": func(c *oidc.Issuer) { c.GroupsClaim = "x" }, "roles of a group": func(c *oidc.Issuer) { c.Groups[0].Roles = c.Groups[0].Roles[:1] },
	} {
		if source(change) == same {
			t.Errorf("the source does not depend on the %s", what)
		}
	}
}

// TestIssuerThatIsDown starts without the issuer. Its tokens are refused with a clear reason until the issuer is available again.
func TestIssuerThatIsDown(t *testing.T) {
	i := newIssuer(t)
	i.publish(map[string]crypto.PublicKey{"a": rsaKey().Public()})
	i.setDown(true)
	inMemory(t, i, func(t *testing.T, v *oidc.Verifier) {
		token := sign(t, jose.RS256, rsaKey(), kid("a"), i.claims(nil))
		for range 20 {
			_, _, err := v.Verify(t.Context(), token)
			refused(t, err, call.Unavailable, "ISSUER_UNAVAILABLE")
		}
		if n := i.count("/.well-known/openid-configuration"); n != 1 {
			t.Errorf("%d requests within %v", n, oidc.FetchEvery)
		}
		i.setDown(false)
		time.Sleep(oidc.FetchEvery)
		_, _, err := v.Verify(t.Context(), token)
		must(t, err)

		// When the issuer is down again, the verifier still uses the keys that it has.
		i.setDown(true)
		time.Sleep(2 * oidc.KeysFresh)
		_, _, err = v.Verify(t.Context(), sign(t, jose.RS256, rsaKey(), kid("a"), i.claims(nil)))
		must(t, err)
	})
}

// TestUnknownKeyIDs sends tokens with invented key ids, which must not make the daemon flood the issuer. A new key of the issuer is found.
func TestUnknownKeyIDs(t *testing.T) {
	i := newIssuer(t)
	next := ecKey(t, elliptic.P256())
	i.publish(map[string]crypto.PublicKey{"a": rsaKey().Public()})
	inMemory(t, i, func(t *testing.T, v *oidc.Verifier) {
		_, _, err := v.Verify(t.Context(), sign(t, jose.RS256, rsaKey(), kid("a"), i.claims(nil)))
		must(t, err)
		i.publish(map[string]crypto.PublicKey{"a": rsaKey().Public(), "b": next.Public()})
		for range 60 {
			time.Sleep(time.Second)
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					_, _, err := v.Verify(t.Context(), sign(t, jose.ES256, next, kid(rand.Text()), i.claims(nil)))
					refused(t, err, call.Unauthenticated, "TOKEN_INVALID")
				})
			}
			wg.Wait()
		}
		if n := i.count("/keys"); n > 8 {
			t.Errorf("600 tokens with unknown key ids caused %d requests within a minute", n)
		}
		_, _, err = v.Verify(t.Context(), sign(t, jose.ES256, next, kid("b"), i.claims(nil)))
		must(t, err)

		// A key that the issuer has withdrawn is refused when the verifier fetches the keys again.
		i.publish(map[string]crypto.PublicKey{"b": next.Public()})
		time.Sleep(oidc.KeysFresh)
		_, _, err = v.Verify(t.Context(), sign(t, jose.RS256, rsaKey(), kid("a"), i.claims(nil)))
		refused(t, err, call.Unauthenticated, "TOKEN_INVALID")
	})
}

// inMemory runs f with a fake clock and a verifier that reaches the handler of the issuer without a network, because a fake clock does not
// wait for a network.
func inMemory(t *testing.T, i *issuer, f func(t *testing.T, v *oidc.Verifier)) {
	t.Helper()
	rsaKey() // Make the key outside the bubble, because its sync.Once is shared by all tests.
	synctest.Test(t, func(t *testing.T) {
		v, err := oidc.New(oidc.Config{Issuers: []oidc.Issuer{i.config("corp")}, Log: zap.NewNop(), Transport: handler{i}})
		must(t, err)
		f(t, v)
	})
}

type handler struct{ *issuer }

func (h handler) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h.serve(w, r)
	return w.Result(), nil
}

func TestKeysFromAFile(t *testing.T) {
	i := newIssuer(t)
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: []byte("symmetric keys are passed over"), KeyID: "a"}, {Key: rsaKey().Public(), KeyID: "b", Use: "enc"}, {Key: rsaKey().Public(), KeyID: "c", Algorithm: "RS256"},
	}})
	must(t, err)
	c := i.config("corp")
	c.Keys = text
	v := newVerifier(t, c)
	_, _, err = v.Verify(t.Context(), sign(t, jose.RS256, rsaKey(), kid("c"), i.claims(nil)))
	must(t, err)
	for _, bad := range []string{
		sign(t, jose.RS256, rsaKey(), kid("b"), i.claims(nil)),
		sign(t, jose.PS256, rsaKey(), kid("c"), i.claims(nil)), // the key is for RS256 only
	} {
		_, _, err := v.Verify(t.Context(), bad)
		refused(t, err, call.Unauthenticated, "TOKEN_INVALID")
	}
	if n := i.count("/keys"); n != 0 {
		t.Errorf("the issuer got %d requests", n)
	}
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	must(t, err)
	short, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: small.Public(), KeyID: "a"}}})
	must(t, err)
	for _, text := range []string{"", "{}", `{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}`, string(short)} {
		c.Keys = []byte(text)
		if _, err := oidc.New(oidc.Config{Issuers: []oidc.Issuer{c}, Log: zap.NewNop()}); err == nil {
			t.Errorf("the key set %q is accepted", text)
		}
	}
}

// TestDiscoveryDocumentOfAnotherIssuer checks that keys are refused when the discovery document names another issuer, or a URL of another
// machine without TLS.
func TestDiscoveryDocumentOfAnotherIssuer(t *testing.T) {
	i := newIssuer(t)
	for _, document := range []map[string]string{
		{"issuer": i.URL + "/", "jwks_uri": i.URL + "/keys"},
		{"issuer": i.URL, "jwks_uri": "http://keys.example/"},
		{"issuer": i.URL},
	} {
		c := i.config("corp")
		v, err := oidc.New(oidc.Config{Issuers: []oidc.Issuer{c}, Log: zap.NewNop(), Transport: fixed{t, document}})
		must(t, err)
		_, _, err = v.Verify(context.Background(), sign(t, jose.RS256, rsaKey(), kid("a"), i.claims(nil)))
		refused(t, err, call.Unavailable, "ISSUER_UNAVAILABLE")
	}
}

type fixed struct {
	t        *testing.T
	document map[string]string
}

func (f fixed) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path != "/.well-known/openid-configuration" {
		f.t.Errorf("request for %s", r.URL)
	}
	w := httptest.NewRecorder()
	must(f.t, json.NewEncoder(w).Encode(f.document))
	return w.Result(), nil
}

func FuzzVerify(f *testing.F) {
	f.Add("eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJodHRwczovL2EifQ.AAAA")
	f.Add("..")
	v, err := oidc.New(oidc.Config{
		Log:     zap.NewNop(),
		Issuers: []oidc.Issuer{{Name: "a", URL: "https://a", Audiences: []string{"a"}, Namespace: "n", Roles: []string{"caller"}, Keys: []byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`)}},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if p, _, err := v.Verify(context.Background(), text); err == nil {
			t.Errorf("%q is accepted as %+v", text, p)
		}
	})
}
