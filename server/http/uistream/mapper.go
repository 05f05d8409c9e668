package uistream

import (
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/http/follow"
)

// A Mapper translates the frames of one watch. It is not safe for concurrent use.
type Mapper struct {
	*follow.Follower
	view *view
}

// New returns the mapper of a watch that begins with the oldest event of a run. messageID is the id of the assistant message. version is
// the major version of the client's AI SDK. The mapper sends chunks of version 7 only to clients with version 7 or later.
func New(messageID string, version int) *Mapper {
	v := &view{messageID: messageID, version: version}
	return &Mapper{follow.New(v), v}
}

// Start returns the first chunk.
func (m *Mapper) Start() []Chunk { return []Chunk{{Type: "start", MessageID: m.view.messageID}} }

// Finish returns the last chunks. The caller sends them when every call has ended or waits for an answer.
func (m *Mapper) Finish() []Chunk {
	m.view.out = nil
	m.view.endStep()
	return append(m.view.out, Chunk{Type: "finish", FinishReason: "tool-calls"})
}

// Fail returns the last chunks of a stream that ends early because of an error. Without them, the client would show the message as
// complete.
func (m *Mapper) Fail(why string) []Chunk { return []Chunk{{Type: "error", ErrorText: why}} }

// Frame returns the chunks of a frame. arguments is as for [follow.Follower.Frame].
func (m *Mapper) Frame(f *tooldv1.Frame, arguments func(callID string) (string, error)) ([]Chunk, error) {
	m.view.out = nil
	err := m.Follower.Frame(f, arguments)
	return m.view.out, err
}

// A view writes the chunks of one assistant message.
type view struct {
	messageID string
	version   int
	step      string // batch of the current step
	stepped   bool   // a step has begun
	out       []Chunk
}

func (v *view) add(c Chunk) { v.out = append(v.out, c) }

func (v *view) endStep() {
	if v.stepped {
		v.add(Chunk{Type: "finish-step"})
	}
	v.stepped = false
}

// Accepted implements [follow.View]. The calls of a batch are one step, as the calls of one response of the model are in the AI SDK.
func (v *view) Accepted(c *follow.Call, arguments string) {
	if !v.stepped || c.Batch != v.step {
		v.endStep()
		v.add(Chunk{Type: "start-step"})
		v.stepped, v.step = true, c.Batch
	}
	v.input(c, arguments)
}

func (v *view) input(c *follow.Call, arguments string) {
	if arguments == "" {
		arguments = "{}"
	}
	v.add(Chunk{Type: "tool-input-available", ToolCallID: c.ToolCallID, ToolName: c.Tool, Input: follow.JSON(arguments), Dynamic: true})
}

// again announces a call a second time, which resets its state in the client. It does nothing when a later step has begun, because the client
// would then add a second part for the call.
func (v *view) again(c *follow.Call) {
	if v.stepped && c.Batch == v.step {
		v.input(c, string(c.Question.Arguments))
	}
}

// Progress implements [follow.View].
func (v *view) Progress(c *follow.Call, p *follow.Progress) {
	v.add(Chunk{Type: "data-toold-progress", ID: c.ToolCallID, Data: p})
}

// Activity implements [follow.View].
func (v *view) Activity(c *follow.Call, a *follow.Activity) {
	if a.Patch != nil {
		v.add(Chunk{Type: "data-toold-activity-delta", Transient: true, Data: a})
		return
	}
	v.add(Chunk{Type: "data-toold-activity", ID: c.ToolCallID + "/" + a.ActivityID, Data: a})
}

// Output implements [follow.View].
func (v *view) Output(c *follow.Call, tails map[string]string) {
	v.add(Chunk{Type: "tool-output-available", ToolCallID: c.ToolCallID, Output: follow.Quote(tails), Preliminary: true})
}

// Asked implements [follow.View].
func (v *view) Asked(c *follow.Call) {
	q := *c.Question
	v.add(Chunk{Type: "data-toold-question", ID: q.SuspensionID, Data: q})
	if !q.Approval() || q.State != "open" || q.Votes > 0 {
		return // The AI SDK has a form only for approvals. After a vote it already shows the form.
	}
	v.again(c) // Show the arguments that will run. They may differ from those that the model sent.
	request := Chunk{Type: "tool-approval-request", ToolCallID: c.ToolCallID, ApprovalID: q.SuspensionID}
	if v.version >= 7 {
		request.Reason = q.Message
	}
	v.add(request)
}

// Answered implements [follow.View].
func (v *view) Answered(c *follow.Call, d *tooldv1.Decision) {
	q := *c.Question
	v.add(Chunk{Type: "data-toold-question", ID: q.SuspensionID, Data: q})
	switch yes := q.State == "approved"; {
	case !q.Approval():
	case v.version >= 7:
		v.add(Chunk{Type: "tool-approval-response", ApprovalID: q.SuspensionID, Approved: &yes, Reason: d.GetReason()})
	case yes:
		v.again(c) // version 6 has no chunk for the answer; announcing the call again removes the buttons
	}
}

// Finished implements [follow.View].
func (v *view) Finished(c *follow.Call, f *tooldv1.CallFinished) {
	r := f.GetResult()
	end := Chunk{Type: "tool-output-error", ToolCallID: c.ToolCallID, ErrorText: r.GetModelText()}
	switch declined := r.GetError().GetReason() == "DECLINED" && r.GetError().GetCode() == tooldv1.ErrorCode_ERROR_CODE_CANCELLED; {
	case r.GetStatus() == tooldv1.ResultStatus_RESULT_STATUS_SUCCESS:
		end = Chunk{Type: "tool-output-available", ToolCallID: c.ToolCallID, Output: outputOf(r)}
	case declined && c.Question != nil && c.Question.Approval():
		end = Chunk{Type: "tool-output-denied", ToolCallID: c.ToolCallID}
	case end.ErrorText == "":
		end.ErrorText = r.GetError().GetMessage()
	}
	v.add(end)
}

// Gap implements [follow.View].
func (v *view) Gap(g *follow.Gap) { v.add(Chunk{Type: "data-toold-gap", Data: g}) }

// outputOf returns what the model reads of a result: its message, else its data.
func outputOf(r *tooldv1.ToolResult) []byte {
	switch {
	case r.GetMessage() != "":
		return follow.Quote(r.GetMessage())
	case r.GetData() != "":
		return follow.JSON(r.GetData())
	}
	return follow.Quote(r.GetModelText())
}
