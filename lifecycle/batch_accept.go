package lifecycle

import (
	"context"
	"errors"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/batch"
	"github.com/toold-dev/toold/lifecycle/refusal"
	"github.com/toold-dev/toold/lifecycle/watch"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// ExecuteBatch starts the calls of one model turn, or attaches to an existing batch with the same id. The stream returns the events of all
// calls, from the first event or from a cursor. The caller must close it. The batch also continues without watchers. If the error is a
// [*call.Refusal], no call was stored. Any other failure becomes the result of its call.
func (e *Engine) ExecuteBatch(ctx context.Context, p tool.Principal, spec call.BatchSpec, o call.ExecuteOptions) (call.Stream, error) {
	parsed, err := e.requests.CheckBatch(&spec)
	if err == nil && o.Cursor != "" {
		_, _, err = watch.ParseFeedCursor(o.Cursor)
	}
	if err != nil {
		return nil, err
	}
	requests := make([]string, len(spec.Calls))
	for i := range spec.Calls {
		requests[i] = call.RequestDigest(&spec.Calls[i], parsed[i], p.Subject)
	}
	digest := spec.Identity
	if digest == "" {
		digest = call.BatchDigest(spec.BatchOptions, spec.Calls, requests)
	}
	if spec.ID == "" {
		spec.ID = newID()
	}
	key := call.Key{Namespace: p.Namespace, ID: spec.ID}
	record, known, err := e.batches.Enter(context.WithoutCancel(ctx), key, func() (*call.Batch, []batch.Member, error) {
		r := batchRequest{admission: admission{e, p}, spec: &spec, requests: requests}
		return r.create(context.WithoutCancel(ctx), key, digest)
	})
	if err != nil {
		return nil, err
	}
	if !known {
		o.Cursor = "" // The cursor belongs to a batch that does not exist any more.
	}
	if record.Digest != digest {
		return nil, call.Refuse(call.AlreadyExists, "BATCH_ID_REUSED", "batch_id %q belongs to another batch; ids are never used twice", record.ID)
	}
	return e.watches.Attach(ctx, p, record, o)
}

// A batchRequest is a client's request for a new batch.
type batchRequest struct {
	admission
	spec     *call.BatchSpec
	requests []string // request digest of each call
	record   *call.Batch
	calls    []*activeCall
}

// create stores a new batch with its calls. A drain then waits for the batch as for a pipeline run.
func (r *batchRequest) create(ctx context.Context, key call.Key, digest string) (*call.Batch, []batch.Member, error) {
	e, p, spec := r.e, r.as, r.spec
	r.record = &call.Batch{
		Namespace: p.Namespace, ID: key.ID, Caller: p.Subject, Digest: digest, BatchOptions: spec.BatchOptions, Created: e.store.Now(), Turn: spec.Turn,
	}
	for i := range spec.Calls {
		s := &spec.Calls[i]
		if s.ID == "" {
			s.ID = newID()
		} else if _, err := e.store.Call(ctx, call.Key{Namespace: p.Namespace, ID: s.ID}); !errors.Is(err, store.ErrNotFound) {
			return nil, nil, refuseExisting(err, s.ID)
		}
		if s.RetryOf != "" {
			if err := r.retries(ctx, s); err != nil {
				return nil, nil, err
			}
		}
		if err := r.refuseLender(s); err != nil {
			return nil, nil, err
		}
		r.record.Calls = append(r.record.Calls, s.ID)
	}
	if err := r.reserve(); err != nil {
		return nil, nil, err
	}
	err := e.owners.Claim(ctx, p, &spec.Calls[0].Run, p.Subject)
	if err == nil {
		err = r.store(ctx)
	}
	if err != nil {
		r.unreserve()
		e.drain.Leave()
		return nil, nil, err
	}
	members := make([]batch.Member, len(r.calls))
	for i, l := range r.calls {
		members[i] = member{l}
	}
	return r.record, members, nil
}

// refuseExisting returns the refusal of a batch that contains an existing call. That call belongs to another batch or to none.
func refuseExisting(err error, id string) error {
	if err != nil {
		return refusal.OfCall(err, id)
	}
	return call.Refuse(call.AlreadyExists, "CALL_ID_REUSED", "call_id %q belongs to a call outside this batch; ids are never used twice", id)
}

// reserve creates the entries of all calls in memory.
func (r *batchRequest) reserve() error {
	for taken := r.reserveFree(); taken != nil; taken = r.reserveFree() {
		taken.ready.Wait() // Release all entries before the wait. Otherwise two batches with the same calls could wait for each other.
		absent := errors.Is(taken.loadErr, store.ErrNotFound)
		if absent {
			r.e.forget(taken) // The call does not exist: the other goroutine created the entry only to look for it.
		}
		taken.release()
		if !absent {
			return refuseExisting(nil, taken.key.ID)
		}
	}
	first := &r.spec.Calls[0]
	if err := r.checkCapacity(r.calls[0], &first.Run, r.demand(first), atOnce(r.record)); err != nil {
		r.unreserve()
		return err
	}
	r.e.mu.Lock()
	for _, l := range r.calls {
		l.claims = claims{first.Run.ID, first.Run.Thread}
	}
	r.e.mu.Unlock()
	return nil
}

// reserveFree creates all entries, or none. If an entry already exists, it returns that entry.
func (r *batchRequest) reserveFree() (taken *activeCall) {
	for _, id := range r.record.Calls {
		l, fill := r.e.reference(call.Key{Namespace: r.record.Namespace, ID: id})
		if !fill {
			r.unreserve()
			return l
		}
		r.calls = append(r.calls, l)
	}
	return nil
}

func (r *batchRequest) unreserve() {
	for _, l := range r.calls {
		l.fill(nil, store.ErrNotFound)
		r.e.forget(l)
		l.release()
	}
	r.calls = nil
}

// atOnce returns how many calls of the batch may have a slot or wait for one at the same time.
func atOnce(record *call.Batch) int {
	n := len(record.Calls)
	if record.Strategy == call.Sequential {
		n = 1
	}
	if most := record.MaxParallel; most > 0 {
		n = min(n, most)
	}
	return n
}

// store creates the records of the calls and stores them with the batch. After that, clients can find the calls.
func (r *batchRequest) store(ctx context.Context) error {
	e := r.e
	changes := make([]*store.Change, len(r.calls))
	for i, l := range r.calls {
		c := r.newCall(&r.spec.Calls[i], r.requests[i])
		c.Detached, c.BatchID, c.BatchPosition = true, r.record.ID, i+1
		r.pin(l, c)
		l.concurrent.Store(r.record.Strategy == call.Parallel)
		if i == 0 {
			l.reopen = e.owners.Reopen(c)
		}
		changes[i] = creation(l, c)
	}
	if err := e.store.CreateBatch(ctx, r.record, changes); err != nil {
		e.owners.Unopened(r.calls[0].reopen)
		if errors.Is(err, store.ErrFatal) {
			e.fatal(err)
		}
		if errors.Is(err, store.ErrExists) {
			return call.Refuse(call.AlreadyExists, "CALL_ID_REUSED", "a call of batch %q exists already; ids are never used twice", r.record.ID)
		}
		return refusal.OfBatch(err, r.record.ID)
	}
	for _, l := range r.calls {
		created(l)
	}
	return nil
}

// creation returns the first change of a batch call. No other goroutine has the call yet.
func creation(l *activeCall, c *call.Call) *store.Change {
	c.Revision = 1
	l.c, l.intake.accepted = c, acceptedAs(c)
	return &store.Change{Key: l.key, Call: c, Create: true, Durability: store.Full, Run: l.reopen}
}

// created marks a call as stored. The log of the call is still empty; its first pipeline run begins the log.
func created(l *activeCall) {
	l.mu.Lock()
	l.stored, l.frozen = true, true
	l.mu.Unlock()
	l.ready.Give()
}
