package server

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

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// A Token is a static credential. Only its hash is known to the daemon.
type Token struct {
	Hash      string // lower-case hex SHA-256 of the token
	Principal tool.Principal
	Expires   time.Time // zero is never
}

// A Peer is a local user that the unix socket lets in without a token.
type Peer struct {
	UID       uint32
	Principal tool.Principal
}

// minTokenLength is the shortest text that can hold 128 random bits, in base64. What is shorter could be guessed from its
// hash, so that it is refused even when its hash is configured.
const minTokenLength = 22

// Auth knows who may come in. It never changes and may be used from many goroutines.
type Auth struct {
	tokens map[uint64][]*token // by the first bytes of the hash
	peers  map[uint32]*identity
}

type token struct {
	hash [sha256.Size]byte
	identity
}

// identity is a principal with what its credential allows.
type identity struct {
	tool.Principal
	roles   roles
	expires time.Time
}

// NewAuth returns what lets these in. Every principal needs a namespace, a subject and a role; a hash and a user stand
// for one principal only.
func NewAuth(tokens []Token, peers []Peer) (*Auth, error) {
	a := &Auth{tokens: map[uint64][]*token{}, peers: map[uint32]*identity{}}
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
			return nil, fmt.Errorf("peer with uid %d is there twice", peers[i].UID)
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
	id.expires = t.Expires
	sum, err := hex.DecodeString(t.Hash)
	if err != nil || len(sum) != sha256.Size {
		return errors.New("the hash must be the SHA-256 of the token in 64 hex digits")
	}
	c := &token{hash: [sha256.Size]byte(sum), identity: id}
	if a.find(c.hash) != nil {
		return errors.New("another token has the same hash")
	}
	key := binary.BigEndian.Uint64(sum)
	a.tokens[key] = append(a.tokens[key], c)
	return nil
}

// reservedSubject stands in records for what the daemon does by itself.
const reservedSubject = "toold"

func newIdentity(p tool.Principal, method string) (identity, error) {
	set, err := rolesOf(p.Roles)
	switch {
	case err != nil:
		return identity{}, err
	case set == 0:
		return identity{}, errors.New("roles are required")
	case p.Namespace == "" || p.Subject == "":
		return identity{}, errors.New("namespace and subject are required")
	case p.Subject == reservedSubject:
		return identity{}, fmt.Errorf("the subject %q is the daemon itself", reservedSubject)
	}
	p.Roles, p.Method = set.names(), method
	return identity{Principal: p, roles: set}, nil
}

// oversees reports whether the identity may see what belongs to a namespace; "" is what all namespaces share.
func (id *identity) oversees(namespace string) bool {
	return namespace == "" || namespace == id.Namespace || id.roles&administrator != 0
}

// find looks by the first bytes of a hash and compares the rest in constant time.
func (a *Auth) find(hash [sha256.Size]byte) *token {
	for _, c := range a.tokens[binary.BigEndian.Uint64(hash[:])] {
		if subtle.ConstantTimeCompare(c.hash[:], hash[:]) == 1 {
			return c
		}
	}
	return nil
}

// identify says who sent a request: whom its token stands for, else who is at the other end of the unix socket.
func (a *Auth) identify(ctx context.Context) (*identity, error) {
	header := metadata.ValueFromIncomingContext(ctx, "authorization")
	switch {
	case len(header) == 1:
		return a.verify(header[0])
	case len(header) > 1:
		return nil, call.Refuse(call.Unauthenticated, "TOKEN_INVALID", "more than one authorization header")
	}
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(peerInfo); ok && info.identity != nil {
			return info.identity, nil
		} else if ok {
			return nil, call.Refuse(call.Unauthenticated, "PEER_NOT_ALLOWED", "the local user with uid %d may not use this socket without a token", info.uid)
		}
	}
	return nil, call.Refuse(call.Unauthenticated, "TOKEN_REQUIRED", "a token is required: send it as `authorization: Bearer <token>`; `toold token` shows the daemon's own")
}

func (a *Auth) verify(header string) (*identity, error) {
	scheme, text, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "bearer") || len(text) < minTokenLength {
		return nil, call.Refuse(call.Unauthenticated, "TOKEN_INVALID", "the authorization header is not `Bearer <token>` with a token of at least %d characters", minTokenLength)
	}
	c := a.find(sha256.Sum256([]byte(text)))
	if c == nil {
		return nil, call.Refuse(call.Unauthenticated, "TOKEN_INVALID", "the token is not known here")
	}
	if !c.expires.IsZero() && !time.Now().Before(c.expires) {
		return nil, expired(c.expires)
	}
	return &c.identity, nil
}

func expired(at time.Time) *call.Refusal {
	return call.Refuse(call.Unauthenticated, "TOKEN_EXPIRED", "the token expired at %s", call.FormatTime(at))
}

// CanApprove reports whether so many different people with one of these roles exist in the namespace who are none of
// these subjects.
func (a *Auth) CanApprove(namespace string, names []string, count int, not ...string) bool {
	left := max(count, 1)
	seen := slices.Clone(not)
	enough := func(id *identity) bool {
		if id.Namespace == namespace && !slices.Contains(seen, id.Subject) &&
			(id.expires.IsZero() || time.Now().Before(id.expires)) &&
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
			if enough(&t.identity) {
				return true
			}
		}
	}
	return false
}

// mayActFor refuses a user that the principal may not act for; "" is the principal itself.
func (id *identity) mayActFor(user string) error {
	if user != "" && id.roles&delegate == 0 {
		return call.Refuse(call.PermissionDenied, "DELEGATE_REQUIRED", "acting on behalf of %q needs the role delegate", user)
	}
	return nil
}

type identityKey struct{}

func withIdentity(ctx context.Context, id *identity) context.Context {
	return context.WithValue(ctx, identityKey{}, id)
}

// nobody is who calls a public method.
var nobody = &identity{}

// principal returns who asks; the interceptor put it there.
func principal(ctx context.Context) *identity {
	if id, ok := ctx.Value(identityKey{}).(*identity); ok {
		return id
	}
	return nobody
}
