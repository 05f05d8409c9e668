package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/group"
	"github.com/toold-dev/toold/tool"
)

const upsertRun = `INSERT INTO runs (namespace, id, owner, state, reason, call_id, changed) VALUES ($1, $2, $3, $4, $5, $6, $7)
	ON CONFLICT (namespace, id) DO UPDATE SET owner = excluded.owner, state = excluded.state, reason = excluded.reason, call_id = excluded.call_id, changed = excluded.changed
	WHERE excluded.state <> 'OPEN' OR runs.state <> 'BLOCKED'`

// EndRun stores the state of a run and removes its documents and policies.
func (s *Store) EndRun(_ context.Context, r store.Run) error {
	return s.Do(group.Op{Run: func(ctx context.Context, p *group.Plan) error {
		p.Runs = append(p.Runs, r)
		for _, table := range []string{"documents", "policies"} {
			if err := s.writer.exec(ctx, "DELETE FROM "+table+" WHERE namespace = $1 AND scope = $2 AND scope_id = $3", r.Namespace, tool.RunScope, r.ID); err != nil {
				return err
			}
		}
		return nil
	}})
}

// A runScanner reads runs from rows.
type runScanner struct {
	namespace, id, owner, reason, call []byte
	state                              string
	changed                            int64
}

const runColumns = "namespace, id, owner, state, reason, call_id, changed"

func (s *runScanner) dest() []any {
	return []any{&s.namespace, &s.id, &s.owner, &s.state, &s.reason, &s.call, &s.changed}
}

func (s *runScanner) run() store.Run {
	return store.Run{Namespace: string(s.namespace), ID: string(s.id), Owner: string(s.owner), State: call.RunState(s.state), Reason: string(s.reason),
		CallID: string(s.call), Changed: timeOf(&s.changed)}
}

// Run returns the stored state of a run.
func (s *Store) Run(ctx context.Context, namespace, id string) (*store.Run, error) {
	var scanner runScanner
	if err := s.row(ctx, "SELECT "+runColumns+" FROM runs WHERE namespace = $1 AND id = $2", scanner.dest(), namespace, id); err != nil {
		return nil, err
	}
	r := scanner.run()
	return &r, nil
}

// BlockedRuns visits the runs that are blocked.
func (s *Store) BlockedRuns(ctx context.Context, visit func(store.Run) error) error {
	const page = 500
	var last store.Run
	for {
		var runs []store.Run
		var scanner runScanner
		err := s.each(ctx, "SELECT "+runColumns+" FROM runs WHERE (namespace, id) > ($1, $2) AND state = 'BLOCKED' ORDER BY namespace, id LIMIT $3", scanner.dest(),
			func() { runs = nil }, func() error {
				runs = append(runs, scanner.run())
				return nil
			}, last.Namespace, last.ID, page)
		if err != nil {
			return err
		}
		for _, r := range runs {
			if err := visit(r); err != nil {
				return err
			}
			last = r
		}
		if len(runs) < page {
			return nil
		}
	}
}

// RunCounts returns how many calls of a run have each status.
func (s *Store) RunCounts(ctx context.Context, namespace, id string) (map[call.Status]int, error) {
	return s.counts(ctx, "SELECT status, count(*) FROM calls WHERE namespace = $1 AND run_id = $2 GROUP BY status", namespace, id)
}

// Counts returns how many calls have each status that is not terminal.
func (s *Store) Counts(ctx context.Context) (map[call.Status]int, error) {
	return s.counts(ctx, "SELECT status, count(*) FROM statuses WHERE status IN ('NEW', 'RUNNING', 'SUSPENDED', 'RESUMING') GROUP BY status")
}

func (s *Store) counts(ctx context.Context, text string, args ...any) (counts map[call.Status]int, err error) {
	var status string
	var n int
	err = s.each(ctx, text, []any{&status, &n}, func() { counts = map[call.Status]int{} }, func() error {
		counts[call.Status(status)] = n
		return nil
	}, args...)
	return counts, err
}

const selectRecords = "SELECT position, key, call_id, created, crc, bytes FROM records WHERE namespace = $1 AND kind = $2 AND position > $3 ORDER BY position LIMIT $4"

// Records reads back what plugins stored. A broken one is left out when others stand before it, and refused when it is the
// first: who goes on from its position reads the rest.
func (s *Store) Records(ctx context.Context, namespace, kind string, after int64, limit int) (records []store.StoredRecord, err error) {
	var position, created, crc int64
	var key, callID, bytes []byte
	err = s.each(ctx, selectRecords, []any{&position, &key, &callID, &created, &crc, &bytes}, func() { records = nil }, func() error {
		r := store.StoredRecord{Position: position, CallID: string(callID), Time: time.Unix(0, created).UTC(), Record: store.Record{Kind: kind, Key: string(key), Bytes: bytes}}
		if int64(sum(bytes, namespace, kind, r.Key, r.CallID)) != crc {
			if len(records) > 0 {
				return errEnough
			}
			return fmt.Errorf("%w: record %d", store.ErrCorrupt, position)
		}
		records = append(records, r)
		return nil
	}, namespace, kind, after, limit)
	return records, err
}
