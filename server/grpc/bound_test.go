package grpcserver_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
)

// TestLargeRecordsCanBeFetched checks that a client can fetch every stored call, however large its arguments and answers are. The response
// names the fields that do not fit into it. The client can then request each of these fields alone.
func TestLargeRecordsCanBeFetched(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	must(t, w.tools.Register("more", tool.Func(tool.Descriptor{ID: "asks", MaxArguments: 1 << 20, Parameters: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, c *tool.Call) (*tool.Result, error) { return tool.Suspended("and now?"), nil })))
	ctx := within(t)
	arguments := `{"text":"` + strings.Repeat("x", 1<<20-100) + `"}`
	_, err := w.calls("alice").CallTool(ctx, &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: "asks", CallId: longID("large"), Arguments: arguments}})
	must(t, err)
	get := func(paths ...string) *tooldv1.Call {
		t.Helper()
		req := &tooldv1.GetCallRequest{CallId: longID("large")}
		if len(paths) > 0 {
			req.ReadMask = &fieldmaskpb.FieldMask{Paths: paths}
		}
		resp, err := w.calls("alice").GetCall(ctx, req)
		must(t, err)
		if n := proto.Size(resp); n > 3<<20+1<<10 {
			t.Errorf("a message of %d bytes", n)
		}
		return resp.GetCall()
	}
	for round := range 4 {
		c := get()
		user, decision := "alice", &tooldv1.Decision{DecisionId: longID("decision-" + string(rune('0'+round))), Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME}
		if c.GetSuspension().GetOrigin() == "permission" {
			user, decision.ExpectedDigest = "ann", c.GetSuspension().GetDigest()
		} else {
			decision.Result = `"` + strings.Repeat("y", 1<<20-100) + `"`
		}
		stream, err := w.calls(user).ResumeTool(ctx, &tooldv1.ResumeToolRequest{SuspensionId: c.GetSuspension().GetSuspensionId(), Decision: decision})
		must(t, err)
		_, err = readAll(stream.Recv)
		must(t, err)
	}
	c := get()
	if c.GetEffectiveArguments() != arguments {
		t.Error("the effective arguments are left out")
	}
	for _, path := range []string{"decisions", "suspension.pending.arguments"} {
		if !slices.Contains(c.GetLeftOut(), path) {
			t.Errorf("left out: %v, want %s", c.GetLeftOut(), path)
		}
	}
	if got := get("suspension.pending.arguments"); got.GetSuspension().GetPending().GetArguments() != arguments || len(got.GetLeftOut()) > 0 {
		t.Errorf("what was left out does not come when it is asked for: %v", got.GetLeftOut())
	}
	list, err := w.calls("alice").ListCalls(ctx, &tooldv1.ListCallsRequest{})
	must(t, err)
	if len(list.GetCalls()) != 1 {
		t.Errorf("%d calls are listed", len(list.GetCalls()))
	}
}
