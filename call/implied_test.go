package call_test

import (
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// A log is implied when it is what the record says, and not when anything in it differs.
func TestImplies(t *testing.T) {
	now := time.Now()
	c := &call.Call{
		Tool: "read", ToolDigest: "d", Class: call.Behind, Run: tool.Run{ID: "run", Thread: "thread"}, ModelCallID: "m", Status: call.Succeeded,
		Executed: call.Finished, Result: &tool.Result{Status: tool.StatusSuccess}, Created: now, Ended: now.Add(2),
		Attempts: []call.Attempt{{Number: 1, Started: now.Add(1), Ended: now.Add(2)}},
	}
	if !call.Implies(c, call.ImpliedEvents(c)) {
		t.Error("what is implied is not")
	}
	for name, change := range map[string]func([]call.Event) []call.Event{
		"one less":       func(e []call.Event) []call.Event { return e[:2] },
		"one more":       func(e []call.Event) []call.Event { return append(e, call.Event{Sequence: 4, Type: call.EventQueued}) },
		"number":         func(e []call.Event) []call.Event { e[1].Sequence++; return e },
		"first time":     func(e []call.Event) []call.Event { e[0].Time = now.Add(-1); return e },
		"last time":      func(e []call.Event) []call.Event { e[2].Time = now; return e },
		"type":           func(e []call.Event) []call.Event { e[1].Type = call.EventQueued; return e },
		"attempt":        func(e []call.Event) []call.Event { e[1].Attempt = 2; return e },
		"class":          func(e []call.Event) []call.Event { e[0].Accepted.Class = call.Sync; return e },
		"thread":         func(e []call.Event) []call.Event { e[0].Accepted.Thread = ""; return e },
		"status":         func(e []call.Event) []call.Event { e[2].Outcome.Status = call.Failed; return e },
		"another result": func(e []call.Event) []call.Event { e[2].Outcome.Result = &tool.Result{Data: "1"}; return e },
		"no outcome":     func(e []call.Event) []call.Event { e[2].Outcome = nil; return e },
		"something else": func(e []call.Event) []call.Event { e[1].Progress = &tool.Progress{}; return e },
	} {
		if call.Implies(c, change(call.ImpliedEvents(c))) {
			t.Errorf("%s: it is implied all the same", name)
		}
	}
	if c.Attempts = append(c.Attempts, call.Attempt{}); call.ImpliedEvents(c) != nil {
		t.Error("a call of two attempts implies a log")
	}
}
