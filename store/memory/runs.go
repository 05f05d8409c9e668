package memory

import (
	"context"
	"slices"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// Run returns the stored state of a run.
func (s *Store) Run(ctx context.Context, namespace, id string) (run *store.Run, err error) {
	err = s.read(ctx, func(st *state) error {
		r, ok := st.runs[name{namespace, id}]
		if !ok {
			return store.ErrNotFound
		}
		run = &r
		return nil
	})
	return run, err
}

// RunCounts returns how many calls of a run have each status.
func (s *Store) RunCounts(ctx context.Context, namespace, id string) (map[call.Status]int, error) {
	counts := map[call.Status]int{}
	err := s.read(ctx, func(st *state) error {
		for _, r := range st.calls {
			if r.key.Namespace == namespace && r.run == id {
				counts[r.Status]++
			}
		}
		return nil
	})
	return counts, err
}

// Counts returns how many calls have each status that is not terminal.
func (s *Store) Counts(ctx context.Context) (map[call.Status]int, error) {
	counts := map[call.Status]int{}
	err := s.read(ctx, func(st *state) error {
		for _, r := range st.open {
			counts[r.Status]++
		}
		return nil
	})
	return counts, err
}

// CountsOf returns how many calls of a namespace have each status that is not terminal, and how many open questions have each action.
func (s *Store) CountsOf(ctx context.Context, namespace string) (statuses map[call.Status]int, actions map[string]int, err error) {
	statuses, actions = map[call.Status]int{}, map[string]int{}
	err = s.read(ctx, func(st *state) error {
		for _, r := range st.open {
			if r.key.Namespace != namespace {
				continue
			}
			if statuses[r.Status]++; r.suspension != "" {
				actions[r.action]++
			}
		}
		return nil
	})
	return statuses, actions, err
}

// BlockedRuns visits the blocked runs.
func (s *Store) BlockedRuns(ctx context.Context, visit func(store.Run) error) error {
	var blocked []store.Run
	err := s.read(ctx, func(st *state) error {
		for _, r := range st.runs {
			if r.State == call.RunBlocked {
				blocked = append(blocked, r)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, r := range blocked {
		if err := visit(r); err != nil {
			return err
		}
	}
	return nil
}

// Trim removes old data.
func (s *Store) Trim(_ context.Context, callsBefore, tombstonesBefore, documentsBefore call.Stamp, limit int) (trimmed []call.Key, err error) {
	err = s.write(func(st *state, now call.Stamp) *effect {
		e := &effect{trimmed: map[call.Key]tombstone{}, before: tombstonesBefore, deadBefore: callsBefore}
		busy := map[name]bool{} // threads with an open suspension
		for _, r := range st.calls {
			if r.suspension != "" && r.thread != "" {
				busy[name{r.key.Namespace, r.thread}] = true
			}
		}
		for _, key := range st.order {
			r := st.calls[key]
			if len(trimmed) < limit && r.Status.Terminal() && r.ended < callsBefore && !busy[name{key.Namespace, r.thread}] && !st.inOpenBatch(r) {
				trimmed = append(trimmed, key)
				e.trimmed[key] = tombstone{r.digest, now}
			}
		}
		for key, t := range st.tombstones {
			if t.trimmed < tombstonesBefore {
				e.forgotten = append(e.forgotten, key)
			}
		}
		st.trimRuns(e, documentsBefore, tombstonesBefore)
		st.trimPolicies(e, callsBefore)
		st.trimBatches(e, callsBefore, now)
		return e
	})
	return trimmed, err
}

func (st *state) trimRuns(e *effect, documentsBefore, tombstonesBefore call.Stamp) {
	busy, known := map[name]bool{}, map[name]bool{} // busy has the runs with a recent or unfinished call; known has the runs with any stored call.
	threads := map[name]bool{}
	for _, r := range st.calls {
		if _, goes := e.trimmed[r.key]; goes {
			continue
		}
		run := name{r.key.Namespace, r.run}
		known[run], threads[name{r.key.Namespace, r.thread}] = true, true
		if !r.Status.Terminal() || r.updated >= documentsBefore {
			busy[run] = true
		}
	}
	for k, d := range st.documents {
		scope := name{k.namespace, k.ScopeID}
		old := k.inRun() && !busy[scope] && d.changed < documentsBefore
		if old || k.inRun() && !known[scope] || k.Scope == tool.ThreadScope && !threads[scope] {
			e.dropped = append(e.dropped, k)
		}
	}
	for n, r := range st.runs {
		if (r.State != call.RunBlocked || r.Changed < tombstonesBefore) && !known[n] {
			e.ended = append(e.ended, n)
		}
	}
}

// EndRun stores the state of a run and removes its documents and policies.
func (s *Store) EndRun(_ context.Context, r store.Run) error {
	return s.write(func(st *state, now call.Stamp) *effect {
		r.Changed = now
		e := &effect{run: &r}
		for _, p := range st.policies {
			if p.Namespace == r.Namespace && p.Scope == tool.RunScope && p.ScopeID == r.ID {
				e.policies = append(e.policies, p.removed())
			}
		}
		for k := range st.documents {
			if k.inRun() && k.namespace == r.Namespace && k.ScopeID == r.ID {
				e.dropped = append(e.dropped, k)
			}
		}
		return e
	})
}

// PutRecord stores a record without a call.
func (s *Store) PutRecord(_ context.Context, namespace string, r store.Record) error {
	return s.write(func(st *state, now call.Stamp) *effect {
		e := &effect{namespace: namespace}
		e.addRecord(st, r, st.recorded+1, "", now)
		return e
	})
}

// RecordsBefore returns stored records, the newest first.
func (s *Store) RecordsBefore(ctx context.Context, namespace, kind string, before int64, limit int) (records []store.StoredRecord, err error) {
	err = s.read(ctx, func(st *state) error {
		for _, r := range slices.Backward(st.records[namespace]) {
			if len(records) == limit {
				break
			}
			if r.Kind == kind && r.Position < before {
				r.Bytes = slices.Clone(r.Bytes)
				records = append(records, r)
			}
		}
		return nil
	})
	return records, err
}

// Records returns stored records.
func (s *Store) Records(ctx context.Context, namespace, kind string, after int64, limit int) (records []store.StoredRecord, err error) {
	err = s.read(ctx, func(st *state) error {
		for _, r := range st.records[namespace] {
			if len(records) == limit {
				break
			}
			if r.Kind == kind && r.Position > after {
				r.Bytes = slices.Clone(r.Bytes)
				records = append(records, r)
			}
		}
		return nil
	})
	return records, err
}
