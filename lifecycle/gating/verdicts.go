package gating

import (
	"errors"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// strength orders verdicts: Block beats Suspend beats SetResult beats Allow.
var strength = map[hook.VerdictKind]int{hook.KindAllow: 0, hook.KindSetResult: 1, hook.KindSuspend: 2, hook.KindBlock: 3}

// Verdicts holds the verdicts of a call's gates, and the verdict that counts. Of two equally strong verdicts the first counts.
type Verdicts struct {
	Verdict hook.Verdict // the verdict that counts
	Gate    string       // the gate of Verdict; "" when no gate intercepts the call
	All     []call.GateVerdict
	winner  int // index in All of the gate that counts
}

// NewVerdicts returns Verdicts without gates: the call is allowed.
func NewVerdicts() Verdicts { return Verdicts{Verdict: hook.Allow()} }

// Add adds the verdict of another gate. The call's record stores it as shown. When two gates intercept the call, Add returns the gate that
// counts and the gate that it overrules; otherwise both are empty. A gate that failed may have the zero verdict, which has no weight.
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

// CheckVerdict returns an error for a verdict that a gate may not give. It also refuses a question that could not be stored, before the
// call is suspended.
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

// complete reports whether a result can replace the result of a tool.
func complete(r *tool.Result) bool { return r.IsSuccess() || r.IsError() && r.Error != nil }

// ShownKind returns the reported kind of a verdict. To the engine a refusal is a result, but it is reported as DENY.
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
