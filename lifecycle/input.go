package lifecycle

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/input"
	"github.com/toold-dev/toold/lifecycle/view"
	"github.com/toold-dev/toold/tool"
)

// Input implements [tool.Interactor].
func (r *reporter) Input(c tool.Controls) (io.ReadCloser, error) {
	k := input.New(c)
	if !r.keys.CompareAndSwap(nil, k) {
		return nil, errors.New("the call already takes input")
	}
	l := r.p.l
	l.mu.Lock()
	a := l.attempt
	l.mu.Unlock()
	if r.closed.Load() || a != nil && a.stopping.Load() {
		k.Close()
	}
	return k, nil
}

// openingTime is how long SendInput waits for a tool that has just begun and has not asked for input yet.
const openingTime = time.Second

// SendInput sends input to a running call of the principal. It returns the state of the input, with the position up to which bytes were
// accepted.
func (e *Engine) SendInput(ctx context.Context, p tool.Principal, id string, in call.Input) (call.InputState, error) {
	if err := input.Check(&in); err != nil {
		return call.InputState{}, err
	}
	l, err := e.acquireVisible(ctx, p, id)
	if err != nil {
		return call.InputState{}, err
	}
	defer l.release()
	if !view.Owns(p, l.record()) {
		return call.InputState{}, call.Refuse(call.PermissionDenied, "NOT_YOUR_CALL", "only its caller may send input to call %q", id)
	}
	for began := time.Now(); ; {
		k, attempt, err := l.keyboard()
		if k != nil && in.Attempt != 0 && in.Attempt != attempt {
			return call.InputState{}, call.Refuse(call.FailedPrecondition, "OTHER_ATTEMPT", "attempt %d of call %q runs now, not %d", attempt, id, in.Attempt)
		}
		if k != nil {
			return k.Send(in, attempt)
		}
		if errors.Is(err, errNotRunning) || time.Since(began) > openingTime {
			return call.InputState{}, err
		}
		select { // Wait, because the tool may not have asked for input yet.
		case <-ctx.Done():
			return call.InputState{}, err
		case <-time.After(openingTime / 50):
		}
	}
}

var errNotRunning = call.Refuse(call.FailedPrecondition, "NOT_RUNNING", "the call does not run, so it takes no input")

// keyboard returns the keyboard and the number of the running attempt, or an error when the call does not read input.
func (l *activeCall) keyboard() (*input.Keyboard, int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.attempt
	if l.c.Status != call.Running {
		return nil, 0, errNotRunning
	}
	if a == nil || a.p.owner.Load() != attemptRuns {
		return nil, 0, call.Refuse(call.FailedPrecondition, "NO_INPUT", "call %q takes no input", l.key.ID)
	}
	k := a.reporter.keys.Load()
	if k == nil {
		return nil, 0, call.Refuse(call.FailedPrecondition, "NO_INPUT", "call %q takes no input", l.key.ID)
	}
	return k, max(a.p.attempt, 1), nil
}
