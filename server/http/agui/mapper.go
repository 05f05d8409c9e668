package agui

import (
	"cmp"
	"encoding/json"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/http/follow"
)

// A Mapper translates the frames of one watch. It is not safe for concurrent use.
type Mapper struct {
	*follow.Follower
	view *view
}

// New returns the mapper of a watch that begins with the oldest event of a run.
func New(thread, run string) *Mapper {
	v := &view{thread: thread, run: run, activities: map[string]*activity{}}
	return &Mapper{follow.New(v), v}
}

// Start returns the first event.
func (m *Mapper) Start() []Event {
	return []Event{{Type: "RUN_STARTED", ThreadID: m.view.thread, RunID: m.view.run, ProtocolVersion: "1.0"}}
}

// Finish returns the last event of the run. The caller sends it when each call has ended or waits for an answer.
func (m *Mapper) Finish() []Event {
	outcome := &Outcome{Type: "success"}
	for _, c := range m.Calls() {
		if !c.Ended && c.Waits() {
			outcome.Type, outcome.Interrupts = "interrupt", append(outcome.Interrupts, interruptOf(c))
		}
	}
	return []Event{{Type: "RUN_FINISHED", ThreadID: m.view.thread, RunID: m.view.run, Outcome: outcome}}
}

// Fail returns the last event of a stream that ends early because of an error.
func (m *Mapper) Fail(why string) []Event { return []Event{{Type: "RUN_ERROR", Message: why}} }

// Frame returns the events of a frame. arguments is as for [follow.Follower.Frame].
func (m *Mapper) Frame(f *tooldv1.Frame, arguments func(callID string) (string, error)) ([]Event, error) {
	m.view.out = nil
	err := m.Follower.Frame(f, arguments)
	return m.view.out, err
}

// yesOrNo is the schema of the answer to a yes-or-no question.
const yesOrNo = `{"type":"object","properties":{"approved":{"type":"boolean"},"reason":{"type":"string"}},"required":["approved"],"additionalProperties":false}`

func interruptOf(c *follow.Call) Interrupt {
	q := c.Question
	i := Interrupt{
		ID: q.SuspensionID + "." + q.Digest, Reason: "tool_call", ToolCallID: c.ToolCallID, Message: q.Message, ExpiresAt: q.ExpiresAt,
		ResponseSchema: json.RawMessage(yesOrNo), Metadata: map[string]any{"question": q},
	}
	if len(q.ResponseSchema) > 0 {
		i.ResponseSchema = q.ResponseSchema
	}
	return i
}

// A view writes the events of one run.
type view struct {
	thread, run string
	activities  map[string]*activity // by message id
	out         []Event
}

// An activity is the state of an activity message. The protocol requires that its content is an object. The view therefore sends any other
// content as the member value of an object.
type activity struct {
	kind    string
	wrapped bool
}

func (v *view) add(e Event) { v.out = append(v.out, e) }

// show replaces the content of an activity message.
func (v *view) show(id, kind string, content any) {
	v.add(Event{Type: "ACTIVITY_SNAPSHOT", MessageID: id, ActivityType: kind, Content: content})
}

// Accepted implements [follow.View]. The calls of a batch belong to one message, because one response of the model contained them.
func (v *view) Accepted(c *follow.Call, arguments string) {
	parent := c.Batch
	if parent == "" {
		parent = c.ID
	}
	if arguments == "" {
		arguments = "{}"
	}
	v.add(Event{Type: "TOOL_CALL_START", ToolCallID: c.ToolCallID, ToolCallName: c.Tool, ParentMessageID: parent, Metadata: map[string]any{"callId": c.ID}})
	v.add(Event{Type: "TOOL_CALL_ARGS", ToolCallID: c.ToolCallID, Delta: arguments})
	v.add(Event{Type: "TOOL_CALL_END", ToolCallID: c.ToolCallID})
}

// Progress implements [follow.View].
func (v *view) Progress(c *follow.Call, p *follow.Progress) {
	v.show(c.ToolCallID+"/progress", "toold-progress", p)
}

// Activity implements [follow.View].
func (v *view) Activity(c *follow.Call, a *follow.Activity) {
	id := c.ToolCallID + "/activity/" + a.ActivityID
	known := v.activities[id]
	if a.Patch == nil {
		known = &activity{kind: a.Type, wrapped: len(a.Content) == 0 || a.Content[0] != '{'}
		v.activities[id] = known
		v.show(id, known.kind, known.content(a.Content))
		return
	}
	if known == nil { // When an activity has changes but no snapshot, they apply to an empty object.
		known = &activity{kind: "toold-activity"}
		v.activities[id] = known
		v.show(id, known.kind, struct{}{})
	}
	v.add(Event{Type: "ACTIVITY_DELTA", MessageID: id, ActivityType: known.kind, Patch: known.patch(a.Patch)})
}

func (a *activity) content(text json.RawMessage) any {
	if a.wrapped {
		return map[string]json.RawMessage{"value": text}
	}
	return text
}

// patch returns the operations. If the content was sent as the member value of an object, patch changes the paths in the operations to this
// member. If the text is not a list of operations, patch returns an empty list.
func (a *activity) patch(text json.RawMessage) json.RawMessage {
	var operations []map[string]json.RawMessage
	if json.Unmarshal(text, &operations) != nil {
		return json.RawMessage("[]")
	}
	if !a.wrapped {
		return text
	}
	for _, o := range operations {
		for _, member := range []string{"path", "from"} {
			var pointer string
			if json.Unmarshal(o[member], &pointer) == nil {
				o[member] = follow.Quote("/value" + pointer)
			}
		}
	}
	patched, err := json.Marshal(operations)
	if err != nil {
		return json.RawMessage("[]")
	}
	return patched
}

// Output implements [follow.View].
func (v *view) Output(c *follow.Call, tails map[string]string) {
	v.show(c.ToolCallID+"/output", "toold-output", tails)
}

// Asked implements [follow.View].
func (v *view) Asked(c *follow.Call) {
	v.show(c.Question.SuspensionID, "toold-question", *c.Question)
}

// Answered implements [follow.View].
func (v *view) Answered(c *follow.Call, _ *tooldv1.Decision) { v.Asked(c) }

// Finished implements [follow.View].
func (v *view) Finished(c *follow.Call, f *tooldv1.CallFinished) {
	r := f.GetResult()
	text := cmp.Or(r.GetModelText(), r.GetMessage(), r.GetData(), r.GetError().GetMessage())
	result := Event{Type: "TOOL_CALL_RESULT", MessageID: c.ToolCallID + "/result", ToolCallID: c.ToolCallID, Role: "tool", Content: text}
	if r.GetError() != nil { // AG-UI has no field for an error
		result.Metadata = map[string]any{"error": map[string]string{"code": r.GetError().GetCode().String(), "reason": r.GetError().GetReason()}}
	}
	v.add(result)
}

// Gap implements [follow.View].
func (v *view) Gap(g *follow.Gap) { v.add(Event{Type: "CUSTOM", Name: "toold-gap", Value: g}) }
