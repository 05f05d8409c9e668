package memory

import (
	"bytes"
	"context"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

type (
	policyKey struct{ namespace, kind, key string }
	policy    struct {
		store.Policy
		changed call.Stamp
	}
)

func policyOf(p store.Policy, now call.Stamp) policy {
	p.Value = bytes.Clone(p.Value)
	return policy{p, now}
}

func (p policy) removed() policy {
	p.Value = nil
	return p
}

func (st *state) putPolicies(policies []policy) {
	for _, p := range policies {
		key := policyKey{p.Namespace, p.Kind, p.Key}
		if p.Value == nil {
			delete(st.policies, key)
		} else {
			st.policies[key] = p
		}
	}
}

// PutPolicy stores or removes a policy without a call.
func (s *Store) PutPolicy(_ context.Context, p store.Policy) error {
	return s.write(func(_ *state, now call.Stamp) *effect { return &effect{policies: []policy{policyOf(p, now)}} })
}

// Policies visits every policy.
func (s *Store) Policies(ctx context.Context, visit func(store.Policy, error) error) error {
	var all []store.Policy
	err := s.read(ctx, func(st *state) error {
		for _, p := range st.policies {
			p.Value = bytes.Clone(p.Value)
			all = append(all, p.Policy)
		}
		return nil
	})
	for _, p := range all {
		if err == nil {
			err = visit(p, nil)
		}
	}
	return err
}

// trimPolicies removes policies that have expired, and old policies of runs and threads that have no calls.
func (st *state) trimPolicies(e *effect, before call.Stamp) {
	type scopeKey struct {
		scope tool.Scope
		name
	}
	known := map[scopeKey]bool{}
	for _, r := range st.calls {
		if _, goes := e.trimmed[r.key]; !goes {
			known[scopeKey{tool.RunScope, name{r.key.Namespace, r.run}}] = true
			known[scopeKey{tool.ThreadScope, name{r.key.Namespace, r.thread}}] = true
		}
	}
	for _, p := range st.policies {
		orphan := (p.Scope == tool.RunScope || p.Scope == tool.ThreadScope) && p.changed < before && !known[scopeKey{p.Scope, name{p.Namespace, p.ScopeID}}]
		if orphan || p.Expires != 0 && p.Expires < before {
			e.policies = append(e.policies, p.removed())
		}
	}
}
