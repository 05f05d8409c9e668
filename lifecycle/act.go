package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
	"go.uber.org/zap"
)

const (
	// actMost is the longest that the next look for actions waits.
	actMost = 15 * time.Second
	// actPage is how many actions are looked at together, actAtOnce how many calls' actions run at the same time.
	actPage   = 64
	actAtOnce = 8
	// maxError bounds what is kept of an error, in bytes.
	maxError = 1 << 10
)

// actDelays are between the attempts at an action; there is one more attempt than there are delays.
var actDelays = [...]time.Duration{time.Second, 5 * time.Second, 30 * time.Second, 2 * time.Minute}

// acting is what carries out actions.
type acting struct {
	woken chan struct{} // has room for one

	mu   sync.Mutex
	next time.Time // when one is due again that failed
	busy map[call.Key]bool
}

func (a *acting) wake() {
	select {
	case a.woken <- struct{}{}:
	default:
	}
}

// take reports whether nobody else carries out this action now.
func (a *acting) take(key call.Key) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.busy[key] {
		return false
	}
	if a.busy == nil {
		a.busy = map[call.Key]bool{}
	}
	a.busy[key] = true
	return true
}

func (a *acting) give(key call.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.busy, key)
}

// until returns how long the next look waits.
func (a *acting) until(now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.next.IsZero() {
		return actMost
	}
	wait := min(max(a.next.Sub(now), time.Millisecond), actMost)
	a.next = time.Time{}
	return wait
}

func (a *acting) again(at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.next.IsZero() || at.Before(a.next) {
		a.next = at
	}
}

// Act carries out the actions of calls that have committed. It blocks until ctx is done; the attempts that ctx cuts off are made
// again by the next daemon.
func (e *Engine) Act(ctx context.Context) error {
	if due, err := e.store.Actions(ctx, store.ActionQuery{State: store.ActionPending, Due: true, Limit: 1}); err == nil && len(due) > 0 && e.held.on.Load() {
		e.log.Error("actions of calls that have ended are held, because the store was copied or restored: toold release --all carries them out")
	}
	for {
		if err := e.actDue(ctx); err != nil && ctx.Err() == nil {
			e.log.Warn("actions not carried out; will try again", zap.Error(err))
		}
		timer := time.NewTimer(e.actions.until(e.store.Now()))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-e.actions.woken:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// actDue carries out what is due, until nothing is.
func (e *Engine) actDue(ctx context.Context) error {
	for limit := actPage; ctx.Err() == nil && !e.held.on.Load(); { // those of a copy are the original's
		due, err := e.store.Actions(ctx, store.ActionQuery{State: store.ActionPending, Due: true, Limit: limit})
		if err != nil {
			return err
		}
		switch moved := e.actAll(ctx, due); {
		case moved > 0:
		case len(due) < limit:
			return nil
		default: // those that cannot be moved must not hide the others
			limit *= 4
		}
	}
	return nil
}

// actAll carries out actions, those of one call in their order. It returns how many it settled.
func (e *Engine) actAll(ctx context.Context, actions []store.Action) int {
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
	moved, places := 0, make(chan struct{}, actAtOnce)
	for _, key := range order {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			for _, a := range of[key] {
				if e.act(ctx, a) {
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

// act makes one attempt at an action and stores what came of it. It reports whether the action stands otherwise now.
func (e *Engine) act(ctx context.Context, a store.Action) bool {
	key := call.Key{Namespace: a.Namespace, ID: a.ID}
	if a.Broken || ctx.Err() != nil || !e.actions.take(key) {
		return false
	}
	defer e.actions.give(key)
	if e.Own(ctx) != nil {
		return false // the daemon that has the journal does it
	}
	got, err := e.handle(ctx, &a)
	if ctx.Err() != nil {
		return false // it is nobody's fault
	}
	done := &store.Amendment{Namespace: a.Namespace, Done: a.ID, Limits: e.cfg.Documents.limits()}
	if err != nil {
		done.Actions = []store.Action{e.afterFailure(a, err)}
	} else {
		origin := a
		origin.Round, origin.Attempts, origin.Error = a.Round+1, 0, ""
		done.Actions = e.newActions(origin, got.Actions, a.Phase == tool.RunEnd)
		done.Documents = e.handlerDocuments(&a, got.Documents)
	}
	e.cfg.FailPoint("before-action-done")
	told, err := e.store.Amend(context.WithoutCancel(ctx), done)
	if errors.Is(err, store.ErrFatal) {
		e.fatal(err)
	}
	if err != nil {
		if !errors.Is(err, store.ErrNotFound) { // it was purged
			e.log.Warn("action not settled; it is made again", zap.String("action_id", a.ID), zap.Error(err))
			e.actions.again(e.store.Now().Add(actDelays[0]))
		}
		return errors.Is(err, store.ErrNotFound)
	}
	for _, n := range told {
		if n.Conflict != "" {
			e.log.Warn("document command of an action dropped", zap.String("action_id", a.ID), zap.String("key", n.Key), zap.String("conflict", string(n.Conflict)))
		}
	}
	return true
}

// handle asks the handler.
func (e *Engine) handle(ctx context.Context, a *store.Action) (hook.ActionResult, error) {
	entry, ok := e.handler(a.Handler)
	if !ok {
		return hook.ActionResult{}, errNoHandler
	}
	in := &hook.ActionInput{
		ID: a.ID, Namespace: a.Namespace, CallID: a.CallID, Run: a.Run, Thread: a.Thread, Batch: a.Batch, Caller: a.Caller,
		Phase: a.Phase, Payload: or(a.Payload, "null"), Round: a.Round, Attempt: a.Attempts + 1,
		Documents: &snapshot{e: e, namespace: a.Namespace, run: a.Run, thread: a.Thread},
	}
	return hook.Bounded(ctx, or(entry.Deadline, hook.HandlerDeadline), func(ctx context.Context) (hook.ActionResult, error) { return entry.Hook.Handle(ctx, in) })
}

var errNoHandler = errors.New("there is no such handler")

// afterFailure returns an action as it stands after an attempt that failed: due again a little later, or dead.
func (e *Engine) afterFailure(a store.Action, err error) store.Action {
	e.stats.hookFailures.Add(1)
	a.Attempts++
	text := e.scrubbed(err.Error())
	a.Error = readable(text[:min(len(text), maxError)])
	fields := []zap.Field{zap.String("action_id", a.ID), zap.String("call_id", a.CallID), zap.String("handler", a.Handler), zap.Int("attempt", a.Attempts), zap.String("error", a.Error)}
	if a.Attempts > len(actDelays) || errors.Is(err, errNoHandler) {
		a.State, a.Due = store.ActionDead, time.Time{}
		e.log.Error("action failed and is kept as a dead letter", fields...)
		return a
	}
	a.Due = e.store.Now().Add(actDelays[a.Attempts-1])
	e.actions.again(a.Due)
	e.log.Warn("action failed; will try again", fields...)
	return a
}

// scrubbed is a text without what the filters keep secret.
func (e *Engine) scrubbed(text string) string {
	for _, s := range are[hook.Scrubber](e.hooks.Load().Filter) {
		if hook.Safely(func() error { text = s.Text(text); return nil }) != nil {
			return notShown
		}
	}
	return text
}

// handlerDocuments turns the commands of a handler into changes, as those of a call are.
func (e *Engine) handlerDocuments(a *store.Action, commands []tool.Command) []store.DocumentChange {
	var changes []store.DocumentChange
	in := snapshot{run: a.Run, thread: a.Thread}
	for i := range commands {
		id, ok := in.scopeID(commands[i].Scope)
		err := call.CheckCommand(&commands[i])
		switch {
		case !ok:
			err = errors.New("the call has no such scope")
		case len(changes) >= maxCommands:
			err = fmt.Errorf("there are more than %d", maxCommands)
		}
		if err != nil {
			e.log.Warn("document command dropped", zap.String("action_id", a.ID), zap.String("key", commands[i].Key), zap.Error(err))
			continue
		}
		changes = append(changes, store.DocumentChange{ScopeID: id, Command: commands[i]})
	}
	return changes
}

// actAtEnd carries out what waits for the end of a run, as far as that is quickly done; the rest is due from then on.
func (e *Engine) actAtEnd(ctx context.Context, namespace, run string) error {
	if e.held.on.Load() {
		return nil
	}
	waiting := store.ActionQuery{Namespace: namespace, Phase: tool.RunEnd, End: run, Limit: actPage}
	actions, err := e.store.Actions(ctx, waiting)
	if err != nil || len(actions) == 0 {
		return err
	}
	quickly, cancel := context.WithTimeout(ctx, runEndTime)
	defer cancel()
	for err == nil && len(actions) > 0 && e.actAll(quickly, actions) > 0 {
		waiting.After = actions[len(actions)-1].Position // what failed is due again later
		actions, err = e.store.Actions(ctx, waiting)
	}
	if err == nil {
		_, err = e.store.Amend(ctx, &store.Amendment{Namespace: namespace, Ended: run, EndPhase: tool.RunEnd})
		e.actions.wake()
	}
	return err
}

// runEndTime is what the actions at the end of a run may take before its documents go.
const runEndTime = 10 * time.Second
