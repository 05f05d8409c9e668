package uistream_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/http/uistream"
)

func accepted(id, model, batch string) *tooldv1.CallEvent {
	return &tooldv1.CallEvent{CallId: id, Event: &tooldv1.CallEvent_Accepted{Accepted: &tooldv1.CallAccepted{Tool: "bash", ModelCallId: model, BatchId: batch}}}
}

func output(id, text string) *tooldv1.CallEvent {
	return &tooldv1.CallEvent{CallId: id, Event: &tooldv1.CallEvent_Output{Output: &tooldv1.Output{Stream: "stdout", Data: []byte(text), Length: int64(len(text))}}}
}

func frame(events ...*tooldv1.CallEvent) *tooldv1.Frame { return &tooldv1.Frame{Events: events} }

func send(t *testing.T, m *uistream.Mapper, f *tooldv1.Frame) []uistream.Chunk {
	chunks, err := m.Frame(f, func(string) (string, error) { return "{}", nil })
	if err != nil {
		t.Fatal(err)
	}
	return chunks
}

func types(chunks []uistream.Chunk) string {
	var names []string
	for _, c := range chunks {
		names = append(names, c.Type)
	}
	return strings.Join(names, " ")
}

func TestStepsAreTurns(t *testing.T) {
	m := uistream.New("m", 6)
	got := types(send(t, m, frame(accepted("c1", "a", "b1"), accepted("c2", "b", "b1"), accepted("c3", "c", "b2"))))
	if want := "start-step tool-input-available tool-input-available finish-step start-step tool-input-available"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := types(m.Finish()), "finish-step finish"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestToolCallIDsAreUnique checks that two calls never share a part, even when the model repeats an id or sends none.
func TestToolCallIDsAreUnique(t *testing.T) {
	m := uistream.New("m", 6)
	var ids []string
	for _, c := range send(t, m, frame(accepted("c1", "same", "b"), accepted("c2", "same", "b"), accepted("c3", "", "b"))) {
		if c.Type == "tool-input-available" {
			ids = append(ids, c.ToolCallID)
		}
	}
	if got := strings.Join(ids, " "); got != "same c2 c3" {
		t.Errorf("got %s", got)
	}
}

// TestPreliminaryOutputIsTheEnd checks a call with much output. Each frame contains only the last part of the output, and no character is
// cut.
func TestPreliminaryOutputIsTheEnd(t *testing.T) {
	m := uistream.New("m", 6)
	send(t, m, frame(accepted("c1", "a", "b")))
	chunks := send(t, m, frame(output("c1", strings.Repeat("ä", 3000)+"\xff"), output("c1", "€"[:2])))
	if len(chunks) != 1 || !chunks[0].Preliminary {
		t.Fatalf("got %s", types(chunks))
	}
	var out struct{ Stdout string }
	if err := json.Unmarshal(chunks[0].Output, &out); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.Stdout, "ä"); n < 2000 || n > 2048 || strings.Trim(out.Stdout, "ä") != "\uFFFD" {
		t.Errorf("%d characters and %q", n, strings.Trim(out.Stdout, "ä"))
	}
}

// TestUnannouncedCallsAreLeftOut checks a call whose log has lost its beginning, and with it the name of the tool. The mapper must report
// the gap, but send no chunk of a tool call, because that chunk would end the client's stream.
func TestUnannouncedCallsAreLeftOut(t *testing.T) {
	m := uistream.New("m", 6)
	gap := &tooldv1.Frame{Control: &tooldv1.Frame_Gap{Gap: &tooldv1.Gap{Reason: tooldv1.GapReason_GAP_REASON_TRIMMED, CallId: "c1"}}}
	if got := types(append(send(t, m, gap), send(t, m, frame(output("c1", "x")))...)); got != "data-toold-gap" {
		t.Errorf("got %s", got)
	}
	if calls, open, waiting := m.Seen(); calls != 1 || open != 0 || waiting != 0 {
		t.Errorf("%d calls, %d open, %d waiting", calls, open, waiting)
	}
}

func TestErrorOfArguments(t *testing.T) {
	gone := errors.New("gone")
	if _, err := uistream.New("m", 6).Frame(frame(accepted("c1", "a", "b")), func(string) (string, error) { return "", gone }); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}
