package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store/group"
	"github.com/toold-dev/toold/store/rows"
)

func (w *writer) queue(b *pgx.Batch, p *group.Plan) {
	w.queueCalls(b, p)
	queueStatuses(b, p)
	w.queueChunks(b, p)
	queueSuspensions(b, p)
	queueAnswers(b, p)
	queueChanged(b, p)
	queueRecords(b, p)
	for i := range p.Runs {
		r := &p.Runs[i]
		b.Queue(upsertRun, bind([]any{r.Namespace, r.ID, r.Owner, word(r.State), r.Reason, r.CallID, int64(r.Changed)})...)
	}
	for i := range p.Policies {
		queuePolicy(b, &p.Policies[i], p.Now)
	}
	queueActions(b, p)
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

func (w *writer) queueCalls(b *pgx.Batch, p *group.Plan) {
	created, changed, touched := &w.created, &w.changed, &w.touched
	for _, c := range []*callColumns{created, changed, touched} {
		c.clear()
	}
	for _, r := range p.Rows {
		switch {
		case r.Created != nil:
			created.add(r, p.Now)
			created.addNew(r)
		case r.Call != nil:
			changed.add(r, p.Now)
		default:
			touched.positions, touched.sequences = append(touched.positions, r.Position), append(touched.sequences, r.Sequence)
		}
	}
	now := int64(p.Now)
	if c := created; len(c.positions) > 0 {
		b.Queue(insertCalls, c.positions, c.namespaces, c.ids, c.statuses, c.revisions, c.sequences, c.createds, c.endeds, c.tools, c.callers,
			c.runs, c.threads, c.parents, c.batches, c.crcs, c.records, c.lasts, c.eventCRCs, now, w.s.Identity().Epoch, c.events)
	}
	if c := changed; len(c.positions) > 0 {
		b.Queue(updateCalls, c.positions, c.statuses, c.revisions, c.sequences, c.endeds, c.crcs, c.records, now)
	}
	if c := touched; len(c.positions) > 0 {
		b.Queue(touchCalls, c.positions, c.sequences, now)
	}
}

// callColumns holds the rows of calls as one array for each column.
type callColumns struct {
	positions, revisions, sequences, crcs []int64
	statuses                              column
	endeds                                []*int64
	records                               [][]byte

	// only for new calls
	namespaces, ids, tools, callers column
	runs, threads, parents, batches nullable
	events                          [][]byte
	createds                        []int64
	lasts, eventCRCs                []*int64
}

// clear empties the arrays and keeps their memory for the next group. It may do so because the arrays of the last group have been sent.
func (c *callColumns) clear() {
	for _, column := range []*[]int64{&c.positions, &c.revisions, &c.sequences, &c.crcs, &c.createds} {
		*column = (*column)[:0]
	}
	for _, column := range []*[]*int64{&c.endeds, &c.lasts, &c.eventCRCs} {
		clear(*column) // Clear the pointers. Otherwise they would keep rows and their calls in memory.
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

func (c *callColumns) add(r *group.Row, now call.Stamp) {
	c.positions = append(c.positions, r.Position)
	c.statuses = append(c.statuses, string(r.Call.Status))
	c.revisions = append(c.revisions, r.Call.Revision)
	c.sequences = append(c.sequences, r.Sequence)
	c.endeds = append(c.endeds, optional(int64(group.EndOf(r.Call, now))))
	c.crcs = append(c.crcs, sumCall(r.Call, r.Record))
	c.records = append(c.records, r.Record)
}

func (c *callColumns) addNew(r *group.Row) {
	of := r.Call
	c.namespaces, c.ids = append(c.namespaces, of.Namespace), append(c.ids, of.ID)
	c.createds = append(c.createds, rows.Nanos(of.Created))
	c.tools, c.callers = append(c.tools, of.Tool), append(c.callers, of.Caller.Subject)
	c.runs, c.threads = append(c.runs, of.Run.ID), append(c.threads, of.Run.Thread)
	c.parents, c.batches = append(c.parents, of.Run.ParentCall), append(c.batches, of.BatchID)
	var last, crc *int64
	var events []byte
	if r.Last > 0 {
		events = r.Created.Events
		sum := int64(rows.SumEvents(events, r.Position, 1, r.Last))
		last, crc = &r.Last, &sum
	}
	c.lasts, c.eventCRCs, c.events = append(c.lasts, last), append(c.eventCRCs, crc), append(c.events, events)
}

const (
	insertStatuses = "INSERT INTO statuses (status, namespace, position, thread_id) SELECT * FROM unnest($1::text[], $2::bytea[], $3::bigint[], $4::bytea[])"
	updateStatuses = `UPDATE statuses s SET status = u.status FROM unnest($1::text[], $2::bytea[], $3::bigint[], $4::text[]) AS u (was, namespace, position, status)
		WHERE s.status = u.was AND s.namespace = u.namespace AND s.position = u.position`
	deleteStatuses = `DELETE FROM statuses s USING unnest($1::text[], $2::bytea[], $3::bigint[]) AS u (was, namespace, position)
		WHERE s.status = u.was AND s.namespace = u.namespace AND s.position = u.position`
	insertEnded = "INSERT INTO ended (ended, position) SELECT * FROM unnest($1::bigint[], $2::bigint[])"
)

// queueStatuses queues the writes to the tables statuses and ended. These tables are used to find calls by status and by end.
func queueStatuses(b *pgx.Batch, p *group.Plan) {
	var begun, moved, trimmed statusColumns
	var ends, ended []int64
	for _, r := range p.Rows {
		switch {
		case r.Call == nil || r.Call.Status == r.Was:
			continue
		case r.Created == nil && r.Call.Status == call.Succeeded:
			trimmed.add(r)
		case r.Created == nil:
			moved.add(r)
		case r.Call.Status != call.Succeeded:
			begun.add(r)
		}
		if at := group.EndOf(r.Call, p.Now); at != 0 {
			ends, ended = append(ends, int64(at)), append(ended, r.Position)
		}
	}
	if c := &begun; len(c.positions) > 0 {
		b.Queue(insertStatuses, c.statuses, c.namespaces, c.positions, c.threads)
	}
	if c := &moved; len(c.positions) > 0 {
		b.Queue(updateStatuses, c.were, c.namespaces, c.positions, c.statuses)
	}
	if c := &trimmed; len(c.positions) > 0 {
		b.Queue(deleteStatuses, c.were, c.namespaces, c.positions)
	}
	if len(ended) > 0 {
		b.Queue(insertEnded, ends, ended)
	}
}

// statusColumns holds the rows of the table statuses as one array for each column.
type statusColumns struct {
	were, statuses, namespaces column
	positions                  []int64
	threads                    nullable
}

func (c *statusColumns) add(r *group.Row) {
	c.were, c.statuses, c.positions = append(c.were, string(r.Was)), append(c.statuses, string(r.Call.Status)), append(c.positions, r.Position)
	c.namespaces, c.threads = append(c.namespaces, r.Call.Namespace), append(c.threads, r.Call.Run.Thread)
}

const insertEvents = `INSERT INTO events (position, call, epoch, first, last, crc, events)
	SELECT position, call, $7, first, last, crc, events
	FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bytea[]) AS u (position, call, first, last, crc, events)`

func (w *writer) queueChunks(b *pgx.Batch, p *group.Plan) {
	if len(p.Chunks) == 0 {
		return
	}
	var positions, calls, firsts, lasts, crcs []int64
	var events [][]byte
	for i := range p.Chunks {
		c := &p.Chunks[i]
		positions, calls, firsts, lasts = append(positions, c.Position), append(calls, c.Call), append(firsts, c.First), append(lasts, c.Last)
		crcs, events = append(crcs, int64(rows.SumEvents(c.Events, c.Call, c.First, c.Last))), append(events, c.Events)
	}
	b.Queue(insertEvents, positions, calls, firsts, lasts, crcs, events, w.s.Identity().Epoch)
}

const insertRecords = `INSERT INTO records (position, namespace, kind, key, call_id, created, crc, bytes, chained)
	SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bigint[], $7::bigint[], $8::bytea[], $9::boolean[])`

const selectLastLink = "SELECT bytes FROM records WHERE namespace = $1 AND kind = $2 ORDER BY position DESC LIMIT 1"

// link chains the chained records of a plan to the newest stored record of their kind.
func (w *writer) link(ctx context.Context, p *group.Plan) error {
	return p.Link(func(namespace, kind string) (last []byte, err error) {
		// The statement is planned each time, because a plan that was made while the table was empty could use the wrong index.
		err = w.conn.QueryRow(ctx, selectLastLink, pgx.QueryExecModeExec, []byte(namespace), []byte(kind)).Scan(&last)
		if errors.Is(err, pgx.ErrNoRows) {
			err = nil
		}
		return last, wrapError(err)
	})
}

func queueRecords(b *pgx.Batch, p *group.Plan) {
	if len(p.Records) == 0 {
		return
	}
	var positions, createds, crcs []int64
	var namespaces, kinds, keys, calls column
	var bytes [][]byte
	var chained []bool
	for i := range p.Records {
		r := &p.Records[i]
		positions, createds = append(positions, r.Position), append(createds, int64(r.Time))
		crcs = append(crcs, int64(rows.Sum(r.Bytes, r.Of.Namespace, r.Kind, r.Key, r.Of.ID)))
		namespaces, kinds, keys = append(namespaces, r.Of.Namespace), append(kinds, r.Kind), append(keys, r.Key)
		calls, bytes, chained = append(calls, r.Of.ID), append(bytes, append([]byte{}, r.Bytes...)), append(chained, r.Chained)
	}
	b.Queue(insertRecords, positions, namespaces, kinds, keys, calls, createds, crcs, bytes, chained)
}
