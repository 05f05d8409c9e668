package turn_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/toold-dev/toold/turn"
)

// A request is a tool call in a model's response. A test describes it once for all providers.
type request struct {
	id, name, args string
}

// message returns a response with these calls. extra has JSON parts to add before the calls, each with a comma after it.
func message(p turn.Provider, extra string, calls ...request) string {
	parts := make([]string, len(calls))
	for i, c := range calls {
		args := c.args
		if !json.Valid([]byte(args)) || !strings.HasPrefix(args, "{") {
			args = map[turn.Provider]string{turn.Gemini: "{}"}[p]
			if args == "" {
				args = quote(c.args) // When arguments do not parse, the libraries of providers send them as a JSON string.
			}
		}
		switch p {
		case turn.OpenAI:
			parts[i] = fmt.Sprintf(`{"id":%s,"type":"function","function":{"name":%s,"arguments":%s}}`, quote(c.id), quote(c.name), quote(c.args))
		case turn.OpenAIResponses:
			parts[i] = fmt.Sprintf(`{"type":"function_call","id":"fc_%d","call_id":%s,"name":%s,"arguments":%s,"status":"completed"}`, i, quote(c.id), quote(c.name), quote(c.args))
		case turn.Anthropic:
			parts[i] = fmt.Sprintf(`{"type":"tool_use","id":%s,"name":%s,"input":%s}`, quote(c.id), quote(c.name), args)
		case turn.Gemini:
			id := ""
			if c.id != "" {
				id = `"id":` + quote(c.id) + ","
			}
			parts[i] = fmt.Sprintf(`{"functionCall":{%s"name":%s,"args":%s}}`, id, quote(c.name), args)
		case turn.AISDK:
			parts[i] = fmt.Sprintf(`{"type":"tool-call","toolCallId":%s,"toolName":%s,"input":%s}`, quote(c.id), quote(c.name), args)
		}
	}
	list := "[" + strings.TrimSuffix(extra+strings.Join(parts, ","), ",") + "]"
	switch p {
	case turn.OpenAI:
		if list == "[]" {
			return `{"role":"assistant","content":"No call is needed."}`
		}
		return `{"role":"assistant","content":null,"tool_calls":` + list + `}`
	case turn.OpenAIResponses:
		return list
	case turn.Gemini:
		return `{"role":"model","parts":` + list + `}`
	default:
		return `{"role":"assistant","content":` + list + `}`
	}
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// answered is the answer to one call, as a message contains it. The id is the model's id of the call.
type answered struct {
	id, text string
	failed   bool
	media    int
}

// A fataler is a [*testing.T] or a test of the package rapid.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// answersIn returns the answers in messages, in order.
func answersIn(t fataler, p turn.Provider, messages [][]byte) []answered {
	t.Helper()
	var out []answered
	for _, raw := range messages {
		var m struct {
			Type, Role, Text string
			ToolCallID       string `json:"tool_call_id"`
			CallID           string `json:"call_id"`
			Content, Output  any
			Parts            []struct {
				FunctionResponse struct {
					ID, Name string
					Response map[string]string
					Parts    []any
				}
			}
		}
		if err := json.Unmarshal(raw, &m); err != nil {
			t.Fatalf("%v in %s", err, raw)
		}
		switch p {
		case turn.OpenAI:
			out = append(out, answered{id: m.ToolCallID, text: m.Content.(string)})
		case turn.OpenAIResponses:
			a := answered{id: m.CallID}
			if parts, ok := m.Output.([]any); ok {
				a.text, a.media = parts[0].(map[string]any)["text"].(string), len(parts)-1
			} else {
				a.text = m.Output.(string)
			}
			out = append(out, a)
		case turn.Anthropic:
			for _, b := range m.Content.([]any) {
				b := b.(map[string]any)
				parts := b["content"].([]any)
				failed, _ := b["is_error"].(bool)
				out = append(out, answered{b["tool_use_id"].(string), parts[0].(map[string]any)["text"].(string), failed, len(parts) - 1})
			}
		case turn.Gemini:
			for _, part := range m.Parts {
				r := part.FunctionResponse
				_, failed := r.Response["error"]
				out = append(out, answered{r.ID, r.Response["output"] + r.Response["error"], failed, len(r.Parts)})
			}
		case turn.AISDK:
			out = append(out, answerOfSDK(m.Content.([]any)[0].(map[string]any)))
		}
	}
	return out
}

func answerOfSDK(part map[string]any) answered {
	a := answered{id: part["toolCallId"].(string)}
	if part["type"] == "tool-approval-request" {
		a.text = "approval " + part["approvalId"].(string)
		return a
	}
	output := part["output"].(map[string]any)
	switch output["type"] {
	case "execution-denied":
		a.text, a.failed = output["reason"].(string), true
	case "content":
		parts := output["value"].([]any)
		a.text, a.media = parts[0].(map[string]any)["text"].(string), len(parts)-1
	default:
		a.text, a.failed = output["value"].(string), output["type"] == "error-text"
	}
	return a
}

func parse(t testing.TB, p turn.Provider, message string) *turn.Turn {
	t.Helper()
	out, err := turn.Parse(turn.Request{Provider: p, Message: []byte(message)})
	if err != nil {
		t.Fatalf("%s: %v in %s", p, err, message)
	}
	return out
}

// reload returns a turn as the daemon has it after a restart, made from its stored form.
func reload(t testing.TB, in *turn.Turn) *turn.Turn {
	t.Helper()
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	out := &turn.Turn{}
	if err := json.Unmarshal(b, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func number(i int) string { return strconv.Itoa(i) }
