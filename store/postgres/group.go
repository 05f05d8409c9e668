package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// name is an id in its namespace.
type name struct{ namespace, id string }

// A standing is what a group knows of a call: as it was found, then as the group's own changes leave it.
type standing struct {
	store.Standing
	position int64 // 0: there is none
	trimmed  bool
	row      *row // what the group writes of it
}

// A group is changes on their way into one transaction.
type group struct {
	w         *writer
	now       time.Time
	calls     map[call.Key]*standing
	decisions map[name]bool
	documents map[doc]store.DocumentState
	rooms     map[scope]store.DocumentRoom // of those with limits

	rows        []*row // calls that change, in the order of their first change
	chunks      []chunk
	suspensions ordered[name, suspension]
	answers     []answer
	written     ordered[doc, store.DocumentState]
	records     []record
	single      []statement // what is rare, each on its own and in order
}

// A row is what a group writes of one call.
type row struct {
	position int64
	was      call.Status   // before the group
	created  *store.Change // nil when the call was there before
	first    []byte        // stored form of the events that it was created with
	last     int64         // of those
	call     *call.Call    // nil when only events came
	record   []byte
	sequence int64
}

type statement struct {
	text string
	args []any
}

func (w *writer) newGroup() *group {
	return &group{w: w, calls: map[call.Key]*standing{}, decisions: map[name]bool{}, documents: map[doc]store.DocumentState{}, rooms: map[scope]store.DocumentRoom{}}
}

// applyGroup writes the changes of a group that may be made: as they are when that is known to be all, else it reads what
// they require and decides.
func (w *writer) applyGroup(ctx context.Context, ops []*op) error {
	if err := w.point("begin"); err != nil {
		return said(err)
	}
	if g := w.foresee(ops); g != nil {
		if refused, err := w.writeForeseen(ctx, g); !refused {
			if err == nil {
				w.known.learn(g)
			}
			return err
		}
	}
	w.pending = w.position
	g := w.newGroup()
	if err := g.read(ctx, ops); err != nil {
		return err
	}
	g.now = w.s.clock.now()
	for _, o := range ops {
		o.err = g.apply(o)
	}
	if err := w.point("write"); err != nil {
		return said(err)
	}
	if err := g.w.link(ctx, g.records); err != nil {
		return err
	}
	b := &pgx.Batch{}
	w.advance(b, advance, g.now)
	g.queue(b)
	b.Queue("COMMIT")
	err := w.leave(ctx, b)
	if err == nil {
		w.known.learn(g)
	}
	return err
}

const (
	// selectStanding says of the namespace what no index takes, so that the plan is the one index that begins with the id even
	// when it is made while the table is empty.
	selectStanding = `SELECT k.n, coalesce(c.position, 0), coalesce(c.status, ''), coalesce(c.revision, 0), coalesce(c.last_sequence, 0), t.trimmed IS NOT NULL
		FROM unnest($1::bytea[], $2::bytea[]) WITH ORDINALITY AS k (namespace, call_id, n)
		LEFT JOIN calls c ON c.namespace || '' = k.namespace AND c.call_id = k.call_id
		LEFT JOIN tombstones t ON t.namespace = k.namespace AND t.call_id = k.call_id`
	selectDecided = `SELECT k.n FROM unnest($1::bytea[], $2::bytea[]) WITH ORDINALITY AS k (namespace, id, n)
		JOIN decisions d ON d.namespace = k.namespace AND d.id = k.id`
)

// asked is what a group has to know before it decides.
type asked struct {
	keys      []call.Key
	decisions []name
	documents []doc
	rooms     []scope
}

func (g *group) asks(ops []*op) (a asked) {
	for _, o := range ops {
		key := o.change.Name()
		if g.calls[key] == nil {
			g.calls[key] = &standing{}
			a.keys = append(a.keys, key)
		}
		if d := o.change.Decision; d != nil {
			a.decisions = append(a.decisions, name{d.Namespace, d.ID})
		}
		g.asksDocuments(&a, o.change)
	}
	return a
}

// read begins the transaction and asks, in one round trip.
func (g *group) read(ctx context.Context, ops []*op) error {
	a := g.asks(ops)
	b := &pgx.Batch{}
	g.w.enter(b)
	g.queueStandings(b, a.keys)
	if len(a.decisions) > 0 {
		g.queueDecisions(b, a.decisions)
	}
	if len(a.documents) > 0 {
		g.queueDocuments(b, a.documents)
	}
	if len(a.rooms) > 0 {
		g.queueRooms(b, a.rooms)
	}
	results := g.w.conn.SendBatch(ctx, b)
	err := g.w.entered(results)
	if closed := results.Close(); err == nil { // which hands the rows to what was given with Query
		err = closed
	}
	if err != nil {
		return said(err)
	}
	return nil
}

func (g *group) queueStandings(b *pgx.Batch, keys []call.Key) {
	namespaces, ids := make(column, len(keys)), make(column, len(keys))
	for i, k := range keys {
		namespaces[i], ids[i] = k.Namespace, k.ID
	}
	b.Queue(selectStanding, namespaces, ids).Query(func(rows pgx.Rows) error {
		var n int64
		var s standing
		_, err := pgx.ForEachRow(rows, []any{&n, &s.position, (*string)(&s.Status), &s.Revision, &s.LastSequence, &s.trimmed}, func() error {
			*g.calls[keys[n-1]] = s
			return nil
		})
		return err
	})
}

func (g *group) queueDecisions(b *pgx.Batch, asked []name) {
	namespaces, ids := make(column, len(asked)), make(column, len(asked))
	for i, d := range asked {
		namespaces[i], ids[i] = d.namespace, d.id
	}
	b.Queue(selectDecided, namespaces, ids).Query(func(rows pgx.Rows) error {
		var n int64
		_, err := pgx.ForEachRow(rows, []any{&n}, func() error {
			g.decisions[asked[n-1]] = true
			return nil
		})
		return err
	})
}

// permit says whether a change may be made. Of several reasons against it the first counts: a replayed decision is told
// as one even when it comes too late.
func (g *group) permit(c *store.Change) (*standing, error) {
	if d := c.Decision; d != nil && g.decisions[name{d.Namespace, d.ID}] {
		return nil, store.ErrDecisionExists
	}
	s := g.calls[c.Name()]
	switch {
	case s.position == 0 && s.trimmed:
		return nil, store.ErrTrimmed
	case s.position != 0 && c.Create:
		return nil, store.ErrExists
	case s.position == 0 && !c.Create:
		return nil, store.ErrNotFound
	}
	if err := c.Follows(s.Standing); err != nil {
		return nil, err
	}
	if !c.NotAfter.IsZero() && !g.now.Before(c.NotAfter) {
		return nil, store.ErrExpired
	}
	if !c.NotBefore.IsZero() && g.now.Before(c.NotBefore) {
		return nil, store.ErrTooEarly
	}
	return s, nil
}

// apply looks at all that a change requires, then notes what it writes. What it refuses leaves nothing.
func (g *group) apply(o *op) error {
	c := o.change
	s, err := g.permit(c)
	if err != nil {
		return err
	}
	documents, err := g.resolve(o)
	if err != nil {
		return err
	}
	answered, err := g.answer(o)
	if err != nil {
		return err
	}
	at := g.w.next()
	was := s.Status
	g.step(s, o, at)
	if c.Call != nil && (was == call.Suspended || c.Call.Status == call.Suspended) {
		g.suspend(c.Call, s.position)
	}
	for k, d := range documents {
		g.write(doc{c.Name().Namespace, k}, d)
	}
	if answered != nil {
		g.answers = append(g.answers, *answered)
		g.decisions[name{c.Decision.Namespace, c.Decision.ID}] = true
	}
	if c.Run != nil {
		g.single = append(g.single, writeRun(c.Run))
	}
	for i := range c.Policies {
		g.single = append(g.single, writePolicy(&c.Policies[i], g.now))
	}
	for i := range c.Actions {
		stored, err := writeAction(g.w.next(), &c.Actions[i])
		if err != nil {
			return err
		}
		g.single = append(g.single, stored)
	}
	for _, r := range c.Records {
		g.records = append(g.records, record{g.w.next(), c.Name(), r, g.now})
	}
	return nil
}

// step moves a call on.
func (g *group) step(s *standing, o *op, at int64) {
	c := o.change
	if c.Create {
		s.position = at
	}
	if s.row == nil {
		s.row = &row{position: s.position, was: s.Status, sequence: s.LastSequence}
		g.rows = append(g.rows, s.row)
	}
	if c.Create {
		s.row.created, s.row.first = c, o.events
		if len(c.Events) > 0 {
			s.row.last = c.Call.LastSequence
		}
	}
	if c.Call != nil {
		s.row.call, s.row.record = c.Call, o.record
		s.Standing = store.Standing{Status: c.Call.Status, Revision: c.Call.Revision, LastSequence: c.Call.LastSequence}
	}
	if n := len(c.Events); n > 0 {
		s.LastSequence = c.Events[n-1].Sequence
		if !c.Create {
			g.chunks = append(g.chunks, chunk{position: at, call: s.position, first: c.Events[0].Sequence, last: s.LastSequence, events: o.events})
		}
	}
	s.row.sequence = s.LastSequence
}
