package requests_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/requests"
	"github.com/toold-dev/toold/tool"
)

func TestCheckBatch(t *testing.T) {
	frontend := func(f *tool.FrontendTool) error {
		if f.Parameters == nil {
			return errors.New("no schema")
		}
		return nil
	}
	valid := func() call.BatchSpec {
		return call.BatchSpec{Calls: []call.Spec{{Tool: "a", Arguments: "{}"}, {Tool: "b"}}}
	}
	tests := []struct {
		name, field string // field is the field that the error names; "" means that the request is accepted
		change      func(*call.BatchSpec)
	}{
		{"defaults", "", func(*call.BatchSpec) {}},
		{"no calls", "calls", func(s *call.BatchSpec) { s.Calls = nil }},
		{"many calls", "calls", func(s *call.BatchSpec) { s.Calls = make([]call.Spec, 257) }},
		{"parallel", "max_parallel", func(s *call.BatchSpec) { s.MaxParallel = -1 }},
		{"strategy", "strategy", func(s *call.BatchSpec) { s.Strategy = "NONE" }},
		{"replay", "replay", func(s *call.BatchSpec) { s.Replay = "NONE" }},
		{"batch id", "batch_id", func(s *call.BatchSpec) { s.ID = "short" }},
		{"arguments", "calls[0].arguments", func(s *call.BatchSpec) { s.Calls[0].Arguments = strings.Repeat(" ", 11) }},
		{"tool", "calls[1].tool", func(s *call.BatchSpec) { s.Calls[1].Tool = "" }},
		{"glob", "calls[1].run.agent.tools", func(s *call.BatchSpec) { s.Calls[1].Run.Agent.Allow = []string{"["} }},
		{"characters", "calls[0].run.run_id", func(s *call.BatchSpec) { s.Calls[0].Run.ID = "a\x00" }},
		{"runs", "calls[1].run", func(s *call.BatchSpec) { s.Calls[1].Run.ID = "other" }},
		{"same id", "calls[1].call_id", func(s *call.BatchSpec) {
			s.Calls[0].ID = strings.Repeat("a", 16)
			s.Calls[1].ID = s.Calls[0].ID
		}},
		{"ids of the model", "", func(s *call.BatchSpec) { s.Calls[0].ModelCallID = strings.Repeat("m", call.MaxModelIDs) }},
		{"ids of the model together", "calls[1].model_call_id", func(s *call.BatchSpec) {
			s.Calls[0].ModelCallID, s.Calls[1].ModelCallID = strings.Repeat("m", call.MaxModelIDs), "m"
		}},
		{"declared", "", func(s *call.BatchSpec) { declare(&s.Calls[0], tool.FrontendPrefix+"x", "{}") }},
		{"declared without a prefix", "calls[0].run.frontend_tools", func(s *call.BatchSpec) { declare(&s.Calls[0], "x", "{}") }},
		{"declared without a schema", "calls[0].run.frontend_tools", func(s *call.BatchSpec) { declare(&s.Calls[0], tool.FrontendPrefix+"x", "") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			limits, spec := requests.Limits{MaxArguments: 10, Frontend: frontend}, valid()
			tt.change(&spec)
			parsed, err := limits.CheckBatch(&spec)
			if tt.field == "" {
				if err != nil || len(parsed) != len(spec.Calls) || spec.Strategy != call.Sequential || spec.Replay != call.Immediate {
					t.Fatalf("%+v, %d calls, %v", spec.BatchOptions, len(parsed), err)
				}
				return
			}
			var refusal *call.Refusal
			if !errors.As(err, &refusal) || len(refusal.Violations) != 1 || refusal.Violations[0].Field != tt.field {
				t.Errorf("%v, want a violation of %q", err, tt.field)
			}
		})
	}
}

// declare turns s into a call of a frontend tool that its caller declares.
func declare(s *call.Spec, name, parameters string) {
	f := tool.FrontendTool{Name: name}
	if parameters != "" {
		f.Parameters = []byte(parameters)
	}
	s.Tool, s.Frontend = name, []tool.FrontendTool{f}
}
