package gating

import (
	"errors"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// strength orders verdicts: Block beats Suspend beats SetResult beats Allow.
var strength = map[hook.VerdictKind]int{hook.KindAllow: 0, hook.KindSetResult: 1, hook.KindSuspend: 2, hook.KindBlock: 3}

// Verdicts is what the gates of a call said, and the verdict that counts. The first of two equal ones counts.
type Verdicts struct {
	Verdict hook.Verdict // that counts
	Gate    string       // that gave it; "": no gate intercepts the call
	All     []call.GateVerdict
	winner  int // index of the gate in All
}

// NewVerdicts returns the verdicts of no gate: the call is allowed.
func NewVerdicts() Verdicts { return Verdicts{Verdict: hook.Allow()} }

// Add counts the verdict of one more gate, which the call's record keeps as shown. It returns the gate that counts and the one that it
// overrules when two gates intercept the call, else "". A gate that failed may have the zero verdict, which counts for nothing.
func (a *Verdicts) Add(gate string, v hook.Verdict, shown call.GateVerdict) (counts, overruled string) {
	a.All = append(a.All, shown)
	last := len(a.All) - 1
	switch {
	case v.Kind() == hook.KindAllow || v.Kind() == "":
		return "", ""
	case strength[v.Kind()] <= strength[a.Verdict.Kind()]:
		a.All[last].Overruled = true
		return a.Gate, gate
	}
	before := a.Gate
	if before != "" {
		a.All[a.winner].Overruled = true
		counts, overruled = gate, before
	}
	a.Verdict, a.Gate, a.winner = v, gate, last
	return counts, overruled
}

var errVerdict = errors.New("the gate gave no valid verdict")

// CheckVerdict refuses what a gate may not answer; a question that could not be stored is caught here, before it is one.
func CheckVerdict(v hook.Verdict) error {
	switch v.Kind() {
	case hook.KindAllow, hook.KindBlock:
		return nil
	case hook.KindSuspend:
		if err := CheckAction(v.Ticket().Action, ""); err != nil {
			return err
		}
		return CheckTicket(v.Ticket(), false)
	case hook.KindSetResult:
		if complete(v.Result()) {
			return nil
		}
	}
	return errVerdict
}

// complete reports whether a result can replace a tool's.
func complete(r *tool.Result) bool { return r.IsSuccess() || r.IsError() && r.Error != nil }

// ShownKind returns a verdict's kind for people and programs: a refusal, which is a result to the engine, is a DENY.
func ShownKind(v hook.Verdict) string {
	if r := v.Result(); r.IsError() && r.Error != nil && r.Error.Code == tool.Denied {
		return "DENY"
	}
	return string(v.Kind())
}

// Reason returns why a gate gave its verdict.
func Reason(v hook.Verdict) string {
	if r := v.Result(); r.IsError() {
		return r.Error.Message
	}
	return v.Reason()
}
