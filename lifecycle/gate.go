package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/lifecycle/view"
	"github.com/toold-dev/toold/tool"
)

// strength orders verdicts: Block beats Suspend beats SetResult beats Allow.
var strength = map[hook.VerdictKind]int{hook.KindAllow: 0, hook.KindSetResult: 1, hook.KindSuspend: 2, hook.KindBlock: 3}

// asked is the answer of all gates.
type asked struct {
	verdict  hook.Verdict
	gate     string // that gave it
	verdicts []call.GateVerdict
	failed   *outcome.Terminal // a gate failed and that refuses the call
}

// intercepts reports whether the call does not simply run.
func (a *asked) intercepts() bool { return a.failed != nil || a.verdict.Kind() != hook.KindAllow }

// gate asks all gates and does what they say.
func (p *pipeline) gate(ctx context.Context) outcome.Conclusion {
	if len(p.hooks.Gate) == 0 {
		return nil
	}
	a := p.askGates(ctx)
	if p.tentative && a.intercepts() {
		return outcome.Postponed{}
	}
	p.found.gated, p.found.verdicts = true, a.verdicts
	for i := range a.verdicts {
		v := &a.verdicts[i]
		if v.Kind != string(hook.KindAllow) {
			_ = p.l.emit(call.Event{Type: call.EventGateDecided, Verdict: v}) // the call is not over: this is its path
		}
	}
	if k := a.verdict.Kind(); k != hook.KindAllow && k != hook.KindSuspend || a.failed != nil {
		p.found.description = view.Bare(p.found.description)
	}
	switch {
	case a.verdict.Kind() == hook.KindBlock: // nothing softens a block, another gate's failure neither
		return outcome.Blocked(a.verdict.Reason())
	case a.failed != nil:
		return a.failed
	}
	switch a.verdict.Kind() {
	case hook.KindSuspend:
		t := a.verdict.Ticket()
		return &outcome.Question{Ticket: &t, Origin: a.gate, Policy: a.verdict.Policy()}
	case hook.KindSetResult:
		return outcome.SetResult(a.verdict.Result())
	}
	return nil
}

// askGates asks every gate, in configured order, and combines the answers.
func (p *pipeline) askGates(ctx context.Context) asked {
	var out asked
	out.verdict = hook.Allow()
	winner := -1
	for i := range p.hooks.Gate {
		entry := &p.hooks.Gate[i]
		if !entry.Match.Holds(p.in) {
			continue
		}
		in := p.in
		answer := p.answerFor(entry.Name)
		if answer != nil {
			in = in.WithAnswer(answer)
		}
		v, err := hook.Bounded(ctx, entry.Deadline, func(ctx context.Context) (hook.Verdict, error) {
			v, err := entry.Hook.Check(ctx, in)
			if err == nil {
				err = checkVerdict(v)
			}
			return v, err
		})
		if err != nil && ctx.Err() != nil {
			return out // the call was stopped: that is no fault of the gate
		}
		if err != nil {
			v = p.failedGate(entry, err, &out)
		}
		record := call.GateVerdict{Gate: entry.Name, Kind: shownKind(v), Reason: reasonOf(v), Answered: answer != nil}
		if err != nil {
			record.Kind, record.Reason = "FAILED", p.forOperators(err.Error())
		} else if p.hooks.scrubs {
			record.Reason = p.scrubText(record.Reason)
		}
		out.verdicts = append(out.verdicts, record)
		switch {
		case v.Kind() == hook.KindAllow || v.Kind() == "":
		case strength[v.Kind()] > strength[out.verdict.Kind()]:
			if winner >= 0 {
				out.verdicts[winner].Overruled = true
				p.conflict(entry.Name, out.gate)
			}
			out.verdict, out.gate, winner = v, entry.Name, len(out.verdicts)-1
		default:
			out.verdicts[len(out.verdicts)-1].Overruled = true
			p.conflict(out.gate, entry.Name)
		}
	}
	return out
}

func (p *pipeline) conflict(stands, overruled string) {
	p.l.e.stats.conflicts.Add(1)
	p.l.e.log.Info("gates disagree", zap.String("call_id", p.l.key.ID), zap.String("stands", stands), zap.String("overruled", overruled))
}

// failedGate does what the entry's failure mode says.
func (p *pipeline) failedGate(entry *hook.Entry[hook.Gate], err error, out *asked) hook.Verdict {
	p.l.e.stats.hookFailures.Add(1)
	p.l.e.log.Error("gate failed", zap.String("gate", entry.Name), zap.String("call_id", p.l.key.ID), zap.Error(err))
	onFailure := entry.OnFailure
	if broken(entry.Name, err) != nil {
		onFailure = hook.FailBlock
	}
	switch onFailure {
	case hook.FailAllow:
		return hook.Allow()
	case hook.FailBlock:
		return hook.Block(fmt.Sprintf("the gate %q failed", entry.Name))
	}
	if out.failed == nil {
		out.failed = outcome.HookFailed(entry.Name, p.forOperators(err.Error()))
	}
	return hook.Verdict{}
}

var errVerdict = errors.New("the gate gave no valid verdict")

// checkVerdict refuses what a gate may not answer; a question that could not be stored is caught here, before it is one.
func checkVerdict(v hook.Verdict) error {
	switch v.Kind() {
	case hook.KindAllow, hook.KindBlock:
		return nil
	case hook.KindSuspend:
		if err := ownAction(v.Ticket().Action, ""); err != nil {
			return err
		}
		return checkTicket(v.Ticket(), false)
	case hook.KindSetResult:
		if complete(v.Result()) {
			return nil
		}
	}
	return errVerdict
}

// complete reports whether a result can stand for a tool's.
func complete(r *tool.Result) bool { return r.IsSuccess() || r.IsError() && r.Error != nil }

// shownKind returns a verdict's kind for people and programs: a refusal, which is a result to the engine, is a DENY.
func shownKind(v hook.Verdict) string {
	if r := v.Result(); r.IsError() && r.Error != nil && r.Error.Code == tool.Denied {
		return "DENY"
	}
	return string(v.Kind())
}

func reasonOf(v hook.Verdict) string {
	if r := v.Result(); r.IsError() {
		return r.Error.Message
	}
	return v.Reason()
}

// answerFor returns the newest decision on a question of this gate that was given for exactly the call as it is gated
// now; else nil.
func (p *pipeline) answerFor(gate string) *tool.Decision {
	c := p.l.peek()
	for _, r := range slices.Backward(c.Rounds) {
		if r.Decision == nil || r.Decision.Action != tool.Resume {
			continue
		}
		if r.Suspension.Origin != gate {
			if broughtArguments(&r) {
				return nil // they voided every answer before, also one that was for what the arguments became later
			}
			continue
		}
		if r.Decision.AppliesTo != "" && r.Decision.AppliesTo == p.approvalDigest(&r.Suspension, p.effective) {
			return r.Decision
		}
		return nil
	}
	return nil
}

// broughtArguments reports whether a round's decision replaced the arguments.
func broughtArguments(r *call.Round) bool {
	return r.Decision.Arguments != "" || r.Suspension.ResumeMode == tool.PassDecisionToTool
}

// approvalDigest returns the digest of the call as it stands, with the texts and the expiry of a ticket.
func (p *pipeline) approvalDigest(s *call.Suspension, args tool.Arguments) string {
	return approvalDigest(p.l.peek(), p.def, s, args)
}

func approvalDigest(c *call.Call, def *Definition, s *call.Suspension, args tool.Arguments) string {
	a := call.Approval{
		Namespace: c.Namespace, CallID: c.ID, SuspensionID: s.ID, Caller: c.Caller.Subject, OnBehalfOf: c.OnBehalfOf,
		Tool: c.Tool, ToolDigest: def.Digest, Arguments: args, ResumeMode: s.ResumeMode,
		Isolation: string(or(def.Descriptor.RequiredIsolation, tool.IsolationNone)), Network: or(def.Descriptor.RequiredNetwork, "none"),
		ExpiresAt: s.ExpiresAt, Message: s.Message, Parameters: s.Parameters, ResponseSchema: s.ResponseSchema,
	}
	return a.Digest()
}

// askedWithin returns the deadline of a question to the tool: none for a tool that only computes its answer.
func (p *pipeline) askedWithin(d time.Duration) time.Duration {
	if _, ok := p.def.Tool.(tool.Prompt); ok {
		return hook.NoDeadline
	}
	return d
}
