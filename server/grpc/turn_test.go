package grpcserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/service"
)

// aTurn returns a turn in the format of Chat Completions, with the given tool calls.
func aTurn(id string, calls ...string) *tooldv1.TurnSpec {
	return &tooldv1.TurnSpec{
		Provider: tooldv1.TurnProvider_TURN_PROVIDER_OPENAI, TurnId: id, Run: &tooldv1.Run{ThreadId: "thread-of-turns"},
		Message: `{"role":"assistant","content":null,"tool_calls":[` + strings.Join(calls, ",") + `]}`,
	}
}

func toolCall(id, name, arguments string) string {
	return `{"id":"` + id + `","type":"function","function":{"name":"` + name + `","arguments":"` + strings.ReplaceAll(arguments, `"`, `\"`) + `"}}`
}

func (w *world) turn(user string, spec *tooldv1.TurnSpec) ([]*tooldv1.Frame, error) {
	w.t.Helper()
	stream, err := w.calls(user).ExecuteTurn(within(w.t), &tooldv1.ExecuteTurnRequest{Spec: spec})
	must(w.t, err)
	return readAll(stream.Recv)
}

// messages returns the complete messages in frames.
func messages(t *testing.T, frames []*tooldv1.Frame) (all []string) {
	t.Helper()
	var text strings.Builder
	for _, f := range frames {
		m := f.GetTurnMessage()
		if m == nil {
			continue
		}
		if int(m.GetIndex()) != len(all) {
			t.Errorf("part of message %d after %d messages", m.GetIndex(), len(all))
		}
		text.WriteString(m.GetPart())
		if m.GetLast() {
			all = append(all, text.String())
			text.Reset()
		}
	}
	return all
}

// TestTurnAttaches checks that a repeated turn runs nothing again and gives the same messages, and that its id cannot be used for other calls.
func TestTurnAttaches(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	w.swapRules("rules: [{name: all, action: allow, tools: ['*']}]\n")
	spec := aTurn(longID("turn"), toolCall("c1", "write", `{"text":"a"}`), toolCall("c2", "say", `{"text":"b"}`), toolCall("c3", "write", `{"txt":1}`))
	first, err := w.turn("alice", spec)
	must(t, err)
	want := messages(t, first)
	if len(want) != 3 || want[0] != `{"role":"tool","tool_call_id":"c1","content":"wrote a"}` || want[1] != `{"role":"tool","tool_call_id":"c2","content":"b"}` || !strings.Contains(want[2], `"content":"Error: `) {
		t.Errorf("messages %q", want)
	}
	if last := first[len(first)-1].GetTurnFinished(); last == nil || len(last.GetOpen()) > 0 || last.GetRunBlocked() {
		t.Errorf("the last frame is %v", first[len(first)-1])
	}
	spec.Message = strings.Replace(spec.Message, `"content":null`, `"content":"I read and write."`, 1) // A repeated turn may have other text: only the calls of a response identify the turn.
	again, err := w.turn("alice", spec)
	must(t, err)
	got, err := w.calls("alice").GetTurn(within(t), &tooldv1.GetTurnRequest{TurnId: spec.GetTurnId()})
	must(t, err)
	read, err := readAll(got.Recv)
	must(t, err)
	if !slices.Equal(messages(t, again), want) || !slices.Equal(messages(t, read), want) || w.writes.Load() != 1 {
		t.Errorf("again %q, read %q, %d writes", messages(t, again), messages(t, read), w.writes.Load())
	}
	spec.Message = strings.Replace(spec.Message, `"c1"`, `"c9"`, 1)
	_, err = w.turn("alice", spec)
	wantRefusal(t, err, codes.AlreadyExists, "TURN_ID_REUSED")
	got, err = w.calls("bob").GetTurn(within(t), &tooldv1.GetTurnRequest{TurnId: spec.GetTurnId()})
	must(t, err)
	_, err = got.Recv()
	wantRefusal(t, err, codes.NotFound, "TURN_NOT_FOUND")
}

// TestTurnOfOwnTools checks a turn that has no call for toold. The response lists the calls that the client must run, and nothing is
// stored.
func TestTurnOfOwnTools(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	spec := aTurn(longID("turn"), toolCall("c1", "mine", `{}`))
	spec.OwnTools = []string{"mine"}
	frames, err := w.turn("alice", spec)
	must(t, err)
	if len(frames) != 2 || frames[0].GetTurnStarted() == nil || len(frames[1].GetTurnFinished().GetNotHandled()) != 1 {
		t.Errorf("frames %v", frames)
	}
	got, err := w.calls("alice").GetTurn(within(t), &tooldv1.GetTurnRequest{TurnId: spec.GetTurnId()})
	must(t, err)
	_, err = got.Recv()
	wantRefusal(t, err, codes.NotFound, "TURN_NOT_FOUND")
}

// TestTurnNamesItsFields checks that a refusal names a field of the request, and for a call of the message its position.
func TestTurnNamesItsFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	large := aTurn(longID("turn"), toolCall("c1", "echo", `{}`), toolCall("c2", "echo", strings.Repeat(" ", 1<<20+1)))
	run := aTurn(longID("turn"), toolCall("c1", "echo", `{}`))
	run.Run.RunId = strings.Repeat("r", 129)
	short := aTurn("short", toolCall("c1", "echo", `{}`))
	for field, spec := range map[string]*tooldv1.TurnSpec{"spec.message: calls[1].arguments": large, "spec.run.run_id": run, "spec.turn_id": short} {
		if _, err := w.turn("alice", spec); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}

// TestTurnBlocked checks a turn in which a gate blocks the agent's run. The response reports the block, and every call still has a message.
func TestTurnBlocked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	spec := aTurn(longID("turn"), toolCall("c1", "forbidden", `{}`), toolCall("c2", "write", `{"text":"a"}`))
	spec.Run = &tooldv1.Run{RunId: "run-of-a-blocked-turn"}
	frames, err := w.turn("alice", spec)
	must(t, err)
	if all := messages(t, frames); len(all) != 2 || !strings.Contains(all[0], "not in this house") || !frames[len(frames)-1].GetTurnFinished().GetRunBlocked() || w.writes.Load() > 0 {
		t.Errorf("messages %q, %v", all, frames[len(frames)-1])
	}
	spec.TurnId = longID("turn-2")
	_, err = w.turn("alice", spec)
	wantRefusal(t, err, codes.FailedPrecondition, "RUN_BLOCKED")
}

// TestGetTurnWaits checks that GetTurn waits for a running call. When the requested time is over, it returns no messages.
func TestGetTurnWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	spec := aTurn(longID("turn"), toolCall("c1", "hold", `{}`))
	stream, err := w.calls("alice").ExecuteTurn(within(t), &tooldv1.ExecuteTurnRequest{Spec: spec})
	must(t, err)
	started, err := stream.Recv()
	must(t, err)
	got, err := w.calls("alice").GetTurn(within(t), &tooldv1.GetTurnRequest{TurnId: spec.GetTurnId(), Wait: durationpb.New(time.Nanosecond)})
	must(t, err)
	frames, err := readAll(got.Recv)
	must(t, err)
	if len(messages(t, frames)) > 0 || len(frames[len(frames)-1].GetTurnFinished().GetOpen()) != 1 {
		t.Errorf("frames of a running turn: %v", frames)
	}
	_, err = w.calls("alice").CancelCalls(within(t), &tooldv1.CancelCallsRequest{Selector: &tooldv1.CancelCallsRequest_BatchId{BatchId: started.GetFrame().GetTurnStarted().GetBatchId()}})
	must(t, err)
	got, err = w.calls("alice").GetTurn(within(t), &tooldv1.GetTurnRequest{TurnId: spec.GetTurnId(), Wait: durationpb.New(time.Minute)})
	must(t, err)
	frames, err = readAll(got.Recv)
	must(t, err)
	if all := messages(t, frames); len(all) != 1 || !strings.Contains(all[0], "Cancelled") {
		t.Errorf("messages of a cancelled turn: %q", all)
	}
}

// TestTurnInSession checks that a turn can be sent as an item of a session.
func TestTurnInSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	stream, err := w.calls("alice").Session(within(t))
	must(t, err)
	must(t, stream.Send(&tooldv1.SessionRequest{Items: []*tooldv1.SessionItem{{
		CorrelationId: "it", Item: &tooldv1.SessionItem_Turn{Turn: &tooldv1.ExecuteTurnRequest{Spec: aTurn(longID("turn"), toolCall("c1", "echo", `{"text":"hello"}`))}},
	}}}))
	must(t, stream.CloseSend())
	var frames []*tooldv1.Frame
	for {
		r, err := stream.Recv()
		if err != nil {
			break
		}
		for _, a := range r.GetAnswers() {
			frames = append(frames, a.GetFrame())
		}
	}
	if all := messages(t, frames); len(all) != 1 || !strings.Contains(all[0], "hello") {
		t.Errorf("messages %q", all)
	}
}

// TestTurnsInOneSession checks that a session sends a large message of a turn in a separate message. A client could not accept the messages
// of many turns together.
func TestTurnsInOneSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	stream, err := w.calls("alice").Session(within(t))
	must(t, err)
	const turns = 60
	text := strings.Repeat("x", 20<<10)
	for i := range turns {
		var blocks []string
		for k := range 4 {
			blocks = append(blocks, fmt.Sprintf(`{"type":"tool_use","id":"t%d","name":"echo","input":{"text":"%s"}}`, k, text))
		}
		must(t, stream.Send(&tooldv1.SessionRequest{Items: []*tooldv1.SessionItem{{
			CorrelationId: fmt.Sprint(i), Item: &tooldv1.SessionItem_Turn{Turn: &tooldv1.ExecuteTurnRequest{Spec: &tooldv1.TurnSpec{
				Provider: tooldv1.TurnProvider_TURN_PROVIDER_ANTHROPIC, TurnId: longID(fmt.Sprintf("turn-%d", i)),
				Message: `{"role":"assistant","content":[` + strings.Join(blocks, ",") + `]}`,
			}}},
		}}}))
	}
	must(t, stream.CloseSend())
	got := 0
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		if n := len(r.GetAnswers()); n > 1 && proto.Size(r) > 64<<10 {
			t.Errorf("a message with %d answers has %d bytes", n, proto.Size(r))
		}
		for _, a := range r.GetAnswers() {
			got += len(a.GetFrame().GetTurnMessage().GetPart())
			if a.GetError() != nil {
				t.Error(a.GetError())
			}
		}
	}
	if got < turns*4*len(text) {
		t.Errorf("the messages have %d bytes", got)
	}
}

// TestTurnIdentity checks that a turn id is refused when the turn is repeated for another person, or when toold would run other calls of the
// message.
func TestTurnIdentity(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	spec := aTurn(longID("turn-for"), toolCall("c1", "echo", `{"text":"of alice"}`))
	spec.Run = &tooldv1.Run{OnBehalfOf: "alice"}
	_, err := w.turn("dora", spec)
	must(t, err)
	spec.Run.OnBehalfOf = "bob"
	_, err = w.turn("dora", spec)
	wantRefusal(t, err, codes.AlreadyExists, "TURN_ID_REUSED")

	call := func(more string) string {
		return `[{"type":"function_call","call_id":"c1","name":"echo","arguments":"{\"text\":\"a\"}"` + more + `},{"type":"function_call","call_id":"c2","name":"echo","arguments":"{\"text\":\"b\"}"}]`
	}
	for i, more := range []string{`,"namespace":"other"`, `,"caller":{"type":"program","caller_id":"p"}`} {
		spec = &tooldv1.TurnSpec{Provider: tooldv1.TurnProvider_TURN_PROVIDER_OPENAI_RESPONSES, TurnId: longID(fmt.Sprintf("turn-%d", i)), Message: call("")}
		_, err = w.turn("alice", spec)
		must(t, err)
		spec.Message = call(more)
		_, err = w.turn("alice", spec)
		wantRefusal(t, err, codes.AlreadyExists, "TURN_ID_REUSED")
	}
}

// TestGetTurnAtDeadline checks that GetTurn answers before the client's deadline, although the time to wait is longer.
func TestGetTurnAtDeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	spec := aTurn(longID("turn"), toolCall("c1", "hold", `{}`))
	stream, err := w.calls("alice").ExecuteTurn(within(t), &tooldv1.ExecuteTurnRequest{Spec: spec})
	must(t, err)
	_, err = stream.Recv()
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	got, err := w.calls("alice").GetTurn(ctx, &tooldv1.GetTurnRequest{TurnId: spec.GetTurnId(), Wait: durationpb.New(time.Minute), Placeholders: true})
	must(t, err)
	frames, err := readAll(got.Recv)
	must(t, err)
	if all := messages(t, frames); len(all) != 1 || !strings.Contains(all[0], "[toold placeholder]") {
		t.Errorf("messages %q", all)
	}
	close(w.release)
}

// TestModelIDs checks that ids of the model of any length and shape are returned unchanged, and that only their total is limited.
func TestModelIDs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	ids := []string{"", " ", "\n\x00\t", `"}],\`, "é👩‍💻", "../../etc", strings.Repeat("long ", 80_000)}
	var calls []string
	for _, id := range ids[1:] {
		calls = append(calls, toolCall(strings.Trim(marshal(t, id), `"`), "echo", `{"text":"x"}`))
	}
	frames, err := w.turn("alice", aTurn(longID("turn"), calls...))
	must(t, err)
	members, all := frames[0].GetTurnStarted().GetCalls(), messages(t, frames)
	for i, id := range ids[1:] {
		var message struct {
			ID string `json:"tool_call_id"`
		}
		must(t, json.Unmarshal([]byte(all[i]), &message))
		if members[i].GetModelCallId() != id || message.ID != id {
			t.Errorf("the id %.80q became %.80q and %.80q", id, members[i].GetModelCallId(), message.ID)
		}
	}
	for i, id := range ids {
		done, err := w.calls("alice").CallTool(within(t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{
			CallId: longID(fmt.Sprintf("call-%d", i)), Tool: "echo", Arguments: `{"text":"x"}`, ModelCallId: id,
		}, Wait: durationpb.New(time.Minute)})
		must(t, err)
		if got := done.GetCall().GetModelCallId(); got != id {
			t.Errorf("the id %.80q became %.80q", id, got)
		}
	}
	half := toolCall(strings.Repeat("c", call.MaxModelIDs/2+1), "echo", `{}`)
	_, err = w.turn("alice", aTurn(longID("turn-2"), half, strings.Replace(half, `"c`, `"d`, 1)))
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "calls[1]") {
		t.Errorf("%.200v", err)
	}
	_, err = w.turn("alice", aTurn(longID("turn-3"), `{"id":"c","type":"`+strings.Repeat("k", 257)+`"}`))
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("%v", err)
	}
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	must(t, err)
	return string(b)
}

// TestGetTurnCountsWatchers checks that GetTurn is refused at the limit of watchers, before it reads the results of the turn. When GetTurn
// has ended, it no longer counts.
func TestGetTurnCountsWatchers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{config: func(c *service.Config) { c.WatchersEach = 1 }})
	spec := aTurn(longID("turn"), toolCall("c1", "echo", `{"text":"x"}`))
	_, err := w.turn("alice", spec)
	must(t, err)
	get := func(id string) error {
		got, err := w.calls("alice").GetTurn(within(t), &tooldv1.GetTurnRequest{TurnId: id})
		must(t, err)
		_, err = readAll(got.Recv)
		return err
	}
	for range 3 {
		must(t, get(spec.GetTurnId()))
		wantRefusal(t, get(longID("unknown")), codes.NotFound, "TURN_NOT_FOUND")
	}
	ctx, stop := context.WithCancel(within(t))
	defer stop()
	watch, err := w.calls("alice").WatchCalls(ctx, &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_ThreadId{ThreadId: "thread-of-turns"}, Follow: true})
	must(t, err)
	_, err = watch.Recv()
	must(t, err)
	wantRefusal(t, get(spec.GetTurnId()), codes.ResourceExhausted, "TOO_MANY_WATCHERS")
	wantRefusal(t, get(longID("unknown")), codes.ResourceExhausted, "TOO_MANY_WATCHERS")
}
