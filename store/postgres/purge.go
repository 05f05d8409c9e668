package postgres

import (
	"context"

	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/group"
	"github.com/toold-dev/toold/tool"
)

// Shred erases the remaining data of purged calls, runs and threads. Then it rewrites the tables, so that they contain no dead rows. It
// cannot clean the server's write-ahead log, or backups and archives of that log.
func (s *Store) Shred(ctx context.Context, p store.Shredding) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.trimming.Lock()
	defer s.trimming.Unlock()
	if len(p.Calls) > 0 {
		if err := s.DecisionsOf(ctx, p.Namespace, p.Calls, s.ShredDecisions); err != nil {
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

// A statement is one of several statements that run in order.
type statement struct {
	text string
	args []any
}

// shred removes the records and actions of calls, and the data of runs and threads.
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
