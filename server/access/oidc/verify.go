package oidc

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// Skew is the difference of clocks that a token may have from the daemon: it is accepted this long before nbf and iat, and after exp.
const Skew = time.Minute

// MaxToken bounds the size of a token, in bytes.
const MaxToken = 16 << 10

// maxSubject bounds the subject of a principal, in bytes.
const maxSubject = 256

// algorithms lists the signature algorithms that are accepted. All of them use a public key. With a symmetric algorithm, an attacker could
// use the public key as the secret.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// An Issuer signs tokens.
type Issuer struct {
	Name      string   // prefix of the subjects of this issuer
	URL       string   // value of the claim iss; the discovery document is below it
	Audiences []string // the claim aud must contain one of them
	Keys      []byte   // JSON Web Key Set; nil means that the issuer publishes its keys
	CA        []byte   // PEM certificates of the authority for the issuer's own certificate; nil means the authorities of the system

	// Namespace is the namespace of all tokens. If it is empty, the claim NamespaceClaim names one of Namespaces.
	Namespace      string
	NamespaceClaim string
	Namespaces     []string

	Roles       []string // roles of all tokens
	GroupsClaim string   // claim with the groups of the person
	Groups      []Group
}

// A Group gives roles to the tokens that name it.
type Group struct {
	Name  string
	Roles []string
}

// A Config has the settings of a [Verifier].
type Config struct {
	Issuers   []Issuer          // names and URLs must be unique
	Transport http.RoundTripper // for requests to issuers; nil means the default of net/http
	Log       *zap.Logger       // required
}

// A Verifier verifies tokens. Many goroutines may use it.
type Verifier struct {
	issuers map[string]*issuer // by URL
}

type issuer struct {
	Issuer
	keys *keys
}

// Sources returns a map from the name of each issuer to a text. The text changes when the rights of this issuer's tokens change.
func (v *Verifier) Sources() map[string]string {
	all := map[string]string{}
	for _, i := range v.issuers {
		rights := fmt.Sprintf("%q %q %q %q %q %q %q %q", i.URL, i.Audiences, i.Namespace, i.NamespaceClaim, i.Namespaces, i.Roles, i.GroupsClaim, i.Groups)
		all[i.Name] = fmt.Sprintf("issuer:%s:%x", i.Name, sha256.Sum256([]byte(rights)))
	}
	return all
}

// New returns a verifier. It contacts no issuer. It returns an error when a URL is not https, or when a key set has no usable key.
func New(cfg Config) (*Verifier, error) {
	v := &Verifier{issuers: map[string]*issuer{}}
	for _, i := range cfg.Issuers {
		if err := checkURL(i.URL); err != nil {
			return nil, fmt.Errorf("issuer %q: %w", i.Name, err)
		}
		k, err := newKeys(&i, cfg.Transport, cfg.Log.With(zap.String("issuer", i.Name)))
		if err != nil {
			return nil, fmt.Errorf("issuer %q: %w", i.Name, err)
		}
		v.issuers[i.URL] = &issuer{i, k}
	}
	return v, nil
}

// Verify returns the principal of a token and the time until which the token is accepted. An error is a [call.Refusal]. Verify may wait for
// the keys of the issuer, for at most a few seconds.
func (v *Verifier) Verify(ctx context.Context, text string) (tool.Principal, time.Time, error) {
	p, expires, err := v.verify(ctx, text)
	if err == nil {
		return p, expires, nil
	}
	if _, ok := errors.AsType[*call.Refusal](err); !ok {
		err = call.Refuse(call.Unauthenticated, "TOKEN_INVALID", "the token is not accepted: %v", err)
	}
	return tool.Principal{}, time.Time{}, err
}

func (v *Verifier) verify(ctx context.Context, text string) (tool.Principal, time.Time, error) {
	var none tool.Principal
	t, err := parse(text)
	if err != nil {
		return none, time.Time{}, err
	}
	i := v.issuers[t.claims.text("iss")]
	if i == nil {
		return none, time.Time{}, fmt.Errorf("its issuer %q is not configured", short(t.claims.text("iss")))
	}
	if err := i.keys.verify(ctx, t); err != nil {
		return none, time.Time{}, err
	}
	expires, err := i.check(t.claims)
	if err != nil {
		return none, time.Time{}, err
	}
	p, err := i.principal(t.claims)
	return p, expires, err
}

// check checks the claims of a token whose signature is valid. It returns the time until which the token is accepted.
func (i *issuer) check(c claims) (time.Time, error) {
	now := time.Now()
	expires, err := c.time("exp")
	switch {
	case err != nil:
		return time.Time{}, err
	case expires.IsZero():
		return time.Time{}, errors.New("it has no claim exp")
	case !now.Before(expires.Add(Skew)):
		return time.Time{}, call.Refuse(call.Unauthenticated, "TOKEN_EXPIRED", "the token expired at %s", call.FormatTime(expires))
	case !slices.ContainsFunc(c.texts("aud"), func(a string) bool { return slices.Contains(i.Audiences, a) }):
		return time.Time{}, fmt.Errorf("its audience is %s, and none of %q", short(fmt.Sprintf("%q", c.texts("aud"))), i.Audiences)
	}
	for _, name := range []string{"nbf", "iat"} {
		from, err := c.time(name)
		if err != nil {
			return time.Time{}, err
		}
		if now.Before(from.Add(-Skew)) {
			return time.Time{}, fmt.Errorf("it is valid only from %s (claim %s)", call.FormatTime(from), name)
		}
	}
	return expires.Add(Skew), nil
}

// principal returns the principal for the claims of a token.
func (i *issuer) principal(c claims) (tool.Principal, error) {
	var none tool.Principal
	p := tool.Principal{Namespace: i.Namespace, Subject: i.Name + ":" + c.text("sub"), Groups: i.groups(c)}
	p.Roles = i.roles(p.Groups)
	if err := checkSubject(c.text("sub"), p.Subject); err != nil {
		return none, err
	}
	if p.Namespace == "" {
		p.Namespace = c.text(i.NamespaceClaim)
		if !slices.Contains(i.Namespaces, p.Namespace) {
			return none, notAdmitted("the claim %q of the token of %q is %q, which is not a namespace of the issuer", i.NamespaceClaim, p.Subject, short(p.Namespace))
		}
	}
	if len(p.Roles) == 0 {
		return none, notAdmitted("%q has no role: the issuer's configuration gives none to its groups %s", p.Subject, short(fmt.Sprintf("%q", c.texts(i.GroupsClaim))))
	}
	return p, nil
}

func notAdmitted(format string, args ...any) error {
	return call.Refuse(call.PermissionDenied, "NOT_ADMITTED", format, args...)
}

// groups returns the groups of a token that the issuer's configuration names, each once. Tickets and roles ignore all other groups, because
// two issuers may use the same name for different groups.
func (i *issuer) groups(c claims) (groups []string) {
	if len(i.Groups) == 0 {
		return nil
	}
	claimed := c.texts(i.GroupsClaim)
	for _, g := range i.Groups {
		if slices.Contains(claimed, g.Name) {
			groups = append(groups, g.Name)
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}

// roles returns the roles of a principal with these groups, each once.
func (i *issuer) roles(groups []string) []string {
	roles := slices.Clone(i.Roles)
	for _, g := range i.Groups {
		if slices.Contains(groups, g.Name) {
			roles = append(roles, g.Roles...)
		}
	}
	slices.Sort(roles)
	return slices.Compact(roles)
}

// checkSubject refuses a claim sub, and the subject made of it, that records and terminals could not show as they are.
func checkSubject(sub, subject string) error {
	switch {
	case sub == "":
		return errors.New("it has no claim sub")
	case len(subject) > maxSubject:
		return fmt.Errorf("its subject has %d bytes; at most %d are allowed", len(subject), maxSubject)
	case !utf8.ValidString(sub) || strings.ContainsFunc(sub, func(r rune) bool { return !unicode.IsPrint(r) }):
		return errors.New("its claim sub has characters that are not printable")
	}
	return nil
}

// MayGrant reports whether a token of an issuer could make its holder one of these approvers in a namespace.
func (v *Verifier) MayGrant(namespace string, who *tool.Approvers) bool {
	for _, i := range v.issuers {
		if i.Namespace != namespace && (i.Namespace != "" || !slices.Contains(i.Namespaces, namespace)) {
			continue
		}
		most := tool.Principal{Roles: slices.Clone(i.Roles)} // has every role and group that a token of the issuer can have
		for _, g := range i.Groups {
			most.Roles, most.Groups = append(most.Roles, g.Roles...), append(most.Groups, g.Name)
		}
		if who.Admit(most) {
			return true
		}
	}
	return false
}

// short cuts a text of a token for a message.
func short(text string) string {
	const most = 200
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
