package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/group"
)

const upsertSuspensions = `INSERT INTO suspensions (namespace, id, call, action, open, expires)
	SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bytea[], $5::boolean[], $6::bigint[])
	ON CONFLICT (namespace, id) DO UPDATE SET action = excluded.action, open = excluded.open, expires = excluded.expires WHERE suspensions.call = excluded.call`

func queueSuspensions(b *pgx.Batch, p *group.Plan) {
	if len(p.Suspensions.Keys) == 0 {
		return
	}
	var namespaces, ids, actions [][]byte
	var calls []int64
	var open []bool
	var expires []*int64
	for _, k := range p.Suspensions.Keys {
		s := p.Suspensions.Values[k]
		namespaces, ids, actions = append(namespaces, []byte(k.Namespace)), append(ids, []byte(k.ID)), append(actions, []byte(s.Action))
		calls, open, expires = append(calls, s.Call), append(open, s.Open), append(expires, optional(nanos(s.Expires)))
	}
	b.Queue(upsertSuspensions, namespaces, ids, calls, actions, open, expires)
}

const insertDecisions = `INSERT INTO decisions (namespace, id, crc, decision) SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bytea[])`

func queueAnswers(b *pgx.Batch, p *group.Plan) {
	if len(p.Answers) == 0 {
		return
	}
	var namespaces, ids, decisions [][]byte
	var crcs []int64
	for _, a := range p.Answers {
		namespaces, ids, decisions = append(namespaces, []byte(a.Namespace)), append(ids, []byte(a.ID)), append(decisions, a.Bytes)
		crcs = append(crcs, int64(sum(a.Bytes, a.Namespace, a.ID)))
	}
	b.Queue(insertDecisions, namespaces, ids, crcs, decisions)
}

const (
	selectBySuspension = "SELECT " + callColumnList + " FROM calls WHERE position = (SELECT call FROM suspensions WHERE namespace = $1 AND id = $2)"
	selectDue          = "SELECT " + callColumnList + ` FROM (SELECT call, expires FROM suspensions WHERE open AND expires <= $1 AND namespace = $2 ORDER BY expires, call LIMIT $3 OFFSET $4) s
		JOIN calls ON position = s.call ORDER BY s.expires, s.call`
	selectDueNamespaces = "SELECT DISTINCT namespace FROM suspensions WHERE open AND expires <= $1"
	selectNextExpiry    = "SELECT min(expires) FROM suspensions WHERE open AND expires IS NOT NULL"
	selectDecision      = "SELECT crc, decision FROM decisions WHERE namespace = $1 AND id = $2"
)

// CallBySuspension returns the call that has, or had, this suspension.
func (s *Store) CallBySuspension(ctx context.Context, namespace, id string) (*call.Call, error) {
	rows, err := s.callRows(ctx, selectBySuspension, namespace, id)
	if err == nil && len(rows) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return rows[0].call, rows[0].err
}

// Due returns the suspended calls of a namespace that nobody answered in time. Broken rows are left out: they cannot expire.
func (s *Store) Due(ctx context.Context, namespace string, limit int) (due []*call.Call, err error) {
	for skip := 0; len(due) < limit; {
		rows, err := s.callRows(ctx, selectDue, s.clock.now().UnixNano(), namespace, limit, skip)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			if r.err == nil && len(due) < limit {
				due = append(due, r.call)
			}
		}
		if skip += len(rows); len(rows) < limit {
			break
		}
	}
	return due, nil
}

// DueNamespaces returns the namespaces that have suspended calls that nobody answered in time.
func (s *Store) DueNamespaces(ctx context.Context) (names []string, err error) {
	var name []byte
	err = s.each(ctx, selectDueNamespaces, []any{&name}, func() { names = nil }, func() error {
		names = append(names, string(name))
		return nil
	}, s.clock.now().UnixNano())
	return names, err
}

// NextExpiry returns when the next open suspension expires.
func (s *Store) NextExpiry(ctx context.Context) (time.Time, error) {
	var at *int64
	err := s.row(ctx, selectNextExpiry, []any{&at})
	return timeOf(at), err
}

// Decision returns a decision by its id.
func (s *Store) Decision(ctx context.Context, namespace, id string) (*store.Decision, error) {
	var b []byte
	var crc int64
	if err := s.row(ctx, selectDecision, []any{&crc, &b}, namespace, id); err != nil {
		return nil, err
	}
	var d store.Decision
	var err error
	if int64(sum(b, namespace, id)) != crc {
		err = errors.New("checksum")
	}
	if err = cmp.Or(err, json.Unmarshal(b, &d)); err != nil {
		return nil, fmt.Errorf("%w: decision %s: %w", store.ErrCorrupt, id, err)
	}
	return &d, nil
}
