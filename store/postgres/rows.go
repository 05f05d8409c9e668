package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// ordered keeps the newest value of each key, in the order in which the keys came: one statement must not change a row
// twice.
type ordered[K comparable, V any] struct {
	keys   []K
	values map[K]V
}

func (o *ordered[K, V]) put(k K, v V) {
	if o.values == nil {
		o.values = map[K]V{}
	}
	if _, ok := o.values[k]; !ok {
		o.keys = append(o.keys, k)
	}
	o.values[k] = v
}

// queue queues what the group writes.
func (g *group) queue(b *pgx.Batch) {
	g.queueCalls(b)
	g.queueStatuses(b)
	g.queueChunks(b)
	g.queueSuspensions(b)
	g.queueAnswers(b)
	g.queueWritten(b)
	g.queueRecords(b)
	for _, s := range g.single {
		b.Queue(s.text, bind(s.args)...)
	}
}

const (
	insertCalls = `INSERT INTO calls (position, namespace, call_id, status, revision, last_sequence, created, updated, ended, epoch,
		tool, caller, run_id, thread_id, parent_call, batch_id, crc, record, events_last, events_crc, events)
		SELECT position, namespace, call_id, status, revision, last_sequence, created, $19, ended, $20,
		tool, caller, run_id, thread_id, parent_call, batch_id, crc, record, events_last, events_crc, events
		FROM unnest($1::bigint[], $2::bytea[], $3::bytea[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
		$9::bytea[], $10::bytea[], $11::bytea[], $12::bytea[], $13::bytea[], $14::bytea[], $15::bigint[], $16::bytea[], $17::bigint[], $18::bigint[], $21::bytea[])
		AS u (position, namespace, call_id, status, revision, last_sequence, created, ended,
		tool, caller, run_id, thread_id, parent_call, batch_id, crc, record, events_last, events_crc, events)`
	updateCalls = `UPDATE calls SET status = u.status, revision = u.revision, last_sequence = u.last_sequence, updated = $8, ended = u.ended, crc = u.crc, record = u.record
		FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bytea[])
		AS u (position, status, revision, last_sequence, ended, crc, record) WHERE calls.position = u.position`
	touchCalls = `UPDATE calls SET last_sequence = u.last_sequence, updated = $3
		FROM unnest($1::bigint[], $2::bigint[]) AS u (position, last_sequence) WHERE calls.position = u.position`
)

func (g *group) queueCalls(b *pgx.Batch) {
	created, changed, touched := &g.w.created, &g.w.changed, &g.w.touched
	for _, c := range []*callColumns{created, changed, touched} {
		c.clear()
	}
	for _, r := range g.rows {
		switch {
		case r.created != nil:
			created.add(r, g.now)
			created.addNew(r)
		case r.call != nil:
			changed.add(r, g.now)
		default:
			touched.positions, touched.sequences = append(touched.positions, r.position), append(touched.sequences, r.sequence)
		}
	}
	now := g.now.UnixNano()
	if c := created; len(c.positions) > 0 {
		b.Queue(insertCalls, c.positions, c.namespaces, c.ids, c.statuses, c.revisions, c.sequences, c.createds, c.endeds, c.tools, c.callers,
			c.runs, c.threads, c.parents, c.batches, c.crcs, c.records, c.lasts, c.eventCRCs, now, g.w.s.Identity().Epoch, c.events)
	}
	if c := changed; len(c.positions) > 0 {
		b.Queue(updateCalls, c.positions, c.statuses, c.revisions, c.sequences, c.endeds, c.crcs, c.records, now)
	}
	if c := touched; len(c.positions) > 0 {
		b.Queue(touchCalls, c.positions, c.sequences, now)
	}
}

// callColumns are rows of calls, turned on their side.
type callColumns struct {
	positions, revisions, sequences, crcs []int64
	statuses                              column
	endeds                                []*int64
	records                               [][]byte

	// of new calls
	namespaces, ids, tools, callers column
	runs, threads, parents, batches nullable
	events                          [][]byte
	createds                        []int64
	lasts, eventCRCs                []*int64
}

// clear keeps the memory for the next group: what a group is sent with is read when it is sent.
func (c *callColumns) clear() {
	for _, column := range []*[]int64{&c.positions, &c.revisions, &c.sequences, &c.crcs, &c.createds} {
		*column = (*column)[:0]
	}
	for _, column := range []*[]*int64{&c.endeds, &c.lasts, &c.eventCRCs} {
		clear(*column) // what they point to is part of a row, and that has its call
		*column = (*column)[:0]
	}
	for _, of := range []*column{&c.statuses, &c.namespaces, &c.ids, &c.tools, &c.callers} {
		clear(*of)
		*of = (*of)[:0]
	}
	for _, of := range []*nullable{&c.runs, &c.threads, &c.parents, &c.batches} {
		clear(*of)
		*of = (*of)[:0]
	}
	for _, of := range []*[][]byte{&c.records, &c.events} {
		clear(*of)
		*of = (*of)[:0]
	}
}

func (c *callColumns) add(r *row, now time.Time) {
	c.positions = append(c.positions, r.position)
	c.statuses = append(c.statuses, string(r.call.Status))
	c.revisions = append(c.revisions, r.call.Revision)
	c.sequences = append(c.sequences, r.sequence)
	c.endeds = append(c.endeds, optional(nanos(endOf(r.call, now))))
	c.crcs = append(c.crcs, int64(sumCall(r.call, r.record)))
	c.records = append(c.records, r.record)
}

func (c *callColumns) addNew(r *row) {
	of := r.call
	c.namespaces, c.ids = append(c.namespaces, of.Namespace), append(c.ids, of.ID)
	c.createds = append(c.createds, nanos(of.Created))
	c.tools, c.callers = append(c.tools, of.Tool), append(c.callers, of.Caller.Subject)
	c.runs, c.threads = append(c.runs, of.Run.ID), append(c.threads, of.Run.Thread)
	c.parents, c.batches = append(c.parents, of.Run.ParentCall), append(c.batches, of.BatchID)
	var last, crc *int64
	if r.last > 0 {
		sum := int64(sumEvents(r.first, r.position, 1, r.last))
		last, crc = &r.last, &sum
	}
	c.lasts, c.eventCRCs, c.events = append(c.lasts, last), append(c.eventCRCs, crc), append(c.events, r.first)
}

const (
	insertStatuses = "INSERT INTO statuses (status, namespace, position, thread_id) SELECT * FROM unnest($1::text[], $2::bytea[], $3::bigint[], $4::bytea[])"
	updateStatuses = `UPDATE statuses s SET status = u.status FROM unnest($1::text[], $2::bytea[], $3::bigint[], $4::text[]) AS u (was, namespace, position, status)
		WHERE s.status = u.was AND s.namespace = u.namespace AND s.position = u.position`
	deleteStatuses = `DELETE FROM statuses s USING unnest($1::text[], $2::bytea[], $3::bigint[]) AS u (was, namespace, position)
		WHERE s.status = u.was AND s.namespace = u.namespace AND s.position = u.position`
	insertEnded = "INSERT INTO ended (ended, position) SELECT * FROM unnest($1::bigint[], $2::bigint[])"
)

// queueStatuses queues what is to be found by the status of calls, and by their end.
func (g *group) queueStatuses(b *pgx.Batch) {
	var begun, moved, gone statusColumns
	var ends, ended []int64
	for _, r := range g.rows {
		switch {
		case r.call == nil || r.call.Status == r.was:
			continue
		case r.created == nil && r.call.Status == call.Succeeded:
			gone.add(r)
		case r.created == nil:
			moved.add(r)
		case r.call.Status != call.Succeeded:
			begun.add(r)
		}
		if at := endOf(r.call, g.now); !at.IsZero() {
			ends, ended = append(ends, nanos(at)), append(ended, r.position)
		}
	}
	if c := &begun; len(c.positions) > 0 {
		b.Queue(insertStatuses, c.statuses, c.namespaces, c.positions, c.threads)
	}
	if c := &moved; len(c.positions) > 0 {
		b.Queue(updateStatuses, c.were, c.namespaces, c.positions, c.statuses)
	}
	if c := &gone; len(c.positions) > 0 {
		b.Queue(deleteStatuses, c.were, c.namespaces, c.positions)
	}
	if len(ended) > 0 {
		b.Queue(insertEnded, ends, ended)
	}
}

// statusColumns are rows of statuses, turned on their side.
type statusColumns struct {
	were, statuses, namespaces column
	positions                  []int64
	threads                    nullable
}

func (c *statusColumns) add(r *row) {
	c.were, c.statuses, c.positions = append(c.were, string(r.was)), append(c.statuses, string(r.call.Status)), append(c.positions, r.position)
	c.namespaces, c.threads = append(c.namespaces, r.call.Namespace), append(c.threads, r.call.Run.Thread)
}

// endOf is when a call ended; zero while it has not.
func endOf(c *call.Call, now time.Time) time.Time {
	switch {
	case !c.Status.Terminal():
		return time.Time{}
	case c.Ended.IsZero():
		return now
	}
	return c.Ended
}

const insertEvents = `INSERT INTO events (position, call, epoch, first, last, crc, events)
	SELECT position, call, $7, first, last, crc, events
	FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bytea[]) AS u (position, call, first, last, crc, events)`

func (g *group) queueChunks(b *pgx.Batch) {
	if len(g.chunks) == 0 {
		return
	}
	var positions, calls, firsts, lasts, crcs []int64
	var events [][]byte
	for i := range g.chunks {
		c := &g.chunks[i]
		positions, calls, firsts, lasts = append(positions, c.position), append(calls, c.call), append(firsts, c.first), append(lasts, c.last)
		crcs, events = append(crcs, int64(sumEvents(c.events, c.call, c.first, c.last))), append(events, c.events)
	}
	b.Queue(insertEvents, positions, calls, firsts, lasts, crcs, events, g.w.s.Identity().Epoch)
}

const insertRecords = `INSERT INTO records (position, namespace, kind, key, call_id, created, crc, bytes)
	SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bigint[], $7::bigint[], $8::bytea[])`

// A record is what a plugin keeps, with its place.
type record struct {
	position int64
	of       call.Key // its id is empty when it belongs to no call
	store.Record
	time time.Time
}

func (r *record) sum() int64 {
	return int64(sum(r.Bytes, r.of.Namespace, r.Kind, r.Key, r.of.ID))
}

const selectLastLink = "SELECT bytes FROM records WHERE namespace = $1 AND kind = $2 ORDER BY position DESC LIMIT 1"

// link ties the chained ones among records to those before them.
func (w *writer) link(ctx context.Context, records []record) error {
	before := map[string][]byte{} // by namespace
	for i := range records {
		r := &records[i]
		if r.Kind != store.Chained {
			continue
		}
		last, known := before[r.of.Namespace]
		if !known {
			// Planned anew: by the numbers of an empty table any index will do.
			err := w.conn.QueryRow(ctx, selectLastLink, pgx.QueryExecModeExec, []byte(r.of.Namespace), []byte(r.Kind)).Scan(&last)
			if err != nil && !errors.Is(err, pgx.ErrNoRows) {
				return said(err)
			}
		}
		r.Bytes = store.Linked(last, r.of.Namespace, r.of.ID, r.time, &r.Record)
		before[r.of.Namespace] = r.Bytes
	}
	return nil
}

func (g *group) queueRecords(b *pgx.Batch) {
	if len(g.records) == 0 {
		return
	}
	var positions, createds, crcs []int64
	var namespaces, kinds, keys, calls column
	var bytes [][]byte
	for i := range g.records {
		r := &g.records[i]
		positions, createds, crcs = append(positions, r.position), append(createds, r.time.UnixNano()), append(crcs, r.sum())
		namespaces, kinds, keys = append(namespaces, r.of.Namespace), append(kinds, r.Kind), append(keys, r.Key)
		calls, bytes = append(calls, r.of.ID), append(bytes, append([]byte{}, r.Bytes...))
	}
	b.Queue(insertRecords, positions, namespaces, kinds, keys, calls, createds, crcs, bytes)
}
