package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/calllog"
	"github.com/toold-dev/toold/lifecycle/documents"
	"github.com/toold-dev/toold/lifecycle/meter"
	"github.com/toold-dev/toold/lifecycle/refusal"
	"github.com/toold-dev/toold/lifecycle/turns"
	"github.com/toold-dev/toold/lifecycle/watch"
	"github.com/toold-dev/toold/store"
)

// activeCall is a call in memory. A call is in memory while it runs, while a client watches it, or while a step of it is being stored.
type activeCall struct {
	e   *Engine
	key call.Key

	ready   turns.Signal // fires when c or loadErr is set
	loadErr error

	// slot serializes the writes of this call to the journal: the goroutine that writes holds it.
	slot turns.Slot

	intake     intake
	concurrent atomic.Bool // other calls of the batch may run at the same time, whatever the effects of this call

	refs   int          // guarded by Engine.mu
	claims claims       // set for a new call, which may not be in the journal yet; guarded by Engine.mu
	meter  *meter.Meter // cached meter of the tool; set only for a new call of a registered tool

	mu sync.Mutex
	// c is the current record. When frozen is set, readers may hold c, so each change must replace it by a copy. Its LastSequence may be
	// outdated; use log.Last instead.
	c          *call.Call
	frozen     bool
	stored     bool // the journal has a row for the call
	log        calllog.Log
	stalled    bool                              // the journal refused the unwritten events; the next try is after flushPause
	settlement settlement                        // settlement of the newest pipeline run; the zero value means committed
	shared     atomic.Pointer[watch.SharedFrame] // frame with the newest events, shared by several watchers; set only with mu held
	reopen     *store.Run                        // the run that this call reopens; stored with its first change
	dirty      bool                              // listed in Engine.behind

	watchers int
	linger   *time.Timer
	cancel   context.CancelCauseFunc // cancels the active pipeline run; nil when no pipeline run is active
	ctx      context.Context         // context of the newest pipeline run
	attempt  *attempt                // attempt of the active pipeline run, after its tool was started
}

func newActiveCall(e *Engine, key call.Key) *activeCall {
	l := &activeCall{e: e, key: key}
	l.intake.l, l.intake.output = l, calllog.Output{Config: &e.output, Key: key}
	return l
}

// claims names the run and the thread that this call may be the first to use. A claimed run or thread belongs to the caller of the call.
type claims struct{ run, thread string }

// acquire returns an active call, and loads it if necessary. The caller must release it.
func (e *Engine) acquire(ctx context.Context, key call.Key) (*activeCall, error) {
	l, load := e.reference(key)
	if load {
		l.load(ctx)
	}
	l.ready.Wait()
	if l.loadErr != nil {
		defer l.release()
		return nil, l.loadErr
	}
	return l, nil
}

// current returns the current record of a call.
func (e *Engine) current(ctx context.Context, key call.Key) (*call.Call, error) {
	l, err := e.acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	defer l.release()
	return l.snapshot(), nil
}

// Settled returns the current record of a call after a write in progress. It is at least as new as each post that can be read, because the
// journal has the posts of a change before the record in memory changes.
func (e *Engine) Settled(ctx context.Context, key call.Key) (*call.Call, error) {
	l, err := e.acquire(ctx, key)
	if err != nil {
		return nil, refusal.OfCall(err, key.ID)
	}
	defer l.release()
	l.slot.Take()
	defer l.unslot()
	return l.snapshot(), nil
}

// reference returns the entry of a call in memory, and creates it if there is none. fill reports that the entry is new: the caller must
// then call [activeCall.fill].
func (e *Engine) reference(key call.Key) (l *activeCall, fill bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l = e.activeCalls[key]
	if l == nil {
		l = newActiveCall(e, key)
		e.activeCalls[key] = l
		fill = true
	}
	l.refs++
	return l, fill
}

func (l *activeCall) load(ctx context.Context) {
	c, err := l.e.store.Call(context.WithoutCancel(ctx), l.key)
	l.fill(c, err)
}

// fill sets the record or the load error of a new entry, and wakes the goroutines that wait for it.
func (l *activeCall) fill(c *call.Call, err error) {
	if err != nil {
		l.loadErr = err
	} else {
		l.c, l.stored = c, true
		l.log.Reset(c.LastSequence)
		if c.LastSequence == 0 {
			l.intake.accepted = acceptedAs(c)
		}
	}
	l.ready.Give()
}

// release drops a reference. When the last reference is dropped, the call is removed from memory.
func (l *activeCall) release() {
	e := l.e
	e.mu.Lock()
	defer e.mu.Unlock()
	l.refs--
	if l.refs == 0 && e.activeCalls[l.key] == l {
		delete(e.activeCalls, l.key)
	}
}

// forget removes the entry of a call that is not in the journal, even if other goroutines still hold it. Its id can be used again.
func (e *Engine) forget(l *activeCall) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.activeCalls[l.key] == l {
		delete(e.activeCalls, l.key)
	}
}

// retain adds a reference. The caller must already hold one.
func (l *activeCall) retain() {
	l.e.mu.Lock()
	l.refs++
	l.e.mu.Unlock()
}

// record returns the current record. The caller must not change it.
func (l *activeCall) record() *call.Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen = true
	return l.c
}

// peek returns the current record like record, but does not freeze it. Only the goroutine of the pipeline run may use the result, and
// only until its next step. Until then, other goroutines change at most two fields of the record in place: the revision and the last
// sequence of a BEHIND call.
func (l *activeCall) peek() *call.Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.c
}

// snapshot returns a record for clients. It includes only published events. The caller must not change it.
func (l *activeCall) snapshot() *call.Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.snapshotLocked()
}

func (l *activeCall) snapshotLocked() *call.Call {
	published, flushed := l.log.Published(), l.log.Published() <= l.log.Written()
	if l.stored && l.c.LastSequence == published && flushed {
		l.frozen = true // Thousands of watchers can share this record without a copy, because most watched calls are suspended or have ended.
		return l.c
	}
	c := *l.c
	c.LastSequence = published
	if !l.stored {
		c.Revision = 0 // Revision 0 makes the API report not_stored. The change that stores the call may still be in progress.
	}
	if !l.stored || !flushed { // A crash could lose this state, so the snapshot says BEHIND. It says SYNC as soon as the state is stored.
		c.Class = call.Behind
	}
	return &c
}

// stop cancels the active pipeline run, if any.
func (l *activeCall) stop(cause error) {
	l.mu.Lock()
	running := l.attempt
	if l.cancel != nil {
		l.cancel(cause) // The lock ensures that no attempt is missed: a new attempt either sees the cancellation or is already in l.attempt.
	}
	l.mu.Unlock()
	if running != nil {
		running.stopped()
	}
}

// A step is one change of a call's record, with the events that report it.
type step struct {
	apply      func(c *call.Call) // changes a copy of the record; may be nil
	events     []call.Event
	filtered   bool // the events have passed the filters
	late       bool // the call may already have ended: a BEHIND call can end while another goroutine holds the slot
	durability store.Durability

	notAfter, notBefore call.Stamp
	decision            *store.Decision
	documents           []store.DocumentChange
	group               string // group of calls that run together; their document commands can conflict with each other
	records             []store.Record
	kept                []store.Record // records that filters produced, stored with the events
	run                 *store.Run
	rule                *call.Rule
	policies            []store.Policy // stored form of the field rule
	actions             []store.Action
}

// needsSync reports whether a step must be stored before it is published.
func (s *step) needsSync() bool {
	return s.decision != nil || len(s.documents) > 0 || len(s.records) > 0 || len(s.actions) > 0 || s.run != nil || s.notAfter != 0 || s.notBefore != 0
}

// advance makes a step of a call. The step of a BEHIND call is published at once and stored later; the step of a SYNC call is stored first.
func (l *activeCall) advance(s step) error {
	if !s.filtered {
		s.events, s.kept = l.intake.step(s.events)
		s.filtered = true
	}
	l.mu.Lock()
	if l.c.Class != call.Behind || s.needsSync() || l.c.Status == call.Suspended {
		l.mu.Unlock()
		return l.commit(s)
	}
	before := l.c.Status
	if err := l.stepLocked(&s); err != nil {
		l.mu.Unlock()
		return err
	}
	l.meterLocked(before, l.c)
	events := s.events
	l.numberLocked(events)
	l.log.Add(events, s.kept)
	l.publishLocked(events)
	l.mu.Unlock()
	l.e.behind.add(l)
	return nil
}

// stepLocked applies a step to the record. It changes the record in place unless a reader holds it.
func (l *activeCall) stepLocked(s *step) error {
	if l.frozen {
		next, err := l.nextLocked(s)
		if err == nil {
			l.c, l.frozen = next, false
		}
		return err
	}
	if s.apply == nil {
		return nil
	}
	before := *l.c
	s.apply(l.c)
	if err := l.legal(&before, l.c, s); err != nil {
		*l.c = before
		return err
	}
	return nil
}

// nextLocked returns the record after a step, or an error when the step is illegal.
func (l *activeCall) nextLocked(s *step) (*call.Call, error) {
	next := *l.c
	if s.apply != nil {
		s.apply(&next)
	}
	if err := l.legal(l.c, &next, s); err != nil {
		return nil, err
	}
	return &next, nil
}

// legal returns an error when the transition is not in the table of transitions.
func (l *activeCall) legal(before, next *call.Call, s *step) error {
	if before.Status.CanBecome(next.Status) && (!before.Status.Terminal() || s.apply == nil) {
		return nil
	}
	if s.late && before.Status.Terminal() {
		return errEnded
	}
	l.e.stats.illegal.Add(1)
	l.e.log.Error("illegal transition refused", zap.String("call_id", l.key.ID),
		zap.String("from", string(before.Status)), zap.String("to", string(next.Status)))
	return refusal.ErrIllegal
}

// commit stores a step in the journal and waits until it is stored. A BEHIND call becomes SYNC.
func (l *activeCall) commit(s step) error {
	l.slot.Take()
	defer l.unslot()
	return l.commitSlotted(s)
}

// commitSlotted does what commit does, for a caller that holds the slot. Documents must never change the outcome of a call. If the journal
// refuses the documents of a step, commitSlotted therefore stores the step without them.
func (l *activeCall) commitSlotted(s step) error {
	if !s.filtered {
		s.events, s.kept = l.intake.step(s.events)
		s.filtered = true
	}
	err := l.commitOnce(s)
	if len(s.documents) > 0 && errors.Is(err, store.ErrConflict) {
		err = l.commitOnce(s) // Other calls changed the documents, so the journal refused the commands. A second try sees the new documents and may succeed.
	}
	if len(s.documents) > 0 && refusal.RejectsContent(err) {
		l.e.log.Error("documents dropped: the journal refused them", zap.String("call_id", l.key.ID), zap.Error(err))
		s.documents, s.events = nil, documents.Lost(s.events)
		err = l.commitOnce(s)
	}
	return err
}

func (l *activeCall) commitOnce(s step) error {
	l.mu.Lock()
	if l.settlement.is != committed {
		defer l.mu.Unlock()
		return l.settlement.err
	}
	wasBehind := l.c.Class == call.Behind
	next, err := l.nextLocked(&s)
	if err != nil {
		l.mu.Unlock()
		return err
	}
	next.Class = call.Sync
	status := l.c.Status
	earlier, records := l.log.Take()
	events := slices.Concat(earlier, s.events)
	before, epochs := l.log.Last(), l.c.Epochs
	next.Epochs = l.log.Number(events, next.Epochs, l.e.epoch)
	next.LastSequence = l.log.Last()
	next.Revision = l.c.Revision + 1
	change := l.changeLocked(next, events, records, &s)
	if wasBehind { // From now on, events are written before they are published.
		promoted := *l.c
		promoted.Class = call.Sync
		l.c = &promoted
	}
	l.mu.Unlock()

	settled := l.e.batches.Moving(next, status)
	defer func() { settled(err == nil) }()
	err = l.submit(change)
	if err == nil && s.rule != nil {
		l.e.cfg.Policies.PutRule(s.rule)
	}
	if err == nil && s.run != nil {
		l.e.owners.Note(s.run) // Do this before the end of the call is published, because the next call of the run may arrive immediately after.
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		restored := *l.c
		restored.Epochs = epochs
		l.c = &restored
		l.log.Failed(earlier, records, before)
		return err
	}
	l.meterLocked(l.c.Status, next)
	events = change.Events // Use the stored events: the journal removes the events of documents that did not exist.
	l.c, l.stored = next, true
	l.log.Wrote(next.LastSequence)
	l.log.GiveBack(next.LastSequence) // The journal may have removed document events, so their numbers are free again.
	l.e.decisions.recent.Put(next)
	l.publishLocked(events)
	return nil
}

func (l *activeCall) changeLocked(next *call.Call, events []call.Event, records []store.Record, s *step) *store.Change {
	change := &store.Change{
		Key: l.key, Call: next, Create: !l.stored, Events: events, Durability: s.durability,
		NotAfter: s.notAfter, NotBefore: s.notBefore, Decision: s.decision, Documents: s.documents,
		Run: l.runLocked(s.run), Records: slices.Concat(records, s.kept, s.records), Policies: s.policies, Actions: s.actions,
	}
	if posts := l.e.outbox.NewPosts(next, events); len(posts) > 0 {
		change.Actions = slices.Concat(s.actions, posts)
	}
	if len(s.documents) > 0 {
		change.Limits, change.Group = l.e.cfg.Documents.Limits(), s.group
		change.OnDocuments = func(notices []call.DocumentNotice) { documents.Publish(change, notices) }
	}
	return change
}

// runLocked returns the run state to store: that of the step, or else the reopened run of a new call.
func (l *activeCall) runLocked(r *store.Run) *store.Run {
	if r == nil && !l.stored {
		return l.reopen
	}
	return r
}

// submit passes a change to the journal and waits for the result.
func (l *activeCall) submit(change *store.Change) error {
	l.e.cfg.FailPoint("before-commit")
	l.e.decisions.recent.Drop(l.record())
	done := make(chan error, 1)
	l.e.limits.Storage.AddChange(change)
	l.e.store.Submit(change, func(err error) { done <- err })
	err := <-done
	l.e.cfg.FailPoint("after-commit")
	if errors.Is(err, store.ErrFatal) {
		l.e.fatal(err)
	}
	if err == nil {
		l.e.watches.Wake(cmp.Or(change.Call, l.record())) // Prefer the new record: the record in memory changes only after submit.
		l.e.outbox.Committed(change.Actions)
	}
	return err
}

// unslot releases the slot, and starts to write the events that were added while it was held.
func (l *activeCall) unslot() {
	l.slot.Give()
	l.mu.Lock()
	more := l.c != nil && l.c.Class == call.Sync && l.stored && !l.stalled && l.log.Unwritten()
	l.mu.Unlock()
	if more {
		l.kick()
	}
}

// metered returns the meter of the call's tool: the cached meter, if there is one.
func (l *activeCall) metered() *meter.Meter {
	if l.meter != nil {
		return l.meter
	}
	def, ok := l.e.cfg.Tools.Lookup(l.c.Namespace, l.c.Tool)
	if !ok {
		return l.e.meters.Of(nil)
	}
	return l.e.meters.Of(def.Descriptor)
}

// meterLocked counts a change of status in the meter of the tool, and in the number of open questions.
func (l *activeCall) meterLocked(before call.Status, c *call.Call) {
	if before == call.Suspended && c.Status != before {
		l.e.limits.Questions.Closed(c)
	}
	switch {
	case c.Status == before:
	case c.Status == call.Suspended:
		l.metered().Suspended()
	case c.Status.Terminal():
		l.metered().End(c)
	}
}
