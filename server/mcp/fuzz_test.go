package mcpserver

import (
	"encoding/json"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// FuzzForm checks that every response schema gives forms with simple fields only. Each answer to them must give an error, or a decision
// whose result is valid JSON.
func FuzzForm(f *testing.F) {
	for _, schema := range []string{
		``, `true`, `[]`, `{"type":["string","null"]}`, `{"type":"string","enum":["a",1]}`, `{"enum":["a"]}`, `{"type":"array","items":{"anyOf":[{"const":"a","title":"A"}]}}`,
		`{"type":"object","properties":{"a":{"type":"boolean","default":{}}},"required":["b"]}`, `{"type":"object","properties":{"a":{"type":"object","properties":{}}}}`,
	} {
		f.Add(schema, `{"action":"accept","content":{"answer":"1"}}`)
	}
	f.Add(`{"type":"string"}`, `{"action":"other","content":3}`)
	f.Fuzz(func(t *testing.T, schema, answer string) {
		q := &tooldv1.Suspension{SuspensionId: "s", Action: "input", Origin: "tool", ResponseSchema: schema}
		answers := map[string]json.RawMessage{}
		for key, form := range ticketOf(q).forms {
			answers[key] = json.RawMessage(answer)
			properties, _ := form.schema["properties"].(map[string]any)
			for name, p := range properties {
				if is, _ := p.(map[string]any); keywords[is["type"].(string)] == nil || is["properties"] != nil {
					t.Errorf("%s: the field %s is %v", schema, name, p)
				}
			}
			if _, err := json.Marshal(&mcp.ElicitParams{RequestedSchema: form.schema}); err != nil {
				t.Error(err)
			}
		}
		if d, err := decisionOf(q, answers); err == nil && d.GetResult() != "" && !json.Valid([]byte(d.GetResult())) {
			t.Errorf("%s: %s gives the result %s", schema, answer, d.GetResult())
		}
	})
}
