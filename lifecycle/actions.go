package lifecycle

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
	"go.uber.org/zap"
)

const (
	// maxActions bounds what one step of a call, or one action, asks for.
	maxActions = 32
	// maxPayload bounds what an action carries, in bytes.
	maxPayload = 64 << 10
	// maxRounds bounds how far actions lead to actions.
	maxRounds = 16
	// runEndLatest is when an action for the end of a run is carried out although nobody has ended the run.
	runEndLatest = 24 * time.Hour
)

// checkAction returns what is wrong with an action, whoever would carry it out.
func checkAction(a *tool.Action) error {
	switch a.Phase {
	case tool.AfterCommit, tool.BatchEnd, tool.RunEnd:
	default:
		return fmt.Errorf("there is no phase %q", a.Phase)
	}
	switch {
	case a.Handler == "" || len(a.Handler) > call.MaxDocumentKey:
		return errors.New("it names no handler")
	case len(a.Payload) > maxPayload:
		return fmt.Errorf("the payload has %d bytes; %d are allowed", len(a.Payload), maxPayload)
	case a.Payload == "":
		return nil
	}
	_, err := call.ParseJSON(a.Payload, 0)
	return err
}

// storedActions is what a step of the call stores of what was asked for. An action that is malformed is a bug of its author: it
// is dropped and logged.
func (p *pass) storedActions(asked []tool.Action) []store.Action {
	if len(asked) == 0 {
		return nil
	}
	c := p.l.peek()
	over := c.Run.ID != "" && p.l.e.owners.hasEnded(belonging{namespace: c.Namespace, run: c.Run.ID})
	return p.l.e.newActions(store.Action{
		Namespace: c.Namespace, CallID: c.ID, Run: c.Run.ID, Thread: c.Run.Thread, Batch: c.BatchID, Caller: c.Caller.Subject, Round: 1,
	}, asked, over)
}

// newActions makes stored actions of what was asked for, in the place of origin. over says that its run has ended.
func (e *Engine) newActions(origin store.Action, asked []tool.Action, over bool) []store.Action {
	var actions []store.Action
	for i := range asked {
		err := checkAction(&asked[i])
		if len(actions) >= maxActions {
			err = fmt.Errorf("there are more than %d", maxActions)
		}
		if err != nil {
			e.log.Warn("action dropped", zap.String("call_id", origin.CallID), zap.String("handler", asked[i].Handler), zap.Error(err))
			continue
		}
		a := origin
		a.ID, a.Action, a.State, a.Created = "a-"+newID(), asked[i], store.ActionPending, e.store.Now()
		a.Due = a.Created
		switch {
		case a.Round > maxRounds:
			a.State, a.Due, a.Error = store.ActionDead, time.Time{}, fmt.Sprintf("actions led to actions for more than %d rounds", maxRounds)
			e.log.Error("action is kept as a dead letter", zap.String("action_id", a.ID), zap.String("call_id", a.CallID), zap.String("handler", a.Handler), zap.String("error", a.Error))
		case a.Phase == tool.BatchEnd && a.Batch != "":
			a.Due = time.Time{}
		case a.Phase == tool.RunEnd && a.Run != "" && !over:
			a.Due = a.Created.Add(runEndLatest)
		}
		actions = append(actions, a)
	}
	return actions
}

// handler finds who carries out actions of this name.
func (e *Engine) handler(name string) (hook.Entry[hook.Handler], bool) {
	handlers := e.hooks.Load().Handler
	i := slices.IndexFunc(handlers, func(h hook.Entry[hook.Handler]) bool { return h.Name == name })
	if i < 0 {
		return hook.Entry[hook.Handler]{}, false
	}
	return handlers[i], true
}
