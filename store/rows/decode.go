package rows

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// A Row is one row of a result. Columns are numbered from 0. A NULL column returns the zero value. Returned values stay valid when the next
// row is read.
type Row interface {
	Int(col int) int64
	Text(col int) string
	Bytes(col int) []byte
	Null(col int) bool
}

// Nanos returns a time in nanoseconds since 1970. The zero time is 0.
func Nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

var errChecksum = errors.New("checksum")

// CallColumns lists the columns that [ReadCall] reads. The table must be named calls.
const CallColumns = "calls.position, calls.namespace, call_id, calls.status, revision, last_sequence, crc, record"

// A Call is a stored call, or the error that reading it gave.
type Call struct {
	Position int64
	Key      call.Key
	Call     *call.Call // nil when Err is set
	Err      error
}

// ReadCall decodes a row of CallColumns.
func ReadCall(r Row) Call {
	c := Call{Position: r.Int(0), Key: call.Key{Namespace: r.Text(1), ID: r.Text(2)}}
	record := r.Bytes(7)
	err := errChecksum
	if SumCall(c.Key, call.Status(r.Text(3)), r.Int(4), record) == uint32(r.Int(6)) {
		c.Call, err = call.DecodeCall(record)
	}
	if err != nil {
		c.Call, c.Err = nil, fmt.Errorf("%w: call %s: %w", store.ErrCorrupt, c.Key.ID, err)
		return c
	}
	c.Call.LastSequence = max(c.Call.LastSequence, r.Int(5))
	return c
}

// Sorted returns the calls whose rows are not broken, in the order of their creation.
func Sorted(found []Call) (calls []*call.Call) {
	slices.SortFunc(found, func(a, b Call) int { return cmp.Compare(a.Position, b.Position) })
	for _, c := range found {
		if c.Err == nil {
			calls = append(calls, c.Call)
		}
	}
	return calls
}

// A Finder collects the calls of one page, in list order.
type Finder struct {
	query   *call.Query
	limit   int
	found   []Call
	skipped int   // number of calls that did not match
	last    int64 // position of the last call that did not match
}

// NewFinder returns a Finder for a page of a query.
func NewFinder(q *call.Query) *Finder {
	return &Finder{query: q, limit: cmp.Or(q.Limit, 50)}
}

// Take adds a call if it meets the conditions that need its record; the caller has checked the other conditions. Take also adds a call with
// a broken record. It returns ErrEnough when the page needs no further calls.
func (f *Finder) Take(c Call) error {
	if c.Err == nil && f.query.NeedsRecord() && !f.query.Holds(c.Call) {
		return f.Skip(c.Position)
	}
	if f.found = append(f.found, c); f.Full() {
		return ErrEnough
	}
	return nil
}

// Skip counts a call that does not match. It returns ErrEnough when the page needs no further calls.
func (f *Finder) Skip(position int64) error {
	f.last = position
	if f.skipped++; f.Full() {
		return ErrEnough
	}
	return nil
}

// Full reports whether the page needs no further calls.
func (f *Finder) Full() bool { return len(f.found) > f.limit || f.skipped >= call.MaxScan }

// Page returns the calls as a page of a list. It sets page.Next when more calls may follow.
func (f *Finder) Page() (page call.Page) {
	found := f.found
	switch {
	case len(found) > f.limit:
		found = found[:f.limit]
		page.Next = found[f.limit-1].Position
	case f.skipped >= call.MaxScan:
		page.Next, page.Partial = f.last, true
	}
	page.Skipped = f.skipped
	page.Calls, page.Positions = make([]*call.Call, 0, len(found)), make([]int64, 0, len(found))
	for _, c := range found {
		if c.Err != nil {
			page.Corrupt = append(page.Corrupt, c.Key)
			continue
		}
		page.Calls, page.Positions = append(page.Calls, c.Call), append(page.Positions, c.Position)
	}
	return page
}

// A Chunk holds the events of one change.
type Chunk struct {
	Position    int64 // position in feeds
	Key         call.Key
	Epoch       int64
	Call        int64 // position of the call
	First, Last int64
	CRC         uint32
	Events      []byte
}

// Decode returns at most limit events of the chunk with sequences above after.
func (c *Chunk) Decode(after int64, limit int) ([]call.Event, error) {
	if SumEvents(c.Events, c.Call, c.First, c.Last) != c.CRC {
		return nil, fmt.Errorf("%w: events %d to %d", store.ErrCorrupt, c.First, c.Last)
	}
	events, err := call.DecodeEventsAfter(c.Events, after, limit)
	if want := min(c.Last-max(after, c.First-1), int64(limit)); err != nil || int64(len(events)) != want {
		return nil, fmt.Errorf("%w: events %d to %d: %w", store.ErrCorrupt, c.First, c.Last, err)
	}
	return events, nil
}

// Log returns at most limit events with sequences above after from a call's chunks, and the first sequence that the log still has. If the
// first chunk is broken, it returns an error. If a later chunk is broken, it returns the events before that chunk. Without chunks, Log
// reads the call with find: a purged call has no chunks.
func Log(ctx context.Context, find func(context.Context, call.Key) (*call.Call, error), key call.Key, chunks []Chunk, after int64, limit int) (events []call.Event, first int64, err error) {
	if len(chunks) > 0 {
		events, err = decode(key.ID, chunks, after, limit)
		return events, 1, err
	}
	c, err := find(ctx, key)
	if err != nil {
		return nil, 0, err
	}
	if c.Purge != nil {
		return nil, c.LastSequence + 1, nil
	}
	return nil, 1, nil
}

func decode(id string, chunks []Chunk, after int64, limit int) (events []call.Event, err error) {
	for i := range chunks {
		some, err := chunks[i].Decode(after, limit-len(events))
		if err != nil && len(events) > 0 {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("call %s: %w", id, err)
		}
		if events = append(events, some...); len(events) >= limit {
			break
		}
	}
	return events, nil
}

// Entry returns the chunk as an entry of a feed.
func (c *Chunk) Entry() store.FeedEntry {
	e := store.FeedEntry{Position: c.Position, Key: c.Key, Epoch: c.Epoch}
	var err error
	if e.Events, err = c.Decode(0, 1<<30); err != nil {
		e.Corrupt, e.Last = true, c.Last
	}
	return e
}

// A Batch is a stored batch, or the error that reading it gave.
type Batch struct {
	Key   call.Key
	Batch *call.Batch // nil when Err is set
	Err   error
}

// BatchColumns lists the columns that [ReadBatch] reads.
const BatchColumns = "namespace, batch_id, ended, trimmed, crc, record"

// ReadBatch decodes a row of BatchColumns.
func ReadBatch(r Row) (b Batch) {
	b.Key = call.Key{Namespace: r.Text(0), ID: r.Text(1)}
	if !r.Null(3) {
		b.Err = store.ErrTrimmed
		return b
	}
	record := r.Bytes(5)
	err := errChecksum
	if Sum(record, b.Key.Namespace, b.Key.ID) == uint32(r.Int(4)) {
		b.Batch, err = call.DecodeBatch(record)
	}
	if err != nil {
		b.Batch, b.Err = nil, fmt.Errorf("%w: batch %s: %w", store.ErrCorrupt, b.Key.ID, err)
		return b
	}
	b.Batch.Ended = call.Stamp(r.Int(2))
	return b
}

// ActionColumns lists the columns that [ReadAction] reads.
const ActionColumns = "position, namespace, id, call_id, state, due, crc, record"

// ReadAction decodes a row of ActionColumns.
func ReadAction(r Row) store.Action {
	known := store.Action{Namespace: r.Text(1), ID: r.Text(2), CallID: r.Text(3)}
	a, record := known, r.Bytes(7)
	if Sum(record, a.Namespace, a.ID) != uint32(r.Int(6)) || json.Unmarshal(record, &a) != nil {
		a, a.Broken = known, true
	}
	a.Position, a.State, a.Due = r.Int(0), store.ActionState(r.Text(4)), call.Stamp(r.Int(5))
	return a
}

// RunColumns lists the columns that readRun reads.
const RunColumns = "namespace, id, owner, state, reason, call_id, changed"

func readRun(r Row) store.Run {
	return store.Run{Namespace: r.Text(0), ID: r.Text(1), Owner: r.Text(2), State: call.RunState(r.Text(3)), Reason: r.Text(4), CallID: r.Text(5), Changed: call.Stamp(r.Int(6))}
}

// A policy is a stored policy, or the error that reading it gave.
type policy struct {
	store.Policy
	err error
}

// PolicyColumns lists the columns that readPolicy reads.
const PolicyColumns = "namespace, kind, key, scope, scope_id, expires, crc, value"

func readPolicy(r Row) policy {
	p := policy{Policy: store.Policy{Namespace: r.Text(0), Kind: r.Text(1), Key: r.Text(2), Scope: tool.Scope(r.Text(3)), ScopeID: r.Text(4), Expires: call.Stamp(r.Int(5)), Value: r.Bytes(7)}}
	if SumPolicy(&p.Policy) != uint32(r.Int(6)) {
		p.err = fmt.Errorf("%w: policy %s %s", store.ErrCorrupt, p.Kind, p.Key)
	}
	return p
}
