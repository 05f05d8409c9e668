package translate

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
)

// call writes the same fields as FromCall: common fields by hand, rare fields as messages.
func (w *encoder) call(c *call.Call) {
	w.text(1, c.ID)
	w.number(2, int64(FromStatus(c.Status)))
	w.number(3, int64(FromExecuted(c.Executed)))
	if c.Status.Terminal() && c.Result != nil {
		if plainResult(c.Result) {
			w.result(4, c.Result)
		} else {
			w.nested(4, FromResult(c.Result))
		}
	}
	w.text(5, c.Tool)
	w.run(c)
	w.text(7, c.Requested)
	w.text(8, c.Effective)
	if !c.Assessment.IsZero() {
		w.effects(9, c.Assessment.Normal())
	}
	if c.Description.Kind != "" {
		w.description(10, &c.Description)
	}
	w.number(12, c.LastSequence)
	w.number(13, c.Revision)
	w.time(14, c.Created)
	w.time(15, c.Ended)
	w.time(16, c.Started)
	w.text(17, c.Namespace)
	w.principal(18, &c.Caller)
	w.text(19, c.ModelCallID)
	w.text(20, c.ToolDigest)
	for i := range c.Verdicts {
		w.verdict(21, &c.Verdicts[i])
	}
	for i := range c.Attempts {
		w.attempt(23, &c.Attempts[i], fromAttemptEnd(c.AttemptEnd(i)))
	}
	w.isolation(24, &c.Isolation)
	w.number(25, int64(fromClass(c.Class)))
	w.number(26, c.EpochOf(c.LastSequence))
	w.text(28, c.RetryOf)
	w.flag(31, c.Detached)
	w.flag(34, NotStored(c))
	w.text(35, c.ModelReason)
	w.text(40, c.BatchID)
	w.number(41, int64(int32(c.BatchPosition)))
	if rare(c) {
		var out tooldv1.Call
		fillRare(&out, c)
		w.message(&out)
	}
}

// rare reports whether a record has fields that fillRare translates.
func rare(c *call.Call) bool {
	return len(c.Rounds)+len(c.Rewriters)+len(c.HookRuns) > 0 || c.Cancel != nil || c.Purge != nil || c.Timeouts != (tool.Timeouts{})
}

// nested writes a message as a field.
func (w *encoder) nested(field protowire.Number, m proto.Message) {
	at := w.open(field)
	w.message(m)
	w.close(at)
}

// time writes a time as a field. It writes nothing for the zero time.
func (w *encoder) time(field protowire.Number, t time.Time) {
	if t.IsZero() {
		return
	}
	at := w.open(field)
	w.number(1, t.Unix())
	w.number(2, int64(t.Nanosecond()))
	w.close(at)
}

// run writes the run of a call, if it has one.
func (w *encoder) run(c *call.Call) {
	r, a := &c.Run, &c.Run.Agent
	if c.Frontend != nil || len(r.Labels) > 0 || a.ID != "" || a.Spec != "" || len(a.Allow)+len(a.Exclude) > 0 {
		w.nested(6, fromRunOf(c))
		return
	}
	at := w.open(6)
	w.text(1, r.ID)
	w.text(2, r.Thread)
	w.text(5, r.ParentRun)
	w.text(6, r.ParentThread)
	w.text(7, r.ParentCall)
	w.text(8, r.Origin)
	w.text(9, c.OnBehalfOf)
	if len(w.b) == at && !r.Unattended {
		w.b = w.b[:at-2] // The call has no data about a run.
		return
	}
	w.number(4, int64(fromMode(r.Unattended)))
	w.close(at)
}

func (w *encoder) effects(field protowire.Number, e tool.Effects) {
	at := w.open(field)
	w.number(1, int64(fromMutability(e.Mutability)))
	w.number(2, int64(fromSafety(e.Safety)))
	w.number(3, int64(fromTier(e.Tier)))
	w.flag(4, e.ConcurrencySafe)
	w.flag(5, e.OpenWorld)
	for i := range e.Resources {
		w.nested(6, fromResource(&e.Resources[i]))
	}
	w.close(at)
}

func (w *encoder) description(field protowire.Number, d *tool.Description) {
	if len(d.Preview)+len(d.Notes)+len(d.Basis)+len(d.Locations)+len(d.Command) > 0 {
		w.nested(field, FromDescription(d))
		return
	}
	at := w.open(field)
	w.number(1, int64(fromKind(d.Kind)))
	w.text(2, d.Title)
	w.flag(7, d.Degraded)
	w.close(at)
}

func (w *encoder) principal(field protowire.Number, p *tool.Principal) {
	if p.Subject == "" {
		return
	}
	at := w.open(field)
	w.text(1, p.Subject)
	if len(p.Roles) > 0 {
		roles := w.open(2)
		for _, name := range p.Roles {
			w.b = protowire.AppendVarint(w.b, uint64(fromRole(name)))
		}
		w.close(roles)
	}
	w.text(3, p.Method)
	w.text(4, p.Namespace)
	for _, group := range p.Groups {
		w.text(5, group)
	}
	w.close(at)
}

func (w *encoder) verdict(field protowire.Number, v *call.GateVerdict) {
	at := w.open(field)
	w.text(1, v.Gate)
	w.number(2, int64(FromVerdictKind(v.Kind)))
	w.text(3, v.Reason)
	w.flag(4, v.Overruled)
	w.flag(5, v.Answered)
	w.text(10, v.Rule)
	w.time(11, v.Asked)
	if v.Took != 0 {
		took := w.open(12)
		w.number(1, int64(v.Took/time.Second))
		w.number(2, int64(v.Took%time.Second))
		w.close(took)
	}
	w.close(at)
}

func (w *encoder) attempt(field protowire.Number, a *call.Attempt, end tooldv1.AttemptEnd) {
	at := w.open(field)
	w.number(1, int64(int32(a.Number)))
	w.number(2, a.Epoch)
	w.time(3, a.Started)
	w.time(4, a.Ended)
	if o := a.Operation; o != nil {
		inner := w.open(6)
		w.text(1, o.ID)
		w.time(2, o.Expires.Time())
		w.close(inner)
	}
	w.number(7, int64(end))
	w.close(at)
}

func (w *encoder) isolation(field protowire.Number, i *call.Isolation) {
	at := w.open(field)
	w.number(1, int64(fromLevel(i.Required)))
	w.number(2, int64(fromNetwork(i.Network)))
	for n := range i.Facts {
		fact := w.open(3)
		w.text(1, i.Facts[n].Name)
		w.flag(2, i.Facts[n].Held)
		w.close(fact)
	}
	w.close(at)
}
