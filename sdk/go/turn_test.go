package toold_test

import (
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	toold "github.com/toold-dev/toold/sdk/go"
)

// breaking is a daemon whose first stream of a turn breaks within a message.
type breaking struct {
	tooldv1.UnimplementedCallServiceServer
	cursors []string // cursors of the requests
}

func (b *breaking) ExecuteTurn(r *tooldv1.ExecuteTurnRequest, s grpc.ServerStreamingServer[tooldv1.ExecuteTurnResponse]) error {
	b.cursors = append(b.cursors, r.GetCursor())
	frames := []*tooldv1.Frame{{Control: &tooldv1.Frame_TurnStarted{TurnStarted: &tooldv1.TurnStarted{}}, Cursor: "c0"}}
	if r.GetCursor() == "" {
		frames = append(frames, &tooldv1.Frame{Cursor: "c1", Events: []*tooldv1.CallEvent{{CallId: "a", Sequence: 1}}})
	}
	frames = append(frames, part(0, `{"a":`, false), part(0, `1}`, true), part(1, `{"b":2}`, true),
		&tooldv1.Frame{Cursor: "c1", Control: &tooldv1.Frame_TurnFinished{TurnFinished: &tooldv1.TurnFinished{NotHandled: []*tooldv1.NotHandled{{Index: 2}}}}})
	for i, f := range frames {
		if r.GetCursor() == "" && i == 3 {
			return status.Error(codes.Unavailable, "the connection breaks")
		}
		if err := s.Send(&tooldv1.ExecuteTurnResponse{Frame: f}); err != nil {
			return err
		}
	}
	return nil
}

func (b *breaking) GetTurn(_ *tooldv1.GetTurnRequest, s grpc.ServerStreamingServer[tooldv1.GetTurnResponse]) error {
	return s.Send(&tooldv1.GetTurnResponse{Frame: part(0, "{}", true)})
}

func part(index int32, text string, last bool) *tooldv1.Frame {
	return &tooldv1.Frame{Cursor: "c1", Control: &tooldv1.Frame_TurnMessage{TurnMessage: &tooldv1.TurnMessage{Index: index, Part: text, Last: last}}}
}

// TestTurnReattaches checks a stream that breaks within a message. The client must get each event once and each message whole.
func TestTurnReattaches(t *testing.T) {
	b, s := &breaking{}, &results{}
	c := serve(t, admin(&versioned{}), calls(b), tools(s))
	set, err := c.Toolset(t.Context(), toold.OpenAI, toold.ToolsetConfig{})
	if err != nil {
		t.Fatal(err)
	}
	turn, events := set.Turn(&tooldv1.TurnSpec{}), 0
	result, err := turn.Run(t.Context(), toold.RunOptions{OnEvent: func(*tooldv1.CallEvent) { events++ }})
	if err != nil {
		t.Fatal(err)
	}
	var messages []string
	for _, m := range result.Messages {
		messages = append(messages, string(m))
	}
	if !slices.Equal(messages, []string{`{"a":1}`, `{"b":2}`}) || events != 1 || len(result.NotHandled) != 1 || !slices.Equal(b.cursors, []string{"", "c1"}) {
		t.Errorf("messages %q, %d events, %v; cursors %q", messages, events, result.NotHandled, b.cursors)
	}
	if _, err := turn.Get(t.Context(), toold.GetOptions{}); err == nil {
		t.Error("a stream that ends before turn_finished is a whole turn")
	}
}
