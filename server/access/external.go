package access

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// A TokenVerifier verifies tokens that issuers signed.
type TokenVerifier interface {
	// Verify returns the principal of a token and the time until which the token is accepted. An error is a [call.Refusal].
	Verify(ctx context.Context, token string) (tool.Principal, time.Time, error)
	// MayGrant reports whether a token of an issuer could make its holder one of these approvers in a namespace.
	MayGrant(namespace string, who *tool.Approvers) bool
	// Sources returns a map from the name of each issuer to a text. The text changes when the rights of this issuer's tokens change.
	Sources() map[string]string
}

// An External authenticates principals that the daemon does not know by name: those of issuers and of client certificates.
type External struct {
	tokens       TokenVerifier     // may be nil
	issuers      map[string]string // source of each issuer, by its name
	certificates []certificateRule

	replaced context.Context //nolint:containedctx // ends when another External replaces this one
	replace  context.CancelCauseFunc

	mu       sync.RWMutex
	verified map[[sha256.Size]byte]verified // verified tokens by hash
}

// A verified holds the identity of a verified token. After the time in the field again, the next request verifies the token anew.
type verified struct {
	id    *Identity
	again time.Time
}

const (
	maxVerified = 4096 // largest number of verified tokens that are remembered
	// verifyAgain is the time after which a token is verified again. When an issuer withdraws a key, tokens of this key are accepted for at
	// most this time.
	verifyAgain = 5 * time.Minute
)

// NewExternal returns an External. If tokens is nil, no signed tokens are accepted. The first rule that matches a certificate applies.
func NewExternal(tokens TokenVerifier, rules []CertificateRule) (*External, error) {
	e := &External{tokens: tokens, verified: map[[sha256.Size]byte]verified{}}
	e.replaced, e.replace = context.WithCancelCause(context.Background())
	if tokens != nil {
		e.issuers = tokens.Sources()
	}
	for i := range rules {
		r, err := newCertificateRule(rules[i])
		if err != nil {
			return nil, fmt.Errorf("certificates that match %q: %w", rules[i].Match, err)
		}
		e.certificates = append(e.certificates, r)
	}
	return e, nil
}

// SetExternal replaces the way to authenticate principals that the daemon does not know by name. It ends the streams of principals that
// were authenticated in the old way: each client sends its request again and gets the rights that it has now. It revokes the credentials
// that were created with a token or a certificate whose issuer or entry was removed or changed.
func (a *Auth) SetExternal(e *External) {
	a.changing.Lock()
	defer a.changing.Unlock()
	if old := a.external.Swap(e); old != nil {
		old.replace(&call.Refusal{
			Kind: call.Unavailable, Reason: "ACCESS_CHANGED", Message: "the configuration of issuers and client certificates changed; send the request again", RetryAfter: time.Second,
		})
	}
	_ = a.publish(context.Background(), slices.Collect(a.tokens.Load().all())) // Ignore the error: if a credential cannot be removed from the store, the next start does not load it.
}

// sources returns the sources of the issuers and the certificates.
func (e *External) sources() map[string]bool {
	all := map[string]bool{}
	if e != nil {
		for _, source := range e.issuers {
			all[source] = true
		}
		for i := range e.certificates {
			all[e.certificates[i].id.source] = true
		}
	}
	return all
}

// verifySigned returns the identity of a signed token. hash is the SHA-256 of its text. It returns nil when the text is not a signed token,
// or when the daemon accepts no signed tokens.
func (e *External) verifySigned(ctx context.Context, text string, hash [sha256.Size]byte) (*Identity, error) {
	if e == nil || e.tokens == nil || strings.Count(text, ".") != 2 {
		return nil, nil
	}
	now := time.Now()
	e.mu.RLock()
	known := e.verified[hash]
	e.mu.RUnlock()
	if now.Before(known.again) {
		return known.id, known.id.Ended()
	}
	p, expires, err := e.tokens.Verify(ctx, text)
	if err != nil {
		return nil, err
	}
	id, err := newIdentity(p, "jwt")
	if err != nil {
		return nil, call.Refuse(call.PermissionDenied, "NOT_ADMITTED", "%q: %v", p.Subject, err)
	}
	issuer, _, _ := strings.Cut(p.Subject, ":")
	id.Expires, id.revoked, id.source = expires, e.replaced, e.issuers[issuer]
	again := now.Add(verifyAgain)
	if expires.Before(again) {
		again = expires
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for old := range e.verified { // The order is random, so this removes a random token.
		if len(e.verified) < maxVerified {
			break
		}
		delete(e.verified, old)
	}
	e.verified[hash] = verified{&id, again}
	return &id, id.Ended() // A reload may have replaced e during the verification.
}

// identifyCertificate returns the identity of a client certificate. It returns nil when the daemon maps no certificates.
func (e *External) identifyCertificate(cert *x509.Certificate) (*Identity, error) {
	if e == nil || len(e.certificates) == 0 {
		return nil, nil
	}
	name, err := certificateName(cert)
	if err != nil {
		return nil, call.Refuse(call.Unauthenticated, "TOKEN_REQUIRED", "%v, so a token is required", err)
	}
	for i := range e.certificates {
		if id := e.certificates[i].identify(name, cert); id != nil {
			id.revoked = e.replaced
			return id, id.Ended()
		}
	}
	return nil, call.Refuse(call.Unauthenticated, "TOKEN_REQUIRED", "no entry of auth.certificates matches the client certificate, so a token is required; the name of the certificate is %s", name)
}

// mayGrant reports whether enough people can become these approvers through issuers and certificate rules. It returns true when an issuer or a
// rule can give the role to any number of people. Otherwise it passes each principal that a rule names to enough, and returns true as
// soon as enough returns true.
func (e *External) mayGrant(namespace string, who *tool.Approvers, enough func(*Identity) bool) bool {
	if e == nil {
		return false
	}
	if e.tokens != nil && e.tokens.MayGrant(namespace, who) {
		return true
	}
	for i := range e.certificates {
		id := &e.certificates[i].id
		switch {
		case id.Subject != "":
			if enough(id) {
				return true
			}
		case id.Namespace == namespace && who.Admit(id.Principal):
			return true
		}
	}
	return false
}
