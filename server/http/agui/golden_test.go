package agui_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/http/agui"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// The transcripts are those of package uistream. The golden events are also given to AG-UI's own client (test/browser/agui.test.ts).
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("../uistream/testdata/*.jsonl")
	if err != nil || len(files) < 7 {
		t.Fatalf("%d transcripts, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			got, golden := play(t, file), filepath.Join("testdata", strings.TrimSuffix(filepath.Base(file), ".jsonl")+".events")
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}

// play returns the events of a transcript, one on each line.
func play(t *testing.T, file string) []byte {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	arguments := map[string]string{}
	m := agui.New("thread-1", "run-1")
	events := m.Start()
	for line := range strings.Lines(string(text)) {
		var l struct{ Call, Frame json.RawMessage }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		if l.Call != nil {
			var c tooldv1.Call
			must(t, protojson.Unmarshal(l.Call, &c))
			arguments[c.GetCallId()] = c.GetRequestedArguments()
			continue
		}
		var f tooldv1.Frame
		must(t, protojson.Unmarshal(l.Frame, &f))
		more, err := m.Frame(&f, func(id string) (string, error) { return arguments[id], nil })
		must(t, err)
		events = append(events, more...)
	}
	return lines(t, append(events, m.Finish()...))
}

func lines(t *testing.T, events []agui.Event) []byte {
	var out bytes.Buffer
	for _, e := range events {
		line, err := json.Marshal(e)
		must(t, err)
		out.Write(append(line, '\n'))
	}
	return out.Bytes()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestActivityContents checks activities whose content is no object, and changes without a snapshot.
func TestActivityContents(t *testing.T) {
	event := func(e *tooldv1.CallEvent) *tooldv1.CallEvent { e.CallId = "c"; return e }
	snapshot := event(&tooldv1.CallEvent{Event: &tooldv1.CallEvent_ActivitySnapshot{ActivitySnapshot: &tooldv1.ActivitySnapshot{ActivityId: "list", ActivityType: "plan", Content: `[1]`}}})
	delta := func(id, patch string) *tooldv1.CallEvent {
		return event(&tooldv1.CallEvent{Event: &tooldv1.CallEvent_ActivityDelta{ActivityDelta: &tooldv1.ActivityDelta{ActivityId: id, Patch: patch}}})
	}
	m := agui.New("t", "r")
	events, err := m.Frame(&tooldv1.Frame{Events: []*tooldv1.CallEvent{
		event(&tooldv1.CallEvent{Event: &tooldv1.CallEvent_Accepted{Accepted: &tooldv1.CallAccepted{Tool: "bash"}}}),
		snapshot, delta("list", `[{"op":"move","from":"/0","path":"/1"}]`), delta("new", `[{"op":"add","path":"/a","value":1}]`),
	}}, func(string) (string, error) { return "", nil })
	must(t, err)
	want := `{"type":"TOOL_CALL_START","parentMessageId":"c","toolCallId":"c","toolCallName":"bash","metadata":{"callId":"c"}}
{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{}"}
{"type":"TOOL_CALL_END","toolCallId":"c"}
{"type":"ACTIVITY_SNAPSHOT","messageId":"c/activity/list","activityType":"plan","content":{"value":[1]}}
{"type":"ACTIVITY_DELTA","messageId":"c/activity/list","activityType":"plan","patch":[{"from":"/value/0","op":"move","path":"/value/1"}]}
{"type":"ACTIVITY_SNAPSHOT","messageId":"c/activity/new","activityType":"toold-activity","content":{}}
{"type":"ACTIVITY_DELTA","messageId":"c/activity/new","activityType":"toold-activity","patch":[{"op":"add","path":"/a","value":1}]}
`
	if got := string(lines(t, events)); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
