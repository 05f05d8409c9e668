package crash_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// These constants name what the client does in the life that ends at the fail point.
const (
	starts  = "start"
	decides = "decide"
	cancels = "cancel"
)

// TestNamedPoints kills the daemon at each point of a call's life that leads to a different recovery. T84 is the kill after the tool's work
// and before its result is stored. T107 is the kill between the commit of a cancel and the end of the command.
func TestNamedPoints(t *testing.T) { namedPoints(t, 1, func(*loop) {}) }

// namedPoints tests each point, or one of n points if the parameter every is n. keepIn chooses the store.
func namedPoints(t *testing.T, every int, keepIn func(*loop)) {
	t.Helper()
	const (
		suspended  = tooldv1.CallStatus_CALL_STATUS_SUSPENDED
		succeeded  = tooldv1.CallStatus_CALL_STATUS_SUCCEEDED
		failed     = tooldv1.CallStatus_CALL_STATUS_FAILED
		cancelled  = tooldv1.CallStatus_CALL_STATUS_CANCELLED
		notStarted = tooldv1.Executed_EXECUTED_NOT_STARTED
		finished   = tooldv1.Executed_EXECUTED_FINISHED
		unknown    = tooldv1.Executed_EXECUTED_UNKNOWN
	)
	ran, not := []string{original}, []string(nil)
	tests := []struct {
		name, kind, act, point string
		status                 tooldv1.CallStatus // status of the call in the next life; zero means that the daemon does not know the call
		executed               tooldv1.Executed
		lines                  []string // traces that exist before any client sends another request
	}{
		{"before a call is stored", "command", starts, "before-commit:1", 0, 0, not},
		{"the transaction of a call is open", "command", starts, "write:1", 0, 0, not},
		{"a call is stored and nobody was told", "command", starts, "after-commit:1", failed, unknown, not},
		{"before the tool starts", "command", starts, "before-tool:1", failed, unknown, not},
		{"T84 after the tool ended", "command", starts, "after-tool:1", failed, unknown, ran},
		{"T84 before its result is stored", "command", starts, "before-result:1", failed, unknown, ran},
		{"after its result is stored, before the event", "command", starts, "after-result:1", succeeded, finished, ran},
		{"before a question is stored", "gated", starts, "before-commit:1", 0, 0, not},
		{"after a question is stored, before it is told", "gated", starts, "after-commit:1", suspended, notStarted, not},
		{"before a decision is stored", "gated", decides, "before-commit:1", suspended, notStarted, not},
		{"after a decision is stored, before it is told", "gated", decides, "after-commit:1", succeeded, finished, ran},
		{"a decided call before its tool starts", "gated", decides, "before-tool:1", failed, unknown, not},
		{"a decided call after its tool ended", "gated", decides, "after-tool:1", failed, unknown, ran},
		{"an edit that was applied: the file says so", "edit", decides, "after-tool:1", succeeded, finished, ran},
		{"an edit that was not applied: it runs again", "edit", decides, "after-commit:3", succeeded, finished, ran},
		{"an edit before its tool starts: nothing says what became of it", "edit", decides, "before-tool:1", failed, unknown, not},
		{"a decided call after its result is stored", "gated", decides, "after-result:1", succeeded, finished, ran},
		{"an answer after it is stored", "question", decides, "after-commit:1", succeeded, tooldv1.Executed_EXECUTED_STARTED, not},
		{"T107 after a cancel is stored, before the kill", "endless", cancels, "after-cancel:1", cancelled, unknown, ran},
	}
	for n, tt := range tests {
		if n%every != 0 {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			l := newLoop(t, uint64(n))
			keepIn(l)
			it := l.one(tt.kind)
			must(t, l.prepare(it))
			l.dieAt(t, it, tt.act, tt.point)
			l.withDaemon(t, "", func(life *life, rng *rand.Rand) {
				known := life.awaitStatus(t, it)
				if known.GetStatus() != tt.status || tt.status != 0 && known.GetExecuted() != tt.executed {
					t.Errorf("call = %v %v, want %v %v", known.GetStatus(), known.GetExecuted(), tt.status, tt.executed)
				}
				if lines, err := l.traces(it); it.kind.counts != "" && (err != nil || !slices.Equal(lines, tt.lines)) {
					t.Errorf("traces = %v, %v, want %v", lines, err, tt.lines)
				}
				must(t, life.verify(rng, true)) // verify repeats the requests that got no answer.
				if waiting, _ := it.Waiting(); waiting != nil {
					life.answer(it, waiting.GetSuspensionId(), yes(it, waiting), false)
				}
				must(t, life.verify(rng, true))
				if it.Ended() == nil {
					t.Error("the call did not end")
				}
			})
			for _, v := range l.led.Broken() {
				t.Error(v)
			}
		})
	}
}

// one makes a call of the kind with this name.
func (l *loop) one(name string) *item {
	k := l.kinds[slices.IndexFunc(l.kinds, func(k *kind) bool { return k.name == name })]
	it := newItem(l.led, k, fmt.Sprintf("call-%s-%05d-%s", l.tag, len(l.items), name), 1)
	l.items, l.byID[it.ID] = append(l.items, it), it
	return it
}

// dieAt brings a call to the point at which its daemon dies.
func (l *loop) dieAt(t *testing.T, it *item, act, point string) {
	t.Helper()
	if act == decides {
		l.withDaemon(t, "", func(life *life, rng *rand.Rand) { life.start(it, rng) })
	}
	d := l.withDaemon(t, point, func(life *life, rng *rand.Rand) {
		switch act {
		case starts:
			life.start(it, rng)
		case decides:
			open, _ := it.Waiting()
			life.answer(it, open.GetSuspensionId(), yes(it, open), false)
		case cancels:
			life.start(it, rng)
			for lines, err := l.traces(it); err == nil && len(lines) == 0 && life.ctx.Err() == nil; lines, err = l.traces(it) {
				time.Sleep(time.Millisecond) // Wait until the command has started.
			}
			life.unexpected(it, "cancel", life.cancel(it, time.Second))
		}
		if !life.d.dead() {
			t.Errorf("the point %s was not met", point)
		}
	})
	if atPoint, err := d.died(); err != nil || !atPoint {
		t.Errorf("the daemon died at its point: %t, %v", atPoint, err)
	}
}

// yes returns an approval of a question. If a decision was already sent, it returns that decision.
func yes(it *item, open *tooldv1.Suspension) *tooldv1.Decision {
	if sent := it.Sent(); len(sent) > 0 {
		return sent[0].Decision
	}
	d := &tooldv1.Decision{DecisionId: "decision-of-" + it.ID, Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, ExpectedDigest: open.GetDigest()}
	if it.kind.answer != nil {
		d.Result = jsonText(it.kind.answer)
	}
	return d
}

// withDaemon runs a daemon until it dies at its point, or until use returns and withDaemon kills it.
func (l *loop) withDaemon(t *testing.T, point string, use func(*life, *rand.Rand)) *daemon {
	t.Helper()
	d, err := l.home.start(point)
	must(t, err)
	defer d.kill()
	served, err := d.awaitReady()
	must(t, err)
	if !served {
		t.Fatalf("the daemon did not serve: %v\n%s", d.cmd.ProcessState, d.log)
	}
	life, err := l.begin(d, int(d.epoch))
	must(t, err)
	defer life.end()
	use(life, rand.New(rand.NewPCG(1, 1)))
	if t.Failed() {
		t.Log(d.log)
	}
	return d
}

// awaitStatus returns the call's record once it has ended or is suspended. It returns nil when the daemon does not know the call.
func (l *life) awaitStatus(t *testing.T, it *item) *tooldv1.Call {
	t.Helper()
	for deadline := time.Now().Add(startWithin); ; time.Sleep(10 * time.Millisecond) {
		ctx, cancel := as(l.ctx, it.kind.caller)
		answer, err := l.get(ctx, it.ID)
		cancel()
		if err != nil {
			return nil
		}
		c := answer.GetCall()
		if c.GetResult() != nil || c.GetSuspension() != nil {
			return c
		}
		if time.Now().After(deadline) {
			t.Errorf("call %s stays %v", it.ID, c.GetStatus())
			return c
		}
	}
}
