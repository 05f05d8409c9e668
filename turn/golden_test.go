package turn_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/turn"
)

var update = flag.Bool("update", false, "write the messages into the golden files")

// golden describes a response and toold's answers to its calls. The test compares the messages that are made from them with a file. A call
// without an id gets id0, id1 …
type golden struct {
	name    string
	calls   []request
	extra   map[turn.Provider]string // other parts of the response
	stop    map[turn.Provider]string
	own     []string
	answers []turn.Answer
	options turn.Options
	late    []turn.Answer // answers that arrive after the messages were sent
}

const (
	png = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\x00\x05\x00\x01\xff\x89\x99=\x1d\x00\x00\x00\x00IEND\xaeB`\x82"
	pdf = "%PDF-1.4\n%%EOF\n"
)

func ok(text string) turn.Answer { return answer(tool.Text(text)) }

func answer(r *tool.Result) turn.Answer {
	return turn.Answer{CallID: "0198c0de-0000-7000-8000-000000000001", Result: r}
}

func failed(code tool.Code, reason, message string) turn.Answer {
	return answer(&tool.Result{Status: tool.StatusError, Error: &tool.Error{Code: code, Reason: reason, Message: message, Aborted: true}})
}

func with(text string, artifacts []tool.Artifact, content ...tool.Content) turn.Answer {
	r := tool.Text(text)
	r.Content, r.Artifacts = content, artifacts
	return answer(r)
}

func loaded(a turn.Answer, name, data string) turn.Answer {
	a.Media = map[string][]byte{name: []byte(data)}
	return a
}

func waits(action, message, suspension string) turn.Answer {
	return turn.Answer{CallID: "c", Waiting: &turn.Waiting{Action: action, Message: message, SuspensionID: suspension}}
}

func calls(names ...string) []request {
	out := make([]request, len(names))
	for i, name := range names {
		out[i] = request{name: name, args: `{"path":"a.txt"}`}
	}
	return out
}

func image(data string) tool.Content {
	return tool.Content{Type: tool.ContentImage, MIMEType: "image/png", Data: []byte(data)}
}

var serverParts = map[turn.Provider]string{
	turn.OpenAIResponses: `{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"x"}},` +
		`{"type":"mcp_call","id":"mcp_1","name":"read","arguments":"{}","server_label":"s","output":"o"},`,
	turn.Anthropic: `{"type":"text","text":"I search."},{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"x"}},` +
		`{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]},`,
	turn.Gemini: `{"text":"I compute."},{"executableCode":{"language":"PYTHON","code":"print(1)"}},{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"1"}},`,
	turn.AISDK: `{"type":"text","text":"I search."},{"type":"tool-call","toolCallId":"srv1","toolName":"web_search","input":{},"providerExecuted":true},` +
		`{"type":"tool-result","toolCallId":"srv1","toolName":"web_search","output":{"type":"json","value":[]}},`,
}

var otherKinds = map[turn.Provider]string{
	turn.OpenAI:          `{"id":"call_custom","type":"custom","custom":{"name":"grammar","input":"x"}},`,
	turn.OpenAIResponses: `{"type":"custom_tool_call","call_id":"call_custom","name":"grammar","input":"x"},`,
}

func goldens() []golden {
	long := strings.Repeat("0123456789 äöü\n", 400)
	return []golden{
		{name: "no calls"},
		{name: "a text", calls: calls("read"), answers: []turn.Answer{ok("hello\n<b>&</b>")}},
		{name: "data", calls: calls("disk"), answers: []turn.Answer{answer(tool.Success(map[string]any{"free": 12}))}},
		{name: "no output", calls: calls("touch"), answers: []turn.Answer{answer(&tool.Result{Status: tool.StatusSuccess, Message: " \n"})}},
		{name: "invalid UTF-8", calls: calls("read"), answers: []turn.Answer{answer(&tool.Result{Status: tool.StatusSuccess, Message: "a\xffb"})}},
		{name: "content without a message", calls: calls("edit"), answers: []turn.Answer{answer(&tool.Result{Status: tool.StatusSuccess, Content: []tool.Content{
			{Type: tool.ContentDiff, Text: "-a\n+b"}, {Type: tool.ContentLink, URI: "https://example.com/x"}}})}},
		{name: "a tool's error", calls: calls("read"), answers: []turn.Answer{answer(tool.FailCode("NO_FILE", "a.txt does not exist"))}},
		{name: "a crash", calls: calls("read"), answers: []turn.Answer{failed(tool.InDoubt, "", "It is not known whether this ran")}},
		{name: "a panic", calls: calls("read"), answers: []turn.Answer{failed(tool.Internal, "", "The tool failed internally (id 7)")}},
		{name: "a timeout", calls: calls("bash"), answers: []turn.Answer{failed(tool.Timeout, "ATTEMPT", "Timed out after 10m")}},
		{name: "cancelled", calls: calls("bash"), answers: []turn.Answer{failed(tool.Cancelled, "", "Cancelled by user")}},
		{name: "denied", calls: calls("bash"), answers: []turn.Answer{failed(tool.Denied, "RULE", "Blocked: not on Fridays")}},
		{name: "declined", calls: calls("bash"), answers: []turn.Answer{failed(tool.Cancelled, "DECLINED", "Declined: too risky")}},
		{name: "an unknown tool", calls: calls("Read"), answers: []turn.Answer{failed(tool.NotFound, "", `There is no tool "Read". Use one of the tools that you were given.`)}},
		{name: "a name that no tool can have", calls: calls(strings.Repeat("x", 90)), answers: []turn.Answer{failed(tool.NotFound, "", "There is no such tool.")}},
		{name: "broken arguments", calls: []request{{name: "read", args: `{"path": a.txt}`}},
			answers: []turn.Answer{failed(tool.InvalidArguments, "MALFORMED_JSON", "The arguments are not valid JSON: not valid JSON at byte 9: expected a value, found 'a'.")}},
		{name: "cut arguments", calls: []request{{name: "read", args: `{}`}, {name: "write", args: `{"text":"and th`}},
			stop:    map[turn.Provider]string{turn.OpenAI: "length", turn.OpenAIResponses: "incomplete", turn.Anthropic: "max_tokens", turn.Gemini: "MAX_TOKENS", turn.AISDK: "length"},
			answers: []turn.Answer{ok("fine"), failed(tool.InvalidArguments, "TRUNCATED", "The response was cut off before the end of these arguments. Call the tool again, with shorter arguments or in several calls.")}},
		{name: "violations", calls: calls("read"), answers: []turn.Answer{answer(&tool.Result{Status: tool.StatusError, Error: &tool.Error{
			Code: tool.InvalidArguments, Message: "The arguments do not fit.", Violations: []tool.Violation{{Field: "path", Description: "is required"}}}})}},
		{name: "empty arguments", calls: []request{{name: "now", args: ""}}, answers: []turn.Answer{ok("12:00")}},
		{name: "an image", calls: calls("shot"), answers: []turn.Answer{with("done", nil, image(png))}},
		{name: "an image by artifact", calls: calls("shot"), answers: []turn.Answer{loaded(with("done", []tool.Artifact{{Name: "shot.png", Size: int64(len(png))}},
			tool.Content{Type: tool.ContentImage, MIMEType: "image/png", Artifact: "shot.png"}), "shot.png", png)}},
		{name: "images above the budget", calls: calls("shot", "shot"), options: turn.Options{MediaPerTurn: len(png) + 3}, answers: []turn.Answer{
			with("one", nil, image(png)),
			with("two", []tool.Artifact{{Name: "big.png", Size: 9 << 20}}, tool.Content{Type: tool.ContentImage, MIMEType: "image/png", Artifact: "big.png"}, image(png))}},
		{name: "an image that is none", calls: calls("shot"), answers: []turn.Answer{with("done", nil, image("<svg/>"))}},
		{name: "a document and sound", calls: calls("fetch"), answers: []turn.Answer{with("two files", nil,
			tool.Content{Type: tool.ContentDocument, MIMEType: "application/pdf", Name: "/tmp/r.pdf", Data: []byte(pdf)},
			tool.Content{Type: tool.ContentAudio, MIMEType: "audio/wav", Data: []byte("RIFF")})}},
		{name: "a failure with an image", calls: calls("click"), answers: []turn.Answer{answer(&tool.Result{Status: tool.StatusError,
			Error: &tool.Error{Code: tool.ExecutionFailed, Message: "nothing to click"}, Content: []tool.Content{image(png)}})}},
		{name: "a long text", calls: calls("bash"), options: turn.Options{TextPerResult: 300},
			answers: []turn.Answer{with(long, []tool.Artifact{{Name: "stdout", Size: int64(len(long))}})}},
		{name: "long texts together", calls: calls("bash", "read", "bash"), options: turn.Options{TextPerTurn: 1000},
			answers: []turn.Answer{ok(long), ok("short"), ok(long)}},
		{name: "parallel calls", calls: calls("a", "b", "c", "d", "e"),
			answers: []turn.Answer{ok("1"), answer(tool.Fail("no")), ok("3"), failed(tool.Denied, "", "Blocked"), ok("5")}},
		{name: "own tools between", calls: calls("a", "mine", "b"), own: []string{"mine"}, answers: []turn.Answer{ok("1"), ok("2")}},
		{name: "server-side tools", calls: calls("read"), extra: serverParts, answers: []turn.Answer{ok("1")}},
		{name: "kinds that toold does not run", calls: calls("read"), extra: otherKinds, answers: []turn.Answer{ok("1")}},
		{name: "called by a program", extra: map[turn.Provider]string{
			turn.OpenAIResponses: `{"type":"program","id":"p_1","call_id":"prog_1","code":"await tools.read()","fingerprint":"f"},` +
				`{"type":"function_call","call_id":"call_p","name":"read","arguments":"{}","caller":{"type": "program", "caller_id":"<prog_1>"}},`},
			calls: calls("read"), answers: []turn.Answer{ok("1"), ok("2")}},
		{name: "long ids", calls: []request{{id: "call_" + strings.Repeat("é|", 60), name: "read", args: "{}"}}, answers: []turn.Answer{ok("1")}},
		{name: "suspended", calls: calls("read", "bash"), options: turn.Options{Placeholders: true},
			answers: []turn.Answer{ok("1"), waits("approval", "Run rm -r build?", "s_1")}},
		{name: "a question of a tool", calls: calls("ask"), options: turn.Options{Placeholders: true}, answers: []turn.Answer{waits("input", "Which one?", "s_2")}},
		{name: "still running", calls: calls("bash"), options: turn.Options{Placeholders: true}, answers: []turn.Answer{{Waiting: &turn.Waiting{}}}},
		{name: "decided later", calls: calls("read", "bash"), answers: []turn.Answer{ok("1"), ok("removed")}},
		{name: "late outcomes", calls: calls("read", "bash", "shot"), options: turn.Options{Placeholders: true},
			answers: []turn.Answer{ok("1"), waits("input", "Sure?", "s_3"), {Waiting: &turn.Waiting{}}},
			late:    []turn.Answer{{}, failed(tool.Cancelled, "DECLINED", "Declined"), with("done", nil, image(png))}},
	}
}

// line is one line of a golden file.
type line struct {
	Name     string            `json:"name"`
	Message  json.RawMessage   `json:"message"`
	Turn     *turn.Turn        `json:"turn"`
	Messages []json.RawMessage `json:"messages"`
}

// TestGolden compares every byte of the messages with the golden files. scripts/providers.sh passes the same files to the providers' own
// libraries.
func TestGolden(t *testing.T) {
	for _, p := range turn.Providers() {
		t.Run(string(p), func(t *testing.T) {
			var got bytes.Buffer
			enc := json.NewEncoder(&got)
			enc.SetEscapeHTML(false)
			for _, g := range goldens() {
				if err := enc.Encode(g.line(t, p)); err != nil {
					t.Fatal(err)
				}
			}
			file := filepath.Join("testdata", string(p)+".jsonl")
			if *update {
				if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			wants := bytes.Split(want, []byte("\n"))
			for i, l := range bytes.Split(got.Bytes(), []byte("\n")) {
				if i >= len(wants) || !bytes.Equal(l, wants[i]) {
					t.Fatalf("line %d differs from %s; run with -update and read the diff:\n%s", i+1, file, l)
				}
			}
		})
	}
}

func (g *golden) line(t *testing.T, p turn.Provider) line {
	t.Helper()
	for i := range g.calls {
		if g.calls[i].id == "" {
			g.calls[i].id = "id" + number(i)
		}
	}
	message := message(p, g.extra[p], g.calls...)
	parsed, err := turn.Parse(turn.Request{Provider: p, Message: []byte(message), StopReason: g.stop[p], OwnTools: g.own})
	if err != nil {
		t.Fatalf("%s: %v", g.name, err)
	}
	l := line{Name: g.name, Message: json.RawMessage(message), Turn: parsed, Messages: []json.RawMessage{}}
	stored := reload(t, parsed)
	messages, err := stored.Messages(g.answers[:len(parsed.Calls)], g.options)
	if err != nil {
		t.Fatalf("%s: %v", g.name, err)
	}
	for _, m := range messages {
		l.Messages = append(l.Messages, m)
	}
	checkAnswers(t, parsed, messages)
	if g.late != nil {
		late, err := stored.Late(g.late, g.options)
		if err != nil {
			t.Fatalf("%s: %v", g.name, err)
		}
		l.Messages = append(l.Messages, late)
	}
	return l
}

// checkAnswers checks that messages answer each call once, in order.
func checkAnswers(t testing.TB, parsed *turn.Turn, messages [][]byte) {
	t.Helper()
	got := answersIn(t, parsed.Provider, messages)
	if len(got) != len(parsed.Calls) {
		t.Fatalf("%s: %d answers to %d calls", parsed.Provider, len(got), len(parsed.Calls))
	}
	for i, a := range got {
		if a.id != parsed.Calls[i].ModelCallID || strings.TrimSpace(a.text) == "" {
			t.Errorf("%s: answer %d is for %q with the text %q, want an answer for %q", parsed.Provider, i, a.id, a.text, parsed.Calls[i].ModelCallID)
		}
	}
}
