package oidc

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
)

const (
	// FetchEvery is the shortest time between two requests for the keys of an issuer. Tokens with invented key ids cannot cause more
	// requests.
	FetchEvery = 10 * time.Second
	// KeysFresh is the time for which keys are used before the next token makes the verifier fetch them again.
	KeysFresh = 10 * time.Minute
	// retryOld is the time between two attempts to fetch new keys. Meanwhile the verifier uses the old keys.
	retryOld = time.Minute
	// fetchTime bounds the time for fetching keys. It is shorter than the time within which a new connection must send a valid credential.
	fetchTime = 5 * time.Second

	maxDocument = 1 << 20 // bytes of a response of an issuer
	maxKeys     = 64      // a key set with more keys is refused
	minRSA      = 2048    // bits of the shortest RSA key that is used
)

// A publicKey is a key of an issuer.
type publicKey struct {
	id        string // may be empty
	algorithm string // the only algorithm for the key; empty means every algorithm that fits the type of the key
	key       crypto.PublicKey
}

// keys holds the keys of an issuer and fetches them.
type keys struct {
	url    string // of the issuer
	client *http.Client
	log    *zap.Logger
	fixed  bool // the keys came from a file and never change

	mu       sync.Mutex
	set      []publicKey
	tried    time.Time     // when the last fetch began
	loaded   time.Time     // when the keys in set were fetched
	problem  error         // why the last fetch failed
	fetching chan struct{} // closed when the current fetch ends; nil when no fetch runs
}

func newKeys(i *Issuer, transport http.RoundTripper, log *zap.Logger) (*keys, error) {
	if i.Keys != nil {
		set, err := parseKeys(i.Keys)
		return &keys{set: set, fixed: true}, err
	}
	client, err := newClient(i, transport)
	return &keys{url: i.URL, log: log, client: client}, err
}

// verify verifies the signature of a token. It fetches the keys when they are old, or when the token names a key that is not known.
func (k *keys) verify(ctx context.Context, t *token) error {
	set, old := k.current()
	fit := fitting(set, t)
	if len(fit) == 0 || old {
		var err error
		if set, err = k.refresh(ctx, len(fit) == 0); err != nil && len(fit) == 0 {
			return err
		}
		if refreshed := fitting(set, t); err == nil {
			fit = refreshed
		}
	}
	if len(fit) == 0 {
		return fmt.Errorf("the issuer has no key %q for the algorithm %s", short(t.kid), t.algorithm)
	}
	for _, key := range fit {
		if _, err := t.jws.Verify(key.key); err == nil {
			return nil
		}
	}
	return errors.New("its signature is wrong")
}

// fitting returns the keys that a token may be signed with.
func fitting(set []publicKey, t *token) (fit []publicKey) {
	for _, key := range set {
		if (t.kid == "" || t.kid == key.id) && (key.algorithm == "" || key.algorithm == t.algorithm) && fits(key.key, t.algorithm) {
			fit = append(fit, key)
		}
	}
	return fit
}

// fits reports whether an algorithm uses keys of this type.
func fits(key crypto.PublicKey, algorithm string) bool {
	switch key.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(algorithm, "RS") || strings.HasPrefix(algorithm, "PS")
	case *ecdsa.PublicKey:
		return strings.HasPrefix(algorithm, "ES")
	case ed25519.PublicKey:
		return algorithm == string(jose.EdDSA)
	}
	return false
}

// current returns the keys, and whether they are old.
func (k *keys) current() (set []publicKey, old bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.set, !k.fixed && time.Since(k.loaded) >= KeysFresh && time.Since(k.tried) >= retryOld
}

// refresh fetches the keys and returns them. Only one goroutine at a time fetches, at most every [FetchEvery]. If must is set, the other
// goroutines wait for this fetch. Otherwise they return the old keys.
func (k *keys) refresh(ctx context.Context, must bool) ([]publicKey, error) {
	k.mu.Lock()
	for k.fetching != nil && must {
		under := k.fetching
		k.mu.Unlock()
		select {
		case <-under:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		k.mu.Lock()
	}
	defer k.mu.Unlock()
	if k.fixed || k.fetching != nil || !k.tried.IsZero() && time.Since(k.tried) < FetchEvery {
		return k.set, k.unavailableLocked()
	}
	k.tried, k.fetching = time.Now(), make(chan struct{})
	k.mu.Unlock()
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTime) // Other requests wait for the result, so the fetch does not end with this request.
	set, err := k.fetch(bound)
	cancel()
	k.mu.Lock()
	close(k.fetching)
	k.fetching, k.problem = nil, err
	if err != nil {
		k.log.Warn("keys of the issuer not fetched; the old ones stay in use", zap.Int("keys", len(k.set)), zap.Error(err))
		return k.set, k.unavailableLocked()
	}
	level := zap.DebugLevel
	if k.loaded.IsZero() {
		level = zap.InfoLevel
	}
	k.log.Log(level, "keys of the issuer fetched", zap.Int("keys", len(set)))
	k.set, k.loaded = set, time.Now()
	return k.set, nil
}

// unavailableLocked returns the refusal of a token while the keys of its issuer cannot be fetched.
func (k *keys) unavailableLocked() error {
	if k.problem == nil {
		return nil
	}
	return &call.Refusal{
		Kind: call.Unavailable, Reason: "ISSUER_UNAVAILABLE", RetryAfter: FetchEvery,
		Message: fmt.Sprintf("the token cannot be checked: the keys of the issuer %s are not available; the daemon's log says why", k.url),
	}
}

// fetch reads the discovery document of the issuer and then its keys.
func (k *keys) fetch(ctx context.Context) ([]publicKey, error) {
	var discovery struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	at := strings.TrimSuffix(k.url, "/") + "/.well-known/openid-configuration"
	text, err := k.get(ctx, at)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &discovery); err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	if discovery.Issuer != k.url {
		return nil, fmt.Errorf("%s: the issuer is %q, not %q; the setting must be the same text", at, short(discovery.Issuer), k.url)
	}
	if err := checkURL(discovery.Keys); err != nil {
		return nil, fmt.Errorf("%s: jwks_uri: %w", at, err)
	}
	if strings.HasPrefix(k.url, "https:") && !strings.HasPrefix(discovery.Keys, "https:") {
		return nil, fmt.Errorf("%s: jwks_uri: %q is not https", at, short(discovery.Keys))
	}
	if text, err = k.get(ctx, discovery.Keys); err != nil {
		return nil, err
	}
	set, err := parseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", discovery.Keys, err)
	}
	return set, nil
}

func (k *keys) get(ctx context.Context, at string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	resp, err := k.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: the response is %s", at, resp.Status)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	if err == nil && len(text) > maxDocument {
		err = fmt.Errorf("the response has more than %d bytes", maxDocument)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	return text, nil
}

// newClient returns a client for an issuer. It uses no proxy from the environment, follows no redirect, and keeps no connection open,
// because it sends only two requests in ten minutes.
func newClient(i *Issuer, transport http.RoundTripper) (*http.Client, error) {
	if transport == nil {
		secure := &tls.Config{MinVersion: tls.VersionTLS12}
		if i.CA != nil {
			secure.RootCAs = x509.NewCertPool()
			if !secure.RootCAs.AppendCertsFromPEM(i.CA) {
				return nil, errors.New("the certificate authority is not PEM certificates")
			}
		}
		transport = &http.Transport{
			TLSClientConfig: secure, TLSHandshakeTimeout: fetchTime, ForceAttemptHTTP2: true, DisableCompression: true, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
		}
	}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

// checkURL returns an error when a URL of an issuer would be read without TLS from another machine.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "":
		return fmt.Errorf("%q is not a URL such as https://issuer.example", short(text))
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http" && (u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1" || u.Hostname() == "::1"):
		return nil
	}
	return fmt.Errorf("%q is not https", short(text))
}

// parseKeys returns the usable keys of a JSON Web Key Set. It skips keys for encryption, symmetric keys, short RSA keys and keys of unknown
// types.
func parseKeys(text []byte) ([]publicKey, error) {
	var document struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("not a JSON Web Key Set: %w", err)
	}
	var set []publicKey
	for _, raw := range document.Keys {
		var key jose.JSONWebKey
		if err := json.Unmarshal(raw, &key); err != nil || !key.Valid() || key.Use != "" && key.Use != "sig" {
			continue
		}
		public := key.Public() // the zero value for a symmetric key
		if rsaKey, ok := public.Key.(*rsa.PublicKey); ok && rsaKey.N.BitLen() < minRSA {
			continue
		}
		if public.Valid() {
			set = append(set, publicKey{key.KeyID, key.Algorithm, public.Key})
		}
	}
	switch {
	case len(set) == 0:
		return nil, fmt.Errorf("the key set has no usable key: it needs a public RSA key of at least %d bits, an elliptic or an Ed25519 key for signatures", minRSA)
	case len(set) > maxKeys:
		return nil, fmt.Errorf("the key set has %d keys; at most %d are allowed", len(set), maxKeys)
	}
	return set, nil
}
