package wire_test

import (
	"strings"
	"testing"
	"time"

	"github.com/toold-dev/toold/daemon/wire"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/memory"
	"github.com/toold-dev/toold/tool"
)

// TestCredentials checks that the store replaces and removes credentials, and that one that cannot be read does not hide the others.
func TestCredentials(t *testing.T) {
	s := memory.New(memory.Config{})
	defer s.Close()
	c := wire.Credentials(s)
	one := &access.Stored{ID: "cred-1", Kind: access.KindLogin, Principal: tool.Principal{Namespace: "b", Subject: "olga"}, Expires: time.Now().Add(time.Hour).UTC()}
	two := &access.Stored{ID: "cred-2", Kind: access.KindToken, Principal: tool.Principal{Namespace: "b"}, Expires: one.Expires}
	for _, err := range []error{
		c.Put(t.Context(), one), c.Put(t.Context(), two), c.Remove(t.Context(), two), c.Remove(t.Context(), two),
		s.PutPolicy(t.Context(), store.Policy{Namespace: "b", Kind: "credential", Key: "cred-3", Value: []byte("{")}),
		s.PutPolicy(t.Context(), store.Policy{Namespace: "b", Kind: "rule", Key: "r-1", Value: []byte("{}")}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	one.Kind = access.KindSession
	if err := c.Put(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	found, err := wire.StoredCredentials(t.Context(), s)
	if err == nil || !strings.Contains(err.Error(), "cred-3") {
		t.Errorf("error = %v, want cred-3 named", err)
	}
	if len(found) != 1 || found[0].ID != "cred-1" || found[0].Kind != access.KindSession || !found[0].Expires.Equal(one.Expires) {
		t.Errorf("found %+v", found)
	}
}
