package translate

import (
	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// ToTurnCall translates what all calls of a turn have in common.
func ToTurnCall(in *tooldv1.TurnSpec) (call.Spec, error) {
	return ToSpec(&tooldv1.CallSpec{Run: in.GetRun(), Timeouts: in.GetTimeouts()})
}

// turnFrame sets the field Control of out to the content of a frame of a turn.
func turnFrame(out *tooldv1.Frame, f *call.Frame) {
	switch {
	case f.TurnStarted != nil:
		out.Control = &tooldv1.Frame_TurnStarted{TurnStarted: fromTurnStarted(f.TurnStarted)}
	case f.TurnMessage != nil:
		m := f.TurnMessage
		out.Control = &tooldv1.Frame_TurnMessage{TurnMessage: &tooldv1.TurnMessage{Index: int32(m.Index), Part: m.Part, Last: m.Last}}
	case f.TurnFinished != nil:
		out.Control = &tooldv1.Frame_TurnFinished{TurnFinished: fromTurnFinished(f.TurnFinished)}
	}
}

func fromTurnStarted(t *call.TurnStarted) *tooldv1.TurnStarted {
	out := &tooldv1.TurnStarted{BatchId: t.BatchID}
	for _, c := range t.Calls {
		out.Calls = append(out.Calls, &tooldv1.TurnCall{Index: int32(c.Index), CallId: c.CallID, ModelCallId: c.ModelCallID, Tool: c.Tool})
	}
	return out
}

func fromTurnFinished(t *call.TurnFinished) *tooldv1.TurnFinished {
	out := &tooldv1.TurnFinished{Open: t.Open, RunBlocked: t.RunBlocked}
	for _, n := range t.NotHandled {
		out.NotHandled = append(out.NotHandled, &tooldv1.NotHandled{Index: int32(n.Index), Id: n.ID, Type: n.Type})
	}
	return out
}
