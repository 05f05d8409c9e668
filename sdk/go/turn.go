package toold

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// A Turn is one response of a model, with the calls in it. Use it from one goroutine.
type Turn struct {
	toolset *Toolset
	spec    *tooldv1.TurnSpec
	batch   string // known after the first frame
}

// RunOptions change how [Turn.Run] works.
type RunOptions struct {
	OnEvent func(*tooldv1.CallEvent) // gets each event once; may be nil
	// WaitForDecision makes Run wait for the answers to questions. Otherwise Run returns while calls wait for answers.
	WaitForDecision bool
}

// GetOptions change what [Turn.Get] returns.
type GetOptions struct {
	Wait         time.Duration // longest time to wait for calls without a result
	Placeholders bool          // answer calls without a result with a marked text; the messages of a later Get replace all of these messages
	// Late lists calls whose placeholders must stay in the history. The result then has one user message with the results of those calls in
	// Late that have ended, or no message if none has ended.
	Late []string
}

// A TurnResult has the answers to a model's response.
type TurnResult struct {
	// Messages are the messages for the model, in order. The client appends the response to its history, then these messages, both
	// unchanged. There are none while a call waits for an answer; [Turn.Get] returns them later.
	Messages []json.RawMessage
	// Open has the ids of the calls without a result.
	Open []string
	// NotHandled are the calls that the client must answer itself; see [TurnResult.Merge].
	NotHandled []*tooldv1.NotHandled
	RunBlocked bool // a gate blocked the run

	provider Provider
	calls    []*tooldv1.TurnCall // the calls that toold runs
}

// Run runs the calls of the turn and returns the messages for the model. When the connection breaks or the daemon restarts, it attaches to
// the turn again. When the turn has already run, it returns the same messages.
func (t *Turn) Run(ctx context.Context, o RunOptions) (*TurnResult, error) {
	r, c := &tooldv1.ExecuteTurnRequest{Spec: t.spec, WaitForDecision: o.WaitForDecision}, t.toolset.client
	return t.read(frames(ctx, c.patience, "", func(ctx context.Context, cursor string) (stream[*tooldv1.ExecuteTurnResponse], error) {
		r.Cursor = cursor
		return c.Calls.ExecuteTurn(ctx, r)
	}), o.OnEvent)
}

// Get returns the results of a turn that has already run. It needs only the turn id.
func (t *Turn) Get(ctx context.Context, o GetOptions) (*TurnResult, error) {
	r, c := &tooldv1.GetTurnRequest{TurnId: t.spec.GetTurnId(), Wait: durationpb.New(o.Wait), Placeholders: o.Placeholders, LateCallIds: o.Late}, t.toolset.client
	return t.read(frames(ctx, c.patience, "", func(ctx context.Context, _ string) (stream[*tooldv1.GetTurnResponse], error) {
		return c.Calls.GetTurn(ctx, r)
	}), nil)
}

// Cancel cancels all open calls of the turn. It does not wait for their end.
func (t *Turn) Cancel(ctx context.Context, reason string) error {
	if t.batch == "" {
		if _, err := t.Get(ctx, GetOptions{}); err != nil {
			return err
		}
	}
	r, c := &tooldv1.CancelCallsRequest{Selector: &tooldv1.CancelCallsRequest_BatchId{BatchId: t.batch}, Reason: reason}, t.toolset.client
	_, err := again(ctx, c.patience, func() (*tooldv1.CancelCallsResponse, error) { return c.Calls.CancelCalls(ctx, r) })
	return err
}

// read reads the frames of a turn. Each stream begins with turn_started and sends all messages. When a connection breaks within a message,
// the next stream therefore sends the whole message.
func (t *Turn) read(all iter.Seq2[*tooldv1.Frame, error], onEvent func(*tooldv1.CallEvent)) (*TurnResult, error) {
	result, finished := &TurnResult{provider: t.toolset.provider}, false
	var message []byte
	for f, err := range all {
		if err != nil {
			return nil, err
		}
		for _, e := range f.GetEvents() {
			result.search(t.toolset, e)
			if onEvent != nil {
				onEvent(e)
			}
		}
		switch control := f.GetControl().(type) {
		case *tooldv1.Frame_TurnStarted:
			t.batch, result.calls = control.TurnStarted.GetBatchId(), control.TurnStarted.GetCalls()
			result.Messages, message = nil, nil
			t.toolset.called(result.calls)
		case *tooldv1.Frame_TurnMessage:
			message = append(message, control.TurnMessage.GetPart()...)
			if control.TurnMessage.GetLast() {
				result.Messages, message = append(result.Messages, message), nil
			}
		case *tooldv1.Frame_TurnFinished:
			end := control.TurnFinished
			result.Open, result.NotHandled, result.RunBlocked, finished = end.GetOpen(), end.GetNotHandled(), end.GetRunBlocked(), true
		}
	}
	if !finished {
		return nil, errors.New("the stream of the turn ended before turn_finished")
	}
	return result, nil
}

// search passes the tools that a call of tool_search has found to the toolset.
func (r *TurnResult) search(s *Toolset, e *tooldv1.CallEvent) {
	data := e.GetFinished().GetResult().GetData()
	if data != "" && slices.ContainsFunc(r.calls, func(c *tooldv1.TurnCall) bool { return c.GetCallId() == e.GetCallId() && c.GetTool() == searchID }) {
		s.found(data)
	}
}

// Merge returns the messages with the client's own answers at their positions. answers has one entry for each entry of NotHandled, in the
// same order: for Anthropic a block tool_result, for Gemini a part functionResponse, for other providers a message.
func (r *TurnResult) Merge(answers []json.RawMessage) ([]json.RawMessage, error) {
	if len(answers) != len(r.NotHandled) {
		return nil, fmt.Errorf("%d calls need an answer of the client, and %d answers are given", len(r.NotHandled), len(answers))
	}
	list := map[Provider]string{Anthropic: "content", Gemini: "parts"}[r.provider] // the member of the one message that has all answers
	message, answered := map[string]json.RawMessage{"role": json.RawMessage(`"user"`)}, r.Messages
	if list != "" {
		answered = nil // Without this, Unmarshal would write into r.Messages.
	}
	if list != "" && len(r.Messages) > 0 {
		if err := json.Unmarshal(r.Messages[0], &message); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(message[list], &answered); err != nil {
			return nil, err
		}
	}
	if len(answered) < len(r.calls) {
		return nil, fmt.Errorf("the turn has no messages yet, because calls are open: %v", r.Open)
	}
	merged := append(r.inOrder(answered, answers), answered[len(r.calls):]...)
	if list == "" || len(merged) == 0 {
		return merged, nil
	}
	message[list] = json.RawMessage(mustJSON(merged))
	return append([]json.RawMessage{json.RawMessage(mustJSON(message))}, r.Messages[min(1, len(r.Messages)):]...), nil
}

// inOrder returns the answers to all calls in the order of the calls.
func (r *TurnResult) inOrder(toolds, own []json.RawMessage) []json.RawMessage {
	type answer struct {
		index int32
		text  json.RawMessage
	}
	var all []answer
	for i, c := range r.calls {
		all = append(all, answer{c.GetIndex(), toolds[i]})
	}
	for i, n := range r.NotHandled {
		all = append(all, answer{n.GetIndex(), own[i]})
	}
	slices.SortFunc(all, func(a, b answer) int { return cmp.Compare(a.index, b.index) })
	var texts []json.RawMessage
	for _, a := range all {
		texts = append(texts, a.text)
	}
	return texts
}
