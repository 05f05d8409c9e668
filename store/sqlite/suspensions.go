package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/group"
)

func (w *writer) writeSuspension(n group.Name, s group.Suspension) error {
	return exec(w.conn, `INSERT INTO suspensions (namespace, id, call, action, open, expires) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET action = excluded.action, open = excluded.open, expires = excluded.expires WHERE call = excluded.call`,
		n.Namespace, n.ID, s.Call, s.Action, s.Open, s.Expires)
}

const insertDecision = "INSERT INTO decisions (namespace, id, crc, decision) VALUES (?, ?, ?, ?)"

const (
	selectBySuspension = "SELECT " + callColumns + " FROM calls WHERE position = (SELECT call FROM suspensions WHERE namespace = ? AND id = ?)"
	selectDue          = "SELECT " + callColumns + ` FROM suspensions INDEXED BY suspensions_expires CROSS JOIN calls ON position = call
		WHERE open = 1 AND expires <= ? AND suspensions.namespace = ? ORDER BY expires LIMIT ? OFFSET ?`
	selectDueNamespaces = "SELECT DISTINCT namespace FROM suspensions INDEXED BY suspensions_expires WHERE open = 1 AND expires <= ?"
	selectNextExpiry    = "SELECT min(expires) FROM suspensions INDEXED BY suspensions_expires WHERE open = 1 AND expires IS NOT NULL"
	selectDecision      = "SELECT crc, decision FROM decisions WHERE namespace = ? AND id = ?"
)

// CallBySuspension returns the call that has, or had, this suspension.
func (s *Store) CallBySuspension(ctx context.Context, namespace, id string) (*call.Call, error) {
	return s.one(ctx, selectBySuspension, namespace, id)
}

// one returns the call that a statement selects.
func (s *Store) one(ctx context.Context, text string, args ...any) (*call.Call, error) {
	var row callRow
	err := s.read(ctx, func(conn *sqlite.Conn) error {
		return query(conn, text, func(st *sqlite.Stmt) error {
			row = new(callScanner).scan(st)
			return nil
		}, args...)
	})
	if err == nil && row.position == 0 {
		err = store.ErrNotFound
	}
	return row.call, cmp.Or(err, row.err)
}

// Due returns the suspended calls of a namespace that nobody answered in time. Broken rows are left out: they cannot expire.
func (s *Store) Due(ctx context.Context, namespace string, limit int) (due []*call.Call, err error) {
	for skip := 0; len(due) < limit; {
		var rows []callRow
		var scanner callScanner
		err := s.read(ctx, func(conn *sqlite.Conn) error {
			return query(conn, selectDue, func(st *sqlite.Stmt) error {
				rows = append(rows, scanner.scan(st))
				return nil
			}, s.clock.now(), namespace, limit, skip)
		})
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
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		return query(conn, selectDueNamespaces, func(st *sqlite.Stmt) error {
			names = append(names, st.ColumnText(0))
			return nil
		}, s.clock.now())
	})
	return names, err
}

// NextExpiry returns when the next open suspension expires.
func (s *Store) NextExpiry(ctx context.Context) (at time.Time, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		return query(conn, selectNextExpiry, func(st *sqlite.Stmt) error {
			at = columnTime(st, 0)
			return nil
		})
	})
	return at, err
}

// Decision returns a decision by its id.
func (s *Store) Decision(ctx context.Context, namespace, id string) (*store.Decision, error) {
	var b []byte
	var crc uint32
	err := s.read(ctx, func(conn *sqlite.Conn) error {
		return query(conn, selectDecision, func(st *sqlite.Stmt) error {
			crc, b = uint32(st.ColumnInt64(0)), columnBytes(st, 1)
			return nil
		}, namespace, id)
	})
	if err != nil {
		return nil, err
	}
	if b == nil {
		return nil, store.ErrNotFound
	}
	var d store.Decision
	if sum(b, namespace, id) != crc {
		err = errors.New("checksum")
	} else {
		err = json.Unmarshal(b, &d)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: decision %s: %w", store.ErrCorrupt, id, err)
	}
	return &d, nil
}
