package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// An Auth authenticates clients. It is immutable; many goroutines may use it.
type Auth struct {
	tokens map[uint64][]*token // tokens by the first bytes of their hash
	peers  map[uint32]*Identity
}

type token struct {
	hash [sha256.Size]byte
	id   Identity
}

// An Identity is an authenticated principal with the roles of its credential.
type Identity struct {
	tool.Principal
	Expires time.Time // when the credential expires; zero means never
	granted Roles
}

// Has reports whether the identity has one of these roles.
func (id *Identity) Has(one Roles) bool { return id.granted&one != 0 }

// NewAuth returns an Auth for these credentials. Every principal needs a namespace, a subject and a role. It returns an error when two
// principals have the same token hash or the same local user.
func NewAuth(tokens []Token, peers []Peer) (*Auth, error) {
	a := &Auth{tokens: map[uint64][]*token{}, peers: map[uint32]*Identity{}}
	for i := range tokens {
		if err := a.addToken(&tokens[i]); err != nil {
			return nil, fmt.Errorf("token of %q: %w", tokens[i].Principal.Subject, err)
		}
	}
	for i := range peers {
		id, err := newIdentity(peers[i].Principal, "peer")
		if err != nil {
			return nil, fmt.Errorf("peer with uid %d: %w", peers[i].UID, err)
		}
		if a.peers[peers[i].UID] != nil {
			return nil, fmt.Errorf("peer with uid %d is configured twice", peers[i].UID)
		}
		a.peers[peers[i].UID] = &id
	}
	return a, nil
}

func (a *Auth) addToken(t *Token) error {
	id, err := newIdentity(t.Principal, "token")
	if err != nil {
		return err
	}
	id.Expires = t.Expires
	sum, err := hex.DecodeString(t.Hash)
	if err != nil || len(sum) != sha256.Size {
		return errors.New("the hash must be the SHA-256 of the token in 64 hex digits")
	}
	c := &token{hash: [sha256.Size]byte(sum), id: id}
	if a.find(c.hash) != nil {
		return errors.New("another token has the same hash")
	}
	key := binary.BigEndian.Uint64(sum)
	a.tokens[key] = append(a.tokens[key], c)
	return nil
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

// Oversees reports whether the identity may administer a namespace. Pass the empty namespace to ask about everything that all namespaces
// share.
func (id *Identity) Oversees(namespace string) bool {
	return namespace == "" || namespace == id.Namespace || id.Has(Administrator)
}

// find returns the token with this hash, or nil. It looks up the first bytes of the hash and compares the whole hash in constant time.
func (a *Auth) find(hash [sha256.Size]byte) *token {
	for _, c := range a.tokens[binary.BigEndian.Uint64(hash[:])] {
		if subtle.ConstantTimeCompare(c.hash[:], hash[:]) == 1 {
			return c
		}
	}
	return nil
}

// A Credential is what a client sent to prove its identity, as its endpoint received it.
type Credential struct {
	Authorization []string // values of the header authorization
	// UID is the user at the other end of a unix socket. Local says that there is one.
	UID   uint32
	Local bool
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

// Identify returns the identity of a request. It uses the authorization header if there is one, and otherwise the local user.
func (a *Auth) Identify(_ context.Context, c Credential) (*Identity, error) {
	switch {
	case len(c.Authorization) == 1:
		return a.verify(c.Authorization[0])
	case len(c.Authorization) > 1:
		return nil, call.Refuse(call.Unauthenticated, "TOKEN_INVALID", "more than one authorization header")
	case c.Local && a.KnowsPeer(c.UID):
		return a.peers[c.UID], nil
	case c.Local:
		return nil, call.Refuse(call.Unauthenticated, "PEER_NOT_ALLOWED", "the local user with uid %d may not use this socket without a token", c.UID)
	}
	return nil, call.Refuse(call.Unauthenticated, "TOKEN_REQUIRED", "a token is required: send it as `authorization: Bearer <token>`; `toold token` shows the daemon's own")
}

// While returns a context that ends when the credential of the identity ends. Its cause is then the refusal that [Identity.Ended] returns.
// The caller must call stop.
func (id *Identity) While(ctx context.Context) (_ context.Context, stop func()) {
	if id.Expires.IsZero() {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(time.Until(id.Expires), func() { cancel(Expired(id.Expires)) })
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}

// Ended returns a refusal when the credential of the identity has ended.
func (id *Identity) Ended() error {
	if id.Expires.IsZero() || time.Now().Before(id.Expires) {
		return nil
	}
	return Expired(id.Expires)
}

// KnowsPeer reports whether a local user may use the unix socket without a token.
func (a *Auth) KnowsPeer(uid uint32) bool { return a.peers[uid] != nil }

func (a *Auth) verify(header string) (*Identity, error) {
	scheme, text, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "bearer") || len(text) < minTokenLength {
		return nil, call.Refuse(call.Unauthenticated, "TOKEN_INVALID", "the authorization header is not `Bearer <token>` with a token of at least %d characters", minTokenLength)
	}
	c := a.find(sha256.Sum256([]byte(text)))
	if c == nil {
		return nil, call.Refuse(call.Unauthenticated, "TOKEN_INVALID", "the daemon does not know the token")
	}
	if !c.id.Expires.IsZero() && !time.Now().Before(c.id.Expires) {
		return nil, Expired(c.id.Expires)
	}
	return &c.id, nil
}

// Expired returns the refusal of a credential that expired.
func Expired(at time.Time) *call.Refusal {
	return call.Refuse(call.Unauthenticated, "TOKEN_EXPIRED", "the token expired at %s", call.FormatTime(at))
}

// CanApprove reports whether the namespace has count different people with one of these roles, not counting the subjects in not.
func (a *Auth) CanApprove(namespace string, names []string, count int, not ...string) bool {
	left := max(count, 1)
	seen := slices.Clone(not)
	enough := func(id *Identity) bool {
		if id.Namespace == namespace && !slices.Contains(seen, id.Subject) &&
			(id.Expires.IsZero() || time.Now().Before(id.Expires)) &&
			slices.ContainsFunc(names, func(role string) bool { return slices.Contains(id.Roles, role) }) {
			seen = append(seen, id.Subject)
			left--
		}
		return left == 0
	}
	for _, id := range a.peers {
		if enough(id) {
			return true
		}
	}
	for _, tokens := range a.tokens {
		for _, t := range tokens {
			if enough(&t.id) {
				return true
			}
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

// Nobody is the identity of a request that needs no credential.
var Nobody = &Identity{}

// From returns the identity of the request that ctx belongs to.
func From(ctx context.Context) *Identity {
	if id, ok := ctx.Value(identityKey{}).(*Identity); ok {
		return id
	}
	return Nobody
}
