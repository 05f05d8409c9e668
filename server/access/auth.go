package access

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// A Token is a static credential. The daemon knows only its hash.
type Token struct {
	Hash      string // lower-case hex SHA-256 of the token
	Principal tool.Principal
	Expires   time.Time // zero means never
}

// A Peer is a local user that needs no token at the unix socket.
type Peer struct {
	UID       uint32
	Principal tool.Principal
}

// minTokenLength is the length of 128 random bits in base64. An attacker could guess a shorter token from its hash, so it is
// refused even when its hash is configured.
const minTokenLength = 22

// An Auth authenticates clients. Many goroutines may use it.
type Auth struct {
	peers  atomic.Pointer[map[uint32]*peer]
	tokens atomic.Pointer[tokens] // the current tokens; each change stores a new set

	changing sync.Mutex // held during each change of the tokens, including its commit
	store    Store
	sessions time.Duration // how long new sessions last

	external atomic.Pointer[External] // nil until SetExternal
}

// An Identity is an authenticated principal with the roles of its credential.
type Identity struct {
	tool.Principal
	Expires time.Time // when the credential expires; zero means never
	granted Roles

	readOnly bool            // may call only methods that change nothing
	source   string          // identifies this credential, or the issuer that signed it, as the parent of credentials that it creates
	revoked  context.Context //nolint:containedctx // ends when the credential is revoked; nil for a credential that is never revoked
}

// ReadOnly reports whether the credential may only call methods that change nothing.
func (id *Identity) ReadOnly() bool { return id.readOnly }

// Has reports whether the identity has one of these roles.
func (id *Identity) Has(one Roles) bool { return id.granted&one != 0 }

// NewAuth returns an Auth for these credentials. Every principal needs a namespace, a subject and a role. It returns an error when two
// principals have the same token hash or the same local user.
func NewAuth(configured []Token, peers []Peer) (*Auth, error) {
	a := &Auth{store: forgetful{}, sessions: SessionTime}
	a.tokens.Store(newTokens(nil))
	a.peers.Store(&map[uint32]*peer{})
	if _, err := a.SetPeers(context.Background(), peers); err != nil {
		return nil, err
	}
	if _, err := a.Replace(context.Background(), configured); err != nil {
		return nil, err
	}
	return a, nil
}

// A peer is a local user. Its context ends when the user loses these rights.
type peer struct {
	id     Identity
	revoke context.CancelCauseFunc
}

// SetPeers replaces the local users that need no token, and reports whether they changed. It ends the requests of a user who was removed or got
// other rights, and revokes the credentials that such a user created. When a user is invalid, SetPeers changes nothing.
func (a *Auth) SetPeers(ctx context.Context, peers []Peer) (changed bool, err error) {
	a.changing.Lock()
	defer a.changing.Unlock()
	old, next := *a.peers.Load(), make(map[uint32]*peer, len(peers))
	for i := range peers {
		uid := peers[i].UID
		id, err := newIdentity(peers[i].Principal, "peer")
		if err != nil {
			return false, fmt.Errorf("peer with uid %d: %w", uid, err)
		}
		if next[uid] != nil {
			return false, fmt.Errorf("peer with uid %d is configured twice", uid)
		}
		if same := old[uid]; same != nil && same.id.sameRights(&id) {
			next[uid] = same
			continue
		}
		id.source = id.sourceOf("peer", nil) // The source does not contain the uid, which may differ on another machine.
		p := &peer{id: id}
		p.id.revoked, p.revoke = context.WithCancelCause(context.Background())
		next[uid], changed = p, true
	}
	a.peers.Store(&next)
	for uid, p := range old {
		if next[uid] != p {
			changed = true
			p.revoke(call.Refuse(call.Unauthenticated, "PEER_NOT_ALLOWED", "the local user with uid %d was removed, or its rights were changed", uid))
		}
	}
	return changed, a.publish(ctx, slices.Collect(a.tokens.Load().all()))
}

// reservedSubject is the subject under which records name the daemon itself. No principal may use it.
const reservedSubject = "toold"

func newIdentity(p tool.Principal, method string) (Identity, error) {
	set, err := rolesOf(p.Roles)
	switch {
	case err != nil:
		return Identity{}, err
	case set == 0:
		return Identity{}, errors.New("roles are required")
	case p.Namespace == "" || p.Subject == "":
		return Identity{}, errors.New("namespace and subject are required")
	case p.Subject == reservedSubject:
		return Identity{}, fmt.Errorf("the subject %q is reserved for the daemon", reservedSubject)
	}
	p.Roles, p.Method = set.Names(), method
	return Identity{Principal: p, granted: set}, nil
}

// Oversees reports whether the identity may administer a namespace. It returns true for the empty namespace, which stands for what all
// namespaces share.
func (id *Identity) Oversees(namespace string) bool {
	return namespace == "" || namespace == id.Namespace || id.Has(Administrator)
}

// A Credential is what a client sent to prove its identity, as its endpoint received it.
type Credential struct {
	Authorization []string // values of the header authorization
	Session       string   // text of a session, from a cookie
	// Certificate is the client certificate of the connection, verified by TLS; nil if there is none.
	Certificate *x509.Certificate
	// UID is the user at the other end of a unix socket. It is valid only when Local is true.
	UID   uint32
	Local bool
	// From is the network address of the client, for the log. It is empty for a gRPC request, whose context already contains the address.
	From string
}

type credentialKey struct{}

// WithCredential returns a context that holds the credential of its request. [CredentialFrom] reads it.
func WithCredential(ctx context.Context, c *Credential) context.Context {
	return context.WithValue(ctx, credentialKey{}, c)
}

// CredentialFrom returns the credential of the request that ctx belongs to. It is empty when the client sent none.
func CredentialFrom(ctx context.Context) Credential {
	if c, ok := ctx.Value(credentialKey{}).(*Credential); ok {
		return *c
	}
	return Credential{}
}

// Identify returns the identity of a request. It uses the authorization header if there is one, otherwise the session, and otherwise the client
// certificate or the local user. It may wait a few seconds for the keys of an issuer that signed the token.
func (a *Auth) Identify(ctx context.Context, c Credential) (*Identity, error) {
	switch {
	case len(c.Authorization) == 1:
		return a.verify(ctx, c.Authorization[0])
	case len(c.Authorization) > 1:
		return nil, call.Refuse(call.Unauthenticated, "TOKEN_INVALID", "more than one authorization header")
	case c.Session != "":
		return a.session(c.Session)
	case c.Certificate != nil:
		if id, err := a.external.Load().identifyCertificate(c.Certificate); id != nil || err != nil {
			return id, err
		}
	case c.Local:
		if p := (*a.peers.Load())[c.UID]; p != nil {
			return &p.id, nil
		}
		return nil, call.Refuse(call.Unauthenticated, "PEER_NOT_ALLOWED", "the local user with uid %d may not use this socket without a token", c.UID)
	}
	return nil, call.Refuse(call.Unauthenticated, "TOKEN_REQUIRED", "a token is required: send it as `authorization: Bearer <token>`; `toold token` shows the daemon's own")
}

// While returns a context that ends when the credential of the identity expires or is revoked. Its cause is then the refusal that
// [Identity.Ended] returns. The caller must call stop.
func (id *Identity) While(ctx context.Context) (_ context.Context, stop func()) {
	if id.Expires.IsZero() && id.revoked == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	leave, timer := func() bool { return true }, (*time.Timer)(nil)
	if id.revoked != nil {
		leave = context.AfterFunc(id.revoked, func() { cancel(context.Cause(id.revoked)) })
	}
	if !id.Expires.IsZero() {
		timer = time.AfterFunc(time.Until(id.Expires), func() { cancel(Expired(id.Expires)) })
	}
	return ctx, func() {
		leave()
		if timer != nil {
			timer.Stop()
		}
		cancel(nil)
	}
}

// Ended returns a refusal when the credential of the identity has expired or was revoked. It takes a few nanoseconds.
func (id *Identity) Ended() error {
	if id.revoked != nil && id.revoked.Err() != nil {
		return context.Cause(id.revoked)
	}
	return id.expired()
}

func (id *Identity) expired() error {
	if id.Expires.IsZero() || time.Now().Before(id.Expires) {
		return nil
	}
	return Expired(id.Expires)
}

// KnowsPeer reports whether a local user may use the unix socket without a token.
func (a *Auth) KnowsPeer(uid uint32) bool { return (*a.peers.Load())[uid] != nil }

func (a *Auth) verify(ctx context.Context, header string) (*Identity, error) {
	scheme, text, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "bearer") || len(text) < minTokenLength {
		return nil, call.Refuse(call.Unauthenticated, "TOKEN_INVALID", "the authorization header is not `Bearer <token>` with a token of at least %d characters", minTokenLength)
	}
	hash := sha256.Sum256([]byte(text))
	t := a.tokens.Load().find(hash)
	if t == nil || !t.is(KindToken) {
		if id, err := a.external.Load().verifySigned(ctx, text, hash); id != nil || err != nil {
			return id, err
		}
		return nil, call.Refuse(call.Unauthenticated, "TOKEN_INVALID", "the daemon does not know the token")
	}
	if err := t.id.expired(); err != nil {
		return nil, err
	}
	return &t.id, nil
}

// Expired returns the refusal of a credential that expired.
func Expired(at time.Time) *call.Refusal {
	return call.Refuse(call.Unauthenticated, "TOKEN_EXPIRED", "the credential expired at %s", call.FormatTime(at))
}

// CanApprove reports whether the namespace has enough approvers. It counts each subject once, and ignores the subjects in the parameter
// not. If an issuer or a certificate rule can give the role to any number of people, CanApprove counts it as enough people. A rule with a
// fixed subject counts as one person.
func (a *Auth) CanApprove(namespace string, who *tool.Approvers, not ...string) bool {
	left := max(who.Count, 1)
	seen := slices.Clone(not)
	enough := func(id *Identity) bool {
		if id.Namespace == namespace && !slices.Contains(seen, id.Subject) &&
			id.expired() == nil && !id.readOnly && who.Admit(id.Principal) {
			seen = append(seen, id.Subject)
			left--
		}
		return left == 0
	}
	if a.external.Load().mayGrant(namespace, who, enough) {
		return true
	}
	for _, p := range *a.peers.Load() {
		if enough(&p.id) {
			return true
		}
	}
	for t := range a.tokens.Load().all() {
		if enough(&t.id) {
			return true
		}
	}
	return false
}

// MayActFor returns an error if the principal may not act for a user. An empty user means the principal itself.
func (id *Identity) MayActFor(user string) error {
	if user != "" && !id.Has(Delegate) {
		return call.Refuse(call.PermissionDenied, "DELEGATE_REQUIRED", "acting on behalf of %q needs the role delegate", user)
	}
	return nil
}

type identityKey struct{}

// With returns a context that holds the identity of its request.
func With(ctx context.Context, id *Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, id)
}

// Nobody is the identity in the context of a request to a public method, because no client was authenticated.
var Nobody = &Identity{}

// From returns the identity of the request that ctx belongs to.
func From(ctx context.Context) *Identity {
	if id, ok := ctx.Value(identityKey{}).(*Identity); ok {
		return id
	}
	return Nobody
}
