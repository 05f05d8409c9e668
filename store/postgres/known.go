package postgres

import (
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/group"
)

// A known journal is what the owner remembers of calls that are on their way, so that a group of them need not be read
// before it is written: nobody else changes them, and the fence of the group says that this still holds.
type known map[call.Key]group.State

// knownCalls bounds what is remembered; then it begins anew.
const knownCalls = 1 << 16

// learn takes what a group that is committed left behind.
func (k *known) learn(p *group.Plan) {
	p.Visit(func(key call.Key, s group.State, changed bool) {
		switch {
		case s.Status == call.Suspended || s.Status.Terminal(): // may be so for weeks, or for ever
			delete(*k, key)
		case changed:
			if *k == nil || len(*k) >= knownCalls {
				*k = known{}
			}
			(*k)[key] = s
		}
	})
}

// foresees fills a plan that may be written without reading anything first. New ids are taken to be new: the server refuses
// the group when one is not. What depends on more than its call has to be read.
func (k known) foresees(p *group.Plan) bool {
	first := 0
	for _, o := range p.Ops {
		if !plain(o) {
			return false
		}
		key := o.Change.Name()
		if first == len(p.AskCalls) || p.AskCalls[first] != key {
			continue // an op before it is of the same call
		}
		first++
		s, ok := k[key]
		if !ok && !o.Change.Create {
			return false
		}
		*p.Calls[key] = s
	}
	return true
}

// plain reports whether an op is a change that depends on nothing but its call.
func plain(o *group.Op) bool {
	c := o.Change
	return c != nil && c.Decision == nil && len(c.Documents) == 0 && c.NotAfter.IsZero() && c.NotBefore.IsZero() &&
		!slices.ContainsFunc(c.Records, func(r store.Record) bool { return r.Kind == store.Chained })
}

// refuseTrimmed divides by zero when a tombstone has one of the ids.
const refuseTrimmed = `SELECT 1 / (CASE WHEN EXISTS (SELECT FROM unnest($1::bytea[], $2::bytea[]) AS k (namespace, call_id)
	JOIN tombstones t ON t.namespace = k.namespace AND t.call_id = k.call_id) THEN 0 ELSE 1 END)`

// queueNew has the server refuse the group when a call that it creates was trimmed.
func queueNew(b *pgx.Batch, p *group.Plan) {
	var namespaces, ids column
	for _, r := range p.Rows {
		if r.Created != nil {
			namespaces, ids = append(namespaces, r.Call.Namespace), append(ids, r.Call.ID)
		}
	}
	if len(ids) > 0 {
		b.Queue(refuseTrimmed, namespaces, ids)
	}
}
