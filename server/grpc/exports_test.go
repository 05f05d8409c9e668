package grpcserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
)

// exportAll reads an export page by page.
func exportAll(t *testing.T, c tooldv1.ToolServiceClient, req *tooldv1.ExportToolsRequest) (tools []json.RawMessage, revision string, pages int) {
	t.Helper()
	for {
		page, err := c.ExportTools(context.Background(), req)
		must(t, err)
		var list []json.RawMessage
		must(t, json.Unmarshal([]byte(page.GetTools()), &list))
		if len(list) != len(page.GetExported()) {
			t.Fatalf("%d tools with %d records", len(list), len(page.GetExported()))
		}
		tools, revision, pages = append(tools, list...), page.GetRevision(), pages+1
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return tools, revision, pages
		}
	}
}

// TestExportRevision checks that repeated exports of the same tools return the same bytes. A client that sends the current revision gets
// NotModified.
func TestExportRevision(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	c := tooldv1.NewToolServiceClient(w.as("alice"))
	ask := func(revision string) *tooldv1.ExportToolsResponse {
		t.Helper()
		got, err := c.ExportTools(context.Background(), &tooldv1.ExportToolsRequest{Format: tooldv1.ExportFormat_EXPORT_FORMAT_GEMINI, IfRevision: revision})
		must(t, err)
		return got
	}
	first := ask("")
	if again := ask(first.GetRevision()); !again.GetNotModified() || again.GetTools() != "" || again.GetRevision() != first.GetRevision() {
		t.Errorf("the same export again says %v", again)
	}
	if again := ask(""); again.GetTools() != first.GetTools() {
		t.Error("the same tools are other bytes")
	}
	must(t, w.tools.Register("more", tool.Func(tool.Descriptor{ID: "zz_new", Description: "something new"}, nil)))
	if after := ask(first.GetRevision()); after.GetNotModified() || after.GetRevision() == first.GetRevision() {
		t.Error("a new tool did not change the revision")
	}
}

// TestExportPages checks that a page ends at its limit in bytes, and that the pages together contain each tool once.
func TestExportPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	var many []tool.Tool
	for i := range 120 {
		d := tool.Descriptor{ID: fmt.Sprintf("big_%03d", i), Description: "Much. " + strings.Repeat("many words here, ", 960)}
		many = append(many, tool.Func(d, nil))
	}
	must(t, w.tools.Register("many", many...))
	c := tooldv1.NewToolServiceClient(w.as("alice"))
	for _, size := range []int32{0, 7} {
		tools, _, pages := exportAll(t, c, &tooldv1.ExportToolsRequest{Format: tooldv1.ExportFormat_EXPORT_FORMAT_MCP, Source: "many", PageSize: size})
		if len(tools) != 120 || pages < 2 {
			t.Errorf("page size %d: %d tools on %d pages", size, len(tools), pages)
		}
		seen := map[string]bool{}
		for _, raw := range tools {
			var one struct{ Name string }
			must(t, json.Unmarshal(raw, &one))
			if seen[one.Name] {
				t.Errorf("%s is there twice", one.Name)
			}
			seen[one.Name] = true
		}
	}
}
