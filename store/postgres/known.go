package postgres

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// A known journal is what the owner remembers of calls that are on their way, so that a group of them need not be read
// before it is written: nobody else changes them, and the fence of the group says that this still holds.
type known map[call.Key]standing

// knownCalls bounds what is remembered; then it begins anew.
const knownCalls = 1 << 16

// learn takes what a group that is committed left behind.
func (k *known) learn(g *group) {
	for key, s := range g.calls {
		if s.Status == call.Suspended || s.Status.Terminal() { // may be so for weeks, or for ever
			delete(*k, key)
			continue
		}
		if s.row == nil {
			continue
		}
		if *k == nil || len(*k) >= knownCalls {
			*k = known{}
		}
		(*k)[key] = standing{Standing: s.Standing, position: s.position}
	}
}

// foresee returns a group that may be written without reading anything first, or nil. New ids are taken to be new: the
// server refuses the group when one is not. What depends on more than its call, or would be refused, has to be read.
func (w *writer) foresee(ops []*op) *group {
	g := w.newGroup()
	for _, o := range ops {
		if !o.plain() {
			return nil
		}
		key := o.change.Name()
		if g.calls[key] != nil {
			continue
		}
		s, ok := w.known[key]
		if !ok && !o.change.Create {
			return nil
		}
		g.calls[key] = &s
	}
	g.now, w.pending = w.s.clock.now(), w.position
	for _, o := range ops {
		if o.err = g.apply(o); o.err != nil {
			return nil
		}
	}
	return g
}

// plain reports whether a change depends on nothing but its call.
func (o *op) plain() bool {
	c := o.change
	return c.Decision == nil && len(c.Documents) == 0 && c.NotAfter.IsZero() && c.NotBefore.IsZero() &&
		!slices.ContainsFunc(c.Records, func(r store.Record) bool { return r.Kind == store.Chained })
}

const (
	// advanceFenced takes NULL, which the table refuses, from a daemon that lost the journal or on a server that is not safe.
	advanceFenced = `UPDATE meta SET clock = $1, position = $2, groups = $3::bigint, epoch = CASE WHEN epoch = $4 AND groups = $3::bigint - 1
		AND current_setting('fsync') <> 'off' AND current_setting('full_page_writes') <> 'off' AND current_setting('synchronous_commit') <> 'off' THEN epoch END
		RETURNING (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`
	// refuseTrimmed divides by zero when a tombstone has one of the ids.
	refuseTrimmed = `SELECT 1 / (CASE WHEN EXISTS (SELECT FROM unnest($1::bytea[], $2::bytea[]) AS k (namespace, call_id)
		JOIN tombstones t ON t.namespace = k.namespace AND t.call_id = k.call_id) THEN 0 ELSE 1 END)`
)

// writeForeseen writes a group in one round trip. refused says that the server would not have it, that nothing of it is
// there, and that the connection is in order.
func (w *writer) writeForeseen(ctx context.Context, g *group) (refused bool, err error) {
	if err := w.point("write"); err != nil {
		return false, said(err)
	}
	b := &pgx.Batch{} // a transaction without BEGIN and COMMIT, as it is sent in one piece
	w.advance(b, advanceFenced, g.now, w.s.Identity().Epoch)
	g.queueNew(b)
	g.queue(b)
	err = w.leave(ctx, b)
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || !slices.Contains([]string{"23505", "22012", "23502"}, pg.Code) { // an id is there, or was trimmed; the fence
		return false, err
	}
	return true, err
}

// queueNew has the server refuse the group when a call that it creates was trimmed.
func (g *group) queueNew(b *pgx.Batch) {
	var namespaces, ids column
	for _, r := range g.rows {
		if r.created != nil {
			namespaces, ids = append(namespaces, r.call.Namespace), append(ids, r.call.ID)
		}
	}
	if len(ids) > 0 {
		b.Queue(refuseTrimmed, namespaces, ids)
	}
}
