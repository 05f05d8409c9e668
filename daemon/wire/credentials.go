package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/refusal"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/store"
)

// CredentialKind is the kind of the policies that hold stored credentials. The store removes them some time after they expire.
const CredentialKind = "credential"

// A PolicyStore stores values that can be replaced and removed.
type PolicyStore interface {
	PutPolicy(ctx context.Context, p store.Policy) error
	Policies(ctx context.Context, visit func(store.Policy, error) error) error
}

// Credentials keeps stored credentials in the store of the daemon.
func Credentials(s PolicyStore) access.Store { return credentials{s} }

type credentials struct{ store PolicyStore }

func (c credentials) put(s *access.Stored, text []byte) error {
	// Do not stop a change when the request ends: the client could not know whether the change was stored.
	err := c.store.PutPolicy(context.Background(), store.Policy{Namespace: s.Principal.Namespace, Kind: CredentialKind, Key: s.ID, Expires: call.StampOf(s.Expires), Value: text})
	if err != nil {
		return refusal.OfCall(err, s.ID)
	}
	return nil
}

func (c credentials) Put(_ context.Context, s *access.Stored) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return c.put(s, text)
}

func (c credentials) Remove(_ context.Context, s *access.Stored) error { return c.put(s, nil) }

// StoredCredentials reads the credentials of a store. It leaves out those that cannot be read, and the error names them.
func StoredCredentials(ctx context.Context, s PolicyStore) (found []access.Stored, err error) {
	var broken []error
	err = s.Policies(ctx, func(p store.Policy, err error) error {
		if p.Kind != CredentialKind {
			return nil
		}
		var c access.Stored
		if err == nil {
			err = json.Unmarshal(p.Value, &c)
		}
		if err != nil {
			broken = append(broken, fmt.Errorf("credential %q: %w", p.Key, err))
			return nil
		}
		found = append(found, c)
		return nil
	})
	return found, errors.Join(append(broken, err)...)
}
