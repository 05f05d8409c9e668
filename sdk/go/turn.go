package toold

import (
	"context"
	"encoding/json"
	"errors"
	"iter"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// A Turn has the results of a model's response.
type Turn struct {
	// Messages are the messages for the model, in order. The client appends the response to its history, then these messages, both
	// unchanged. There are none while a call waits for an answer; [Client.GetTurn] returns them later.
	Messages []json.RawMessage
	// Open has the ids of the calls without a result.
	Open []string
	// NotHandled are the calls that the client must answer itself, with their position in the response.
	NotHandled []*tooldv1.NotHandled
	RunBlocked bool // a gate blocked the run
}

// Turn runs the calls of a model's response and returns the messages for the model. It passes each event to onEvent, which may be nil. When
// the connection breaks, it attaches to the turn again.
//
// The spec needs a turn_id. Store it with the response before Turn, and send both again after a crash: no call runs twice.
func (c *Client) Turn(ctx context.Context, r *tooldv1.ExecuteTurnRequest, onEvent func(*tooldv1.CallEvent)) (*Turn, error) {
	return readTurn(frames(ctx, c.patience, r.Cursor, func(ctx context.Context, cursor string) (stream[*tooldv1.ExecuteTurnResponse], error) {
		r.Cursor = cursor
		return c.Calls.ExecuteTurn(ctx, r)
	}), onEvent)
}

// GetTurn returns the results of a turn that was executed before.
func (c *Client) GetTurn(ctx context.Context, r *tooldv1.GetTurnRequest) (*Turn, error) {
	return readTurn(frames(ctx, c.patience, "", func(ctx context.Context, _ string) (stream[*tooldv1.GetTurnResponse], error) {
		return c.Calls.GetTurn(ctx, r)
	}), nil)
}

// readTurn reads the frames of a turn. Each stream begins with turn_started and sends all messages, so a message that a break cut off comes
// again.
func readTurn(all iter.Seq2[*tooldv1.Frame, error], onEvent func(*tooldv1.CallEvent)) (*Turn, error) {
	turn, finished := new(Turn), false
	var message []byte
	for f, err := range all {
		if err != nil {
			return nil, err
		}
		for _, e := range f.GetEvents() {
			if onEvent != nil {
				onEvent(e)
			}
		}
		switch control := f.GetControl().(type) {
		case *tooldv1.Frame_TurnStarted:
			turn.Messages, message = nil, nil
		case *tooldv1.Frame_TurnMessage:
			message = append(message, control.TurnMessage.GetPart()...)
			if control.TurnMessage.GetLast() {
				turn.Messages, message = append(turn.Messages, message), nil
			}
		case *tooldv1.Frame_TurnFinished:
			end := control.TurnFinished
			turn.Open, turn.NotHandled, turn.RunBlocked, finished = end.GetOpen(), end.GetNotHandled(), end.GetRunBlocked(), true
		}
	}
	if !finished {
		return nil, errors.New("the stream of the turn ended before turn_finished")
	}
	return turn, nil
}
