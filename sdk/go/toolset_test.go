package toold_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	toold "github.com/toold-dev/toold/sdk/go"
)

// changing is a daemon whose tools change after the first page of an export.
type changing struct {
	tooldv1.UnimplementedToolServiceServer
	tooldv1.UnimplementedCallServiceServer
	requests []*tooldv1.ExportToolsRequest
	turn     *tooldv1.TurnSpec
}

func (s *changing) ExportTools(_ context.Context, r *tooldv1.ExportToolsRequest) (*tooldv1.ExportToolsResponse, error) {
	s.requests = append(s.requests, proto.CloneOf(r))
	switch {
	case len(s.requests) == 1:
		return &tooldv1.ExportToolsResponse{Revision: "old", Tools: `[{"name":"gone"}]`, NextPageToken: "p"}, nil
	case r.GetPageToken() == "p":
		return &tooldv1.ExportToolsResponse{Revision: "new", Tools: `[{"name":"b"}]`, Guidance: "About b."}, nil
	case r.GetIfRevision() == "new" && len(r.GetInclude()) == 0:
		return &tooldv1.ExportToolsResponse{NotModified: true}, nil
	}
	return &tooldv1.ExportToolsResponse{Revision: "new", Tools: `[{"name":"a"}]`, NextPageToken: "p", Guidance: "About a."}, nil
}

func (s *changing) ExecuteTurn(r *tooldv1.ExecuteTurnRequest, out grpc.ServerStreamingServer[tooldv1.ExecuteTurnResponse]) error {
	s.turn = r.GetSpec()
	found := func(call, data string) *tooldv1.CallEvent {
		return &tooldv1.CallEvent{CallId: call, Event: &tooldv1.CallEvent_Finished{Finished: &tooldv1.CallFinished{Result: &tooldv1.ToolResult{Data: data}}}}
	}
	for _, f := range []*tooldv1.Frame{
		{Control: &tooldv1.Frame_TurnStarted{TurnStarted: &tooldv1.TurnStarted{Calls: []*tooldv1.TurnCall{{CallId: "s", Tool: "tool_search"}, {CallId: "o", Tool: "other"}, {Tool: strings.Repeat("x", 257)}}}}},
		{Events: []*tooldv1.CallEvent{found("s", `{"tools":[{"id":"x"},{"id":"y"}]}`), found("o", `{"tools":[{"id":"z"}]}`), found("s", `{"tools":[{"id":"y"},{"id":"w"}]}`), found("s", `no`)}},
		{Control: &tooldv1.Frame_TurnFinished{TurnFinished: &tooldv1.TurnFinished{}}},
	} {
		if err := out.Send(&tooldv1.ExecuteTurnResponse{Frame: f}); err != nil {
			return err
		}
	}
	return nil
}

func TestToolset(t *testing.T) {
	s := &changing{}
	c := serve(t, admin(&versioned{}), tools(s), calls(s))
	set, err := c.Toolset(t.Context(), toold.OpenAI, toold.ToolsetConfig{Allow: []string{"a*", "b"}, Exclude: []string{"ab"}, Strict: true, OwnTools: []string{"mine"}, MaxTools: 9, Query: "q"})
	if err != nil {
		t.Fatal(err)
	}
	if string(set.Tools()) != `[{"name":"a"},{"name":"b"}]` || set.Guidance() != "About a.\n\nAbout b." || set.Revision() != "new" {
		t.Errorf("got %s, %q, %q", set.Tools(), set.Guidance(), set.Revision())
	}
	if r := s.requests[0]; r.GetFormat() != tooldv1.ExportFormat_EXPORT_FORMAT_OPENAI_STRICT || !slices.Equal(r.GetOffered().GetAllow(), []string{"a*", "b"}) || r.GetMaxTools() != 9 || r.GetQuery() != "q" || len(r.GetInclude()) > 0 {
		t.Errorf("the first request is %v", r)
	}
	if changed, err := set.Refresh(t.Context()); changed || err != nil {
		t.Errorf("nothing has changed, but Refresh = %t, %v", changed, err)
	}
	spec := &tooldv1.TurnSpec{TurnId: toold.NewTurnID(), Run: &tooldv1.Run{RunId: "r"}}
	if _, err := set.Turn(spec).Run(t.Context(), toold.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := s.turn; got.GetRun().GetRunId() != "r" || !slices.Equal(got.GetRun().GetAgent().GetTools().GetExclude(), []string{"ab"}) || !got.GetStrict() || !slices.Equal(got.GetOwnTools(), []string{"mine"}) || spec.GetStrict() {
		t.Errorf("the turn is %v; the caller's spec %v", got, spec)
	}
	if changed, err := set.Refresh(t.Context()); !changed || err != nil {
		t.Errorf("the model has found tools, but Refresh = %t, %v", changed, err)
	}
	if last := s.requests[len(s.requests)-1]; !slices.Equal(last.GetInclude(), []string{"y", "w", "x", "other"}) {
		t.Errorf("the export includes %q, want the found tools and the called one, the newest first", last.GetInclude())
	}
}

// busy is a daemon that runs a turn while a client reads the pages of an export. Like toold, it refuses a page token when include has
// changed.
type busy struct {
	changing
	set    *toold.Toolset
	failed error
}

func (s *busy) ExportTools(ctx context.Context, r *tooldv1.ExportToolsRequest) (*tooldv1.ExportToolsResponse, error) {
	token := strings.Join(r.GetInclude(), ",") + "."
	switch r.GetPageToken() {
	case token:
		return &tooldv1.ExportToolsResponse{Revision: token, Tools: "[]"}, nil
	case "":
		if s.set != nil && len(r.GetInclude()) == 0 {
			_, s.failed = s.set.Turn(&tooldv1.TurnSpec{TurnId: toold.NewTurnID()}).Run(ctx, toold.RunOptions{})
		}
		return &tooldv1.ExportToolsResponse{Revision: token, Tools: "[]", NextPageToken: token}, nil
	}
	return nil, status.Error(codes.InvalidArgument, "page_token: is not of this filter")
}

// TestSearchDuringRefresh checks that a search does not disturb a Refresh that runs at the same time. The next Refresh must include the
// tools that the search found.
func TestSearchDuringRefresh(t *testing.T) {
	s := &busy{}
	c := serve(t, admin(&versioned{}), tools(s), calls(s))
	set, err := c.Toolset(t.Context(), toold.OpenAI, toold.ToolsetConfig{MaxTools: 9})
	if err != nil {
		t.Fatal(err)
	}
	s.set = set
	for _, want := range []string{".", "y,w,x,other."} {
		if _, err := set.Refresh(t.Context()); err != nil || s.failed != nil || set.Revision() != want {
			t.Errorf("Refresh: %v; the turn: %v; the revision is %q, want %q", err, s.failed, set.Revision(), want)
		}
	}
}

func TestToolsetsAreChecked(t *testing.T) {
	c := serve(t)
	for want, f := range map[string]func() error{
		`provider "claude": want "openai"`: func() error { _, err := c.Toolset(t.Context(), "claude", toold.ToolsetConfig{}); return err },
		"no strict mode": func() error {
			_, err := c.Toolset(t.Context(), toold.Gemini, toold.ToolsetConfig{Strict: true})
			return err
		},
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// results is a daemon with one turn: messages, the calls of toold and of the client by index, and the ids of the open calls.
type results struct {
	tooldv1.UnimplementedCallServiceServer
	tooldv1.UnimplementedToolServiceServer
	messages  []string
	ours, own []int32
	open      []string
}

func (*results) ExportTools(context.Context, *tooldv1.ExportToolsRequest) (*tooldv1.ExportToolsResponse, error) {
	return &tooldv1.ExportToolsResponse{Tools: "[]"}, nil
}

func (s *results) GetTurn(_ *tooldv1.GetTurnRequest, out grpc.ServerStreamingServer[tooldv1.GetTurnResponse]) error {
	started, finished := &tooldv1.TurnStarted{}, &tooldv1.TurnFinished{Open: s.open}
	for _, i := range s.ours {
		started.Calls = append(started.Calls, &tooldv1.TurnCall{Index: i})
	}
	for _, i := range s.own {
		finished.NotHandled = append(finished.NotHandled, &tooldv1.NotHandled{Index: i})
	}
	frames := []*tooldv1.Frame{{Control: &tooldv1.Frame_TurnStarted{TurnStarted: started}}}
	for i, m := range s.messages {
		frames = append(frames, part(int32(i), m, true))
	}
	for _, f := range append(frames, &tooldv1.Frame{Control: &tooldv1.Frame_TurnFinished{TurnFinished: finished}}) {
		if err := out.Send(&tooldv1.GetTurnResponse{Frame: f}); err != nil {
			return err
		}
	}
	return nil
}

func TestMerge(t *testing.T) {
	tests := []struct {
		provider toold.Provider
		results  results
		answers  []string
		want     string // the merged messages, or the error
	}{
		{toold.OpenAI, results{messages: []string{`"1"`, `"3"`}, ours: []int32{1, 3}, own: []int32{0, 2}}, []string{`"0"`, `"2"`}, `["0","1","2","3"]`},
		{toold.OpenAIResponses, results{messages: []string{`"0"`, `"late"`}, ours: []int32{0}, own: []int32{1}}, []string{`"1"`}, `["0","1","late"]`},
		{toold.Anthropic, results{messages: []string{`{"role":"user","content":["0","2"]}`}, ours: []int32{0, 2}, own: []int32{1}}, []string{`"1"`}, `[{"content":["0","1","2"],"role":"user"}]`},
		{toold.Anthropic, results{own: []int32{0}}, []string{`"0"`}, `[{"content":["0"],"role":"user"}]`},
		{toold.Gemini, results{messages: []string{`{"role":"user","parts":["1"]}`}, ours: []int32{1}, own: []int32{0}}, []string{`"0"`}, `[{"parts":["0","1"],"role":"user"}]`},
		{toold.Anthropic, results{}, nil, `null`},
		{toold.OpenAI, results{ours: []int32{0}, own: []int32{1}, open: []string{"c1"}}, []string{`"1"`}, "calls are open: [c1]"},
		{toold.OpenAI, results{own: []int32{1}}, nil, "1 calls need an answer of the client, and 0 answers are given"},
	}
	for _, tt := range tests {
		c := serve(t, admin(&versioned{}), tools(&tt.results), calls(&tt.results))
		set, err := c.Toolset(t.Context(), tt.provider, toold.ToolsetConfig{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := set.Turn(&tooldv1.TurnSpec{TurnId: "t"}).Get(t.Context(), toold.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var answers []json.RawMessage
		for _, a := range tt.answers {
			answers = append(answers, json.RawMessage(a))
		}
		before := fmt.Sprintf("%s", r.Messages)
		merged, err := r.Merge(answers)
		if after := fmt.Sprintf("%s", r.Messages); after != before {
			t.Errorf("%s: Merge changed the messages of the result from %s to %s", tt.provider, before, after)
		}
		text, encoded := json.Marshal(merged)
		if encoded != nil {
			t.Fatal(encoded)
		}
		if err != nil && !strings.Contains(err.Error(), tt.want) || err == nil && string(text) != tt.want {
			t.Errorf("%s: merged %s, %v, want %s", tt.provider, text, err, tt.want)
		}
	}
}
