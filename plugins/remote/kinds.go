package remote

import (
	"context"
	"crypto/rand"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/hook/external"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/translate"
)

// Check implements [hook.Gate].
func (h *Hook) Check(ctx context.Context, in *hook.Input) (v hook.Verdict, err error) {
	input, err := h.input(in)
	if err != nil {
		return v, err
	}
	q := &tooldv1.GateRequest{Input: input, Answer: translate.FromDecision(in.Answer(), nil)}
	err = ask(ctx, h, h.client.Gate, q, func(a *tooldv1.GateResponse) error {
		v, err = verdict(a)
		return err
	})
	if err != nil {
		return hook.Verdict{}, err
	}
	return v, nil
}

// Rewrite implements [hook.Rewrite].
func (h *Hook) Rewrite(ctx context.Context, in *hook.Input) (string, error) {
	input, err := h.input(in)
	if err != nil {
		return "", err
	}
	text := in.Arguments.Text()
	err = ask(ctx, h, h.client.Rewrite, &tooldv1.RewriteRequest{Input: input}, func(a *tooldv1.RewriteResponse) error {
		if a.GetArguments() != "" {
			text = a.GetArguments()
		}
		return known(a)
	})
	return text, err
}

// Admit implements [hook.Admit].
func (h *Hook) Admit(ctx context.Context, in *hook.Input) (func(), error) {
	input, err := h.input(in)
	if err != nil {
		return nil, err
	}
	q := &tooldv1.AdmitRequest{Input: input, AdmissionId: rand.Text()}
	var a *tooldv1.AdmitResponse
	err = ask(ctx, h, h.client.Admit, q, func(answer *tooldv1.AdmitResponse) error {
		a = answer
		if a.GetRefused().GetRetryAfter().AsDuration() < 0 {
			return protocol("retry_after is negative")
		}
		return known(a)
	})
	if err != nil {
		return nil, err
	}
	if r := a.GetRefused(); r != nil {
		return nil, &tool.Error{Code: tool.ResourceExhausted, Reason: r.GetReason(), Message: orReason(r.GetMessage()), RetryAfter: r.GetRetryAfter().AsDuration()}
	}
	if !a.GetRelease() {
		return nil, nil
	}
	return func() {
		go h.release(&tooldv1.ReleaseRequest{AdmissionId: q.GetAdmissionId(), CallId: in.CallID, Attempt: input.GetAttempt(), Epoch: in.Epoch})
	}, nil // The question runs in another goroutine, so the end of the call does not wait for it.
}

// release sends a release question and waits for the answer until its deadline. A failure is counted and has no other effect.
func (h *Hook) release(q *tooldv1.ReleaseRequest) {
	ctx, cancel := context.WithTimeout(context.Background(), external.DefaultDeadline)
	defer cancel()
	_ = ask(ctx, h, h.client.Release, q, func(a *tooldv1.ReleaseResponse) error { return known(a) })
}

// Before implements [hook.Before].
func (h *Hook) Before(ctx context.Context, in *hook.Input) (list []tool.Command, err error) {
	input, err := h.input(in)
	if err != nil {
		return nil, err
	}
	err = ask(ctx, h, h.client.Before, &tooldv1.BeforeRequest{Input: input}, func(a *tooldv1.BeforeResponse) error {
		if err := known(a); err != nil {
			return err
		}
		list, err = commands(a.GetDocuments())
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

func events(list []*tooldv1.AfterEvent) (out []call.Event, err error) {
	for _, e := range list {
		var ev call.Event
		switch e := e.GetEvent().(type) {
		case *tooldv1.AfterEvent_Progress:
			p := translate.ToProgress(e.Progress)
			ev = call.Event{Type: call.EventProgress, Progress: &p}
		case *tooldv1.AfterEvent_ActivitySnapshot:
			a := e.ActivitySnapshot
			ev = call.Event{Type: call.EventActivitySnapshot, Activity: &call.Activity{ID: a.GetActivityId(), Type: a.GetActivityType(), Content: a.GetContent()}}
		case *tooldv1.AfterEvent_ActivityDelta:
			a := e.ActivityDelta
			ev = call.Event{Type: call.EventActivityDelta, Activity: &call.Activity{ID: a.GetActivityId(), Patch: a.GetPatch()}}
		}
		out = append(out, ev)
	}
	if err := hook.CheckEvents(out); err != nil {
		return nil, protocol("%v", err)
	}
	return out, nil
}

// After implements [hook.After].
func (h *Hook) After(ctx context.Context, in *hook.Input, o hook.Outcome) (out hook.AfterResult, err error) {
	input, err := h.input(in)
	if err != nil {
		return out, err
	}
	q := &tooldv1.AfterRequest{Input: input, Outcome: outcome(&o)}
	err = ask(ctx, h, h.client.After, q, func(a *tooldv1.AfterResponse) (err error) {
		if err = known(a); err == nil {
			out.Documents, err = commands(a.GetDocuments())
		}
		if err == nil && a.GetResult() != nil {
			out.Result, err = changed(o.Result, a.GetResult())
		}
		if err == nil {
			out.Events, err = events(a.GetEvents())
		}
		return err
	})
	if err != nil {
		return hook.AfterResult{}, err
	}
	return out, nil
}
