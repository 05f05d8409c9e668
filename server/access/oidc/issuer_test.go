package oidc_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/server/access/oidc"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rsaKey is made once, because that takes long.
var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

func ecKey(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	must(t, err)
	return key
}

func edKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	return key
}

// An issuer is an OpenID Connect issuer: it publishes keys, and signs tokens.
type issuer struct {
	*httptest.Server
	t *testing.T

	mu       sync.Mutex
	down     bool
	keys     jose.JSONWebKeySet
	requests map[string]int // by path
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{t: t, requests: map[string]int{}}
	i.Server = httptest.NewServer(http.HandlerFunc(i.serve))
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) serve(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.requests[r.URL.Path]++
	switch {
	case i.down:
		http.Error(w, "down", http.StatusServiceUnavailable)
	case r.URL.Path == "/.well-known/openid-configuration":
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": i.URL, "jwks_uri": i.URL + "/keys"})
	case r.URL.Path == "/keys":
		_ = json.NewEncoder(w).Encode(i.keys)
	default:
		http.NotFound(w, r)
	}
}

func (i *issuer) count(path string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.requests[path]
}

func (i *issuer) setDown(down bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down = down
}

// publish replaces the keys of the issuer.
func (i *issuer) publish(keys map[string]crypto.PublicKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = jose.JSONWebKeySet{}
	for kid, key := range keys {
		i.keys.Keys = append(i.keys.Keys, jose.JSONWebKey{Key: key, KeyID: kid, Use: "sig"})
	}
}

// config returns the configuration of the issuer. Everybody is a caller, and the group ops is an operator.
func (i *issuer) config(name string) oidc.Issuer {
	return oidc.Issuer{
		Name: name, URL: i.URL, Audiences: []string{"toold", "https://toold.example/mcp"}, Namespace: "default", Roles: []string{"caller"},
		GroupsClaim: "groups", Groups: []oidc.Group{{Name: "ops", Roles: []string{"operator", "approver"}}},
	}
}

// claims returns valid claims with changes. A nil value removes a claim.
func (i *issuer) claims(changes map[string]any) map[string]any {
	c := map[string]any{"iss": i.URL, "sub": "alice", "aud": "toold", "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix()}
	maps.Copy(c, changes)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

// sign signs claims. key is a private key, or bytes for a symmetric algorithm.
func sign(t *testing.T, algorithm jose.SignatureAlgorithm, key any, header map[string]any, claims any) string {
	t.Helper()
	o := &jose.SignerOptions{}
	for name, value := range header {
		o.WithHeader(jose.HeaderKey(name), value)
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, o)
	must(t, err)
	text, err := json.Marshal(claims)
	must(t, err)
	signed, err := s.Sign(text)
	must(t, err)
	token, err := signed.CompactSerialize()
	must(t, err)
	return token
}

func kid(id string) map[string]any { return map[string]any{"kid": id} }

func newVerifier(t *testing.T, issuers ...oidc.Issuer) *oidc.Verifier {
	t.Helper()
	v, err := oidc.New(oidc.Config{Issuers: issuers, Log: zap.NewNop()})
	must(t, err)
	return v
}

// refused fails the test unless err is a refusal with this kind and reason.
func refused(t *testing.T, err error, kind call.RefusalKind, reason string) {
	t.Helper()
	r, ok := errors.AsType[*call.Refusal](err)
	if !ok || r.Kind != kind || r.Reason != reason {
		t.Errorf("error %v, want %s", err, reason)
	}
}
