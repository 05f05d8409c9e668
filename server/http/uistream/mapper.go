package uistream

import (
	"slices"
	"strings"
	"unicode/utf8"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// maxTail is the size of the end of an output stream that a preliminary output has, in bytes. Each one has the whole text, because the client
// replaces the one before.
const maxTail = 4 << 10

// maxStreams limits the output streams of a call that preliminary outputs have.
const maxStreams = 4

// A Mapper translates the frames of one watch. It is not safe for concurrent use.
type Mapper struct {
	messageID string
	version   int
	calls     map[string]*callState
	ids       map[string]bool // tool call ids in use
	step      string          // batch of the current step
	stepped   bool            // a step has begun
	out       []Chunk
}

// A callState is what the mapper knows of a call.
type callState struct {
	id, toolCallID, tool, batch string
	ended                       bool
	question                    *Question // the latest
	tails                       map[string][]byte
	fresh                       bool // tails have bytes that no chunk has yet
}

// New returns the mapper of a watch that begins with the oldest event of a run. messageID is the id of the assistant message. version is the
// major version of the client's AI SDK; chunks of version 7 are only sent to 7 and later.
func New(messageID string, version int) *Mapper {
	return &Mapper{messageID: messageID, version: version, calls: map[string]*callState{}, ids: map[string]bool{}}
}

// Start returns the first chunk.
func (m *Mapper) Start() []Chunk { return []Chunk{{Type: "start", MessageID: m.messageID}} }

// Seen counts the calls of the frames so far: all of them, those that run or will run, and those that wait for an answer. Calls whose name was
// trimmed count only among all.
func (m *Mapper) Seen() (calls, open, waiting int) {
	for _, c := range m.calls {
		switch {
		case c == nil || c.ended:
		case c.waits():
			waiting++
		default:
			open++
		}
	}
	return len(m.calls), open, waiting
}

// Finish returns the last chunks of a stream that has no more to say until somebody answers or the model is called again.
func (m *Mapper) Finish() []Chunk {
	m.out = nil
	m.endStep()
	return append(m.out, Chunk{Type: "finish", FinishReason: "tool-calls"})
}

// Fail returns the last chunks of a stream that breaks off. Without them, the client would think that the message is complete.
func (m *Mapper) Fail(why string) []Chunk { return []Chunk{{Type: "error", ErrorText: why}} }

// Frame returns the chunks of a frame. arguments returns the requested arguments of a call, which events do not contain; it is asked once for
// each call.
func (m *Mapper) Frame(f *tooldv1.Frame, arguments func(callID string) (string, error)) ([]Chunk, error) {
	m.out = nil
	if g := f.GetGap(); g != nil {
		if id := g.GetCallId(); id != "" && m.calls[id] == nil {
			m.calls[id] = nil
		}
		m.add(Chunk{Type: "data-toold-gap", Data: Gap{g.GetCallId(), lower(g.GetReason().String(), "GAP_REASON_")}})
	}
	for _, e := range f.GetEvents() {
		c := m.calls[e.GetCallId()]
		switch {
		case c == nil && e.GetAccepted() == nil:
			m.calls[e.GetCallId()] = nil // the beginning of the log was trimmed, and with it the name of the tool
		case c == nil:
			text, err := arguments(e.GetCallId())
			if err != nil {
				return nil, err
			}
			m.accept(e.GetCallId(), e.GetAccepted(), text)
		case !c.ended:
			m.event(c, e)
		}
	}
	for _, e := range f.GetEvents() { // one preliminary output for all pieces of a frame
		if c := m.calls[e.GetCallId()]; c != nil && c.fresh && !c.ended {
			m.preliminary(c)
		}
	}
	return m.out, nil
}

func (m *Mapper) add(c Chunk) { m.out = append(m.out, c) }

func (m *Mapper) endStep() {
	if m.stepped {
		m.add(Chunk{Type: "finish-step"})
	}
	m.stepped = false
}

// accept announces a call. The calls of a batch are one step, as the calls of one response of the model are in the AI SDK.
func (m *Mapper) accept(id string, a *tooldv1.CallAccepted, arguments string) {
	if !m.stepped || a.GetBatchId() != m.step {
		m.endStep()
		m.add(Chunk{Type: "start-step"})
		m.stepped, m.step = true, a.GetBatchId()
	}
	c := &callState{id: id, toolCallID: a.GetModelCallId(), tool: a.GetTool(), batch: a.GetBatchId()}
	if c.toolCallID == "" || m.ids[c.toolCallID] { // a model that sends no ids, or the same one again
		c.toolCallID = id
	}
	m.ids[c.toolCallID] = true
	m.calls[id] = c
	m.input(c, arguments)
}

func (m *Mapper) input(c *callState, arguments string) {
	if arguments == "" {
		arguments = "{}"
	}
	m.add(Chunk{Type: "tool-input-available", ToolCallID: c.toolCallID, ToolName: c.tool, Input: jsonOf(arguments), Dynamic: true})
}

// again announces a call again, which takes back its state. The client finds the part only in the current step; elsewhere it would add another.
func (m *Mapper) again(c *callState, arguments string) {
	if m.stepped && c.batch == m.step {
		m.input(c, arguments)
	}
}

func (m *Mapper) event(c *callState, e *tooldv1.CallEvent) {
	switch e := e.GetEvent().(type) {
	case *tooldv1.CallEvent_AttemptStarted:
		c.tails = nil
	case *tooldv1.CallEvent_Progress:
		p := e.Progress
		m.add(Chunk{Type: "data-toold-progress", ID: c.toolCallID, Data: Progress{
			CallID: c.id, ToolCallID: c.toolCallID, Status: lower(p.GetStatus().String(), "PROGRESS_STATUS_"),
			Fraction: p.GetFraction(), Message: p.GetMessage(), Loaded: p.GetLoaded(), Total: p.GetTotal(),
		}})
	case *tooldv1.CallEvent_ActivitySnapshot:
		a := e.ActivitySnapshot
		m.add(Chunk{Type: "data-toold-activity", ID: c.toolCallID + "/" + a.GetActivityId(), Data: Activity{
			CallID: c.id, ToolCallID: c.toolCallID, ActivityID: a.GetActivityId(), Type: a.GetActivityType(), Content: jsonOf(a.GetContent()),
		}})
	case *tooldv1.CallEvent_ActivityDelta:
		a := e.ActivityDelta
		m.add(Chunk{Type: "data-toold-activity-delta", Transient: true, Data: Activity{
			CallID: c.id, ToolCallID: c.toolCallID, ActivityID: a.GetActivityId(), Patch: jsonOf(a.GetPatch()),
		}})
	case *tooldv1.CallEvent_Output:
		c.output(e.Output)
	case *tooldv1.CallEvent_Suspended:
		m.suspended(c, e.Suspended.GetSuspension())
	case *tooldv1.CallEvent_VoteRecorded:
		if q := c.question; q != nil && q.SuspensionID == e.VoteRecorded.GetSuspensionId() {
			q.Votes, q.Needed = e.VoteRecorded.GetVotes(), e.VoteRecorded.GetNeeded()
			m.ask(c)
		}
	case *tooldv1.CallEvent_Resumed:
		m.resumed(c, e.Resumed.GetDecision())
	case *tooldv1.CallEvent_Finished:
		m.finished(c, e.Finished)
	}
}

func (m *Mapper) suspended(c *callState, s *tooldv1.Suspension) {
	q := &Question{
		SuspensionID: s.GetSuspensionId(), CallID: c.id, ToolCallID: c.toolCallID, State: "open", Action: s.GetAction(), Message: s.GetMessage(),
		Title: s.GetDescription().GetTitle(), Notes: s.GetDescription().GetNotes(), Parameters: jsonOf(s.GetParameters()),
		Arguments: jsonOf(s.GetPending().GetArguments()), ResponseSchema: jsonOf(s.GetResponseSchema()), Digest: s.GetDigest(),
		ExpiresAt: s.GetExpiresAt().AsTime(),
	}
	if n := s.GetApprovers().GetCount(); n > 1 {
		q.Needed = n
	}
	c.question = q
	m.ask(c)
	if !q.approval() {
		return // the AI SDK has no form for it; the data part shows it
	}
	m.again(c, s.GetPending().GetArguments()) // the person approves what runs, not what the model asked for
	request := Chunk{Type: "tool-approval-request", ToolCallID: c.toolCallID, ApprovalID: q.SuspensionID}
	if m.version >= 7 {
		request.Reason = q.Message
	}
	m.add(request)
}

// approval reports whether yes or no answers the question.
func (q *Question) approval() bool { return q.Action == "approval" && len(q.ResponseSchema) == 0 }

// waits reports whether the call waits for an answer.
func (c *callState) waits() bool { return c.question != nil && c.question.State == "open" }

func (m *Mapper) ask(c *callState) {
	m.add(Chunk{Type: "data-toold-question", ID: c.question.SuspensionID, Data: *c.question})
}

func (m *Mapper) resumed(c *callState, d *tooldv1.Decision) {
	if !c.waits() {
		return
	}
	q, yes := c.question, d.GetAction() == tooldv1.DecisionAction_DECISION_ACTION_RESUME
	q.State, q.DecidedBy, q.Reason = "declined", d.GetDecidedBy().GetSubject(), d.GetReason()
	if yes {
		q.State = "approved"
	}
	m.ask(c)
	switch {
	case !q.approval():
	case m.version >= 7:
		m.add(Chunk{Type: "tool-approval-response", ApprovalID: q.SuspensionID, Approved: &yes, Reason: d.GetReason()})
	case yes:
		m.again(c, string(q.Arguments)) // version 6 has no chunk for the answer; the buttons go away
	}
}

func (m *Mapper) finished(c *callState, f *tooldv1.CallFinished) {
	if c.waits() { // cancelled or expired
		c.question.State = "closed"
		m.ask(c)
	}
	c.ended, c.tails = true, nil
	r := f.GetResult()
	end := Chunk{Type: "tool-output-error", ToolCallID: c.toolCallID, ErrorText: r.GetModelText()}
	switch declined := r.GetError().GetReason() == "DECLINED" && r.GetError().GetCode() == tooldv1.ErrorCode_ERROR_CODE_CANCELLED; {
	case r.GetStatus() == tooldv1.ResultStatus_RESULT_STATUS_SUCCESS:
		end = Chunk{Type: "tool-output-available", ToolCallID: c.toolCallID, Output: outputOf(r)}
	case declined && c.question != nil && c.question.approval():
		end = Chunk{Type: "tool-output-denied", ToolCallID: c.toolCallID}
	case end.ErrorText == "":
		end.ErrorText = r.GetError().GetMessage()
	}
	m.add(end)
}

// outputOf returns what the model reads of a result: its message, else its data.
func outputOf(r *tooldv1.ToolResult) []byte {
	switch {
	case r.GetMessage() != "":
		return quote(r.GetMessage())
	case r.GetData() != "":
		return jsonOf(r.GetData())
	}
	return quote(r.GetModelText())
}

// output keeps the end of an output stream.
func (c *callState) output(o *tooldv1.Output) {
	if _, known := c.tails[o.GetStream()]; !known && len(c.tails) == maxStreams {
		return
	}
	if c.tails == nil {
		c.tails = map[string][]byte{}
	}
	tail := slices.Concat(c.tails[o.GetStream()], o.GetData())
	c.tails[o.GetStream()] = tail[max(0, len(tail)-maxTail):]
	c.fresh = true
}

func (m *Mapper) preliminary(c *callState) {
	c.fresh = false
	if c.waits() {
		return
	}
	texts := map[string]string{}
	for name, tail := range c.tails {
		texts[name] = whole(tail)
	}
	m.add(Chunk{Type: "tool-output-available", ToolCallID: c.toolCallID, Output: quote(texts), Preliminary: true})
}

// whole returns a text without the parts of characters at its ends. Other bytes that are no UTF-8 become U+FFFD.
func whole(b []byte) string {
	for i := 0; i < 3 && len(b) > 0 && b[0]&0xC0 == 0x80; i++ {
		b = b[1:]
	}
	for i := 1; i <= 3 && i <= len(b); i++ {
		if lead := b[len(b)-i]; lead >= 0xC0 {
			if !utf8.FullRune(b[len(b)-i:]) {
				b = b[:len(b)-i]
			}
			break
		}
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}

// lower returns the name of an enum value as JSON shows it.
func lower(name, prefix string) string { return strings.ToLower(strings.TrimPrefix(name, prefix)) }
