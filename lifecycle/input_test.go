package lifecycle_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// typist is a tool that reads input and returns it.
type typist struct {
	gate    chan struct{} // the tool reads after this channel is closed; nil: it reads at once
	signals []string
	sizes   [][2]int
}

func (p *typist) tool() tool.Tool {
	return made("types", mutating, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		in, err := c.Input(tool.Controls{
			Signal: func(name string) error { p.signals = append(p.signals, name); return nil },
			Resize: func(rows, columns int) error { p.sizes = append(p.sizes, [2]int{rows, columns}); return nil },
		})
		if err != nil {
			return nil, err
		}
		defer in.Close()
		if p.gate != nil {
			<-p.gate
		}
		b, err := io.ReadAll(in)
		if err != nil {
			return nil, err
		}
		return tool.Text(string(b)), nil
	})
}

func at(n int64) *int64 { return &n }

func (w *world) send(id string, in call.Input) call.InputState {
	w.t.Helper()
	state, err := w.e.SendInput(w.t.Context(), alice, id, in)
	if err != nil {
		w.t.Fatalf("input %+v: %v", in, err)
	}
	return state
}

// TestInputIsTypedOnce checks that input that is repeated or overlaps earlier input takes effect once. The same holds for a repeated
// signal.
func TestInputIsTypedOnce(t *testing.T) {
	p := &typist{}
	inBubble(t, []tool.Tool{p.tool()}, nil, func(t *testing.T, w *world) {
		s := spec("types", "")
		w.begin(s)
		for _, in := range []call.Input{
			{Data: []byte("hel"), Position: at(0)},
			{Data: []byte("hel"), Position: at(0)},
			{Data: []byte("hello"), Position: at(0)},
			{Data: []byte("lo"), Position: at(3), Signal: "SIGINT"},
			{Data: []byte("lo"), Position: at(3), Signal: "SIGINT"},
			{Data: []byte(" you"), Position: at(6), Rows: 5, Columns: 7},
			{Data: []byte("hello"), Position: at(0), Signal: "SIGINT"},
			{Data: []byte("!")},
		} {
			w.send(s.ID, in)
		}
		if state := w.send(s.ID, call.Input{}); state.Position != 11 || state.Attempt != 1 {
			t.Errorf("state %+v, want position 11 of attempt 1", state)
		}
		_, err := w.e.SendInput(t.Context(), alice, s.ID, call.Input{Data: []byte("x"), Position: at(12)})
		wantRefusal(t, err, call.OutOfRange, "INPUT_GAP")
		if r := new(call.Refusal); !errors.As(err, &r) || r.Metadata["position"] != "11" {
			t.Errorf("a gap does not say where to go on: %+v", r)
		}
		_, err = w.e.SendInput(t.Context(), alice, s.ID, call.Input{Data: []byte("x"), Attempt: 2})
		wantRefusal(t, err, call.FailedPrecondition, "OTHER_ATTEMPT")
		w.send(s.ID, call.Input{End: true})
		if c := w.do(s); c.Result.Message != "hello you!" {
			t.Errorf("typed %q", c.Result.Message)
		}
		if len(p.signals) != 1 || len(p.sizes) != 1 || p.sizes[0] != [2]int{5, 7} {
			t.Errorf("signals %v, sizes %v", p.signals, p.sizes)
		}
	})
}

// TestInputPushesBack checks that input that the tool does not read fills only a bounded buffer. Further input is refused and may be sent
// again later.
func TestInputPushesBack(t *testing.T) {
	p := &typist{}
	inBubble(t, []tool.Tool{p.tool()}, nil, func(t *testing.T, w *world) {
		p.gate = make(chan struct{})
		s := spec("types", "")
		w.begin(s)
		chunk := []byte(strings.Repeat("x", 40_000))
		if state := w.send(s.ID, call.Input{Data: chunk, Position: at(0)}); state.Unread != 40_000 {
			t.Errorf("unread %d", state.Unread)
		}
		_, err := w.e.SendInput(t.Context(), alice, s.ID, call.Input{Data: chunk, Position: at(40_000)})
		wantRefusal(t, err, call.ResourceExhausted, "INPUT_FULL")
		if r := new(call.Refusal); !errors.As(err, &r) || r.RetryAfter <= 0 {
			t.Error("a full buffer does not say when to come again")
		}
		_, err = w.e.SendInput(t.Context(), alice, s.ID, call.Input{Data: make([]byte, 1<<17)})
		wantRefusal(t, err, call.InvalidArgument, "INVALID_FIELD")
		close(p.gate)
		synctest.Wait()
		w.send(s.ID, call.Input{Data: chunk, Position: at(40_000), End: true})
		if c := w.do(s); len(c.Result.Message) == 0 || c.Status != call.Succeeded {
			t.Errorf("%s %q", c.Status, c.Result.ModelText())
		}
	})
}

// TestInputIsRefused checks that input needs a running call that reads input, and that only its caller may send it. It also checks that a
// cancellation ends a tool that waits for input.
func TestInputIsRefused(t *testing.T) {
	p, deaf := &typist{}, held()
	inBubble(t, []tool.Tool{p.tool(), deaf.tool("deaf", mutating)}, nil, func(t *testing.T, w *world) {
		s, other := spec("types", ""), spec("deaf", "")
		other.Run = tool.Run{} // Without a run and a thread, the call does not wait for its turn.
		w.begin(s)
		w.begin(other)
		try := func(who tool.Principal, id string, in call.Input) error {
			_, err := w.e.SendInput(t.Context(), who, id, in)
			return err
		}
		wantRefusal(t, try(alice, other.ID, call.Input{Data: []byte("x")}), call.FailedPrecondition, "NO_INPUT")
		wantRefusal(t, try(carol, s.ID, call.Input{Data: []byte("x")}), call.PermissionDenied, "NOT_YOUR_CALL")
		wantRefusal(t, try(eve, s.ID, call.Input{Data: []byte("x")}), call.NotFound, "CALL_NOT_FOUND")
		wantRefusal(t, try(alice, s.ID, call.Input{Rows: 1}), call.InvalidArgument, "INVALID_FIELD")
		wantRefusal(t, try(alice, s.ID, call.Input{Position: at(-1)}), call.InvalidArgument, "INVALID_FIELD")
		w.send(s.ID, call.Input{End: true})
		w.do(s)
		wantRefusal(t, try(alice, s.ID, call.Input{Data: []byte("x")}), call.FailedPrecondition, "NOT_RUNNING")
		deaf.free()
		w.do(other)

		waiting := spec("types", "")
		w.begin(waiting)
		if _, err := w.e.Cancel(t.Context(), alice, waiting.ID, "", 0); err != nil {
			t.Fatal(err)
		}
		if c := w.do(waiting); c.Status != call.Cancelled {
			t.Errorf("cancelled while it waits for keys: %s", c.Status)
		}
	})
}
