package grpcserver_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toold-dev/toold/daemon/wire"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/search"
	"github.com/toold-dev/toold/tools/worker"
)

// newSearchWorld returns a world with tool_search and the tools of two more sources.
func newSearchWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, options{})
	must(t, w.tools.Register("builtin", search.New(wire.Finder(w.tools, w.gate.Hidden))))
	must(t, w.tools.Register("mcp:mail",
		tool.Func(tool.Descriptor{ID: "mail__send", Description: "Sends an email to a person."}, nil),
		tool.Func(tool.Descriptor{ID: "mail__search", Description: "Searches the emails of the inbox.", Effects: tool.Effects{Mutability: tool.ReadOnly}}, nil)))
	must(t, w.tools.Register("mcp:maps", tool.Func(tool.Descriptor{ID: "maps__route", Description: "Finds the way between two towns."}, nil)))
	return w
}

// searchTools returns the ids that a call of tool_search finds, and the whole result as text.
func (w *world) searchTools(user, arguments string, offered *tooldv1.OfferedTools) (ids []string, result string) {
	w.t.Helper()
	got, err := w.calls(user).CallTool(within(w.t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{
		Tool: tool.SearchID, Arguments: arguments, Run: &tooldv1.Run{RunId: "run-" + user, Agent: &tooldv1.Agent{Tools: offered}},
	}})
	must(w.t, err)
	r := got.GetCall().GetResult()
	if r.GetStatus() != tooldv1.ResultStatus_RESULT_STATUS_SUCCESS {
		return nil, r.GetError().String()
	}
	var data struct {
		Tools []struct{ ID, Description string }
	}
	must(w.t, json.Unmarshal([]byte(r.GetData()), &data))
	for _, found := range data.Tools {
		ids = append(ids, found.ID)
	}
	return ids, r.GetData() + r.GetMessage()
}

// exportIDs returns the ids of an export, and the whole response as text.
func (w *world) exportIDs(user string, req *tooldv1.ExportToolsRequest) (ids []string, response string) {
	w.t.Helper()
	req.Format = tooldv1.ExportFormat_EXPORT_FORMAT_OPENAI_RESPONSES
	got, err := tooldv1.NewToolServiceClient(w.as(user)).ExportTools(within(w.t), req)
	must(w.t, err)
	for _, e := range got.GetExported() {
		ids = append(ids, e.GetTool())
	}
	return ids, fmt.Sprint(got.GetTools(), got.GetExported(), got.GetNotes(), got.GetRevision())
}

// TestT139SearchKeepsHiddenToolsHidden (T139) compares two worlds. Only one of them has hidden tools, and these match every search.
// Searches and exports must give the same bytes in both worlds: hidden tools must not even influence the order.
func TestT139SearchKeepsHiddenToolsHidden(t *testing.T) {
	t.Parallel()
	plain, stuffed := newSearchWorld(t), newSearchWorld(t)
	keywords := strings.Repeat("send an email to a person, search the inbox, find the way between two towns, echo secret ", 20)
	var denied, foreign []tool.Tool
	for i := range 20 {
		denied = append(denied, tool.Func(tool.Descriptor{ID: fmt.Sprintf("denied_email_%d", i), Description: keywords}, nil))
		foreign = append(foreign, tool.Func(tool.Descriptor{ID: fmt.Sprintf("foreign_email_%d", i), Description: keywords}, nil))
	}
	stuffed.swapRules(rules + "  - {name: denied, action: deny, tools: ['denied_*']}\n")
	must(t, stuffed.tools.Register("mcp:denied", denied...))
	must(t, stuffed.tools.Register(worker.SourceOf("other", "pool"), foreign...))
	for _, query := range []string{"send an email", "secret", "denied_email_1", "foreign email", "way between towns", "a"} {
		arguments := fmt.Sprintf(`{"query":%q,"limit":20}`, query)
		_, want := plain.searchTools("alice", arguments, nil)
		if ids, got := stuffed.searchTools("alice", arguments, nil); got != want || slices.Contains(ids, "secret") {
			t.Errorf("%q finds %q: %s, without hidden tools %s", query, ids, got, want)
		}
		for limit := range int32(16) {
			req := func() *tooldv1.ExportToolsRequest {
				return &tooldv1.ExportToolsRequest{MaxTools: limit + 1, Query: query, Include: []string{"denied_email_1", "foreign_email_2", "secret", "no_such_tool"}}
			}
			_, want := plain.exportIDs("alice", req())
			if _, got := stuffed.exportIDs("alice", req()); got != want {
				t.Errorf("%q, %d tools: exports %s, without hidden tools %s", query, limit+1, got, want)
			}
		}
	}
	if ids, _ := stuffed.searchTools("mallory", `{"query":"foreign email"}`, nil); !slices.Contains(ids, "foreign_email_1") {
		t.Errorf("a caller of the other namespace finds %q", ids)
	}
}

// TestSearchKeepsToTheOffer checks that tool_search finds only tools that the run offers. A run can call tool_search even if its allow list
// does not name this tool, unless its exclude list does.
func TestSearchKeepsToTheOffer(t *testing.T) {
	t.Parallel()
	w := newSearchWorld(t)
	query := `{"query":"send or search an email, find the way","limit":20}`
	for _, tt := range []struct {
		name    string
		offered *tooldv1.OfferedTools
		want    []string
	}{
		{"everything", nil, []string{"mail__search", "mail__send", "maps__route"}},
		{"allowed", &tooldv1.OfferedTools{Allow: []string{"mail__*"}}, []string{"mail__search", "mail__send"}},
		{"excluded", &tooldv1.OfferedTools{Exclude: []string{"mail__s[e]nd"}}, []string{"mail__search", "maps__route"}},
	} {
		got, _ := w.searchTools("alice", query, tt.offered)
		slices.Sort(got)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: finds %q, want %q", tt.name, got, tt.want)
		}
	}
	if _, refusal := w.searchTools("alice", query, &tooldv1.OfferedTools{Exclude: []string{"tool_*"}}); !strings.Contains(refusal, "NOT_FOUND") {
		t.Errorf("a run that excludes it: %s", refusal)
	}
	foreign := newWorld(t, options{})
	must(t, foreign.tools.Register("mcp:other", tool.Func(tool.Descriptor{ID: tool.SearchID, Effects: tool.Effects{Tier: tool.Observe}}, nil)))
	if _, refusal := foreign.searchTools("alice", "{}", &tooldv1.OfferedTools{Allow: []string{"echo"}}); !strings.Contains(refusal, "NOT_FOUND") {
		t.Errorf("a tool of another source with the same id: %s", refusal)
	}
	if ids, _ := w.searchTools("alice", `{"query":"email","limit":1}`, nil); len(ids) != 1 {
		t.Errorf("limit 1: %q", ids)
	}
	if _, text := w.searchTools("alice", `{"query":"xylophone"}`, nil); !strings.Contains(text, `{"tools":[]}No tool matches`) {
		t.Errorf("nothing found: %s", text)
	}
}

// TestExportMaxTools checks which tools an export with a limit has. tool_search is in such exports only, and in no other list.
func TestExportMaxTools(t *testing.T) {
	t.Parallel()
	w := newSearchWorld(t)
	foreign := &tooldv1.OfferedTools{Allow: []string{"mail__*", "maps__*", "echo"}}
	for _, tt := range []struct {
		name string
		req  *tooldv1.ExportToolsRequest
		want []string
	}{
		{"no limit", &tooldv1.ExportToolsRequest{Offered: foreign}, []string{"echo", "mail__search", "mail__send", "maps__route"}},
		{"all fit", &tooldv1.ExportToolsRequest{Offered: foreign, MaxTools: 4}, []string{"echo", "mail__search", "mail__send", "maps__route"}},
		{"one too many", &tooldv1.ExportToolsRequest{Offered: foreign, MaxTools: 3}, []string{"mail__search", "maps__route", tool.SearchID}},
		{"query", &tooldv1.ExportToolsRequest{Offered: foreign, MaxTools: 2, Query: "send a mail"}, []string{"mail__send", tool.SearchID}},
		{"include", &tooldv1.ExportToolsRequest{Offered: foreign, MaxTools: 2, Query: "send a mail", Include: []string{"maps__route"}}, []string{"maps__route", tool.SearchID}},
		{"include, not offered", &tooldv1.ExportToolsRequest{Offered: foreign, MaxTools: 2, Query: "send a mail", Include: []string{"write"}}, []string{"mail__send", tool.SearchID}},
		{"only the search", &tooldv1.ExportToolsRequest{Offered: foreign, MaxTools: 1, Include: []string{"echo"}}, []string{tool.SearchID}},
		{"filtered", &tooldv1.ExportToolsRequest{Source: "mcp:mail", MaxTools: 1}, []string{tool.SearchID}},
		{"search excluded", &tooldv1.ExportToolsRequest{Offered: &tooldv1.OfferedTools{Exclude: []string{"tool_*"}}, MaxTools: 2, Query: "email"}, []string{"mail__search", "mail__send"}},
	} {
		if got, _ := w.exportIDs("alice", tt.req); !slices.Equal(got, tt.want) {
			t.Errorf("%s: exports %q, want %q", tt.name, got, tt.want)
		}
	}
	c := tooldv1.NewToolServiceClient(w.as("alice"))
	list, err := c.ListTools(within(t), &tooldv1.ListToolsRequest{})
	must(t, err)
	if slices.ContainsFunc(list.GetTools(), func(d *tooldv1.Descriptor) bool { return d.GetId() == tool.SearchID }) {
		t.Error("ListTools has tool_search")
	}
	paged := &tooldv1.ExportToolsRequest{Format: tooldv1.ExportFormat_EXPORT_FORMAT_MCP, MaxTools: 7, PageSize: 3}
	if tools, _, pages := exportAll(t, c, paged); len(tools) != 7 || pages != 3 {
		t.Errorf("%d tools on %d pages, want 7 on 3", len(tools), pages)
	}
	few := &tooldv1.ExportToolsRequest{Format: tooldv1.ExportFormat_EXPORT_FORMAT_GEMINI, Offered: foreign, MaxTools: 2, Query: "send a mail"}
	first, err := c.ExportTools(within(t), few)
	must(t, err)
	few.IfRevision = first.GetRevision()
	for include, same := range map[string]bool{"": true, "mail__send": true, "no_such_tool": true, "maps__route": false} {
		few.Include = []string{include}
		if got, err := c.ExportTools(within(t), few); err != nil || got.GetNotModified() != same || (got.GetTools() == "") != same {
			t.Errorf("if_revision with the include %q: %v, %v", include, got, err)
		}
	}
	w.swapRules("rules:\n  - {name: none, action: deny, tools: [tool_search]}\n")
	if got, _ := w.exportIDs("alice", &tooldv1.ExportToolsRequest{Offered: foreign, MaxTools: 2, Query: "email"}); slices.Contains(got, tool.SearchID) || len(got) != 2 {
		t.Errorf("a denied tool_search: exports %q", got)
	}
}

// TestExportLimitsAreChecked checks the errors of max_tools, query and include.
func TestExportLimitsAreChecked(t *testing.T) {
	t.Parallel()
	w := newSearchWorld(t)
	c := tooldv1.NewToolServiceClient(w.as("alice"))
	for want, req := range map[string]*tooldv1.ExportToolsRequest{
		"max_tools: is -1; 0 means no limit":               {MaxTools: -1},
		"query: needs max_tools":                           {Query: "x"},
		"include: needs max_tools":                         {Include: []string{"x"}},
		"query: has 4097 bytes":                            {MaxTools: 1, Query: strings.Repeat("x", 4097)},
		"include: has 1001 ids; at most 1000 are accepted": {MaxTools: 1, Include: make([]string, 1001)},
		"include[1]: has 257 bytes":                        {MaxTools: 1, Include: []string{"x", strings.Repeat("x", 257)}},
		"page_token: is not of this filter":                {MaxTools: 2, PageToken: "x"},
	} {
		req.Format = tooldv1.ExportFormat_EXPORT_FORMAT_MCP
		if _, err := c.ExportTools(within(t), req); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	page, err := c.ExportTools(within(t), &tooldv1.ExportToolsRequest{Format: tooldv1.ExportFormat_EXPORT_FORMAT_MCP, MaxTools: 5, PageSize: 1})
	must(t, err)
	other := &tooldv1.ExportToolsRequest{Format: tooldv1.ExportFormat_EXPORT_FORMAT_MCP, MaxTools: 5, PageSize: 1, Query: "mail", PageToken: page.GetNextPageToken()}
	if _, err := c.ExportTools(within(t), other); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a page token of another query: %v", err)
	}
}
