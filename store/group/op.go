package group

import (
	"context"
	"encoding/json"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// An Op is one write: a Change, or the function Run.
type Op struct {
	Change   *store.Change
	Record   []byte // stored form of the change's call
	Events   []byte // stored form of the change's events
	Decision []byte // stored form of the change's decision

	// Run is an alternative to a Change: it writes other data in its own transaction. It may add writes to the plan.
	Run  func(context.Context, *Plan) error
	Bare bool // Run runs without a transaction.
	Slow bool // Run has no time limit.

	// Err is the reason why the op was refused, or nil.
	Err error

	notices []call.DocumentNotice // the notices that the change's callback received
	memory  []byte                // buffer of Record and Events
	done    func(error)
}

// Size returns about how many bytes the op writes.
func (o *Op) Size() int { return len(o.Record) + len(o.Events) + 256 }

// prepare encodes a change in the goroutine that submits it, to save work in the writer's goroutine. A change with documents is encoded
// later, because its callback may still modify it.
func (o *Op) prepare() (err error) {
	if err := o.Change.Validate(); err != nil {
		return err
	}
	if d := o.Change.Decision; d != nil && !d.Decision.Time.IsZero() {
		if o.Decision, err = json.Marshal(d); err != nil {
			return err
		}
	}
	if len(o.Change.Documents) > 0 {
		return nil
	}
	return o.encode()
}

func (o *Op) encode() (err error) {
	b := o.memory[:0]
	if o.Change.Call != nil {
		if b, err = call.AppendCall(b, o.Change.Call); err != nil {
			return err
		}
	}
	record := len(b)
	if len(o.Change.Events) > 0 {
		if b, err = call.AppendEvents(b, o.Change.Events); err != nil {
			return err
		}
	}
	o.memory, o.Record, o.Events = b, b[:record], b[record:]
	return nil
}
