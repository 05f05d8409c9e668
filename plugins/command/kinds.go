package command

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/hook/external"
	"github.com/toold-dev/toold/tool"
)

// Check implements [hook.Gate].
func (h *Hook) Check(ctx context.Context, in *hook.Input) (v hook.Verdict, err error) {
	q, err := h.question("gate", in)
	if err != nil {
		return v, err
	}
	q.Answer = in.Answer()
	err = h.ask(ctx, q, func(s answer) (err error) {
		v, err = s.gate(q.Answer != nil)
		return err
	})
	return v, err
}

// Rewrite implements [hook.Rewrite].
func (h *Hook) Rewrite(ctx context.Context, in *hook.Input) (string, error) {
	q, err := h.question("rewrite", in)
	if err != nil {
		return "", err
	}
	text := in.Arguments.Text()
	err = h.ask(ctx, q, func(s answer) error {
		if s.refused {
			return protocol("exit code 2: a rewrite hook cannot refuse a call, a gate can")
		}
		var v struct {
			Arguments json.RawMessage `json:"arguments"`
			Agent     *struct {
				Event   string          `json:"hookEventName"`
				Updated json.RawMessage `json:"updatedInput"`
			} `json:"hookSpecificOutput"`
			ignoredFields
		}
		if err := s.read(&v, "arguments", "hookSpecificOutput", "suppressOutput", "systemMessage"); err != nil {
			return err
		}
		switch {
		case v.Arguments != nil:
			text = string(v.Arguments)
		case v.Agent != nil && v.Agent.Updated != nil:
			text = string(v.Agent.Updated)
		}
		return nil
	})
	return text, err
}

// releaseWithin is the time limit of a release question.
const releaseWithin = external.DefaultDeadline

// Admit implements [hook.Admit]. When the program returned an admission, the release function asks the program again, with the kind
// release.
func (h *Hook) Admit(ctx context.Context, in *hook.Input) (func(), error) {
	q, err := h.question("admit", in)
	if err != nil {
		return nil, err
	}
	var v struct {
		Admission  string `json:"admission"`
		Refused    string `json:"refused"` // reason of a refusal
		RetryAfter string `json:"retry_after"`
		ignoredFields
	}
	var refusal *tool.Error
	err = h.ask(ctx, q, func(s answer) error {
		if s.refused {
			refusal = &tool.Error{Code: tool.ResourceExhausted, Message: orReason(s.reason)}
			return nil
		}
		if err := s.read(&v, "admission", "refused", "retry_after", "suppressOutput", "systemMessage"); err != nil || v.Refused == "" {
			return err
		}
		refusal = &tool.Error{Code: tool.ResourceExhausted, Message: v.Refused}
		if v.RetryAfter == "" {
			return nil
		}
		var err error
		if refusal.RetryAfter, err = time.ParseDuration(v.RetryAfter); err != nil || refusal.RetryAfter < 0 {
			return protocol("retry_after %q is not a duration", v.RetryAfter)
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case refusal != nil:
		return nil, refusal
	case v.Admission == "":
		return nil, nil
	}
	return func() { go h.release(q, v.Admission) }, nil // The question runs in another goroutine, so the end of the call does not wait for it.
}

// release reports the end of the attempt to the program, within releaseWithin. A failure is counted and has no other effect.
func (h *Hook) release(q *question, admission string) {
	ctx, cancel := context.WithTimeout(context.Background(), releaseWithin)
	defer cancel()
	q.Kind, q.Admission = "release", admission
	_ = h.ask(ctx, q, func(answer) error { return nil })
}

// command is one of a program's document commands. Its value is any JSON.
type command struct {
	Op       tool.CommandOp  `json:"op"`
	Scope    tool.Scope      `json:"scope"`
	Key      string          `json:"key"`
	Value    json.RawMessage `json:"value"`
	Expected *int64          `json:"expected"`
}

func commandsOf(list []command) ([]tool.Command, error) {
	out := make([]tool.Command, len(list))
	for i, c := range list {
		out[i] = tool.Command{Op: c.Op, Scope: c.Scope, Key: c.Key, Value: string(c.Value), Expected: c.Expected}
	}
	return out, external.CheckCommands(out)
}

// Before implements [hook.Before].
func (h *Hook) Before(ctx context.Context, in *hook.Input) (commands []tool.Command, err error) {
	q, err := h.question("before", in)
	if err != nil {
		return nil, err
	}
	err = h.ask(ctx, q, func(s answer) error {
		if s.refused {
			return protocol("exit code 2: a before hook cannot refuse a call, a gate can")
		}
		var v struct {
			Documents []command `json:"documents"`
			ignoredFields
		}
		if err := s.read(&v, "documents", "suppressOutput", "systemMessage"); err != nil {
			return err
		}
		commands, err = commandsOf(v.Documents)
		return err
	})
	return commands, err
}

// changed contains an After hook's changes to a result. When a field is absent, that part of the result stays unchanged.
type changed struct {
	Data     *json.RawMessage  `json:"data"`
	Message  *string           `json:"message"`
	Display  tool.Display      `json:"display_preference"`
	Metadata map[string]string `json:"metadata"` // added to the existing metadata
}

// event is an event that an After hook publishes. Exactly one member is set. The members have the names that a command tool prints in its
// lines.
type event struct {
	Progress *tool.Progress `json:"progress"`
	Activity *struct {
		ID      string          `json:"id"`
		Type    string          `json:"type"`
		Content json.RawMessage `json:"content"`
	} `json:"activity"`
	Delta *struct {
		ID    string          `json:"id"`
		Patch json.RawMessage `json:"patch"`
	} `json:"activity_delta"`
}

func eventsOf(list []event) (out []call.Event, err error) {
	for _, e := range list {
		var ev call.Event
		switch {
		case e.Progress != nil && e.Activity == nil && e.Delta == nil:
			e.Progress.Status = cmp.Or(e.Progress.Status, tool.ProgressRunning)
			ev = call.Event{Type: call.EventProgress, Progress: e.Progress}
		case e.Activity != nil && e.Progress == nil && e.Delta == nil:
			ev = call.Event{Type: call.EventActivitySnapshot, Activity: &call.Activity{ID: e.Activity.ID, Type: e.Activity.Type, Content: string(e.Activity.Content)}}
		case e.Delta != nil && e.Progress == nil && e.Activity == nil:
			ev = call.Event{Type: call.EventActivityDelta, Activity: &call.Activity{ID: e.Delta.ID, Patch: string(e.Delta.Patch)}}
		}
		out = append(out, ev)
	}
	if err := hook.CheckEvents(out); err != nil {
		return nil, protocol("%v", err)
	}
	return out, nil
}

// After implements [hook.After]. With exit code 2, standard error is appended to what the model reads. The hooks of coding agents do the
// same after a tool.
func (h *Hook) After(ctx context.Context, in *hook.Input, outcome hook.Outcome) (out hook.AfterResult, err error) {
	q, err := h.question("after", in)
	if err != nil {
		return out, err
	}
	q.ended(outcome)
	err = h.ask(ctx, q, func(s answer) error {
		var v struct {
			Result    *changed  `json:"result"`
			Add       string    `json:"add"` // text to append to what the model reads
			Documents []command `json:"documents"`
			Events    []event   `json:"events"`
			ignoredFields
		}
		if s.refused {
			v.Add = s.reason
		} else if err := s.read(&v, "result", "add", "documents", "events", "suppressOutput", "systemMessage"); err != nil {
			return err
		}
		var err error
		if out.Documents, err = commandsOf(v.Documents); err != nil {
			return err
		}
		if out.Events, err = eventsOf(v.Events); err != nil {
			return err
		}
		out.Result, err = v.Result.apply(outcome.Result, v.Add)
		return err
	})
	return out, err
}

// apply changes r, which the caller must own. It returns nil when nothing changes.
func (c *changed) apply(r *tool.Result, add string) (*tool.Result, error) {
	if c == nil && add == "" {
		return nil, nil
	}
	if c != nil {
		if c.Data != nil {
			r.Data = string(*c.Data)
		}
		if c.Message != nil {
			r.Message = *c.Message
			if r.Error != nil {
				r.Error.Message = *c.Message
			}
		}
		if c.Display != "" {
			r.Display = c.Display
		}
		for k, v := range c.Metadata {
			if r.Metadata == nil {
				r.Metadata = map[string]string{}
			}
			r.Metadata[k] = v
		}
		if !external.KnownDisplay(r.Display) {
			return nil, protocol("display_preference %q", c.Display)
		}
	}
	if add == "" {
		return r, nil
	}
	if r.Error != nil {
		r.Error.Message = fmt.Sprintf("%s\n%s", r.Error.Message, add)
	} else {
		r.Message = fmt.Sprintf("%s\n%s", r.ModelText(), add)
	}
	return r, nil
}
