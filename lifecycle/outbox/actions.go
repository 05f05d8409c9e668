package outbox

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

const (
	// maxActions is the maximum number of actions that one step of a call may request. The same maximum applies to the actions that one
	// action requests.
	maxActions = 32
	// maxPayload bounds the payload of an action, in bytes.
	maxPayload = 64 << 10
	// maxRounds bounds a chain of actions in which each action requests the next one.
	maxRounds = 16
	// runEndLatest is the time after which actions for the end of a run are executed even if the run has not ended.
	runEndLatest = 24 * time.Hour
)

// checkAction returns an error for a malformed action.
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

// Actions returns the actions to store for a step of a call or for another action. origin describes that step or action. ended reports that
// the run of the call has ended. Malformed actions are dropped and logged, because they are bugs of the tool or hook.
func (o *Outbox) Actions(origin store.Action, asked []tool.Action, ended bool) []store.Action {
	var actions []store.Action
	for i := range asked {
		err := checkAction(&asked[i])
		if len(actions) >= maxActions {
			err = fmt.Errorf("there are more than %d", maxActions)
		}
		if err != nil {
			o.cfg.Log.Warn("action dropped", zap.String("call_id", origin.CallID), zap.String("handler", asked[i].Handler), zap.Error(err))
			continue
		}
		a := origin
		a.ID, a.Action, a.State, a.Created = newActionID(), asked[i], store.ActionPending, o.cfg.Store.Now()
		a.Due = a.Created
		switch {
		case a.Round > maxRounds:
			a.State, a.Due, a.Error = store.ActionDead, 0, fmt.Sprintf("the chain of actions has more than %d rounds", maxRounds)
			o.cfg.Log.Error("action is kept as a dead letter", zap.String("action_id", a.ID), zap.String("call_id", a.CallID), zap.String("handler", a.Handler), zap.String("error", a.Error))
		case a.Phase == tool.BatchEnd && a.Batch != "":
			a.Due = 0
		case a.Phase == tool.RunEnd && a.Run != "" && !ended:
			a.Due = a.Created.Add(runEndLatest)
		}
		actions = append(actions, a)
	}
	return actions
}

func (o *Outbox) handler(name string) (hook.Entry[hook.Handler], bool) {
	handlers := o.cfg.Hooks().Handler
	i := slices.IndexFunc(handlers, func(h hook.Entry[hook.Handler]) bool { return h.Name == name })
	if i < 0 {
		return hook.Entry[hook.Handler]{}, false
	}
	return handlers[i], true
}

func newActionID() string { return "a-" + uuid.Must(uuid.NewV7()).String() }
