package model_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/toold-dev/toold/test/model"
)

const recording = `
{"text": "I look.", "calls": [{"name": "read", "arguments": {"path": "a"}}, {"name": "read", "arguments": {"path": "b"}}]}
{"results": ["one", "two"], "calls": [{"name": "gone", "arguments": {}, "unoffered": true}], "cut": true}
{"results": ["gone"], "text": "Done."}
`

// A row is a request and the expected response of the model: a part of its body, and the status 400 when refused is set.
type row struct {
	name, request, want string
	refused             bool
}

// replaced returns a row whose request is a valid one with one part replaced.
func replaced(name, request, old, with, want string) row {
	return row{name, strings.ReplaceAll(request, old, with), want, true}
}

func TestChatCompletions(t *testing.T) {
	const (
		open   = `{"model": "m", "tools": [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}], "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}`
		first  = `, {"role": "assistant", "content": "I look.", "refusal": null, "tool_calls": [{"id": "call_000000000000X00000000000", "type": "function", "function": {"name": "read", "arguments": "{\"path\":\"a\"}"}}, {"id": "call_000000000000X00000000001", "type": "function", "function": {"name": "read", "arguments": "{\"path\":\"b\"}"}}]}`
		a      = `, {"role": "tool", "tool_call_id": "call_000000000000X00000000000", "content": "one"}`
		b      = `, {"role": "tool", "tool_call_id": "call_000000000000X00000000001", "content": [{"type": "text", "text": "it is two"}]}`
		second = `, {"role": "assistant", "content": null, "tool_calls": [{"id": "call_000000000001X00000000000", "type": "function", "function": {"name": "gone", "arguments": "{}"}}]}`
		c      = `, {"role": "tool", "tool_call_id": "call_000000000001X00000000000", "content": "there is no gone"}`
		third  = `, {"role": "assistant", "content": "Done."}`
		close  = `]}`
		all    = open + first + a + b + close
	)
	converse(t, "/chat/completions", []row{
		{"first", open + close, `"id":"call_000000000000X00000000001","type":"function","function":{"name":"read","arguments":"{\"path\":\"b\"}"}`, false},
		{"first reason", open + close, `"finish_reason":"tool_calls"`, false},
		{"answers in any order", open + first + b + a + close, `"content":null`, false},
		{"cut", all, `"finish_reason":"length"`, false},
		{"end", open + first + a + b + second + c + close, `"content":"Done."`, false},
		{"after the end", open + first + a + b + second + c + third + close, "3 steps", true},
		{"no answer", open + first + a + close, "did not have response messages: call_000000000000X00000000001", true},
		{"an answer after a message", open + first + a + `, {"role": "user", "content": "u"}` + b + close, "did not have response messages: call_000000000000X00000000001", true},
		{"an answer too many", open + first + a + b + b + close, "must be a response to a preceding message", true},
		{"two answers", open + first + a + a + b + close, "want one answer", true},
		{"another call", open + first + a + second + c + close, "did not have response", true},
		{"an answer without a call", open + a + close, "must be a response to a preceding message", true},
		replaced("another answer", all, "it is two", "three", `is \"three\", which does not contain \"two\"`),
		replaced("other arguments", all, `\"b\"`, `\"c\"`, "recording: call 1 of response 0"),
		replaced("another text", all, "I look.", "I saw.", "recording: response 0 has the text"),
		replaced("a member that the API does not have", all, `"refusal"`, `"turn_id": "t", "refusal"`, "turn_id"),
		replaced("a tool that is not offered", open+close, `"read"`, `"write"`, "does not offer"),
		replaced("no schema of an object", open+close, `"object"`, `"array"`, "tools[0]"),
		replaced("a name that models cannot use", open+close, `"read"`, `"fs.read"`, "tools[0]"),
		replaced("no model", open+close, `"m"`, `""`, "model"),
		replaced("no content", open+close, `"u"`, `null`, "content"),
		replaced("another role", open+close, `"system"`, `"human"`, "Supported values"),
		replaced("a stream", open+close, `"model"`, `"stream": true, "model"`, "does not stream"),
		replaced("no JSON", open, "", "", "could not parse"),
	})
}

func TestMessages(t *testing.T) {
	const (
		open   = `{"model": "m", "max_tokens": 100, "tools": [{"name": "read", "input_schema": {"type": "object"}}], "messages": [{"role": "user", "content": "u"}`
		first  = `, {"role": "assistant", "content": [{"type": "text", "text": "I look."}, {"type": "tool_use", "id": "toolu_000000000000X00000000000", "name": "read", "input": {"path": "a"}}, {"type": "tool_use", "id": "toolu_000000000000X00000000001", "name": "read", "input": {"path": "b"}}]}`
		a      = `{"type": "tool_result", "tool_use_id": "toolu_000000000000X00000000000", "content": "one"}`
		b      = `{"type": "tool_result", "tool_use_id": "toolu_000000000000X00000000001", "content": [{"type": "text", "text": "it is two"}], "is_error": true}`
		ab     = `, {"role": "user", "content": [` + a + `, ` + b + `]}`
		second = `, {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_000000000001X00000000000", "name": "gone", "input": {}}]}`
		c      = `, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_000000000001X00000000000", "content": "there is no gone"}]}`
		close  = `]}`
		all    = open + first + ab + close
	)
	user := func(blocks string) string {
		return open + first + `, {"role": "user", "content": [` + blocks + `]}` + close
	}
	converse(t, "/v1/messages", []row{
		{"first", open + close, `{"id":"toolu_000000000000X00000000001","input":{"path":"b"},"name":"read","type":"tool_use"}`, false},
		{"first reason", open + close, `"stop_reason":"tool_use"`, false},
		{"cut", all, `"stop_reason":"max_tokens"`, false},
		{"end", open + first + ab + second + c + close, `"text":"Done."`, false},
		{"no answer", open + first + close, "without `tool_result` blocks immediately after: toolu_000000000000X00000000000, toolu_000000000000X00000000001", true},
		{"one answer", user(a), "immediately after: toolu_000000000000X00000000001", true},
		{"answers in two messages", open + first + `, {"role": "user", "content": [` + a + `]}, {"role": "user", "content": [` + b + `]}` + close, "immediately after", true},
		{"two answers", user(a + `, ` + a + `, ` + b), "Found multiple `tool_result` blocks", true},
		{"text before an answer", user(a + `, {"type": "text", "text": "x"}, ` + b), "must come before", true},
		{"an answer without a call", open + ab + close, "unexpected `tool_use_id`", true},
		{"an empty text", user(a + `, ` + b + `, {"type": "text", "text": " "}`), "non-empty", true},
		replaced("another answer", all, "it is two", "three", "does not contain"),
		replaced("two calls with one id", all, "X00000000001", "X00000000000", "must be unique"),
		replaced("the whole response", all, `"assistant"`, `"assistant", "stop_reason": "tool_use"`, "Extra inputs are not permitted"),
		replaced("a block for nobody", all, `{"type": "text"`, `{"type": "tool_result"`, "Input tag"),
		replaced("a tool that is not offered", open+close, `"read"`, `"write"`, "does not offer"),
		replaced("no schema", open+close, `"object"`, `"array"`, "tools.0"),
		replaced("no limit", open+close, `"max_tokens"`, `"max_token"`, "max_tokens: Field required"),
		replaced("another role", open+close, `"user"`, `"system"`, "Input should be 'user' or 'assistant'"),
	})
	r := httptest.NewRequest(http.MethodPost, "/v1/messages", strings.NewReader(open+close))
	if got := serve(t, model.New(nil), r); got.status != http.StatusUnauthorized {
		t.Errorf("without a key the model answers %v", got)
	}
}

// converse sends the rows to a model.
func converse(t *testing.T, path string, rows []row) {
	t.Helper()
	steps, err := model.Read(strings.NewReader(recording))
	if err != nil {
		t.Fatal(err)
	}
	m := model.New(steps)
	refused := 0
	for _, tt := range rows {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(tt.request))
			r.Header.Set("x-api-key", "k")
			r.Header.Set("anthropic-version", "2023-06-01")
			status := http.StatusOK
			if tt.refused {
				refused++
				status = http.StatusBadRequest
			}
			if got := serve(t, m, r); got.status != status || !strings.Contains(got.body, tt.want) {
				t.Errorf("the model answers %d %s, want %d with %s", got.status, got.body, status, tt.want)
			}
		})
	}
	if len(m.Refused()) != refused || m.Answered() != 3 {
		t.Errorf("the model counts %d refusals and %d steps, want %d and 3", len(m.Refused()), m.Answered(), refused)
	}
}

type response struct {
	status int
	body   string
}

func serve(t *testing.T, m *model.Model, r *http.Request) response {
	t.Helper()
	w := httptest.NewRecorder()
	m.ServeHTTP(w, r)
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return response{w.Code, string(body)}
}

func TestRecordingsAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		`{"results": ["x"]}`: "0 of the recording has 1 results",
		`{"calls": [{"name": "a", "arguments": {}}]}{"results": []}`: "1 of the recording has 0 results",
		`{"calls": [{"name": "a", "arguments": []}]}`:                "no JSON object",
		`{"calls": [{"name": "a"}]}`:                                 "no JSON object",
		`{"text": 1}`:                                                "step 0",
		`{"say": ""}`:                                                "unknown field",
	} {
		if _, err := model.Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Read(%s) = %v, want %q", text, err, want)
		}
	}
}
