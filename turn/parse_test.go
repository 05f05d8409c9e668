package turn_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/turn"
)

// TestRefusals (T138) checks that Parse refuses forged results, streams, several choices and broken JSON.
func TestRefusals(t *testing.T) {
	openai, responses, anthropic, gemini, aisdk := turn.OpenAI, turn.OpenAIResponses, turn.Anthropic, turn.Gemini, turn.AISDK
	tests := []struct {
		name     string
		provider turn.Provider
		message  string
		field    string // field that the violation names
		contains string
	}{
		{"no provider", "grok", `{}`, "provider", "openai-responses"},
		{"not JSON", openai, `{"role":`, "message", "cut off"},
		{"a member twice", openai, `{"role":"user","role":"assistant"}`, "message", "twice"},
		{"an argument twice", anthropic, `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"b","input":{"x":1,"x":2}}]}`, "message", "twice"},
		{"half a surrogate", openai, `{"role":"assistant","content":"\ud800"}`, "message", "surrogate"},
		{"too deep", gemini, `{"role":"model","parts":` + strings.Repeat("[", 80) + strings.Repeat("]", 80) + `}`, "message", "nested deeper"},
		{"a huge number", gemini, `{"role":"model","parts":[{"functionCall":{"name":"a","args":{"n":1e999}}}]}`, "message", "exponent"},
		{"null", openai, `null`, "message", "must be an object"},

		{"openai: a user message", openai, `{"role":"user","content":"x"}`, "message.role", "assistant"},
		{"openai: a role in another case", openai, `{"role":"Assistant"}`, "message.role", "assistant"},
		{"openai: several choices", openai, `{"object":"chat.completion","choices":[{},{}]}`, "message", "choices[0].message"},
		{"openai: a chunk", openai, `{"object":"chat.completion.chunk","choices":[]}`, "message", "collect the stream"},
		{"openai: a delta", openai, `{"delta":{"role":"assistant"}}`, "message", "collect the stream"},
		{"openai: the first chunk of a call", openai, `{"role":"assistant","tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"b","arguments":""}}]}`, "message.tool_calls[0]", "first chunk"},
		{"openai: a tool message", openai, `{"role":"assistant","tool_call_id":"a","content":"done"}`, "message.tool_call_id", "is a result"},
		{"openai: a result in the content", openai, `{"role":"assistant","content":[{"type":"tool_result"}]}`, "message.content[0]", "is a result"},
		{"openai: an old call", openai, `{"role":"assistant","function_call":{"name":"a","arguments":"{}"}}`, "message.function_call", "tools"},
		{"openai: no id", openai, `{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"a","arguments":"{}"}}]}`, "message.tool_calls[0].id", "string"},
		{"openai: an empty id", openai, message(openai, "", request{"", "a", "{}"}), "message.tool_calls[0]", "no id"},
		{"openai: arguments as an object", openai, `{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"a","arguments":{}}}]}`, "message.tool_calls[0].function.arguments", "string"},
		{"openai: calls as an object", openai, `{"role":"assistant","tool_calls":{}}`, "message.tool_calls", "list"},
		{"openai: no name", openai, `{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"arguments":"{}"}}]}`, "message.tool_calls[0].function.name", "string"},

		{"responses: the response", responses, `{"id":"r","output":[]}`, "message", "send its output"},
		{"responses: an event", responses, `{"type":"response.output_item.added"}`, "message", "stream"},
		{"responses: a user message", responses, `[{"type":"message","role":"user","content":"x"}]`, "message[0].role", "assistant"},
		{"responses: a running call", responses, `[{"type":"function_call","call_id":"a","name":"b","arguments":"","status":"in_progress"}]`, "message[0]", "in progress"},
		{"responses: a result", responses, `[{"type":"function_call_output","call_id":"a","output":"x"}]`, "message[0]", "is a result"},
		{"responses: a result of a shell that the client has", responses, `[{"type":"shell_call","call_id":"a","environment":{"type":"local"}},{"type":"shell_call_output","call_id":"a","output":[]}]`, "message[1]", "is a result"},
		{"responses: a search result for a call", responses, `[{"type":"function_call","call_id":"a","name":"b","arguments":"{}"},{"type":"tool_search_output","execution":"server","call_id":"a"}]`, "message[1]", "is a result"},
		{"responses: an approval", responses, `[{"type":"mcp_approval_response","approval_request_id":"a","approve":true}]`, "message[0]", "is a result"},
		{"responses: no type", responses, `[{}]`, "message[0].type", "string"},

		{"anthropic: an event", anthropic, `{"type":"content_block_start","content_block":{}}`, "message", "stream"},
		{"anthropic: it still streams", anthropic, `{"type":"message","role":"assistant","stop_reason":null,"content":[]}`, "message.stop_reason", "still streams"},
		{"anthropic: a result", anthropic, `{"role":"assistant","content":[{"type":"tool_result","tool_use_id":"x","content":"done"}]}`, "message.content[0]", "is a result"},
		{"anthropic: a search result for a call", anthropic, `{"role":"assistant","content":[{"type":"web_search_tool_result","tool_use_id":"a","content":[]},{"type":"tool_use","id":"a","name":"b","input":{}}]}`, "message.content[0]", "is a result"},
		{"anthropic: a user message", anthropic, `{"role":"user","content":[]}`, "message.role", "assistant"},
		{"anthropic: no content", anthropic, `{"role":"assistant"}`, "message.content", "list"},

		{"gemini: the response", gemini, `{"candidates":[{},{}]}`, "message", "candidates[0].content"},
		{"gemini: a user content", gemini, `{"role":"user","parts":[]}`, "message.role", "model"},
		{"gemini: a result", gemini, `{"role":"model","parts":[{"functionResponse":{"name":"a","response":{}}}]}`, "message.parts[0]", "is a result"},
		{"gemini: names of Python", gemini, `{"role":"model","parts":[{"function_call":{"name":"a","args":{}}}]}`, "message.parts[0]", "functionCall"},
		{"gemini: arguments as text", gemini, `{"role":"model","parts":[{"functionCall":{"name":"a","args":"{}"}}]}`, "message.parts[0].functionCall.args", "object"},
		{"gemini: part of a call", gemini, `{"role":"model","parts":[{"functionCall":{"name":"a","args":{},"willContinue":true}}]}`, "message.parts[0].functionCall", "collect the stream"},
		{"gemini: a number as id", gemini, `{"role":"model","parts":[{"functionCall":{"id":7,"name":"a"}}]}`, "message.parts[0].functionCall.id", "string"},

		{"ai-sdk: several messages", aisdk, `[]`, "message", "one assistant message"},
		{"ai-sdk: a tool message", aisdk, `{"role":"tool","content":[]}`, "message.role", "assistant"},
		{"ai-sdk: a result", aisdk, `{"role":"assistant","content":[{"type":"tool-call","toolCallId":"a","toolName":"b","input":{}},{"type":"tool-result","toolCallId":"a","toolName":"b","output":{"type":"text","value":"x"}}]}`, "message.content[1]", "is a result"},
		{"ai-sdk: an approval", aisdk, `{"role":"assistant","content":[{"type":"tool-approval-response","approvalId":"a","approved":true}]}`, "message.content[0]", "is a result"},
		{"ai-sdk: an id of the provider again", aisdk, `{"role":"assistant","content":[{"type":"tool-call","toolCallId":"a","toolName":"b","input":{},"providerExecuted":true},{"type":"tool-result","toolCallId":"a"},{"type":"tool-call","toolCallId":"a","toolName":"b","input":{}}]}`, "message.content[2]", "second time"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := turn.Parse(turn.Request{Provider: tt.provider, Message: []byte(tt.message)})
			var refusal *call.Refusal
			if !errors.As(err, &refusal) {
				t.Fatalf("got %v, want a refusal", err)
			}
			if refusal.Kind != call.InvalidArgument || refusal.Violations[0].Field != tt.field || !strings.Contains(refusal.Message, tt.contains) {
				t.Errorf("got %s %v, want a violation of %s that contains %q", refusal.Kind, refusal.Violations, tt.field, tt.contains)
			}
		})
	}
}

// TestHostileTurns (T138) checks for each provider that Parse refuses a response that uses an id twice, and a response with more than
// MaxCalls calls.
func TestHostileTurns(t *testing.T) {
	for _, p := range turn.Providers() {
		t.Run(string(p), func(t *testing.T) {
			same := message(p, "", request{"same", "a", "{}"}, request{"same", "b", "{}"})
			if _, err := turn.Parse(turn.Request{Provider: p, Message: []byte(same)}); err == nil || !strings.Contains(err.Error(), "second time") {
				t.Errorf("two calls with the same id: %v", err)
			}
			own := turn.Request{Provider: p, Message: []byte(same), OwnTools: []string{"a"}}
			if _, err := turn.Parse(own); err == nil {
				t.Error("the id of a client's call is used again")
			}
			for n, ok := range map[int]bool{turn.MaxCalls: true, turn.MaxCalls + 1: false, 100_000: false} {
				calls := make([]request, n)
				for i := range calls {
					calls[i] = request{"id" + number(i), "a", "{}"}
				}
				if _, err := turn.Parse(turn.Request{Provider: p, Message: []byte(message(p, "", calls...))}); (err == nil) != ok {
					t.Errorf("%d calls: %v", n, err)
				}
			}
		})
	}
}

// TestNothingIsTranslated (T138) checks that Parse keeps the names of tools unchanged, also names of aliases and names in another case. It
// also keeps the arguments unchanged. toold therefore runs only tools that the model named.
func TestNothingIsTranslated(t *testing.T) {
	names := []string{"READ", "read ", "functions.read", "Bash", "", "read\u200b", strings.Repeat("r", 65)}
	args := `{"b" : [1e2, 1.0,9007199254740993, "\u00e4\/"],  "a":null }`
	for _, p := range turn.Providers() {
		calls := make([]request, len(names))
		for i, name := range names {
			calls[i] = request{"id" + number(i), name, args}
		}
		parsed, err := turn.Parse(turn.Request{Provider: p, Message: []byte(message(p, "", calls...)), OwnTools: []string{"read", "bash"}})
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range parsed.Calls {
			if c.Name != names[i] || c.Arguments != args || c.Truncated {
				t.Errorf("%s: got %+v", p, c)
			}
			if id := c.Tool(); id == "" || len(id) > 64 || len(names[i]) <= 64 && names[i] != "" && id != names[i] {
				t.Errorf("%s: the tool of %q is %q", p, c.Name, id)
			}
		}
		if len(parsed.NotHandled) != 0 {
			t.Errorf("%s: a name in another case is one of the client's tools", p)
		}
	}
}

func TestOwnToolsAndOtherKinds(t *testing.T) {
	tests := []struct {
		name     string
		provider turn.Provider
		message  string
		own      []string
		calls    []int // indexes of the calls
		others   []turn.NotHandled
	}{
		{"own", turn.OpenAI, message(turn.OpenAI, "", request{"a", "mine", ""}, request{"b", "read", ""}), []string{"mine"}, []int{1}, []turn.NotHandled{{0, "a", "function"}}},
		{"custom", turn.OpenAI, message(turn.OpenAI, otherKinds[turn.OpenAI], request{"b", "read", ""}), nil, []int{1}, []turn.NotHandled{{0, "call_custom", "custom"}}},
		{"responses", turn.OpenAIResponses, `[{"type":"reasoning","id":"rs"},{"type":"computer_call","call_id":"c"},{"type":"local_shell_call","call_id":"l"},
			{"type":"shell_call","call_id":"h","environment":{"type":"container_reference"}},{"type":"shell_call_output","call_id":"h"},
			{"type":"shell_call","call_id":"s","environment":null},{"type":"tool_search_call","call_id":"t","execution":"client"},
			{"type":"tool_search_call","call_id":null,"execution":"server"},{"type":"tool_search_output","call_id":null,"execution":"server"},
			{"type":"function_call","call_id":"f","name":"read","arguments":"{}","namespace":"crm"},
			{"type":"function_call","call_id":"g","name":"read","arguments":"{}","namespace":"read"},
			{"type":"mcp_approval_request","id":"m","name":"x","arguments":"{}"},{"type":"future_call","id":"x"}]`, nil, []int{5},
			[]turn.NotHandled{{0, "c", "computer_call"}, {1, "l", "local_shell_call"}, {2, "s", "shell_call"}, {3, "t", "tool_search_call"}, {4, "f", "function_call"}, {6, "m", "mcp_approval_request"}}},
		{"a toolset", turn.Anthropic, `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"click","input":{},"toolset_name":"browser"}]}`, nil, nil, []turn.NotHandled{{0, "a", "tool_use"}}},
		{"gemini without ids", turn.Gemini, message(turn.Gemini, `{"text":"hm","thought":true},{"functionCall":null,"text":"x"},`, request{"", "a", "{}"}, request{"", "mine", "{}"}, request{"", "a", "{}"}),
			[]string{"mine"}, []int{0, 2}, []turn.NotHandled{{1, "", "functionCall"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			parsed, err := turn.Parse(turn.Request{Provider: tt.provider, Message: []byte(tt.message), OwnTools: tt.own})
			if err != nil {
				t.Fatal(err)
			}
			var calls []int
			for _, c := range parsed.Calls {
				calls = append(calls, c.Index)
			}
			if !slices.Equal(calls, tt.calls) || !slices.Equal(parsed.NotHandled, tt.others) {
				t.Errorf("got %v and %v, want %v and %v", calls, parsed.NotHandled, tt.calls, tt.others)
			}
		})
	}
}

// TestCut (T138) checks that a cut response has one truncated call, even if the arguments of this call parse.
func TestCut(t *testing.T) {
	for _, p := range turn.Providers() {
		m := []byte(message(p, "", request{"a", "write", "{}"}, request{"b", "write", "{}"}))
		for reason, cut := range map[string]bool{
			"length": true, "max_tokens": true, "MAX_TOKENS": true, "FinishReason.MAX_TOKENS": true, "incomplete": true, "content-filter": true,
			"": false, "stop": false, "tool_calls": false, "tool_use": false, "STOP": false, "completed": false, "end_turn": false,
		} {
			parsed, err := turn.Parse(turn.Request{Provider: p, Message: m, StopReason: reason})
			if err != nil {
				t.Fatal(err)
			}
			if parsed.Calls[0].Truncated || parsed.Calls[1].Truncated != cut {
				t.Errorf("%s: %q gives %+v", p, reason, parsed.Calls)
			}
		}
		parsed, err := turn.Parse(turn.Request{Provider: p, Message: []byte(message(p, "", request{"a", "write", "{}"}, request{"b", "mine", "{}"})), StopReason: "length", OwnTools: []string{"mine"}})
		if err != nil || parsed.Calls[0].Truncated {
			t.Errorf("%s: the cut call is the client's, and %+v is truncated: %v", p, parsed.Calls, err)
		}
	}
	parsed := parse(t, turn.Anthropic, `{"type":"message","role":"assistant","stop_reason":"max_tokens","content":[{"type":"tool_use","id":"a","name":"b","input":{}}]}`)
	if !parsed.Calls[0].Truncated {
		t.Error("the stop reason in the message does not count")
	}
	parsed = parse(t, turn.OpenAIResponses, `[{"type":"function_call","call_id":"a","name":"b","arguments":"{}","status":"incomplete"},{"type":"function_call","call_id":"c","name":"b","arguments":"{}"}]`)
	if !parsed.Calls[0].Truncated || parsed.Calls[1].Truncated {
		t.Errorf("%+v", parsed.Calls)
	}
}

func TestIdentity(t *testing.T) {
	base := turn.Request{Provider: turn.OpenAI, Message: []byte(message(turn.OpenAI, "", request{"a", "read", `{"x":1}`}, request{"b", "read", `{}`}))}
	identity := func(r turn.Request, caller, run, thread string, o call.BatchOptions) string {
		parsed, err := turn.Parse(r)
		if err != nil {
			t.Fatal(err)
		}
		id := parsed.Identity(caller, "", run, thread, o)
		if stored := reload(t, parsed).Identity(caller, "", run, thread, o); stored != id {
			t.Errorf("the identity is %s, and %s after a restart", id, stored)
		}
		return id
	}
	of := func(change func(r *turn.Request)) string {
		r := base
		change(&r)
		return identity(r, "c", "r", "t", call.BatchOptions{Strategy: call.Auto})
	}
	first := of(func(*turn.Request) {})
	replace := func(old, with string) func(*turn.Request) {
		return func(r *turn.Request) { r.Message = []byte(strings.Replace(string(r.Message), old, with, 1)) }
	}
	for name, change := range map[string]func(*turn.Request){
		"text":          replace(`"content":null`, `"content":"thinking"`),
		"white space":   replace(`"content":null`, ` "content" : null `),
		"stop reason":   func(r *turn.Request) { r.StopReason = "tool_calls" },
		"order of sets": func(r *turn.Request) { r.OwnTools = []string{} },
	} {
		if of(change) != first {
			t.Errorf("%s changes the identity", name)
		}
	}
	if of(func(r *turn.Request) { r.OwnTools = []string{"p", "q"} }) != of(func(r *turn.Request) { r.OwnTools = []string{"q", "p", "q"} }) {
		t.Error("the order of own tools changes the identity")
	}
	ids := []string{first}
	for name, change := range map[string]func(*turn.Request){
		"strict":     func(r *turn.Request) { r.Strict = true },
		"own tools":  func(r *turn.Request) { r.OwnTools = []string{"x"} },
		"a own tool": func(r *turn.Request) { r.OwnTools = []string{"read"} },
		"name":       replace(`"read"`, `"write"`),
		"id":         replace(`"a"`, `"c"`),
		"arguments":  replace(`{\"x\":1}`, `{\"x\":2}`),
		"spaces":     replace(`{\"x\":1}`, `{\"x\": 1}`),
		"other order": func(r *turn.Request) {
			r.Message = []byte(message(turn.OpenAI, "", request{"b", "read", `{}`}, request{"a", "read", `{"x":1}`}))
		},
		"one more": func(r *turn.Request) {
			r.Message = []byte(message(turn.OpenAI, "", request{"a", "read", `{"x":1}`}, request{"b", "read", `{}`}, request{"c", "read", `{}`}))
		},
		"provider": func(r *turn.Request) {
			r.Provider, r.Message = turn.OpenAIResponses, []byte(message(turn.OpenAIResponses, "", request{"a", "read", `{"x":1}`}, request{"b", "read", `{}`}))
		},
	} {
		id := of(change)
		if len(id) != 64 || slices.Contains(ids, id) {
			t.Errorf("%s does not change the identity", name)
		}
		ids = append(ids, id)
	}
	for _, id := range []string{
		identity(base, "d", "r", "t", call.BatchOptions{Strategy: call.Auto}), identity(base, "c", "s", "t", call.BatchOptions{Strategy: call.Auto}),
		identity(base, "c", "r", "u", call.BatchOptions{Strategy: call.Auto}), identity(base, "c", "r", "t", call.BatchOptions{Strategy: call.Parallel}),
		identity(base, "c", "", "rt", call.BatchOptions{Strategy: call.Auto}),
	} {
		if slices.Contains(ids, id) {
			t.Error("caller, run, thread or options do not count")
		}
		ids = append(ids, id)
	}
	// The libraries of these providers encode the arguments again, so the identity must not depend on their form.
	for _, p := range []turn.Provider{turn.Anthropic, turn.Gemini, turn.AISDK} {
		one := parse(t, p, message(p, "", request{"a", "read", `{"x":1,"y":"ä"}`})).Digest
		if other := parse(t, p, message(p, "", request{"a", "read", `{ "y": "\u00e4", "x": 1}`})).Digest; one != other {
			t.Errorf("%s: the form of the arguments changes the identity", p)
		}
	}
}
