package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

const (
	// actMost is the longest time between two checks for due actions.
	actMost = 15 * time.Second
	// actPage is the number of actions that one query returns. actAtOnce is the number of calls whose actions run concurrently.
	actPage   = 64
	actAtOnce = 8
	// maxError bounds the stored text of an error, in bytes.
	maxError = 1 << 10
)

// actDelays are the delays between the attempts to execute an action. An action fails for good when the attempt after the last delay fails.
var actDelays = [...]time.Duration{time.Second, 5 * time.Second, 30 * time.Second, 2 * time.Minute}

// An Outbox executes the stored actions of calls. Its methods may be called concurrently.
type Outbox struct {
	cfg   Config
	woken chan struct{} // capacity 1

	mu   sync.Mutex
	next call.Stamp // time at which the next failed action is due again; zero when there is none
	busy map[call.Key]bool
}

// A Config holds the dependencies of an Outbox. All fields are required.
type Config struct {
	Store     store.Store
	Log       *zap.Logger
	Limits    store.DocumentLimits
	Hooks     func() *hook.Set            // returns the hooks in force
	Held      func() bool                 // reports whether the actions may belong to another store, from which this store was copied
	Own       func(context.Context) error // returns an error when nothing may start, because another daemon may own the journal
	Documents func(namespace, run, thread string) tool.Documents
	Fatal     func(error) // reports that the journal failed
	Failed    func()      // counts a failed hook
	FailPoint func(name string)
}

// New returns an Outbox.
func New(cfg Config) *Outbox { return &Outbox{cfg: cfg, woken: make(chan struct{}, 1)} }

// Wake makes Run check for due actions now.
func (o *Outbox) Wake() {
	select {
	case o.woken <- struct{}{}:
	default:
	}
}

// take reserves an action for the calling goroutine, which must release it with give. It returns false when another goroutine has the
// action.
func (o *Outbox) take(key call.Key) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.busy[key] {
		return false
	}
	if o.busy == nil {
		o.busy = map[call.Key]bool{}
	}
	o.busy[key] = true
	return true
}

func (o *Outbox) give(key call.Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.busy, key)
}

// until returns how long Run waits before the next check.
func (o *Outbox) until(now call.Stamp) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.next == 0 {
		return actMost
	}
	wait := min(max(o.next.Sub(now), time.Millisecond), actMost)
	o.next = 0
	return wait
}

func (o *Outbox) again(at call.Stamp) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.next == 0 || at < o.next {
		o.next = at
	}
}

// Run executes due actions until ctx is done. If ctx interrupts the execution of an action, the next daemon executes the action again.
func (o *Outbox) Run(ctx context.Context) error {
	if due, err := o.cfg.Store.Actions(ctx, store.ActionQuery{State: store.ActionPending, Due: true, Limit: 1}); err == nil && len(due) > 0 && o.cfg.Held() {
		o.cfg.Log.Error("actions of ended calls are held, because the store was copied or restored: toold release --all runs them")
	}
	for {
		if err := o.actDue(ctx); err != nil && ctx.Err() == nil {
			o.cfg.Log.Warn("actions not run; will try again", zap.Error(err))
		}
		timer := time.NewTimer(o.until(o.cfg.Store.Now()))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-o.woken:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// actDue executes due actions until none is left.
func (o *Outbox) actDue(ctx context.Context) error {
	for limit := actPage; ctx.Err() == nil && !o.cfg.Held(); {
		due, err := o.cfg.Store.Actions(ctx, store.ActionQuery{State: store.ActionPending, Due: true, Limit: limit})
		if err != nil {
			return err
		}
		switch moved := o.actAll(ctx, due); {
		case moved > 0:
		case len(due) < limit:
			return nil
		default: // Read more actions, so that actions that cannot be executed now do not hide the others.
			limit *= 4
		}
	}
	return nil
}

// actAll executes actions, those of each call in their order. It returns how many of the stored actions it changed.
func (o *Outbox) actAll(ctx context.Context, actions []store.Action) int {
	of := map[call.Key][]store.Action{}
	var order []call.Key
	for _, a := range actions {
		key := call.Key{Namespace: a.Namespace, ID: a.CallID}
		if of[key] == nil {
			order = append(order, key)
		}
		of[key] = append(of[key], a)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	moved, slots := 0, make(chan struct{}, actAtOnce)
	for _, key := range order {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			for _, a := range of[key] {
				if o.act(ctx, a) {
					mu.Lock()
					moved++
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	return moved
}

// act tries once to execute an action and stores the outcome. It reports whether the stored action changed.
func (o *Outbox) act(ctx context.Context, a store.Action) bool {
	key := call.Key{Namespace: a.Namespace, ID: a.ID}
	if a.Broken || ctx.Err() != nil || !o.take(key) {
		return false
	}
	defer o.give(key)
	if o.cfg.Own(ctx) != nil {
		return false // Only the daemon that owns the journal may execute the action.
	}
	got, err := o.handle(ctx, &a)
	if ctx.Err() != nil {
		return false // An interrupted execution does not count as a failure of the action.
	}
	done := &store.Amendment{Namespace: a.Namespace, Done: a.ID, Limits: o.cfg.Limits}
	if err != nil {
		done.Actions = []store.Action{o.afterFailure(a, err)}
	} else {
		origin := a
		origin.Round, origin.Attempts, origin.Error = a.Round+1, 0, ""
		done.Actions = o.Actions(origin, got.Actions, a.Phase == tool.RunEnd)
		done.Documents = o.handlerDocuments(&a, got.Documents)
	}
	o.cfg.FailPoint("before-action-done")
	notices, err := o.cfg.Store.Amend(context.WithoutCancel(ctx), done)
	if errors.Is(err, store.ErrFatal) {
		o.cfg.Fatal(err)
	}
	if err != nil {
		if !errors.Is(err, store.ErrNotFound) { // ErrNotFound means that the action was purged meanwhile.
			o.cfg.Log.Warn("outcome of an action not stored; the action will run again", zap.String("action_id", a.ID), zap.Error(err))
			o.again(o.cfg.Store.Now().Add(actDelays[0]))
		}
		return errors.Is(err, store.ErrNotFound)
	}
	for _, n := range notices {
		if n.Conflict != "" {
			o.cfg.Log.Warn("document command of an action dropped", zap.String("action_id", a.ID), zap.String("key", n.Key), zap.String("conflict", string(n.Conflict)))
		}
	}
	return true
}

// handle calls the handler of an action.
func (o *Outbox) handle(ctx context.Context, a *store.Action) (hook.ActionResult, error) {
	entry, ok := o.handler(a.Handler)
	if !ok {
		return hook.ActionResult{}, errNoHandler
	}
	in := &hook.ActionInput{
		ID: a.ID, Namespace: a.Namespace, CallID: a.CallID, Run: a.Run, Thread: a.Thread, Batch: a.Batch, Caller: a.Caller,
		Phase: a.Phase, Payload: cmp.Or(a.Payload, "null"), Round: a.Round, Attempt: a.Attempts + 1,
		Documents: o.cfg.Documents(a.Namespace, a.Run, a.Thread),
	}
	return hook.Bounded(ctx, cmp.Or(entry.Deadline, hook.HandlerDeadline), func(ctx context.Context) (hook.ActionResult, error) { return entry.Hook.Handle(ctx, in) })
}

var errNoHandler = errors.New("there is no such handler")

// afterFailure returns the action to store after its execution failed. The action is due again later. After the last attempt it is dead.
func (o *Outbox) afterFailure(a store.Action, err error) store.Action {
	o.cfg.Failed()
	a.Attempts++
	a.Error = o.errorText(err.Error())
	fields := []zap.Field{zap.String("action_id", a.ID), zap.String("call_id", a.CallID), zap.String("handler", a.Handler), zap.Int("attempt", a.Attempts), zap.String("error", a.Error)}
	if a.Attempts > len(actDelays) || errors.Is(err, errNoHandler) {
		a.State, a.Due = store.ActionDead, 0
		o.cfg.Log.Error("action failed and is kept as a dead letter", fields...)
		return a
	}
	a.Due = o.cfg.Store.Now().Add(actDelays[a.Attempts-1])
	o.again(a.Due)
	o.cfg.Log.Warn("action failed; will try again", fields...)
	return a
}

// errorText returns the form of an error text that is stored: shortened, and without the secrets that filters remove.
func (o *Outbox) errorText(text string) string {
	for _, f := range o.cfg.Hooks().Filter {
		s, ok := f.Hook.(hook.Scrubber)
		if ok && hook.Safely(func() error { text = s.Text(text); return nil }) != nil {
			return "(not shown: a filter failed)"
		}
	}
	return strings.ToValidUTF8(text[:min(len(text), maxError)], "\uFFFD")
}

// handlerDocuments converts the document commands of a handler to document changes. It drops and logs malformed commands.
func (o *Outbox) handlerDocuments(a *store.Action, commands []tool.Command) []store.DocumentChange {
	var changes []store.DocumentChange
	for i := range commands {
		id, ok := commands[i].Scope.ID(a.Run, a.Thread)
		err := call.CheckCommand(&commands[i])
		switch {
		case !ok:
			err = errors.New("the call has no such scope")
		case len(changes) >= call.MaxCommands:
			err = fmt.Errorf("there are more than %d", call.MaxCommands)
		}
		if err != nil {
			o.cfg.Log.Warn("document command dropped", zap.String("action_id", a.ID), zap.String("key", commands[i].Key), zap.Error(err))
			continue
		}
		changes = append(changes, store.DocumentChange{ScopeID: id, Command: commands[i]})
	}
	return changes
}

// EndRun executes the actions that wait for the end of a run, for at most ten seconds. It makes the remaining actions due, so that Run
// executes them.
func (o *Outbox) EndRun(ctx context.Context, namespace, run string) error {
	if o.cfg.Held() {
		return nil
	}
	waiting := store.ActionQuery{Namespace: namespace, Phase: tool.RunEnd, End: run, Limit: actPage}
	actions, err := o.cfg.Store.Actions(ctx, waiting)
	if err != nil || len(actions) == 0 {
		return err
	}
	quickly, cancel := context.WithTimeout(ctx, runEndTime)
	defer cancel()
	for err == nil && len(actions) > 0 && o.actAll(quickly, actions) > 0 {
		waiting.After = actions[len(actions)-1].Position // Continue after this position: a failed action is not repeated here but is due again later.
		actions, err = o.cfg.Store.Actions(ctx, waiting)
	}
	if err == nil {
		err = o.release(ctx, namespace, run, tool.RunEnd)
	}
	return err
}

// EndBatch makes the actions due that wait for the end of a batch. It may be called several times for the same batch.
func (o *Outbox) EndBatch(ctx context.Context, namespace, batch string) error {
	waiting := store.ActionQuery{Namespace: namespace, Phase: tool.BatchEnd, End: batch, Limit: 1}
	actions, err := o.cfg.Store.Actions(ctx, waiting)
	if err != nil || len(actions) == 0 {
		return err
	}
	return o.release(ctx, namespace, batch, tool.BatchEnd)
}

// release makes the actions due that wait for the end of a run or a batch.
func (o *Outbox) release(ctx context.Context, namespace, ended string, phase tool.Phase) error {
	_, err := o.cfg.Store.Amend(ctx, &store.Amendment{Namespace: namespace, Ended: ended, EndPhase: phase})
	o.Wake()
	return err
}

// runEndTime is how long the end of a run waits for its actions. Only after that are the documents of the run removed.
const runEndTime = 10 * time.Second
