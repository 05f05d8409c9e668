package lifecycle

import (
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
	"github.com/toold-dev/toold/lifecycle/turns"
	"github.com/toold-dev/toold/lifecycle/watch"
	"github.com/toold-dev/toold/store"
)

// activeCall is one call in memory: while it runs, is watched, or a step of it is being stored.
type activeCall struct {
	e   *Engine
	key call.Key

	ready   turns.Signal // that the record is there, or loadErr says why not
	loadErr error

	// slot is held by the goroutine that changes this call, so that changes are stored one after the other.
	slot turns.Slot

	intake     intake
	concurrent atomic.Bool // other calls of its batch run beside it, whatever they do

	refs   int          // guarded by Engine.mu
	claims claims       // of a new call, which the journal may not know yet; guarded by Engine.mu
	meter  *meter.Meter // of the tool, when the call is new and its tool is registered

	mu sync.Mutex
	// While c is lent it is replaced and not changed in place: readers may keep it. Its LastSequence is behind; see
	// last.
	c       *call.Call
	lent    bool
	stored  bool // the journal has a row
	log     calllog.Log
	stalled bool                              // the journal refused the unwritten events: they are tried again after flushPause
	lost    error                             // why the call was never accepted; watchers get it
	shared  atomic.Pointer[watch.SharedFrame] // of the newest events, when several watch; stored with mu held
	reopen  *store.Run                        // the run that this call opens anew; stored with its first change
	dirty   bool                              // in the engine's list of calls to write behind

	watchers int
	linger   *time.Timer
	cancel   context.CancelCauseFunc // of the running pipeline run; nil when none runs
	ctx      context.Context         // of the newest pipeline run
	attempt  *attempt                // of the running pipeline run, when its tool was started
}

func newActiveCall(e *Engine, key call.Key) *activeCall {
	l := &activeCall{e: e, key: key}
	l.intake.l, l.intake.output = l, calllog.Output{Config: &e.output, Key: key}
	return l
}

// claims are the run and the thread that a call may be the first of.
type claims struct{ run, thread string }

// acquire returns the call in memory, loading it if need be, with one reference that the caller must release.
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

// current returns a call as it is now.
func (e *Engine) current(ctx context.Context, key call.Key) (*call.Call, error) {
	l, err := e.acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	defer l.release()
	return l.snapshot(), nil
}

// reference returns the call's place in memory and whether the caller has to fill it.
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

// fill ends the loading of a call.
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

// release gives a reference back. The last one takes the call out of memory.
func (l *activeCall) release() {
	e := l.e
	e.mu.Lock()
	defer e.mu.Unlock()
	l.refs--
	if l.refs == 0 && e.activeCalls[l.key] == l {
		delete(e.activeCalls, l.key)
	}
}

// forget removes a call that is not in the journal from memory, even if others still look at it: its id is free.
func (e *Engine) forget(l *activeCall) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.activeCalls[l.key] == l {
		delete(e.activeCalls, l.key)
	}
}

// retain adds a reference to a call that the caller holds one of.
func (l *activeCall) retain() {
	l.e.mu.Lock()
	l.refs++
	l.e.mu.Unlock()
}

// record returns the current record. The caller must not change it.
func (l *activeCall) record() *call.Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lent = true
	return l.c
}

// peek is record for the goroutine of the pipeline run, until its next step: no other goroutine changes a record in place, except the
// revision and the last sequence of a call of the class BEHIND.
func (l *activeCall) peek() *call.Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.c
}

// snapshot returns a record for people, up to the last event that was published. It must not be changed.
func (l *activeCall) snapshot() *call.Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.snapshotLocked()
}

func (l *activeCall) snapshotLocked() *call.Call {
	published, flushed := l.log.Published(), l.log.Published() <= l.log.Written()
	if l.stored && l.c.LastSequence == published && flushed {
		l.lent = true // most that is looked at waits or has ended: a thousand watchers need no copy each
		return l.c
	}
	c := *l.c
	c.LastSequence = published
	if !l.stored {
		c.Revision = 0 // not_stored in the API; the change that stores the call may be under way
	}
	if !l.stored || !flushed { // a crash could still lose it: it becomes SYNC when it is stored, if at all
		c.Class = call.Behind
	}
	return &c
}

// stop cancels what runs; it does nothing when nothing does.
func (l *activeCall) stop(cause error) {
	l.mu.Lock()
	running := l.attempt
	if l.cancel != nil {
		l.cancel(cause) // with the lock: an attempt that begins sees either this or is seen here
	}
	l.mu.Unlock()
	if running != nil {
		running.stopped()
	}
}

// A step is one change of a call's record, with the events that publish it.
type step struct {
	apply      func(c *call.Call) // on a copy of the record; nil changes nothing
	events     []call.Event
	filtered   bool // the events passed the filters
	late       bool // it may find that the call has ended: a BEHIND call ends without the slot
	durability store.Durability

	notAfter, notBefore time.Time
	decision            *store.Decision
	documents           []store.DocumentChange
	group               string // whose members claim documents against each other
	records             []store.Record
	kept                []store.Record // what filters keep of the events
	run                 *store.Run
	rule                *call.Rule
	policies            []store.Policy // the rule, as it is stored
	actions             []store.Action
}

// needsSync reports whether a step must not be lost.
func (s *step) needsSync() bool {
	return s.decision != nil || len(s.documents) > 0 || len(s.records) > 0 || len(s.actions) > 0 || s.run != nil || !s.notAfter.IsZero() || !s.notBefore.IsZero()
}

// advance makes a step: at once for a BEHIND call, through the journal for a SYNC one.
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

// stepLocked makes a step on the record: in place when no reader has it.
func (l *activeCall) stepLocked(s *step) error {
	if l.lent {
		next, err := l.nextLocked(s)
		if err == nil {
			l.c, l.lent = next, false
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

// nextLocked returns the record after a step, or why the step is illegal.
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

// legal refuses steps that the table of transitions does not have.
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
	return errIllegal
}

// commit makes a step through the journal and returns when it is there. A call of the class BEHIND becomes SYNC.
func (l *activeCall) commit(s step) error {
	l.slot.Take()
	defer l.unslot()
	return l.commitSlotted(s)
}

// commitSlotted is commit for a caller that holds the slot. Documents never decide the outcome of a call: a step that the journal does not
// take with them is made without.
func (l *activeCall) commitSlotted(s step) error {
	if !s.filtered {
		s.events, s.kept = l.intake.step(s.events)
		s.filtered = true
	}
	err := l.commitOnce(s)
	if len(s.documents) > 0 && errors.Is(err, store.ErrConflict) {
		err = l.commitOnce(s) // others changed the documents while a group was tried again
	}
	if len(s.documents) > 0 && rejectsContent(err) {
		l.e.log.Error("documents dropped: the journal refused them", zap.String("call_id", l.key.ID), zap.Error(err))
		s.documents, s.events = nil, documents.Lost(s.events)
		err = l.commitOnce(s)
	}
	return err
}

func (l *activeCall) commitOnce(s step) error {
	l.mu.Lock()
	if l.lost != nil {
		defer l.mu.Unlock()
		return l.lost
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
	if wasBehind { // from here on events are published after they are written
		promoted := *l.c
		promoted.Class = call.Sync
		l.c = &promoted
	}
	l.mu.Unlock()

	tell := l.e.batches.Moving(next, status)
	defer func() { tell(err == nil) }()
	err = l.submit(change)
	if err == nil && s.rule != nil {
		l.e.cfg.Policies.PutRule(s.rule)
	}
	if err == nil && s.run != nil {
		l.e.owners.Note(s.run) // before the end is published: the next call may come at once
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
	events = change.Events // without those of documents that were not there
	l.c, l.stored = next, true
	l.log.Wrote(next.LastSequence)
	l.log.GiveBack(next.LastSequence) // documents may have dropped events
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

// runLocked returns the run's new state: the step's own, else that it is open again.
func (l *activeCall) runLocked(r *store.Run) *store.Run {
	if r == nil && !l.stored {
		return l.reopen
	}
	return r
}

// submit hands a change to the journal and waits.
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
		l.e.watches.Wake(l.record())
		l.e.outbox.Committed(change.Actions)
	}
	return err
}

// unslot gives the slot back and writes what came together meanwhile.
func (l *activeCall) unslot() {
	l.slot.Give()
	l.mu.Lock()
	more := l.c != nil && l.c.Class == call.Sync && l.stored && !l.stalled && l.log.Unwritten()
	l.mu.Unlock()
	if more {
		l.kick()
	}
}

// metered returns the meter of a call. A new call of a registered tool holds it.
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

// meterLocked counts a change of the record that was made.
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
