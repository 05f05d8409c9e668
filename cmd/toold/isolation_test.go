package main

import (
	"testing"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// P12: the record of a call that starts processes says what held around them; that of another one has nothing to say.
func TestFactsAreOfCallsThatStartProcesses(t *testing.T) {
	s := newSite(t, bashAllowed)
	p := s.start()
	for _, one := range []struct {
		spec  *tooldv1.CallSpec
		facts bool
	}{
		{bash("facts", "true"), true},
		{&tooldv1.CallSpec{Tool: "glob", CallId: "serve-tests-call-glob", Arguments: `{"pattern":"*"}`}, false},
	} {
		resp, err := p.calls.CallTool(within(t), &tooldv1.CallToolRequest{Spec: one.spec})
		must(t, err)
		isolation := resp.GetCall().GetIsolation()
		if isolation.GetRequired() != tooldv1.IsolationLevel_ISOLATION_LEVEL_NONE || (len(isolation.GetFacts()) > 0) != one.facts {
			t.Errorf("%s: %v, %v", one.spec.GetTool(), resp.GetCall().GetStatus(), isolation)
		}
		preview, err := p.calls.DescribeCall(within(t), &tooldv1.DescribeCallRequest{Spec: one.spec})
		must(t, err)
		if got := preview.GetIsolation().GetFacts(); (len(got) > 0) != one.facts {
			t.Errorf("%s would have the facts %v", one.spec.GetTool(), got)
		}
	}
}
