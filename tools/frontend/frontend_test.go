package frontend_test

import (
	"encoding/json"
	"testing"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/frontend"
)

// TestAsks checks that the ticket of the tool describes the expected answer, and that the tier is always CONFIRM.
func TestAsks(t *testing.T) {
	schema := json.RawMessage(`{"type":"string"}`)
	made := frontend.New(&tool.FrontendTool{Name: "fe_pick", Description: "Picks.", ResponseSchema: schema})
	d := made.Descriptor()
	if d.ID != "fe_pick" || d.Effects.Tier != tool.Confirm || d.Effects.Mutability != tool.Mutating || d.Mildest != nil || string(d.ResultSchema) != string(schema) {
		t.Errorf("the descriptor is %+v", d)
	}
	r, err := made.Execute(t.Context(), &tool.Call{})
	if err != nil || r.Status != tool.StatusPending || r.Suspension == nil {
		t.Fatalf("the result is %+v, %v", r, err)
	}
	if s := r.Suspension; s.Action != "frontend" || s.ResumeMode != tool.UseDecisionAsToolResult || string(s.ResponseSchema) != string(schema) || s.DefaultResult != "" {
		t.Errorf("the question is %+v", s)
	}
}
