package gating

import (
	"errors"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// strength orders verdicts: Block beats Suspend beats SetResult beats Allow.
var strength = map[hook.VerdictKind]int{hook.KindAllow: 0, hook.KindSetResult: 1, hook.KindSuspend: 2, hook.KindBlock: 3}

// Verdicts holds the verdicts of a call's gates, and the one that takes effect. Of two equally strong verdicts, the first takes effect.
type Verdicts struct {
	Verdict hook.Verdict // the verdict that takes effect
	Gate    string       // the gate that gave Verdict; "" when no gate intercepts the call
	All     []call.GateVerdict
	winner  int // index in All of the verdict that takes effect
}

// NewVerdicts returns Verdicts without gates: the call is allowed.
func NewVerdicts() Verdicts { return Verdicts{Verdict: hook.Allow()} }

// Add adds the verdict v of another gate. shown is the form in which the call's record stores the verdict. When two gates intercept the
// call, Add returns the gate whose verdict takes effect and the gate that it overrules. Otherwise both names are empty. A gate that failed
// may pass the zero verdict, which has no effect.
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

var errVerdict = errors.New("the gate returned no valid verdict")

// CheckVerdict returns an error for a verdict that a gate may not give. It also returns an error for a question that could not be stored.
func CheckVerdict(v hook.Verdict, machine MachineActions) error {
	switch v.Kind() {
	case hook.KindAllow, hook.KindBlock:
		return nil
	case hook.KindSuspend:
		if err := machine.Check(v.Ticket().Action, ""); err != nil {
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

// complete reports whether a result has all fields that the result of a call needs.
func complete(r *tool.Result) bool { return r.IsSuccess() || r.IsError() && r.Error != nil }

// ShownKind returns the kind under which a verdict is reported. A gate refuses a call by setting an error result; this is reported as DENY.
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
