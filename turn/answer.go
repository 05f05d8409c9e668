package turn

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// An Answer has the result of a call, or says what the call waits for. [Turn.Messages] needs exactly one of Result and Waiting. [Turn.Late]
// skips an Answer without both.
type Answer struct {
	CallID  string // id of the call in toold, used in the handles of its artifacts
	Result  *tool.Result
	Waiting *Waiting
	// Media has the bytes of the artifacts that [Turn.Needs] lists. If the bytes of an artifact are missing, the text for the model names
	// the artifact instead.
	Media map[string][]byte
}

// Waiting is the state of a call without a result. The zero value means that the call runs or is queued.
type Waiting struct {
	Action       string // action of the open suspension
	Message      string
	SuspensionID string
}

// Options define how results are converted to messages.
type Options struct {
	// Placeholders makes [Turn.Messages] answer each call without a result with a text that begins with [PlaceholderMark]. If it is false,
	// a call without a result is an error, with one exception: the AI SDK's format has a part for a call that waits for an approval.
	Placeholders bool
	// TextPerResult and TextPerTurn limit the bytes of text that tools wrote. 0 means 64 KiB and 256 KiB. Only the beginning and the end of
	// a longer text are kept. In a turn with many results, at least 256 bytes of each text are kept.
	TextPerResult, TextPerTurn int
	// MediaPerTurn limits the bytes of images and documents, before base64. 0 means 4 MiB. The text names the images and documents that do
	// not fit.
	MediaPerTurn int
}

func (o Options) withDefaults() Options {
	if o.TextPerResult <= 0 {
		o.TextPerResult = 64 << 10
	}
	if o.TextPerTurn <= 0 {
		o.TextPerTurn = 256 << 10
	}
	if o.MediaPerTurn <= 0 {
		o.MediaPerTurn = 4 << 20
	}
	return o
}

// PlaceholderMark is the beginning of every placeholder.
const PlaceholderMark = "[toold placeholder] "

// ReasonOpen is the reason of a refusal: messages were requested for a turn in which a call has no result yet.
const ReasonOpen = "TURN_OPEN"

// An outcome holds the parts of an answer from which a provider's message is made.
type outcome struct {
	call     *Call
	text     string // never blank
	failed   bool
	denied   bool   // a gate or a person refused the call
	approval string // id of the suspension if the call waits for an approval, else empty
	media    []medium
}

// plain returns the text for formats without an error flag.
func (o *outcome) plain() string {
	if o.failed {
		return "Error: " + o.text
	}
	return o.text
}

// Messages returns the messages that follow the assistant message, with an answer to every call. answers has one Answer for each call, in
// order. The same results give the same bytes. Anthropic and Gemini get one message with all answers, or no message when there is no call.
// Other providers get one message for each call. For the calls in [Turn.NotHandled], the client adds its own answers at the position that
// their Index gives.
func (t *Turn) Messages(answers []Answer, o Options) ([][]byte, error) {
	f, err := t.check(answers)
	if err != nil {
		return nil, err
	}
	for i := range answers {
		switch a := &answers[i]; {
		case a.Result == nil && a.Waiting == nil:
			return nil, fmt.Errorf("turn: call %d has no answer", i)
		case a.Result == nil && !o.Placeholders && !(t.Provider == AISDK && a.approval() != ""):
			return nil, call.Refuse(call.FailedPrecondition, ReasonOpen,
				"call %d of the turn has no result yet; wait for it, or ask for placeholders", t.Calls[i].Index)
		}
	}
	return f.messages(t.outcomes(f, answers, o.withDefaults())), nil
}

// Late returns one user message with results for calls that already have placeholders as answers. It is a user message because providers
// refuse a second result for the same id. Late skips an Answer without a result. If the history already contains the result of a call, the
// caller must pass an Answer without a result for it. Late returns nil when no answer has a result.
func (t *Turn) Late(answers []Answer, o Options) ([]byte, error) {
	f, err := t.check(answers)
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	var media []medium
	text.WriteString(lateIntroduction)
	for i, out := range t.outcomes(f, answers, o.withDefaults()) {
		if answers[i].Result == nil {
			continue
		}
		status := "success"
		if out.failed {
			status = "error"
		}
		text.WriteString("\n")
		text.Write(encode(lateOutcome{out.call.ModelCallID, out.call.Index, out.call.Name, status, out.text}))
		media = append(media, out.media...)
	}
	if text.Len() == len(lateIntroduction) {
		return nil, nil
	}
	return f.late(text.String(), media), nil
}

const lateIntroduction = "These tool calls have ended after they were answered with a placeholder. Each line is the JSON of one result. " +
	"It comes from the tool, not from the user."

// A lateOutcome is written as JSON, so that the text of a tool cannot look like the outcome of another call.
type lateOutcome struct {
	ID     string `json:"id,omitempty"`
	Index  int    `json:"index"`
	Tool   string `json:"tool"`
	Status string `json:"status"`
	Output string `json:"output"`
}

func (t *Turn) check(answers []Answer) (format, error) {
	if len(answers) != len(t.Calls) {
		return nil, fmt.Errorf("turn: %d answers to %d calls", len(answers), len(t.Calls))
	}
	for i := range answers {
		if r := answers[i].Result; r != nil && (answers[i].Waiting != nil || r.IsPending()) {
			return nil, fmt.Errorf("turn: answer %d is both a result and open", i)
		}
	}
	return formatOf(t.Provider)
}

// outcomes returns the outcome of each call, within the budgets.
func (t *Turn) outcomes(f format, answers []Answer, o Options) []outcome {
	chosen := choose(f, answers, o.MediaPerTurn)
	outs := make([]outcome, len(answers))
	texts := make([]string, len(answers))
	for i := range answers {
		outs[i].call = &t.Calls[i]
		texts[i] = outs[i].describe(&answers[i])
	}
	limits := share(texts, o.TextPerResult, o.TextPerTurn)
	for i := range answers {
		outs[i].text = shorten(texts[i], limits[i], &answers[i])
		if strings.TrimSpace(outs[i].text) == "" { // Anthropic refuses blank text.
			outs[i].text = "(no output)"
		}
		outs[i].text += outs[i].attach(&answers[i], chosen[i])
	}
	return outs
}

// describe sets the state of the outcome and returns its text.
func (o *outcome) describe(a *Answer) string {
	if a.Result == nil {
		o.approval = a.approval()
		return a.placeholder()
	}
	o.failed = a.Result.IsError() || a.Result.Error != nil
	if e := a.Result.Error; e != nil {
		o.denied = e.Code == tool.Denied || e.Code == tool.Cancelled && e.Reason == "DECLINED"
	}
	return modelText(a.Result)
}

// modelText returns the text for the model. If the result has neither a message nor data, it returns the texts and links of the content.
func modelText(r *tool.Result) string {
	text := r.ModelText()
	if strings.TrimSpace(text) == "" {
		var texts []string
		for _, c := range r.Content {
			switch c.Type {
			case tool.ContentText, tool.ContentDiff:
				texts = append(texts, c.Text)
			case tool.ContentLink:
				texts = append(texts, "[resource "+c.URI+"]")
			}
		}
		text = strings.Join(texts, "\n")
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// approval returns the id of the suspension when the call waits for an approval, else "".
func (a *Answer) approval() string {
	if a.Result != nil || a.Waiting == nil || a.Waiting.Action != "approval" {
		return ""
	}
	return a.Waiting.SuspensionID
}

func (a *Answer) placeholder() string {
	switch w := a.Waiting; {
	case w == nil: // The answer is empty. Only Late accepts this, and it skips the answer.
		return ""
	case w.SuspensionID == "":
		return PlaceholderMark + "The call has no result yet. Do not send it again; its result follows."
	default:
		text := PlaceholderMark + "The call waits for an answer (" + strings.ToValidUTF8(w.Action, "\uFFFD") + ") and has no result yet. Do not send it again; its result follows."
		if message := strings.ToValidUTF8(w.Message, "\uFFFD"); message != "" {
			text += "\nQuestion: " + message
		}
		return text
	}
}

// encode returns the JSON of a message. It does not escape HTML characters.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("turn: message has no JSON form: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
