package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/group"
	"github.com/toold-dev/toold/store/rows"
	"github.com/toold-dev/toold/tool"
)

// Purge erases the content of a finished call, in one transaction.
func (s *Store) Purge(ctx context.Context, key call.Key, by call.Purge) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.write(func(ctx context.Context, w *writer) error { return w.purge(ctx, key, by) })
}

func (w *writer) purge(ctx context.Context, key call.Key, by call.Purge) error {
	var row rows.Call
	err := query(ctx, w.conn, selectCall, func(r rows.Row) error { row = rows.ReadCall(r); return nil }, bind([]any{key.Namespace, key.ID})...)
	switch {
	case err != nil:
		return err
	case row.Position == 0:
		return w.s.absent(ctx, key)
	case row.Err != nil:
		return row.Err
	case !row.Call.Status.Terminal():
		return fmt.Errorf("%w: purge of a call that is %s", store.ErrTransition, row.Call.Status)
	case row.Call.Purge != nil:
		return nil
	}
	c := row.Call.Purged(by)
	c.Revision++
	record, err := call.EncodeCall(c)
	if err != nil {
		return err
	}
	// Do not change the times of the row, because retention depends on them.
	err = w.exec(ctx, "UPDATE calls SET revision = $1, last_sequence = $2, crc = $3, record = $4, events_last = NULL, events_crc = NULL, events = NULL WHERE position = $5",
		c.Revision, c.LastSequence, sumCall(c, record), record, row.Position)
	if err == nil {
		err = w.exec(ctx, "DELETE FROM events WHERE call = $1", row.Position)
	}
	if err == nil { // Remove the reason for which a gate blocked the run, because it may quote the call.
		err = w.exec(ctx, "UPDATE runs SET reason = '' WHERE namespace = $1 AND id = $2 AND call_id = $3", c.Namespace, c.Run.ID, c.ID)
	}
	return err
}

// Shred erases the remaining data of purged calls, runs and threads. Then it rewrites the tables, so that they contain no dead rows. It
// cannot clean the server's write-ahead log, or backups and archives of that log.
func (s *Store) Shred(ctx context.Context, p store.Shredding) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.trimming.Lock()
	defer s.trimming.Unlock()
	if len(p.Calls) > 0 {
		if err := s.shredDecisions(ctx, p.Namespace, p.Calls); err != nil {
			return err
		}
	}
	err := s.admin(group.Op{Slow: true}, func(ctx context.Context, w *writer) error { return w.shred(ctx, &p) })
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	for _, table := range []string{"calls", "events", "decisions", "records", "documents", "policies", "runs", "actions"} {
		err := s.admin(group.Op{Bare: true}, func(ctx context.Context, w *writer) error { return w.exec(ctx, "VACUUM FULL "+table) })
		if err != nil {
			return err
		}
	}
	return nil
}

// shredPage is how many rows one transaction reads and writes.
const shredPage = 256

const selectDecisions = "SELECT id, crc, decision FROM decisions WHERE namespace = $1 AND id > $2 ORDER BY id LIMIT $3"

// shredDecisions looks for the decisions of calls among all decisions, because the tombstone of a call does not name them. It leaves a
// decision that cannot be read unchanged; reading it fails.
func (s *Store) shredDecisions(ctx context.Context, namespace string, ids []string) error {
	calls := make(map[string]bool, len(ids))
	for _, id := range ids {
		calls[id] = true
	}
	after, first := "", ""
	for n := shredPage; n == shredPage; {
		var found []store.Decision
		var id, b []byte
		var crc int64
		first = after
		err := s.each(ctx, selectDecisions, []any{&id, &crc, &b}, func() { n, after, found = 0, first, nil }, func() error {
			n++
			after = string(id)
			var d store.Decision
			if int64(rows.Sum(b, namespace, after)) == crc && json.Unmarshal(b, &d) == nil && calls[d.CallID] {
				found = append(found, d)
			}
			return nil
		}, namespace, after, shredPage)
		if err == nil && len(found) > 0 {
			err = s.admin(group.Op{Slow: true}, func(ctx context.Context, w *writer) error { return w.shredDecisions(ctx, namespace, found) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) shredDecisions(ctx context.Context, namespace string, found []store.Decision) error {
	for i := range found {
		d := found[i]
		d.Decision = call.PurgedDecision(&d.Decision)
		b, err := json.Marshal(d)
		if err == nil {
			err = w.exec(ctx, "UPDATE decisions SET crc = $1, decision = $2 WHERE namespace = $3 AND id = $4", int64(rows.Sum(b, namespace, d.ID)), b, namespace, d.ID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A statement is one of several statements that run in order.
type statement struct {
	text string
	args []any
}

// shred removes the records that plugins and late attempts stored for calls, and the data of runs and threads.
func (w *writer) shred(ctx context.Context, p *store.Shredding) error {
	runs, threads := []any{p.Namespace, tool.RunScope, p.Runs}, []any{p.Namespace, tool.ThreadScope, p.Threads}
	const documents, policies = "DELETE FROM documents WHERE namespace = $1 AND scope = $2 AND scope_id = ANY ($3::bytea[])",
		"DELETE FROM policies WHERE namespace = $1 AND scope = $2 AND scope_id = ANY ($3::bytea[]) AND kind = $4"
	for _, s := range []statement{
		{"DELETE FROM records WHERE namespace = $1 AND NOT chained AND (call_id = ANY ($2::bytea[]) OR call_id = '' AND key = ANY ($2::bytea[]))", []any{p.Namespace, p.Calls}},
		{"DELETE FROM actions WHERE namespace = $1 AND call_id = ANY ($2::bytea[])", []any{p.Namespace, p.Calls}},
		{documents, runs}, {documents, threads},
		{policies, append(append([]any{}, runs...), p.PolicyKind)}, {policies, append(append([]any{}, threads...), p.PolicyKind)},
		{"UPDATE runs SET reason = '' WHERE namespace = $1 AND id = ANY ($2::bytea[])", []any{p.Namespace, p.Runs}},
	} {
		if err := w.exec(ctx, s.text, s.args...); err != nil {
			return err
		}
	}
	return nil
}
