package access

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// A Kind says what a stored credential is for.
type Kind string

// The kinds of stored credentials. The server accepts a credential only in the way that the comment of its kind names.
const (
	KindToken   Kind = "token"   // sent as `authorization: Bearer`
	KindSession Kind = "session" // sent as a cookie
	KindLogin   Kind = "login"   // exchanged once for a session
)

// A Stored is a credential that a principal created while the daemon runs. The daemon knows only the hash of its text.
type Stored struct {
	ID        string         `json:"id"` // not secret
	Kind      Kind           `json:"kind"`
	Hash      string         `json:"hash"` // lower-case hex SHA-256 of the text
	Name      string         `json:"name,omitempty"`
	Principal tool.Principal `json:"principal"`
	ReadOnly  bool           `json:"read_only,omitempty"`
	Creator   string         `json:"creator"` // subject
	// Parent names the parent: the credential that created this one, or the issuer that signed the creator's token. When the parent ends,
	// this credential ends too.
	Parent  string    `json:"parent"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	// Until is set for a login link: the time when the credential of its creator expires. The session must not last longer. Zero means
	// never.
	Until time.Time `json:"until,omitzero"`
}

// A Store keeps stored credentials over restarts.
type Store interface {
	// Put stores a credential. If there is already a credential with the same id, Put replaces it in one step.
	Put(ctx context.Context, s *Stored) error
	// Remove removes a credential. It returns nil when there is none.
	Remove(ctx context.Context, s *Stored) error
}

// forgetful is the store of an Auth that has no other store. It keeps nothing.
type forgetful struct{}

func (forgetful) Put(context.Context, *Stored) error    { return nil }
func (forgetful) Remove(context.Context, *Stored) error { return nil }

// Limits of stored credentials.
const (
	MaxStored    = 10_000               // credentials of one namespace
	MaxLogins    = 100                  // sessions and login links of one subject
	MaxLifetime  = 366 * 24 * time.Hour // of a token
	LoginTime    = 5 * time.Minute
	maxTokenName = 64
)

// prefix returns the beginning of a credential's text, by which programs that look for leaked secrets recognise it.
func (k Kind) prefix() string { return "toold_" + string(k) + "_" }

// newText returns the text of a new credential with 256 random bits, and its hash.
func (k Kind) newText() (text string, hash [sha256.Size]byte) {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // This call never fails.
	text = k.prefix() + base64.RawURLEncoding.EncodeToString(b)
	return text, sha256.Sum256([]byte(text))
}

// parse returns the token of a stored credential.
func (s *Stored) parse() (*token, error) {
	method := "token"
	if s.Kind == KindSession {
		method = "session"
	}
	id, err := newIdentity(s.Principal, method)
	if err != nil {
		return nil, err
	}
	sum, err := hex.DecodeString(s.Hash)
	switch {
	case err != nil || len(sum) != sha256.Size:
		return nil, fmt.Errorf("the hash %q is no SHA-256", s.Hash)
	case s.ID == "" || s.Expires.IsZero():
		return nil, fmt.Errorf("a stored credential needs an id and an expiry")
	case s.Kind != KindToken && s.Kind != KindSession && s.Kind != KindLogin:
		return nil, fmt.Errorf("the kind %q is unknown", s.Kind)
	}
	id.Expires, id.source, id.readOnly = s.Expires, s.ID, s.ReadOnly
	t := newToken([sha256.Size]byte(sum), id)
	t.stored = s
	return t, nil
}

// Keep makes the stored credentials valid, and keeps later ones in the same store. Call it once, before the first request. It ignores
// expired credentials. It removes credentials whose creator is no longer valid, so that they do not become valid again together with the
// creator. The error names credentials that cannot be read; all others are valid.
func (a *Auth) Keep(store Store, stored []Stored) error {
	a.changing.Lock()
	defer a.changing.Unlock()
	a.store = store
	next := slices.Collect(a.tokens.Load().all())
	var broken []string
	for i := range stored {
		t, err := stored[i].parse()
		switch {
		case err != nil:
			broken = append(broken, fmt.Sprintf("%s: %v", stored[i].ID, err))
		case t.id.expired() == nil:
			next = append(next, t)
		}
	}
	err := a.publish(context.Background(), next)
	if broken != nil {
		err = errors.Join(err, fmt.Errorf("stored credentials that cannot be read: %s", strings.Join(broken, "; ")))
	}
	return err
}

// A Grant is a request for a token.
type Grant struct {
	Name      string   // says what the token is for; required
	Namespace string   // empty means that of the creator
	Subject   string   // empty means that of the creator; only an admin may name another one
	Roles     []string // required
	ReadOnly  bool
	Expires   time.Time // required
}

// Create creates a token and returns its text. The token never permits more than the credential of its creator, and it ends with that
// credential.
func (a *Auth) Create(ctx context.Context, by *Identity, g Grant) (text string, _ *Stored, err error) {
	if err := g.check(); err != nil {
		return "", nil, err
	}
	p := tool.Principal{Namespace: cmp.Or(g.Namespace, by.Namespace), Subject: cmp.Or(g.Subject, by.Subject), Roles: g.Roles}
	if err := by.mayGrant(&p, g.ReadOnly); err != nil {
		return "", nil, err
	}
	if p.Namespace == by.Namespace && p.Subject == by.Subject {
		p.Groups = by.Groups // The groups of another subject are unknown, so such a token gets none.
	}
	s := &Stored{Kind: KindToken, Name: g.Name, Principal: p, ReadOnly: g.ReadOnly, Expires: earlier(g.Expires, by.Expires)}
	text, err = a.create(ctx, by, s)
	return text, s, err
}

func (g *Grant) check() error {
	_, err := rolesOf(g.Roles)
	switch left := time.Until(g.Expires); {
	case g.Name == "" || len(g.Name) > maxTokenName || !printable(g.Name):
		return call.InvalidField("name", "is required: at most %d bytes of printable characters that say what the token is for", maxTokenName)
	case err != nil:
		return call.InvalidField("roles", "%v", err)
	case len(g.Roles) == 0:
		return call.InvalidField("roles", "are required")
	case g.Subject == reservedSubject || len(g.Subject) > maxName || !printable(g.Subject):
		return call.InvalidField("subject", "must be at most %d bytes of printable characters, and not %q", maxName, reservedSubject)
	case len(g.Namespace) > maxName || !printable(g.Namespace):
		return call.InvalidField("namespace", "must be at most %d bytes of printable characters", maxName)
	case left <= 0 || left > MaxLifetime:
		return call.InvalidField("expires_at", "must be in the future and at most %d days away", MaxLifetime/(24*time.Hour))
	}
	return nil
}

// mayGrant refuses rights that the identity does not have. An operator may connect workers, so it may also create tokens for them.
func (id *Identity) mayGrant(p *tool.Principal, readOnly bool) error {
	wanted, err := rolesOf(p.Roles)
	own := id.granted
	if own&Operator != 0 {
		own |= Worker
	}
	switch {
	case err != nil:
		return err
	case !id.Oversees(p.Namespace):
		return call.Refuse(call.PermissionDenied, "GRANT_EXCEEDED", "%q may create tokens for the namespace %q only", id.Subject, id.Namespace)
	case wanted&^own != 0:
		return call.Refuse(call.PermissionDenied, "GRANT_EXCEEDED", "%q cannot give the roles %v, because it does not have them", id.Subject, (wanted &^ own).Names())
	case p.Subject != id.Subject && !id.Has(Administrator):
		return call.Refuse(call.PermissionDenied, "GRANT_EXCEEDED", "only an admin may create tokens for another subject than its own: with two subjects, one person could approve twice")
	case id.readOnly && !readOnly:
		return call.Refuse(call.PermissionDenied, "GRANT_EXCEEDED", "a read-only credential can create only read-only ones")
	}
	return nil
}

// create completes a credential, stores it and makes it valid.
func (a *Auth) create(ctx context.Context, by *Identity, s *Stored) (text string, err error) {
	text, hash := s.Kind.newText()
	s.ID, s.Hash = "cred-"+strings.ToLower(rand.Text()[:16]), hex.EncodeToString(hash[:])
	s.Creator, s.Parent, s.Created = by.Subject, by.source, time.Now().UTC()
	t, err := s.parse()
	if err != nil {
		return "", err
	}
	a.changing.Lock()
	defer a.changing.Unlock()
	if err := by.Ended(); err != nil { // Check while holding the lock. Otherwise a revoked credential could still create another one.
		return "", err
	}
	next, err := a.withRoom(s)
	if err != nil {
		return "", err
	}
	if err := a.store.Put(ctx, s); err != nil {
		return "", err
	}
	return text, a.publish(ctx, append(next, t))
}

// withRoom returns the current tokens without stored credentials that have expired. It returns a refusal if one more credential would exceed a
// limit.
func (a *Auth) withRoom(s *Stored) (next []*token, err error) {
	all, logins := 0, 0
	for t := range a.tokens.Load().all() {
		if t.stored == nil {
			next = append(next, t)
			continue
		}
		if t.id.expired() != nil {
			continue
		}
		next = append(next, t)
		if t.id.Namespace == s.Principal.Namespace {
			all++
			if t.id.Subject == s.Principal.Subject && t.stored.Kind != KindToken {
				logins++
			}
		}
	}
	switch {
	case all >= MaxStored:
		return nil, call.Refuse(call.ResourceExhausted, "TOO_MANY_TOKENS", "the namespace %q has %d stored credentials, which is the limit; revoke some", s.Principal.Namespace, all)
	case s.Kind == KindLogin && logins >= MaxLogins:
		return nil, call.Refuse(call.ResourceExhausted, "TOO_MANY_TOKENS", "%q has %d sessions and login links, which is the limit; end some", s.Principal.Subject, logins)
	}
	return next, nil
}

// List returns the stored credentials of a namespace that the identity oversees, oldest first. The empty namespace means its own.
func (a *Auth) List(by *Identity, namespace string) ([]*Stored, error) {
	namespace = cmp.Or(namespace, by.Namespace)
	if !by.Oversees(namespace) {
		return nil, call.Refuse(call.PermissionDenied, "ROLE_REQUIRED", "listing the tokens of %q needs the role admin; %q has %v", namespace, by.Subject, by.Roles)
	}
	var list []*Stored
	for t := range a.tokens.Load().all() {
		if t.stored != nil && t.id.Namespace == namespace && t.id.expired() == nil {
			list = append(list, t.stored)
		}
	}
	slices.SortFunc(list, func(x, y *Stored) int { return cmp.Or(x.Created.Compare(y.Created), strings.Compare(x.ID, y.ID)) })
	return list, nil
}

// Revoke ends a stored credential, the credentials that it created, and the requests of all of them. It returns the number of ended
// credentials.
func (a *Auth) Revoke(ctx context.Context, by *Identity, id string) (int, error) {
	a.changing.Lock()
	defer a.changing.Unlock()
	if err := by.Ended(); err != nil { // Check while holding the lock. Otherwise two credentials could revoke each other, and none would remain.
		return 0, err
	}
	all := slices.Collect(a.tokens.Load().all())
	i := slices.IndexFunc(all, func(t *token) bool {
		return t.stored != nil && t.stored.ID == id && by.Oversees(t.id.Namespace) && t.id.expired() == nil
	})
	switch {
	case i < 0:
		return 0, call.Refuse(call.NotFound, "TOKEN_NOT_FOUND", "there is no stored credential %q", id)
	case all[i].id.Has(Administrator) && !by.Has(Administrator):
		return 0, call.Refuse(call.PermissionDenied, "ROLE_REQUIRED", "revoking a credential with the role admin needs that role; %q has %v", by.Subject, by.Roles)
	}
	return a.remove(ctx, all, all[i])
}

// remove removes a credential and its descendants. It removes the credential from the store first. If the daemon crashes before the
// descendants are removed, the next start does not load them.
func (a *Auth) remove(ctx context.Context, all []*token, t *token) (int, error) {
	if err := a.store.Remove(ctx, t.stored); err != nil {
		return 0, err
	}
	before := len(all)
	next := slices.DeleteFunc(all, func(o *token) bool { return o == t })
	err := a.publish(ctx, next)
	return before - len(slices.Collect(a.tokens.Load().all())), err
}

// earlier returns the earlier of two times. A zero time means never.
func earlier(a, b time.Time) time.Time {
	if b.IsZero() || !a.IsZero() && a.Before(b) {
		return a
	}
	return b
}
