package subagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toold-dev/toold/tool"
)

// work is one attempt of a subagent's call.
type work struct {
	s      *Subagent
	call   *tool.Call
	state  *state
	began  time.Time // start of the working time that Used does not include yet
	levels int
	shown  map[string]*shown // what the log of the subagent's call shows about the calls of the turn, by call id
}

const (
	maxCalls        = 64        // maximum number of tool calls in one answer
	maxResult       = 256 << 10 // maximum size of a result that the model reads, in bytes
	maxConversation = 4 << 20   // maximum size of all texts of a conversation, in bytes
)

// run continues from the state. It returns when an answer of the model contains no tool calls, a limit is reached, or calls wait for
// people.
func (w *work) run(ctx context.Context) (*tool.Result, error) {
	for {
		if w.state.Pending != nil {
			end, err := w.carry(ctx)
			if end != nil || err != nil {
				return end, err
			}
		}
		if end := w.limit(ctx); end != nil {
			return end, nil
		}
		box, err := w.tools()
		if err != nil {
			return nil, err
		}
		a, err := w.ask(ctx, &box)
		if err != nil {
			return w.unanswered(ctx, err)
		}
		if end := w.take(a, &box); end != nil {
			return end, nil
		}
		if err := w.save(); err != nil {
			return nil, err
		}
	}
}

func (w *work) tools() (Toolbox, error) {
	return w.s.cfg.Caller.Tools(w.call, w.agent(nil), w.s.cfg.Protocol)
}

// unanswered returns the outcome of a subagent's call whose model did not answer.
func (w *work) unanswered(ctx context.Context, err error) (*tool.Result, error) {
	f, ok := errors.AsType[*failure](err)
	switch {
	case errors.Is(context.Cause(ctx), errTime):
		return w.overTime(), nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case ok:
		return w.withUsage(f.result()), nil
	}
	return nil, err
}

// limit returns a result when the subagent has reached a limit, and nil otherwise.
func (w *work) limit(ctx context.Context) *tool.Result {
	switch cfg, s := &w.s.cfg, w.state; {
	case errors.Is(context.Cause(ctx), errTime):
		return w.overTime()
	case s.Turns >= cfg.Turns:
		return w.stopped("TURNS", "its limit of %d turns", cfg.Turns)
	case s.Usage.total() >= cfg.Tokens:
		return w.stopped("TOKENS", "its limit of %d tokens", cfg.Tokens)
	case s.size() > maxConversation:
		return w.overSize()
	}
	return nil
}

func (w *work) overSize() *tool.Result {
	return w.stopped("CONVERSATION", "the size limit of its conversation (%d bytes)", maxConversation)
}

func (s *state) size() (n int) {
	for i := range s.Messages {
		m := &s.Messages[i]
		n += len(m.Text)
		for _, c := range m.Calls {
			n += len(c.Arguments)
		}
		for _, r := range m.Results {
			n += len(r.Text)
		}
	}
	return n
}

func (w *work) overTime() *tool.Result { return w.stopped("TIME", "its time limit (%v)", w.s.cfg.Time) }

// stopped returns the result of a subagent that has reached a limit, with the model's newest text.
func (w *work) stopped(reason, format string, args ...any) *tool.Result {
	text := "The subagent reached " + fmt.Sprintf(format, args...) + " before it finished."
	if last := w.state.lastWords(); last != "" {
		text += " Its last message: " + clip(last, 4<<10)
	}
	return w.withUsage(exhausted(reason, "%s", text))
}

// withUsage adds the tokens and other counts of the call to a result.
func (w *work) withUsage(r *tool.Result) *tool.Result {
	s := w.state
	r.Metadata = map[string]string{
		"model": w.s.cfg.Model, "turns": strconv.Itoa(s.Turns), "tool_calls": strconv.Itoa(s.Calls),
		"input_tokens": strconv.FormatInt(s.Usage.In, 10), "output_tokens": strconv.FormatInt(s.Usage.Out, 10),
	}
	if s.Usage.Estimated {
		r.Metadata["tokens_estimated"] = "true"
	}
	if s.Calls > 0 {
		r.Metadata["run_id"] = s.run(w.call.ID)
	}
	if len(s.Unseen) > 0 {
		r.Metadata["unseen_calls"] = strings.Join(s.Unseen, " ")
	}
	return r
}

func (w *work) ask(ctx context.Context, box *Toolbox) (*answer, error) {
	cfg := &w.s.cfg
	q := question{
		model: cfg.Model, system: cfg.System, messages: w.state.Messages, tools: box.Tools, answerTokens: cfg.AnswerTokens,
		key: w.state.id(w.call.ID, "ask", strconv.Itoa(w.state.Turns), w.state.Key), namespace: w.call.Namespace,
	}
	if box.Guidance != "" {
		q.system += "\n\n" + box.Guidance
	}
	w.progress("turn " + strconv.Itoa(w.state.Turns+1) + ": the model is asked")
	return w.s.model.ask(ctx, &q, w.progress)
}

func (w *work) progress(text string) {
	_ = w.call.Progress(tool.ProgressRunning, float64(w.state.Turns)/float64(w.s.cfg.Turns), text) // The error is ignored, because it only means that the subagent's call is over. The engine knows that.
}

// take adds an answer to the state. It returns a result when the answer has no tool calls, or a limit is reached.
func (w *work) take(a *answer, box *Toolbox) *tool.Result {
	s := w.state
	s.count(a)
	m := message{Role: roleAssistant, Text: a.text}
	p := &pending{}
	s.Turns++
	for i := range a.calls {
		c, id := &a.calls[i], s.modelID(a.calls[i].id, i, m.Calls)
		m.Calls = append(m.Calls, toolCall{id, safeName(c.name), object(c.arguments)})
		p.Order = append(p.Order, id)
		r := Request{ID: s.call(w.call.ID, i), ModelID: id, Tool: c.name, Arguments: c.arguments}
		if own, ok := box.Names[c.name]; ok {
			r.Tool = own
		}
		if why := w.uncallable(&r, i); why != "" {
			p.Results = append(p.Results, result{toolResult: toolResult{ID: id, Text: why, Failed: true}})
			continue
		}
		p.Requests = append(p.Requests, r)
	}
	s.Messages = append(s.Messages, m)
	if len(a.calls) == 0 {
		return w.done(a)
	}
	if s.Turns >= w.s.cfg.Turns { // This was the last permitted answer. The model could not read the results of the tool calls in it, so these calls are not made.
		return w.stopped("TURNS", "its limit of %d turns", w.s.cfg.Turns)
	}
	if s.Usage.total() >= w.s.cfg.Tokens {
		return w.stopped("TOKENS", "its limit of %d tokens", w.s.cfg.Tokens)
	}
	if s.size() > maxConversation {
		return w.overSize()
	}
	s.Pending = p
	s.Calls += len(p.Requests)
	return nil
}

// done returns the result for the model's last answer.
func (w *work) done(a *answer) *tool.Result {
	text := a.text
	if text == "" {
		text = "(The subagent ended without a message.)"
	}
	r := w.withUsage(tool.Text(text))
	if a.cut {
		r.Metadata["cut"] = "true"
		r.Message += "\n\n(The answer reached the length limit and is incomplete.)"
	}
	return r
}

// count adds the tokens of an answer to the usage. When the endpoint reports no plausible count, it adds an estimate, so that the limit of
// tokens still applies.
func (s *state) count(a *answer) {
	in, out := a.in, a.out
	if sum(in, out) <= 0 {
		s.Usage.Estimated = true
		in, out = int64(s.size()/4+1), int64(len(a.text)/4+1)
		for i := range a.calls {
			out += int64(len(a.calls[i].arguments) / 4)
		}
	}
	s.Usage.In, s.Usage.Out = s.Usage.In+in, s.Usage.Out+out
}

// uncallable returns "" when a tool call can become a call of the daemon. Otherwise it returns an error text for the model.
func (w *work) uncallable(r *Request, i int) string {
	switch {
	case i >= maxCalls:
		return fmt.Sprintf("Not run: more than %d tool calls in one answer", maxCalls)
	case tool.ValidName(r.Tool) != nil:
		return fmt.Sprintf("There is no tool %q. Use one of the tools that you were given.", clip(r.Tool, 80))
	case len(r.Arguments) > w.s.cfg.MaxArguments:
		return fmt.Sprintf("Not run: the arguments have %d bytes; at most %d are accepted", len(r.Arguments), w.s.cfg.MaxArguments)
	}
	return ""
}

// modelID returns the id of a tool call in the conversation. This is the id that the model wrote. When that id was used before, or
// providers would reject it, modelID returns a new id.
func (s *state) modelID(id string, index int, beside []toolCall) string {
	ok := id != "" && len(id) <= 64 && !s.has(id) && !slices.ContainsFunc(beside, func(c toolCall) bool { return c.ID == id })
	for i := range len(id) {
		c := id[i]
		ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-')
	}
	if ok {
		return id
	}
	return fmt.Sprintf("toold_%s_%d_%d", s.Seed[:6], s.Turns, index)
}

// safeName returns a tool name that a provider accepts.
func safeName(name string) string {
	if tool.ValidName(name) == nil {
		return name
	}
	return "unknown"
}

// object returns the arguments for the conversation. It replaces text that is not a JSON object, because providers would reject it.
func object(arguments string) string {
	var v map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &v) != nil || v == nil {
		return "{}"
	}
	return arguments
}

// agent returns the agent for the calls that the model makes. It is never offered more tools than the caller of the subagent. With a nil
// box, agent ignores the Allow list of the caller's agent; the method Tools of [Caller] applies that list.
func (w *work) agent(box *Toolbox) tool.Agent {
	cfg, parent := &w.s.cfg, &w.call.Run.Agent
	a := tool.Agent{ID: cfg.Name, Allow: cfg.Tools.Allow, Exclude: slices.Concat(parent.Exclude, cfg.Tools.Exclude)}
	if w.levels < 2 {
		a.Exclude = append(a.Exclude, cfg.Siblings...)
	}
	switch {
	case box == nil || len(parent.Allow) == 0:
	case len(cfg.Tools.Allow) == 0:
		a.Allow = parent.Allow
	default: // The intersection of two lists of globs cannot be written as globs, so Allow lists the tool names.
		a.Allow = slices.Sorted(maps.Values(box.Names))
		if len(a.Allow) == 0 {
			a.Allow, a.Exclude = nil, []string{"*"}
		}
	}
	return a
}

func (w *work) runOf(box *Toolbox) tool.Run {
	from := &w.call.Run
	labels := maps.Clone(from.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	var above []Ancestor
	if from.Origin == Origin {
		above = Above(from)
	}
	if delete(labels, aboveLabel); len(above) > 0 {
		b, _ := json.Marshal(above) // Marshal cannot fail for strings.
		labels[aboveLabel] = string(b)
	}
	labels[depthLabel] = strconv.Itoa(w.levels - 1)
	id := w.state.run(w.call.ID)
	return tool.Run{
		ID: id, Thread: id, ParentRun: from.ID, ParentThread: from.Thread, ParentCall: w.call.ID,
		Agent: w.agent(box), Origin: Origin, Unattended: from.Unattended, Labels: labels,
	}
}

func (w *work) save() error {
	now := time.Now()
	w.state.Used += now.Sub(w.began)
	w.began = now
	b, err := w.state.encode()
	if err == nil {
		err = w.call.SaveCheckpoint(b)
	}
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}
