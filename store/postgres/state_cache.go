package postgres

import (
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/group"
)

// A stateCache holds the state of active calls in the memory of the owner. A group that changes only cached calls can be written without
// reading first. This is safe: no other process changes these calls, and the group checks the epoch when it commits.
type stateCache map[call.Key]group.State

// cachedCalls bounds the number of remembered calls. At the bound, the owner forgets all of them.
const cachedCalls = 1 << 16

// update stores in the cache the states that a committed group has left.
func (c *stateCache) update(p *group.Plan) {
	p.Visit(func(key call.Key, s group.State, changed bool) {
		switch {
		case s.Status == call.Suspended || s.Status.Terminal(): // Do not cache this call: it may stay in this state for weeks or forever.
			delete(*c, key)
		case changed:
			if *c == nil || len(*c) >= cachedCalls {
				*c = stateCache{}
			}
			(*c)[key] = s
		}
	})
}

// covers fills the call states of a plan from the cache, and reports whether the plan can be written without reading first. It assumes
// that unknown ids are new. If one of them exists, the server refuses the group. A change that depends on more than its call cannot be
// written without reading.
func (c stateCache) covers(p *group.Plan) bool {
	first := 0
	for _, o := range p.Ops {
		if !plain(o) {
			return false
		}
		key := o.Change.Name()
		if first == len(p.AskCalls) || p.AskCalls[first] != key {
			continue // The id was handled with an earlier op of the group.
		}
		first++
		s, ok := c[key]
		if !ok && !o.Change.Create {
			return false
		}
		*p.Calls[key] = s
	}
	return true
}

// plain reports whether an op is a change that depends only on its call.
func plain(o *group.Op) bool {
	c := o.Change
	return c != nil && c.Decision == nil && len(c.Documents) == 0 && c.NotAfter == 0 && c.NotBefore == 0 &&
		!slices.ContainsFunc(c.Records, func(r store.Record) bool { return r.Chained })
}

// refuseTrimmed fails with a division by zero when one of the ids has a tombstone.
const refuseTrimmed = `SELECT 1 / (CASE WHEN EXISTS (SELECT FROM unnest($1::bytea[], $2::bytea[]) AS k (namespace, call_id)
	JOIN tombstones t ON t.namespace = k.namespace AND t.call_id = k.call_id) THEN 0 ELSE 1 END)`

// queueNew adds a statement that makes the group fail if one of its new calls was trimmed.
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
