package memory

import (
	"maps"
	"slices"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/group"
)

// A row is a stored call: its encoded forms and the fields that queries select by. A row is immutable. A change makes a new row, which
// shares the unchanged encoded forms with the old row.
type row struct {
	store.CallState
	key      call.Key
	position int64 // position of the call's creation in the feed
	record   []byte
	digest   string
	chunks   []chunk

	run, thread, parent, batch, tool, caller string

	created            time.Time
	ended, updated     call.Stamp
	suspension, action string // id and action of the open suspension
	expires            call.Stamp
}

// A chunk holds the events of one change.
type chunk struct {
	position    int64
	first, last int64
	events      []byte
}

type (
	name struct{ namespace, id string }
	doc  struct {
		namespace string
		store.DocumentKey
	}
	document struct {
		store.DocumentState
		changed call.Stamp
	}
	tombstone struct {
		digest  string
		trimmed call.Stamp
	}
	feedEntry struct {
		position int64
		key      call.Key
	}
)

type state struct {
	id          string
	epoch       int64
	position    int64
	calls       map[call.Key]*row
	open        map[call.Key]*row // calls that have not ended
	order       []call.Key        // keys in the order of position
	feed        []feedEntry
	suspensions map[name]call.Key
	decisions   map[name]store.Decision
	documents   map[doc]document
	policies    map[policyKey]policy
	runs        map[name]store.Run
	batches     map[call.Key]batch
	tombstones  map[call.Key]tombstone
	records     map[string][]store.StoredRecord // by namespace
	recorded    int64                           // position of the newest record
	actions     map[name]store.Action
	acted       int64 // position of the newest action
}

func newState(id string) *state {
	return &state{id: id, calls: map[call.Key]*row{}, open: map[call.Key]*row{}, suspensions: map[name]call.Key{}, decisions: map[name]store.Decision{},
		documents: map[doc]document{}, policies: map[policyKey]policy{}, runs: map[name]store.Run{}, batches: map[call.Key]batch{}, tombstones: map[call.Key]tombstone{},
		records: map[string][]store.StoredRecord{}, actions: map[name]store.Action{}}
}

func (st *state) clone() *state {
	c := *st
	c.calls, c.open, c.order, c.feed = maps.Clone(st.calls), maps.Clone(st.open), slices.Clone(st.order), slices.Clone(st.feed)
	c.suspensions, c.decisions, c.documents = maps.Clone(st.suspensions), maps.Clone(st.decisions), maps.Clone(st.documents)
	c.policies, c.actions = maps.Clone(st.policies), maps.Clone(st.actions)
	c.runs, c.tombstones, c.batches = maps.Clone(st.runs), maps.Clone(st.tombstones), maps.Clone(st.batches)
	c.records = make(map[string][]store.StoredRecord, len(st.records))
	for k, v := range st.records {
		c.records[k] = slices.Clone(v)
	}
	return &c
}

// An effect is the result of a change. It is computed once and applied to both states, live and durable.
type effect struct {
	position  int64
	row       *row // the new row
	created   bool
	fed       bool
	decision  *store.Decision
	documents map[doc]document
	run       *store.Run
	batch     *batch
	records   []store.StoredRecord
	policies  []policy
	done      name           // the action that was carried out
	actions   []store.Action // new actions, and actions whose due time changed
	namespace string

	purged    bool // row is the call after its purge
	shred     func(*state)
	trimmed   map[call.Key]tombstone
	forgotten []call.Key
	dropped   []doc
	ended     []name // runs to remove, because they have no calls
	before    call.Stamp
	emptied   map[call.Key]batch // tombstones of the batches to trim

	deadBefore call.Stamp // dead actions stored before this time are removed
}

func (st *state) install(e *effect) {
	st.position = max(st.position, e.position)
	if r := e.row; r != nil {
		st.calls[r.key] = r
		if st.open[r.key] = r; r.Status.Terminal() {
			delete(st.open, r.key)
		}
		if e.created {
			st.order = append(st.order, r.key)
		}
		if e.fed {
			st.feed = append(st.feed, feedEntry{e.position, r.key})
		}
		if r.suspension != "" {
			st.suspensions[name{r.key.Namespace, r.suspension}] = r.key
		}
	}
	if d := e.decision; d != nil {
		st.decisions[name{d.Namespace, d.ID}] = *d
	}
	maps.Copy(st.documents, e.documents)
	st.putPolicies(e.policies)
	if r := e.run; r != nil {
		n := name{r.Namespace, r.ID}
		if r.State != call.RunOpen || st.runs[n].State != call.RunBlocked {
			st.runs[n] = *r
		}
	}
	if b := e.batch; b != nil {
		st.batches[b.key] = *b
	}
	if len(e.records) > 0 {
		st.records[e.namespace] = append(st.records[e.namespace], e.records...)
		st.recorded = e.records[len(e.records)-1].Position
	}
	delete(st.actions, e.done)
	for _, a := range e.actions {
		st.actions[name{a.Namespace, a.ID}] = a
		st.acted = max(st.acted, a.Position)
	}
	if e.purged {
		st.purge(e.row)
	}
	if e.shred != nil {
		e.shred(st)
	}
	st.sweep(e)
}

// sweep removes the data that an effect names.
func (st *state) sweep(e *effect) {
	for key, t := range e.trimmed {
		delete(st.calls, key)
		st.tombstones[key] = t
	}
	for _, key := range e.forgotten {
		delete(st.tombstones, key)
	}
	for _, d := range e.dropped {
		delete(st.documents, d)
	}
	for _, n := range e.ended {
		delete(st.runs, n)
	}
	maps.DeleteFunc(st.actions, func(_ name, a store.Action) bool {
		return a.State == store.ActionDead && a.Created < e.deadBefore
	})
	st.sweepBatches(e)
	if e.before != 0 {
		for ns, records := range st.records {
			old := func(r store.StoredRecord) bool { return r.Time < e.before }
			newest := map[string]int64{} // For each chained kind, the position of the newest old record. That record must stay, because a later record is linked to it.
			for _, r := range records {
				if r.Chained && old(r) {
					newest[r.Kind] = r.Position
				}
			}
			st.records[ns] = slices.DeleteFunc(slices.Clone(records), func(r store.StoredRecord) bool {
				return old(r) && !(r.Chained && r.Position == newest[r.Kind])
			})
		}
	}
	if len(e.trimmed) == 0 {
		return
	}
	trimmed := func(key call.Key) bool { _, ok := e.trimmed[key]; return ok }
	st.order = slices.DeleteFunc(st.order, trimmed)
	st.feed = slices.DeleteFunc(st.feed, func(f feedEntry) bool { return trimmed(f.key) })
	maps.DeleteFunc(st.suspensions, func(_ name, key call.Key) bool { return trimmed(key) })
}

func newRow(old *row, c *call.Call, record []byte, position int64, now call.Stamp) *row {
	r := &row{key: c.Key(), record: record, digest: c.RequestDigest, position: position, updated: now,
		CallState: store.CallState{Status: c.Status, Revision: c.Revision, LastSequence: c.LastSequence},
		run:       c.Run.ID, thread: c.Run.Thread, parent: c.Run.ParentCall, batch: c.BatchID, tool: c.Tool, caller: c.Caller.Subject,
		created: c.Created, ended: group.EndOf(c, now)}
	if old != nil {
		r.position, r.chunks = old.position, old.chunks
	}
	if open := c.Open(); open != nil {
		r.suspension, r.action, r.expires = open.ID, open.Action, open.ExpiresAt
	}
	return r
}

func (r *row) call() (*call.Call, error) {
	c, err := call.DecodeCall(r.record)
	if err != nil {
		return nil, err
	}
	c.LastSequence = max(c.LastSequence, r.LastSequence)
	return c, nil
}
