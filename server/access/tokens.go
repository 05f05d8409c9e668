package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/toold-dev/toold/call"
)

// tokens is an immutable set of configured and stored credentials.
type tokens struct {
	byHash map[uint64][]*token // by the first bytes of their hash
}

// A token is a configured or stored credential.
type token struct {
	hash   [sha256.Size]byte
	id     Identity
	revoke context.CancelCauseFunc
	stored *Stored // nil for a token of the configuration
}

func newToken(hash [sha256.Size]byte, id Identity) *token {
	t := &token{hash: hash, id: id}
	t.id.revoked, t.revoke = context.WithCancelCause(context.Background())
	return t
}

// is reports whether the token is of a kind. The tokens of the configuration are of the kind [KindToken].
func (t *token) is(k Kind) bool {
	if t.stored == nil {
		return k == KindToken
	}
	return t.stored.Kind == k
}

func newTokens(all []*token) *tokens {
	set := &tokens{make(map[uint64][]*token, len(all))}
	for _, t := range all {
		key := binary.BigEndian.Uint64(t.hash[:])
		set.byHash[key] = append(set.byHash[key], t)
	}
	return set
}

// find returns the token with this hash, or nil. It looks up the first bytes of the hash and compares the whole hash in constant time.
func (s *tokens) find(hash [sha256.Size]byte) *token {
	for _, t := range s.byHash[binary.BigEndian.Uint64(hash[:])] {
		if subtle.ConstantTimeCompare(t.hash[:], hash[:]) == 1 {
			return t
		}
	}
	return nil
}

// all returns every token of the set, in no order.
func (s *tokens) all() iter.Seq[*token] {
	return func(yield func(*token) bool) {
		for _, some := range s.byHash {
			for _, t := range some {
				if !yield(t) {
					return
				}
			}
		}
	}
}

// Replace replaces the tokens of the configuration, and reports whether they changed. It ends the requests of a token that was removed or
// got other rights, and revokes the credentials that such a token created. When a token is invalid, Replace changes nothing.
func (a *Auth) Replace(ctx context.Context, configured []Token) (changed bool, err error) {
	a.changing.Lock()
	defer a.changing.Unlock()
	old := a.tokens.Load()
	before, seen := 0, map[[sha256.Size]byte]bool{}
	var next []*token
	for t := range old.all() {
		if t.stored != nil {
			next = append(next, t)
		} else {
			before++
		}
	}
	for i := range configured {
		t, err := configured[i].parse()
		if err == nil && seen[t.hash] {
			err = errors.New("another token has the same hash")
		}
		if err != nil {
			return false, fmt.Errorf("token of %q: %w", configured[i].Principal.Subject, err)
		}
		seen[t.hash] = true
		switch same := old.find(t.hash); {
		case same != nil && same.stored != nil:
			return false, fmt.Errorf("token of %q: a stored token has the same hash", t.id.Subject)
		case same != nil && same.id.sameRights(&t.id):
			t = same
		default:
			changed = true
		}
		next = append(next, t)
	}
	changed = changed || len(configured) != before
	return changed, a.publish(ctx, next)
}

// parse returns a token of the configuration.
func (t *Token) parse() (*token, error) {
	id, err := newIdentity(t.Principal, "token")
	if err != nil {
		return nil, err
	}
	sum, err := hex.DecodeString(t.Hash)
	if err != nil || len(sum) != sha256.Size {
		return nil, errors.New("the hash must be the SHA-256 of the token in 64 hex digits")
	}
	id.Expires = t.Expires
	id.source = id.sourceOf("token", sum)
	return newToken([sha256.Size]byte(sum), id), nil
}

// sourceOf returns the source of a configured credential. It contains a hash of the rights of the credential. When these rights change, the
// source changes too. Credentials whose parent is the old source then end, at a reload or at the next start.
func (id *Identity) sourceOf(kind string, secret []byte) string {
	rights := fmt.Sprintf("%s %x %q %q %d %q %d", kind, secret, id.Namespace, id.Subject, id.granted, id.Groups, id.Expires.Unix())
	sum := sha256.Sum256([]byte(rights))
	return kind + ":" + hex.EncodeToString(sum[:8])
}

// sameRights reports whether two identities have the same namespace, subject, roles, groups and expiry.
func (id *Identity) sameRights(o *Identity) bool {
	return id.Namespace == o.Namespace && id.Subject == o.Subject && id.granted == o.granted && slices.Equal(id.Groups, o.Groups) && id.Expires.Equal(o.Expires)
}

// publish makes next the current tokens, without those whose creator is no longer valid. It revokes every old token that is no longer current.
// The caller holds a.changing. An error means that the store still has a credential whose creator is no longer valid.
func (a *Auth) publish(ctx context.Context, next []*token) (err error) {
	next, orphans := a.withoutOrphans(next)
	valid := make(map[*token]bool, len(next))
	for _, t := range next {
		valid[t] = true
	}
	old := a.tokens.Load()
	a.tokens.Store(newTokens(next))
	for t := range old.all() {
		if !valid[t] {
			t.revoke(call.Refuse(call.Unauthenticated, "TOKEN_REVOKED", "the credential was revoked, or its rights were changed"))
		}
	}
	for _, t := range orphans {
		err = errors.Join(err, a.store.Remove(ctx, t.stored))
	}
	return err
}

// withoutOrphans separates the stored credentials whose creator is no longer valid from all others.
func (a *Auth) withoutOrphans(list []*token) (left, orphans []*token) {
	sources, children := a.external.Load().sources(), map[string][]*token{}
	for _, p := range *a.peers.Load() {
		sources[p.id.source] = true
	}
	for _, t := range list {
		if t.stored != nil {
			children[t.stored.Parent] = append(children[t.stored.Parent], t)
		} else {
			left = append(left, t)
			sources[t.id.source] = true
		}
	}
	for next := slices.Collect(maps.Keys(sources)); len(next) > 0; {
		last := len(next) - 1
		source := next[last]
		next = next[:last]
		for _, t := range children[source] {
			left, next = append(left, t), append(next, t.id.source)
		}
		delete(children, source)
	}
	for _, some := range children {
		orphans = append(orphans, some...)
	}
	return left, orphans
}
