package group

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/rows"
)

// Purge erases the content of a finished call, in one transaction.
func (w *Writer) Purge(ctx context.Context, key call.Key, by call.Purge) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return w.Do(Op{Run: func(ctx context.Context, _ *Plan) error { return w.purge(ctx, key, by) }})
}

func (w *Writer) purge(ctx context.Context, key call.Key, by call.Purge) error {
	row, err := w.cfg.Database.Row(ctx, key)
	switch {
	case err != nil:
		return err
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
		c.Revision, c.LastSequence, int64(rows.SumCall(key, c.Status, c.Revision, record)), record, row.Position)
	if err == nil {
		err = w.exec(ctx, "DELETE FROM events WHERE call = $1", row.Position)
	}
	if err == nil { // The reason that a gate gave for blocking the run may quote the call.
		err = w.exec(ctx, "UPDATE runs SET reason = '' WHERE namespace = $1 AND id = $2 AND call_id = $3", c.Namespace, c.Run.ID, c.ID)
	}
	return err
}

// ShredDecisions erases the content of decisions, in one transaction.
func (w *Writer) ShredDecisions(decisions []store.Decision) error {
	return w.Do(Op{Slow: true, Run: func(ctx context.Context, _ *Plan) error {
		for _, d := range decisions {
			d.Decision = call.PurgedDecision(&d.Decision)
			b, err := json.Marshal(d)
			if err == nil {
				err = w.exec(ctx, "UPDATE decisions SET crc = $1, decision = $2 WHERE namespace = $3 AND id = $4", int64(rows.Sum(b, d.Namespace, d.ID)), b, d.Namespace, d.ID)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}})
}

// Scopes has the SQL texts of [Writer.TrimScopes]. Each removes rows of one part of a table: $1 to $3 are the key after which the part
// begins, $4 to $6 the last key of the part. A key is a namespace, a scope and an id, or for runs a namespace, an id and an empty text. $7 is
// a time.
type Scopes struct {
	Whole [6]any // the keys of a part that covers a whole table

	Runs            string // runs that have no calls and that changed before $7, and their states
	Documents       string // documents of runs that changed before $7
	RunDocuments    string // documents of runs without calls; does not use $7
	ThreadDocuments string // documents of threads without calls; does not use $7
}

const (
	// partSize is how many rows of a table one transaction checks. Other changes wait for at most one part.
	partSize = 256

	selectRunsEnd      = "SELECT namespace, id, '' FROM runs WHERE (namespace, id) > ($1, $2) AND $3 = '' ORDER BY namespace, id LIMIT 1 OFFSET $4"
	selectDocumentsEnd = "SELECT namespace, scope, scope_id FROM documents WHERE (namespace, scope, scope_id) > ($1, $2, $3) ORDER BY namespace, scope, scope_id LIMIT 1 OFFSET $4"
)

// TrimScopes removes the old states of runs, and the old documents of runs and threads.
func (w *Writer) TrimScopes(s *Scopes, runsBefore, documentsBefore call.Stamp) error {
	err := w.inParts(s, selectRunsEnd, func(ctx context.Context, part []any) error {
		return w.exec(ctx, s.Runs, append(part, int64(runsBefore))...)
	})
	if err != nil {
		return err
	}
	return w.inParts(s, selectDocumentsEnd, func(ctx context.Context, part []any) error {
		if err := w.exec(ctx, s.Documents, append(slices.Clone(part), int64(documentsBefore))...); err != nil {
			return err
		}
		return w.trimOrphans(ctx, s, part)
	})
}

// TrimOrphans removes the documents of runs and threads that have no calls, inside the open transaction. The owner of a run or thread is
// known only from its calls, so no document may exist longer than the last call. A transaction that removes calls therefore calls
// TrimOrphans.
func (w *Writer) TrimOrphans(ctx context.Context, s *Scopes) error {
	return w.trimOrphans(ctx, s, s.Whole[:])
}

func (w *Writer) trimOrphans(ctx context.Context, s *Scopes, part []any) error {
	if err := w.exec(ctx, s.RunDocuments, slices.Clone(part)...); err != nil {
		return err
	}
	return w.exec(ctx, s.ThreadDocuments, slices.Clone(part)...)
}

// inParts runs remove for a whole table, with a limited number of rows in each transaction. part consists of two keys: remove handles the
// rows after the first key, up to and including the second key. The statement end selects the last key of a part.
func (w *Writer) inParts(s *Scopes, end string, remove func(ctx context.Context, part []any) error) error {
	from, more := s.Whole[:3], true
	for more {
		to := s.Whole[3:]
		err := w.Do(Op{Slow: true, Run: func(ctx context.Context, _ *Plan) error {
			more = false
			err := w.cfg.Database.Query(ctx, end, func(r rows.Row) error {
				more, to = true, []any{r.Text(0), r.Text(1), r.Text(2)}
				return nil
			}, append(slices.Clone(from), partSize-1)...)
			if err != nil {
				return err
			}
			return remove(ctx, slices.Concat(from, to))
		}})
		if err != nil {
			return err
		}
		from = to
	}
	return nil
}
