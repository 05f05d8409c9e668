package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// Purge erases the content of a finished call.
func (s *Store) Purge(ctx context.Context, key call.Key, by call.Purge) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return s.ended
	}
	old, err := s.current.find(key)
	if err != nil {
		return err
	}
	if !old.Status.Terminal() {
		return fmt.Errorf("%w: purge of a call that is %s", store.ErrTransition, old.Status)
	}
	c, err := old.call()
	if err != nil || c.Purge != nil {
		return err
	}
	c = c.Purged(by)
	c.Revision++
	record, err := call.EncodeCall(c)
	if err != nil {
		return err
	}
	r := *old
	r.record, r.chunks, r.Revision = record, nil, c.Revision
	s.commitLocked(&effect{row: &r, purged: true}, store.Full)
	return nil
}

// purge removes the events of a call from the feed. If the call blocked its run, purge also removes the stored reason.
func (st *state) purge(r *row) {
	st.feed = slices.DeleteFunc(slices.Clone(st.feed), func(f feedEntry) bool { return f.key == r.key })
	n := name{r.key.Namespace, r.run}
	if run, ok := st.runs[n]; ok && run.CallID == r.key.ID {
		run.Reason = ""
		st.runs[n] = run
	}
}

// Shred erases the remaining data of purged calls, runs and threads.
func (s *Store) Shred(ctx context.Context, p store.Shredding) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.write(func(*state, call.Stamp) *effect { return &effect{shred: func(st *state) { st.shred(&p) }} })
}

func (st *state) shred(p *store.Shredding) {
	for n, d := range st.decisions {
		if n.namespace == p.Namespace && slices.Contains(p.Calls, d.CallID) {
			d.Decision = call.PurgedDecision(&d.Decision)
			st.decisions[n] = d
		}
	}
	st.records[p.Namespace] = slices.DeleteFunc(slices.Clone(st.records[p.Namespace]), func(r store.StoredRecord) bool {
		return !r.Chained && (slices.Contains(p.Calls, r.CallID) || r.CallID == "" && slices.Contains(p.Calls, r.Key))
	})
	maps.DeleteFunc(st.actions, func(n name, a store.Action) bool {
		return n.namespace == p.Namespace && slices.Contains(p.Calls, a.CallID)
	})
	belongs := func(namespace string, scope tool.Scope, id string) bool {
		return namespace == p.Namespace && (scope == tool.RunScope && slices.Contains(p.Runs, id) || scope == tool.ThreadScope && slices.Contains(p.Threads, id))
	}
	maps.DeleteFunc(st.documents, func(k doc, _ document) bool { return belongs(k.namespace, k.Scope, k.ScopeID) })
	maps.DeleteFunc(st.policies, func(k policyKey, v policy) bool {
		return k.kind == p.PolicyKind && belongs(k.namespace, v.Scope, v.ScopeID)
	})
	for n, r := range st.runs {
		if n.namespace == p.Namespace && slices.Contains(p.Runs, n.id) {
			r.Reason = ""
			st.runs[n] = r
		}
	}
}
