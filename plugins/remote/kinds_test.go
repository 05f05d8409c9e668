package remote_test

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/plugins/remote"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
)

func isProtocol(err error) bool { return errors.As(err, new(*hook.ProtocolError)) }

func TestRewrite(t *testing.T) {
	s := &service{rewrite: func(q *tooldv1.RewriteRequest) (*tooldv1.RewriteResponse, error) {
		if q.GetInput().GetArguments() == `{"a":1}` {
			return &tooldv1.RewriteResponse{}, nil
		}
		return &tooldv1.RewriteResponse{Arguments: `{"a":2.0}`}, nil
	}}
	h := newHook(t, serve(t, s))
	for arguments, want := range map[string]string{`{"a":1}`: `{"a":1}`, `{"a":3}`: `{"a":2.0}`} {
		if text, err := h.Rewrite(t.Context(), input(t, arguments)); err != nil || text != want {
			t.Errorf("%s becomes %s, %v", arguments, text, err)
		}
	}
}

func TestAdmit(t *testing.T) {
	answer := &tooldv1.AdmitResponse{Release: true}
	var id string
	s := &service{admit: func(q *tooldv1.AdmitRequest) (*tooldv1.AdmitResponse, error) {
		id = q.GetAdmissionId()
		return answer, nil
	}}
	h := newHook(t, serve(t, s))
	release, err := h.Admit(t.Context(), input(t, `{}`))
	if err != nil || release == nil {
		t.Fatal(err)
	}
	release()
	for h.Health().Asked < 2 { // release returns before the service has received the request, so the test waits until the service has it.
		runtime.Gosched()
	}
	if len(s.released) != 1 || s.released[0] != id || id == "" {
		t.Errorf("released %q, admitted %q", s.released, id)
	}
	answer = &tooldv1.AdmitResponse{Refused: &tooldv1.AdmitRefusal{Message: "10 a minute", Reason: "RATE", RetryAfter: durationpb.New(time.Minute)}}
	_, err = h.Admit(t.Context(), input(t, `{}`))
	var e *tool.Error
	if !errors.As(err, &e) || e.Message != "10 a minute" || e.Reason != "RATE" || e.RetryAfter != time.Minute {
		t.Errorf("refusal %v", err)
	}
}

func TestBefore(t *testing.T) {
	answer := &tooldv1.BeforeResponse{Documents: []*tooldv1.DocumentCommand{{
		Operation: tooldv1.DocumentOperation_DOCUMENT_OPERATION_SET, Scope: tooldv1.DocumentScope_DOCUMENT_SCOPE_RUN, Key: "k", Value: `{"n":1.0}`, ExpectedRevision: proto.Int64(0),
	}}}
	h := newHook(t, serve(t, &service{before: func(*tooldv1.BeforeRequest) (*tooldv1.BeforeResponse, error) { return answer, nil }}))
	got, err := h.Before(t.Context(), input(t, `{}`))
	if err != nil || len(got) != 1 || got[0].Op != tool.OpSet || got[0].Scope != tool.RunScope || got[0].Value != `{"n":1.0}` || *got[0].Expected != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	answer.Documents[0].Scope = 0
	if _, err := h.Before(t.Context(), input(t, `{}`)); !isProtocol(err) {
		t.Errorf("no scope: %v", err)
	}
}

func TestAfter(t *testing.T) {
	var answer *tooldv1.AfterResponse
	s := &service{after: func(q *tooldv1.AfterRequest) (*tooldv1.AfterResponse, error) {
		if o := q.GetOutcome(); o.GetStatus() != tooldv1.CallStatus_CALL_STATUS_FAILED || o.GetExecuted() != tooldv1.Executed_EXECUTED_FINISHED || o.GetResult().GetError().GetCode() != tooldv1.ErrorCode_ERROR_CODE_EXECUTION_FAILED {
			t.Errorf("outcome %v", o)
		}
		return answer, nil
	}}
	h := newHook(t, serve(t, s))
	after := func() (hook.AfterResult, error) {
		return h.After(t.Context(), input(t, `{}`), hook.Outcome{Status: call.Failed, Executed: call.Finished, Result: tool.Fail("no such file")})
	}
	answer = &tooldv1.AfterResponse{}
	if got, err := after(); err != nil || got.Result != nil {
		t.Errorf("nothing to say: %+v, %v", got, err)
	}
	answer = &tooldv1.AfterResponse{Result: &tooldv1.HookResult{Message: "m", Metadata: map[string]string{"k": "v"}, Error: &tooldv1.HookError{Message: "look elsewhere"}}}
	if got, err := after(); err != nil || got.Result.Error.Message != "look elsewhere" || got.Result.Error.Code != tool.ExecutionFailed || got.Result.Metadata["k"] != "v" {
		t.Errorf("%+v, %v", got.Result, err)
	}
	answer = &tooldv1.AfterResponse{Events: []*tooldv1.AfterEvent{
		{Event: &tooldv1.AfterEvent_Progress{Progress: &tooldv1.Progress{Status: tooldv1.ProgressStatus_PROGRESS_STATUS_DONE, Loaded: 2, Total: 2}}},
		{Event: &tooldv1.AfterEvent_ActivitySnapshot{ActivitySnapshot: &tooldv1.ActivitySnapshot{ActivityId: "a", ActivityType: "t", Content: "1"}}},
		{Event: &tooldv1.AfterEvent_ActivityDelta{ActivityDelta: &tooldv1.ActivityDelta{ActivityId: "a", Patch: "[]"}}},
	}}
	want := []call.Event{
		{Type: call.EventProgress, Progress: &tool.Progress{Status: tool.ProgressDone, Loaded: 2, Total: 2}},
		{Type: call.EventActivitySnapshot, Activity: &call.Activity{ID: "a", Type: "t", Content: "1"}}, {Type: call.EventActivityDelta, Activity: &call.Activity{ID: "a", Patch: "[]"}},
	}
	if got, err := after(); err != nil || !reflect.DeepEqual(got.Events, want) {
		t.Errorf("events %+v, %v", got.Events, err)
	}
	for _, wrong := range []*tooldv1.AfterEvent{{}, {Event: &tooldv1.AfterEvent_Progress{Progress: &tooldv1.Progress{}}}} {
		answer = &tooldv1.AfterResponse{Events: []*tooldv1.AfterEvent{wrong}}
		if _, err := after(); !isProtocol(err) {
			t.Errorf("the event %v: %v", wrong, err)
		}
	}
	for name, r := range map[string]*tooldv1.HookResult{
		"status": {Status: tooldv1.ResultStatus_RESULT_STATUS_SUCCESS}, "code": {Error: &tooldv1.HookError{Code: tooldv1.ErrorCode_ERROR_CODE_DENIED}},
		"reason": {Error: &tooldv1.HookError{Reason: "OTHER"}}, "data": {Data: "{"}, "content": {Content: []*tooldv1.Content{{Text: "x"}}},
	} {
		answer = &tooldv1.AfterResponse{Result: r}
		if _, err := after(); !isProtocol(err) {
			t.Errorf("it changes the %s: %v", name, err)
		}
	}
}

// redacting retains the end of output until it knows that no secret begins there.
func redacting(stream grpc.BidiStreamingServer[tooldv1.FilterRequest, tooldv1.FilterResponse]) error {
	secret, kept := []byte("secret"), []byte(nil)
	let := func(events ...*tooldv1.FilterEvent) error {
		return stream.Send(&tooldv1.FilterResponse{Events: events})
	}
	output := func(b []byte) *tooldv1.FilterEvent {
		return &tooldv1.FilterEvent{Event: &tooldv1.FilterEvent_Output{Output: &tooldv1.Output{Stream: "stdout", Data: bytes.ReplaceAll(b, secret, []byte("***"))}}}
	}
	for {
		q, err := stream.Recv()
		if err != nil {
			return nil //nolint:nilerr // the daemon has ended it
		}
		switch ev := q.GetEvent(); {
		case q.GetBegin() != nil:
			continue
		case q.GetFlush() != nil:
			err = let(output(kept))
			kept = nil
		case ev.GetOutput() != nil:
			all := slices.Concat(kept, ev.GetOutput().GetData())
			end := bytes.LastIndexByte(all, 's')
			if end < 0 || bytes.HasPrefix(all[end:], secret) {
				end = len(all)
			}
			out := bytes.Clone(all[:end])
			kept = bytes.Clone(all[end:])
			err = let(output(out))
		case ev.GetFinished() != nil:
			r := ev.GetFinished().GetResult()
			err = let(output(kept), &tooldv1.FilterEvent{Event: &tooldv1.FilterEvent_Finished{Finished: &tooldv1.HookResult{Message: strings.ReplaceAll(r.GetMessage(), "secret", "***")}}})
		default:
			err = let()
		}
		if err != nil {
			return err
		}
	}
}

func out(b string) call.Event {
	return call.Event{Type: call.EventOutput, Output: &call.Output{Stream: "stdout", Bytes: []byte(b)}}
}

func finished(message string) call.Event {
	return call.Event{Type: call.EventFinished, Outcome: &call.Outcome{Status: call.Succeeded, Executed: call.Finished, Result: tool.Text(message)}}
}

// TestT112RemoteFilter checks that a service releases the text that it retains before the call ends or asks a question. The service does
// not get an event such as accepted.
func TestT112RemoteFilter(t *testing.T) {
	h := newHook(t, serve(t, &service{filter: redacting}))
	next := h.FilterOrFail(input(t, `{}`))
	var output strings.Builder
	pass := func(ev call.Event, types ...call.EventType) {
		t.Helper()
		events, _, err := next(ev)
		if err != nil {
			t.Fatal(err)
		}
		var got []call.EventType
		for _, e := range events {
			got = append(got, e.Type)
			if e.Output != nil {
				output.Write(e.Output.Bytes)
			}
		}
		if len(got) != len(types) {
			t.Errorf("%s becomes %v, want %v", ev.Type, got, types)
		}
	}
	pass(call.Event{Type: call.EventAccepted, Accepted: &call.Accepted{}}, call.EventAccepted)
	if h.Health().Asked != 0 {
		t.Error("the service was asked about an event that it does not see")
	}
	pass(out("a sec"), call.EventOutput)
	pass(out("ret b se"), call.EventOutput)
	pass(call.Event{Type: call.EventSuspended, Suspension: &call.Suspension{}}, call.EventOutput, call.EventSuspended)
	if output.String() != "a *** b se" {
		t.Errorf("output %q", output.String())
	}
	pass(out("s"), call.EventOutput) // After the resume, the filter opens a new stream.
	events, _, err := next(finished("the secret"))
	if err != nil || len(events) != 2 || string(events[0].Output.Bytes) != "s" || events[1].Outcome.Result.Message != "the ***" || events[1].Outcome.Result.Status != tool.StatusSuccess {
		t.Errorf("%+v, %v", events, err)
	}
}

// TestT94HostileFilters checks that an event is not published when the service gave no answer about this event.
func TestT94HostileFilters(t *testing.T) {
	type stream = grpc.BidiStreamingServer[tooldv1.FilterRequest, tooldv1.FilterResponse]
	answer := func(events ...*tooldv1.FilterEvent) func(stream) error {
		return func(s stream) error {
			for {
				q, err := s.Recv()
				if err != nil {
					return err
				}
				if q.GetBegin() == nil {
					if err := s.Send(&tooldv1.FilterResponse{Events: events}); err != nil {
						return err
					}
				}
			}
		}
	}
	end := &tooldv1.FilterEvent{Event: &tooldv1.FilterEvent_Finished{Finished: &tooldv1.HookResult{}}}
	other := &tooldv1.FilterEvent{Event: &tooldv1.FilterEvent_Output{Output: &tooldv1.Output{Stream: "other", Data: []byte("x")}}}
	large := &tooldv1.FilterEvent{Event: &tooldv1.FilterEvent_Output{Output: &tooldv1.Output{Stream: "stdout", Data: make([]byte, 2<<20)}}}
	tests := map[string]struct {
		filter func(stream) error
		ev     call.Event
	}{
		"never reads":     {func(s stream) error { <-s.Context().Done(); return nil }, out("x")},
		"never answers":   {func(s stream) error { _, _ = s.Recv(); <-s.Context().Done(); return nil }, finished("x")},
		"ends":            {func(stream) error { return nil }, out("x")},
		"an end too soon": {answer(end), out("x")},
		"no end":          {answer(), finished("x")},
		"two ends":        {answer(end, end), finished("x")},
		"other output":    {answer(other), out("x")},
		"no kind":         {answer(&tooldv1.FilterEvent{}), out("x")},
		"too large":       {answer(large), out("x")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHook(t, serve(t, &service{filter: tt.filter}), func(c *remote.Config) { c.Deadline = 200 * time.Millisecond })
			events, _, err := h.FilterOrFail(input(t, `{}`))(tt.ev)
			if err == nil || len(events) > 0 {
				t.Errorf("published %+v, %v", events, err)
			}
		})
	}
}

// The test checks a service that accepts no further stream. The daemon gives it up at the deadline, like a service that does not answer.
func TestT94FilterThatOpensNoStream(t *testing.T) {
	t.Parallel()
	echo := func(s grpc.BidiStreamingServer[tooldv1.FilterRequest, tooldv1.FilterResponse]) error {
		for {
			q, err := s.Recv()
			if err != nil {
				return err
			}
			if q.GetBegin() == nil {
				if err := s.Send(&tooldv1.FilterResponse{}); err != nil {
					return err
				}
			}
		}
	}
	h := newHook(t, serve(t, &service{filter: echo}, grpc.MaxConcurrentStreams(1)), func(c *remote.Config) { c.Deadline = 2 * time.Second })
	first := h.FilterOrFail(input(t, `{}`))
	if _, _, err := first(out("x")); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, _, err := h.FilterOrFail(input(t, `{}`))(out("x"))
		ended <- err
	}()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a second stream of one")
		}
	case <-time.After(time.Minute):
		t.Error("it hangs")
		_ = h.Close()
		<-ended
	}
	runtime.KeepAlive(first)
}

func FuzzGateResponse(f *testing.F) {
	for _, r := range []*tooldv1.GateResponse{allowed(), with(allowed()), {}} {
		b, err := proto.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	answer := &tooldv1.GateResponse{}
	h := newHook(f, serve(f, &service{gate: func(context.Context, *tooldv1.GateRequest) (*tooldv1.GateResponse, error) { return answer, nil }}))
	in := input(f, `{}`)
	f.Fuzz(func(t *testing.T, b []byte) {
		next := &tooldv1.GateResponse{}
		if proto.Unmarshal(b, next) != nil {
			return
		}
		answer = next
		if v, err := h.Check(t.Context(), in); (err == nil) == (v.Kind() == "") {
			t.Errorf("verdict %q, %v", v.Kind(), err)
		}
	})
}

// BenchmarkEmptyHook measures a service that always answers with nothing.
func BenchmarkEmptyHook(b *testing.B) {
	h := newHook(b, serve(b, responds(allowed())))
	in := input(b, `{"command":"ls"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.Check(b.Context(), in); err != nil {
			b.Fatal(err)
		}
	}
}
