package follow

import (
	"strings"
	"unicode/utf8"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// maxTail is how many of the last bytes of an output stream a view gets. Each update contains all of these bytes again, because clients
// replace the text of the previous update.
const maxTail = 4 << 10

// maxStreams limits the output streams of a call that a view gets.
const maxStreams = 4

// A View writes what changed. Finished gets a call that has ended; all other methods get only calls that have not ended.
type View interface {
	// Accepted announces a call. arguments is the text that the model sent, which may not be valid JSON.
	Accepted(c *Call, arguments string)
	Progress(c *Call, p *Progress)
	Activity(c *Call, a *Activity)
	// Output gets the last part of each output stream of this attempt, by the name of the stream.
	Output(c *Call, tails map[string]string)
	// Asked announces the question of a call, or a change of the question: it got votes, or it was closed without an answer.
	Asked(c *Call)
	// Answered announces an answer. The question of the call already contains it.
	Answered(c *Call, d *tooldv1.Decision)
	Finished(c *Call, f *tooldv1.CallFinished)
	Gap(g *Gap)
}

// A Call is the state of a call as far as the frames have shown it.
type Call struct {
	ID         string
	ToolCallID string // unique in the run: the model's id of the call, or the call id if the model sent no id or used it before
	Tool       string
	Batch      string // empty for a call outside a batch
	Ended      bool
	Question   *Question // the latest; nil if there was none

	tails map[string][]byte
	fresh bool // tails have bytes that the view has not got yet
}

// Waits reports whether the call waits for an answer.
func (c *Call) Waits() bool { return c.Question != nil && c.Question.State == "open" }

// A Follower reads the frames of one watch that begins with the oldest event of a run. It is not safe for concurrent use.
type Follower struct {
	view  View
	calls map[string]*Call // nil for a call whose tool is unknown, because the beginning of its log was trimmed
	order []*Call
	ids   map[string]bool // tool call ids in use
}

// New returns a follower that reports changes to the view.
func New(v View) *Follower {
	return &Follower{view: v, calls: map[string]*Call{}, ids: map[string]bool{}}
}

// Seen counts the calls in the frames so far. calls is the number of all calls, open the number of calls that run or will run, and waiting
// the number of calls that wait for an answer. A call whose tool is unknown counts only in calls.
func (f *Follower) Seen() (calls, open, waiting int) {
	for _, c := range f.order {
		switch {
		case c.Ended:
		case c.Waits():
			waiting++
		default:
			open++
		}
	}
	return len(f.calls), open, waiting
}

// Calls returns the calls in the order in which they were accepted.
func (f *Follower) Calls() []*Call { return f.order }

// Frame reads a frame. Frame invokes the function arguments once for each call, because events do not contain the requested arguments.
func (f *Follower) Frame(frame *tooldv1.Frame, arguments func(callID string) (string, error)) error {
	if g := frame.GetGap(); g != nil {
		if id := g.GetCallId(); id != "" && f.calls[id] == nil {
			f.calls[id] = nil
		}
		f.view.Gap(&Gap{g.GetCallId(), lower(g.GetReason().String(), "GAP_REASON_")})
	}
	for _, e := range frame.GetEvents() {
		c := f.calls[e.GetCallId()]
		switch {
		case c == nil && e.GetAccepted() == nil:
			f.calls[e.GetCallId()] = nil // The beginning of the log was trimmed, and it contained the name of the tool.
		case c == nil:
			text, err := arguments(e.GetCallId())
			if err != nil {
				return err
			}
			f.accept(e.GetCallId(), e.GetAccepted(), text)
		case !c.Ended:
			f.event(c, e)
		}
	}
	for _, e := range frame.GetEvents() { // After all events of a frame, report the output once.
		if c := f.calls[e.GetCallId()]; c != nil && c.fresh && !c.Ended {
			f.output(c)
		}
	}
	return nil
}

func (f *Follower) accept(id string, a *tooldv1.CallAccepted, arguments string) {
	c := &Call{ID: id, ToolCallID: a.GetModelCallId(), Tool: a.GetTool(), Batch: a.GetBatchId()}
	if c.ToolCallID == "" || f.ids[c.ToolCallID] { // The model sent no id, or an id that it had used before.
		c.ToolCallID = id
	}
	f.ids[c.ToolCallID] = true
	f.calls[id], f.order = c, append(f.order, c)
	f.view.Accepted(c, arguments)
}

func (f *Follower) event(c *Call, e *tooldv1.CallEvent) {
	switch e := e.GetEvent().(type) {
	case *tooldv1.CallEvent_AttemptStarted:
		c.tails = nil
	case *tooldv1.CallEvent_Progress:
		p := e.Progress
		f.view.Progress(c, &Progress{
			CallID: c.ID, ToolCallID: c.ToolCallID, Status: lower(p.GetStatus().String(), "PROGRESS_STATUS_"),
			Fraction: p.GetFraction(), Message: p.GetMessage(), Loaded: p.GetLoaded(), Total: p.GetTotal(),
		})
	case *tooldv1.CallEvent_ActivitySnapshot:
		a := e.ActivitySnapshot
		f.view.Activity(c, &Activity{CallID: c.ID, ToolCallID: c.ToolCallID, ActivityID: a.GetActivityId(), Type: a.GetActivityType(), Content: JSON(a.GetContent())})
	case *tooldv1.CallEvent_ActivityDelta:
		a := e.ActivityDelta
		f.view.Activity(c, &Activity{CallID: c.ID, ToolCallID: c.ToolCallID, ActivityID: a.GetActivityId(), Patch: JSON(a.GetPatch())})
	case *tooldv1.CallEvent_Output:
		c.keep(e.Output)
	case *tooldv1.CallEvent_Suspended:
		c.Question = questionOf(c, e.Suspended.GetSuspension())
		f.view.Asked(c)
	case *tooldv1.CallEvent_VoteRecorded:
		if q := c.Question; q != nil && q.SuspensionID == e.VoteRecorded.GetSuspensionId() {
			q.Votes, q.Needed = e.VoteRecorded.GetVotes(), e.VoteRecorded.GetNeeded()
			f.view.Asked(c)
		}
	case *tooldv1.CallEvent_Resumed:
		f.resumed(c, e.Resumed.GetDecision())
	case *tooldv1.CallEvent_Finished:
		f.finished(c, e.Finished)
	}
}

func questionOf(c *Call, s *tooldv1.Suspension) *Question {
	q := &Question{
		SuspensionID: s.GetSuspensionId(), CallID: c.ID, ToolCallID: c.ToolCallID, State: "open", Action: s.GetAction(), Message: s.GetMessage(),
		Title: s.GetDescription().GetTitle(), Notes: s.GetDescription().GetNotes(), Parameters: JSON(s.GetParameters()),
		Arguments: JSON(s.GetPending().GetArguments()), ResponseSchema: JSON(s.GetResponseSchema()), Digest: s.GetDigest(),
		ExpiresAt: s.GetExpiresAt().AsTime(),
	}
	if n := s.GetApprovers().GetCount(); n > 1 {
		q.Needed = n
	}
	return q
}

func (f *Follower) resumed(c *Call, d *tooldv1.Decision) {
	if !c.Waits() {
		return
	}
	q := c.Question
	q.State, q.DecidedBy, q.Reason = "declined", d.GetDecidedBy().GetSubject(), d.GetReason()
	if d.GetAction() == tooldv1.DecisionAction_DECISION_ACTION_RESUME {
		q.State = "approved"
	}
	f.view.Answered(c, d)
}

func (f *Follower) finished(c *Call, end *tooldv1.CallFinished) {
	if c.Waits() { // The call was cancelled, or its question expired.
		c.Question.State = "closed"
		f.view.Asked(c)
	}
	c.Ended, c.tails = true, nil
	f.view.Finished(c, end)
}

// keep keeps the last part of an output stream.
func (c *Call) keep(o *tooldv1.Output) {
	if _, known := c.tails[o.GetStream()]; !known && len(c.tails) == maxStreams {
		return
	}
	if c.tails == nil {
		c.tails = map[string][]byte{}
	}
	tail := append(c.tails[o.GetStream()], o.GetData()...) //nolint:gocritic // the map gets its end below
	c.tails[o.GetStream()] = tail[max(0, len(tail)-maxTail):]
	c.fresh = true
}

func (f *Follower) output(c *Call) {
	c.fresh = false
	if c.Waits() {
		return
	}
	texts := map[string]string{}
	for name, tail := range c.tails {
		texts[name] = whole(tail)
	}
	f.view.Output(c, texts)
}

// whole returns a text without incomplete characters at its beginning and end. It replaces other bytes that are not UTF-8 by U+FFFD.
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
