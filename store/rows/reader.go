package rows

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// ErrEnough ends a query without an error when the row function returns it.
var ErrEnough = errors.New("enough")

// A Database runs queries.
type Database interface {
	// Query invokes row with each row. It may execute the query again after a failure. Each time, it invokes reset before the first row.
	Query(ctx context.Context, text string, reset func(), row func(Row) error, args ...any) error
	Now() call.Stamp // the store's clock
}

// Queries has the SQL texts of a [Reader] that differ between the stores. Each comment lists the selected columns and, after the semicolon,
// the parameters.
type Queries struct {
	Due           string // CallColumns, ordered by expiry; time, namespace, limit, offset
	DueNamespaces string // namespace; time
	NextExpiry    string // time of the next expiry; no parameters
	Expiring      string // CallColumns and expiry, ordered by expiry and position; expiry and position after which to start, namespace, limit
	Waiting       string // action, number of open suspensions, position of the oldest call; no parameters
	RunCounts     string // status, number of calls; namespace, id
	Counts        string // status, number of calls; no parameters
	CountsOf      string // status, number of calls; namespace
	ActionsOf     string // action, number of open suspensions; namespace
	Records       string // position, key, call_id, created, crc, bytes; namespace, kind, position after which to start, limit
	RecordsBefore string // as Records, newest first; namespace, kind, position before which to start, limit
	OpenBatches   string // BatchColumns, ordered by namespace and id; namespace and id after which to start, limit
	DeadLetters   string // namespace, number of dead actions; no parameters
}

// The statements that both stores run. SQLite numbers the parameters $1, $2, … in the order in which the text first uses them.
const (
	SelectBatch        = "SELECT " + BatchColumns + " FROM batches WHERE namespace = $1 AND batch_id = $2"
	selectCallAt       = "SELECT " + CallColumns + " FROM calls WHERE position = $1"
	SelectBySuspension = "SELECT " + CallColumns + " FROM calls WHERE position = (SELECT call FROM suspensions WHERE namespace = $1 AND id = $2)"
	SelectDecision     = "SELECT crc, decision FROM decisions WHERE namespace = $1 AND id = $2"
	selectDecisions    = "SELECT id, crc, decision FROM decisions WHERE namespace = $1 AND id > $2 ORDER BY id LIMIT $3"
	selectRun          = "SELECT " + RunColumns + " FROM runs WHERE namespace = $1 AND id = $2"
	selectBlockedRuns  = "SELECT " + RunColumns + " FROM runs WHERE (namespace, id) > ($1, $2) AND state = 'BLOCKED' ORDER BY namespace, id LIMIT $3"
	SelectPolicies     = "SELECT " + PolicyColumns + " FROM policies WHERE (namespace, kind, key) > ($1, $2, $3) ORDER BY namespace, kind, key LIMIT $4"
)

// A Reader reads the tables that both stores read in the same way.
type Reader struct {
	db   Database
	text *Queries
}

// NewReader returns a Reader for a database and its SQL texts.
func NewReader(db Database, text *Queries) Reader { return Reader{db, text} }

// all returns the result of read for each row of a query.
func all[T any](ctx context.Context, r *Reader, text string, read func(Row) T, args ...any) (found []T, err error) {
	err = r.db.Query(ctx, text, func() { found = nil }, func(row Row) error {
		found = append(found, read(row))
		return nil
	}, args...)
	return found, err
}

// one is like all, for a query that returns at most one row. It returns ErrNotFound when there is no row.
func one[T any](ctx context.Context, r *Reader, text string, read func(Row) T, args ...any) (t T, err error) {
	found, err := all(ctx, r, text, read, args...)
	if err == nil && len(found) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return t, err
	}
	return found[0], nil
}

// pages visits the rows of a query page by page. No query is open while visit runs, so visit may write. beyond returns the key of a row;
// the next page begins after it.
func pages[T any](ctx context.Context, r *Reader, text string, size int, read func(Row) T, beyond func(T) []any, visit func(T) error) error {
	var last T
	for n := size; n == size; {
		found, err := all(ctx, r, text, read, append(beyond(last), size)...)
		if err != nil {
			return err
		}
		for _, t := range found {
			if err := visit(t); err != nil {
				return err
			}
			last = t
		}
		n = len(found)
	}
	return nil
}

// FindCalls returns the calls of a query that selects CallColumns.
func (r *Reader) FindCalls(ctx context.Context, text string, args ...any) ([]Call, error) {
	return all(ctx, r, text, ReadCall, args...)
}

// CallBySuspension returns the call with this suspension, open or closed.
func (r *Reader) CallBySuspension(ctx context.Context, namespace, id string) (*call.Call, error) {
	found, err := one(ctx, r, SelectBySuspension, ReadCall, namespace, id)
	return found.Call, cmp.Or(err, found.Err)
}

// Due returns the suspended calls of a namespace whose open suspension has expired. It leaves out broken rows, which cannot expire.
func (r *Reader) Due(ctx context.Context, namespace string, limit int) (due []*call.Call, err error) {
	for skip, n := 0, limit; len(due) < limit && n == limit; skip += n {
		found, err := all(ctx, r, r.text.Due, ReadCall, r.db.Now(), namespace, limit, skip)
		if err != nil {
			return nil, err
		}
		for _, c := range found {
			if c.Err == nil && len(due) < limit {
				due = append(due, c.Call)
			}
		}
		n = len(found)
	}
	return due, nil
}

// DueNamespaces returns the namespaces with suspended calls whose open suspension has expired.
func (r *Reader) DueNamespaces(ctx context.Context) ([]string, error) {
	return all(ctx, r, r.text.DueNamespaces, func(row Row) string { return row.Text(0) }, r.db.Now())
}

// NextExpiry returns when the next open suspension expires.
func (r *Reader) NextExpiry(ctx context.Context) (call.Stamp, error) {
	return one(ctx, r, r.text.NextExpiry, func(row Row) call.Stamp { return call.Stamp(row.Int(0)) })
}

// Expiring returns suspended calls of a namespace in the order of their expiry.
func (r *Reader) Expiring(ctx context.Context, q call.Query) (call.Page, error) {
	q = call.Query{Namespace: q.Namespace, After: q.After, AfterExpiry: q.AfterExpiry, Limit: cmp.Or(q.Limit, 50)}
	var finder *Finder
	var expires []call.Stamp
	err := r.db.Query(ctx, r.text.Expiring, func() { finder, expires = NewFinder(&q), nil }, func(row Row) error {
		expires = append(expires, call.Stamp(row.Int(8)))
		return finder.Take(ReadCall(row))
	}, int64(q.AfterExpiry), q.After, q.Namespace, q.Limit+1)
	if err != nil {
		return call.Page{}, err
	}
	page := finder.Page()
	if page.Next != 0 {
		page.NextExpiry = expires[q.Limit-1]
	}
	return page, nil
}

// Waiting returns the number of open suspensions by action, over all namespaces. since is the time of the open suspension of the call that
// was created first. It is zero when no call is suspended.
func (r *Reader) Waiting(ctx context.Context) (open map[string]int, since call.Stamp, err error) {
	oldest := int64(0)
	err = r.db.Query(ctx, r.text.Waiting, func() { open, oldest = map[string]int{}, 0 }, func(row Row) error {
		open[row.Text(0)] += int(row.Int(1))
		if first := row.Int(2); oldest == 0 || first < oldest {
			oldest = first
		}
		return nil
	})
	if err != nil || oldest == 0 {
		return open, since, err
	}
	found, err := one(ctx, r, selectCallAt, ReadCall, oldest)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && found.Err != nil: // Return no time: the oldest call cannot be read. The counts are still correct.
		err = nil
	case err == nil && found.Call.Open() != nil:
		since = found.Call.Open().Created
	}
	return open, since, err
}

// Decision returns a decision by its id.
func (r *Reader) Decision(ctx context.Context, namespace, id string) (*store.Decision, error) {
	type stored struct {
		crc   uint32
		bytes []byte
	}
	found, err := one(ctx, r, SelectDecision, func(row Row) stored { return stored{uint32(row.Int(0)), row.Bytes(1)} }, namespace, id)
	if err != nil {
		return nil, err
	}
	var d store.Decision
	if Sum(found.bytes, namespace, id) != found.crc {
		err = errChecksum
	}
	if err = cmp.Or(err, json.Unmarshal(found.bytes, &d)); err != nil {
		return nil, fmt.Errorf("%w: decision %s: %w", store.ErrCorrupt, id, err)
	}
	return &d, nil
}

// DecisionsOf passes the decisions of calls to visit, as many at a time as one transaction may change. It checks every decision of the
// namespace, because the tombstone of a call does not name the call's decisions. It leaves out decisions that cannot be read.
func (r *Reader) DecisionsOf(ctx context.Context, namespace string, calls []string, visit func([]store.Decision) error) error {
	const page = 256
	of := make(map[string]bool, len(calls))
	for _, id := range calls {
		of[id] = true
	}
	after := ""
	for n := page; n == page; {
		var found []store.Decision
		from := after
		err := r.db.Query(ctx, selectDecisions, func() { n, found = 0, nil }, func(row Row) error {
			n++
			after = row.Text(0)
			var d store.Decision
			if b := row.Bytes(2); Sum(b, namespace, after) == uint32(row.Int(1)) && json.Unmarshal(b, &d) == nil && of[d.CallID] {
				found = append(found, d)
			}
			return nil
		}, namespace, from, page)
		if err == nil && len(found) > 0 {
			err = visit(found)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Run returns the stored state of a run.
func (r *Reader) Run(ctx context.Context, namespace, id string) (*store.Run, error) {
	run, err := one(ctx, r, selectRun, readRun, namespace, id)
	if err != nil {
		return nil, err
	}
	return &run, nil
}

// BlockedRuns visits the blocked runs.
func (r *Reader) BlockedRuns(ctx context.Context, visit func(store.Run) error) error {
	return pages(ctx, r, selectBlockedRuns, 500, readRun, func(last store.Run) []any { return []any{last.Namespace, last.ID} }, visit)
}

// RunCounts returns how many calls of a run have each status.
func (r *Reader) RunCounts(ctx context.Context, namespace, id string) (map[call.Status]int, error) {
	return counts[call.Status](ctx, r, r.text.RunCounts, namespace, id)
}

// Counts returns how many calls have each status that is not terminal.
func (r *Reader) Counts(ctx context.Context) (map[call.Status]int, error) {
	return counts[call.Status](ctx, r, r.text.Counts)
}

// CountsOf returns how many calls of a namespace have each status that is not terminal, and how many open questions have each action.
func (r *Reader) CountsOf(ctx context.Context, namespace string) (statuses map[call.Status]int, actions map[string]int, err error) {
	if statuses, err = counts[call.Status](ctx, r, r.text.CountsOf, namespace); err != nil {
		return nil, nil, err
	}
	actions, err = counts[string](ctx, r, r.text.ActionsOf, namespace)
	return statuses, actions, err
}

// DeadLetters returns the number of dead actions by namespace.
func (r *Reader) DeadLetters(ctx context.Context) (map[string]int, error) {
	return counts[string](ctx, r, r.text.DeadLetters)
}

func counts[K ~string](ctx context.Context, r *Reader, text string, args ...any) (counts map[K]int, err error) {
	err = r.db.Query(ctx, text, func() { counts = map[K]int{} }, func(row Row) error {
		counts[K(row.Text(0))] = int(row.Int(1))
		return nil
	}, args...)
	return counts, err
}

// Records returns stored records. When the first record is broken, it returns an error. When a later record is broken, it returns the
// records before that one. To read the rest, the caller skips the position of the broken record.
func (r *Reader) Records(ctx context.Context, namespace, kind string, after int64, limit int) ([]store.StoredRecord, error) {
	return r.records(ctx, r.text.Records, namespace, kind, after, limit)
}

// RecordsBefore returns stored records, the newest first. It treats a broken record as Records does.
func (r *Reader) RecordsBefore(ctx context.Context, namespace, kind string, before int64, limit int) ([]store.StoredRecord, error) {
	return r.records(ctx, r.text.RecordsBefore, namespace, kind, before, limit)
}

func (r *Reader) records(ctx context.Context, text, namespace, kind string, at int64, limit int) (records []store.StoredRecord, err error) {
	err = r.db.Query(ctx, text, func() { records = nil }, func(row Row) error {
		rec := store.StoredRecord{Position: row.Int(0), CallID: row.Text(2), Time: call.Stamp(row.Int(3)), Record: store.Record{Kind: kind, Key: row.Text(1), Bytes: row.Bytes(5), Chained: row.Int(6) != 0}}
		if Sum(rec.Bytes, namespace, kind, rec.Key, rec.CallID) != uint32(row.Int(4)) {
			if len(records) > 0 {
				return ErrEnough
			}
			return fmt.Errorf("%w: record %d", store.ErrCorrupt, rec.Position)
		}
		records = append(records, rec)
		return nil
	}, namespace, kind, at, limit)
	return records, err
}

// Policies visits every policy. It passes the error of a broken policy to visit.
func (r *Reader) Policies(ctx context.Context, visit func(store.Policy, error) error) error {
	return pages(ctx, r, SelectPolicies, 500, readPolicy, func(last policy) []any { return []any{last.Namespace, last.Kind, last.Key} },
		func(p policy) error { return visit(p.Policy, p.err) })
}

// Batch returns a batch.
func (r *Reader) Batch(ctx context.Context, key call.Key) (*call.Batch, error) {
	found, err := one(ctx, r, SelectBatch, ReadBatch, key.Namespace, key.ID)
	return found.Batch, cmp.Or(err, found.Err)
}

// OpenBatches visits the batches that have not ended. It passes the error of a broken batch to visit.
func (r *Reader) OpenBatches(ctx context.Context, visit func(call.Key, *call.Batch, error) error) error {
	return pages(ctx, r, r.text.OpenBatches, 128, ReadBatch, func(last Batch) []any { return []any{last.Key.Namespace, last.Key.ID} },
		func(b Batch) error { return visit(b.Key, b.Batch, b.Err) })
}

// Actions returns the actions of a query that selects ActionColumns, ordered by position.
func (r *Reader) Actions(ctx context.Context, text string, args ...any) ([]store.Action, error) {
	actions, err := all(ctx, r, text, ReadAction, args...)
	slices.SortFunc(actions, func(a, b store.Action) int { return cmp.Compare(a.Position, b.Position) })
	return actions, err
}
