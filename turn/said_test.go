package turn_test

import (
	"strings"
	"testing"

	"github.com/toold-dev/toold/turn"
)

// TestText checks which text of a response belongs to which call. Each call gets the text that the model wrote since the previous call,
// without reasoning.
func TestText(t *testing.T) {
	long := strings.Repeat("x", turn.MaxText-1) + "é"
	tests := []struct {
		name     string
		provider turn.Provider
		message  string
		want     []string
	}{
		{"openai", turn.OpenAI, `{"role":"assistant","content":" first ","tool_calls":[{"id":"a","function":{"name":"a","arguments":"{}"}},{"id":"b","function":{"name":"b","arguments":"{}"}}]}`, []string{"first", ""}},
		{"openai, parts", turn.OpenAI, `{"role":"assistant","content":[{"type":"text","text":"one"},{"type":"text","text":"two"}],"tool_calls":[{"id":"a","function":{"name":"a","arguments":"{}"}}]}`, []string{"one\n\ntwo"}},
		{"responses", turn.OpenAIResponses, `[{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"first"}]},{"type":"function_call","call_id":"a","name":"a","arguments":"{}"}]`, []string{"first"}},
		{
			"anthropic, between calls", turn.Anthropic,
			`{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"first"},{"type":"tool_use","id":"a","name":"a","input":{}},{"type":"text","text":"then"},{"type":"tool_use","id":"b","name":"mine","input":{}},{"type":"tool_use","id":"c","name":"c","input":{}}]}`,
			[]string{"first", "then"}, // The client runs the tool "mine" itself, so the text before it belongs to the next call.
		},
		{"gemini", turn.Gemini, `{"role":"model","parts":[{"text":"hm","thought":true},{"text":"first"},{"functionCall":{"name":"a","args":{}}}]}`, []string{"first"}},
		{"ai-sdk", turn.AISDK, `{"role":"assistant","content":[{"type":"reasoning","text":"hm"},{"type":"text","text":"first"},{"type":"tool-call","toolCallId":"a","toolName":"a","input":{}}]}`, []string{"first"}},
		{"too long", turn.OpenAI, `{"role":"assistant","content":"` + long + `","tool_calls":[{"id":"a","function":{"name":"a","arguments":"{}"}}]}`, []string{long[:turn.MaxText-1]}},
		{"no text", turn.OpenAI, `{"role":"assistant","content":null,"tool_calls":[{"id":"a","function":{"name":"a","arguments":"{}"}}]}`, []string{""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := turn.Parse(turn.Request{Provider: tt.provider, Message: []byte(tt.message), OwnTools: []string{"mine"}})
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range tt.want {
				if got.Calls[i].Text != want {
					t.Errorf("call %d has the text %q, want %q", i, got.Calls[i].Text, want)
				}
			}
		})
	}
}
