package turns_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/server/turns"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/turn"
)

// A fake is an engine with one ended batch. Each call has an image of imageSize bytes.
type fake struct {
	turns.Engine
	turn []byte
}

const imageSize = 3 << 20

func (f fake) BatchState(context.Context, tool.Principal, string) (*call.Batch, *call.BatchFinished, error) {
	b := &call.BatchFinished{}
	for _, id := range []string{"one", "two"} {
		b.Calls = append(b.Calls, &call.Call{ID: id, Status: call.Succeeded, Result: &tool.Result{
			Message: "done", Content: []tool.Content{{Type: tool.ContentImage, MIMEType: "image/png", Artifact: "image"}},
			Artifacts: []tool.Artifact{{Name: "image", MIMEType: "image/png", Size: imageSize}},
		}})
	}
	return &call.Batch{Turn: f.turn, Calls: []string{"one", "two"}}, b, nil
}

func (fake) ReadArtifact(_ context.Context, _ tool.Principal, _, _ string, offset int64, limit int) (call.Part, error) {
	data := append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, imageSize-8)...)
	end := min(offset+int64(limit), imageSize)
	return call.Part{Bytes: data[offset:end], EOF: end == imageSize}, nil
}

// TestLateMedia checks two calls whose images do not fit into one message together. When only one of the calls is late, its image is sent.
func TestLateMedia(t *testing.T) {
	parsed, err := turn.Parse(turn.Request{Provider: turn.Anthropic, Message: []byte(
		`{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"shot","input":{}},{"type":"tool_use","id":"b","name":"shot","input":{}}]}`)})
	if err != nil {
		t.Fatal(err)
	}
	stored, err := json.Marshal(parsed)
	if err != nil {
		t.Fatal(err)
	}
	w, err := turns.New(fake{turn: stored}).Get(t.Context(), tool.Principal{}, turns.Query{ID: "turn-0123456789abcdef", Late: []string{"two"}})
	if err != nil {
		t.Fatal(err)
	}
	var message strings.Builder
	for {
		f, err := w.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if f.TurnMessage != nil {
			message.WriteString(f.TurnMessage.Part)
		}
	}
	if n := message.Len(); n < imageSize {
		t.Errorf("the message has %d bytes: %.300s", n, message.String())
	}
}

// A refusing engine refuses to run a batch, at once or in its stream.
type refusing struct {
	turns.Engine
	call.Stream
	now, later error
}

func (r refusing) ExecuteBatch(context.Context, tool.Principal, call.BatchSpec, call.ExecuteOptions) (call.Stream, error) {
	return r, r.now
}
func (refusing) Cursor() string                             { return "" }
func (r refusing) Next(context.Context) (call.Frame, error) { return call.Frame{}, r.later }

// TestRefusalsNameTheTurn checks that the refusal of an unknown batch or call names the turn instead, and that other refusals stay the
// same.
func TestRefusalsNameTheTurn(t *testing.T) {
	for reason, want := range map[string]string{
		"BATCH_NOT_FOUND": "TURN_NOT_FOUND", "CALL_NOT_FOUND": "TURN_NOT_FOUND", "RUN_NOT_FOUND": "RUN_NOT_FOUND", "THREAD_NOT_FOUND": "THREAD_NOT_FOUND",
	} {
		refusal := call.Refuse(call.NotFound, reason, "not here")
		for name, e := range map[string]refusing{"at once": {now: refusal}, "in the stream": {later: refusal}} {
			w, err := turns.New(e).Execute(t.Context(), tool.Principal{}, turns.Request{ID: "turn-0123456789abcdef", Request: turn.Request{
				Provider: turn.OpenAI, Message: []byte(`{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"shot","arguments":"{}"}}]}`),
			}}, call.ExecuteOptions{})
			for err == nil {
				_, err = w.Next(t.Context())
			}
			var got *call.Refusal
			if !errors.As(err, &got) || got.Reason != want {
				t.Errorf("%s %s: %v, want %s", reason, name, err, want)
			}
		}
	}
}
