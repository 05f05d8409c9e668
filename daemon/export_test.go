package daemon

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/toold-dev/toold/cli"

	"google.golang.org/protobuf/encoding/protojson"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// TestExport checks that the command export prints a list that programs can read. On standard error it reports tools that the format cannot
// represent exactly.
func TestExport(t *testing.T) {
	s := newSite(t, bashAllowed)
	s.start()
	dir := s.data
	for _, format := range []string{"openai", "openai-strict", "openai-responses", "openai-responses-strict", "anthropic", "gemini", "mcp"} {
		r := new(run).do(t, dir, "tools", "export", "--for", format)
		var list []map[string]any
		if err := json.Unmarshal([]byte(r.out), &list); err != nil || r.code != 0 || len(list) == 0 {
			t.Errorf("%s: exit code %d, %v: %s%s", format, r.code, err, r.out, r.err)
		}
	}
	r := new(run).do(t, dir, "tools", "export", "--for", "openai-strict", "--allow", "read,bash", "--read-only")
	if !strings.Contains(r.err, "toold: read: null means omitted at /limit /offset") || strings.Contains(r.out, "bash") {
		t.Errorf("read alone: %s\n%s", r.out, r.err)
	}
	r = new(run).do(t, dir, "tools", "export", "--for", "mcp", "--allow", "grep", "-o", "json")
	var all tooldv1.ExportToolsResponse
	if err := protojson.Unmarshal([]byte(r.out), &all); err != nil || len(all.GetExported()) != 1 || all.GetRevision() == "" {
		t.Errorf("as JSON: %v: %s", err, r.out)
	}
	if r = new(run).do(t, dir, "tools", "export", "--for", "mcp", "--guidance"); !strings.Contains(r.out, "## bash\n\n") {
		t.Errorf("guidance: %s", r.out)
	}
	r = new(run).do(t, dir, "tools", "export", "--for", "mcp", "--max-tools", "3", "--query", "read a file", "--include", "grep")
	var few []struct{ Name string }
	if err := json.Unmarshal([]byte(r.out), &few); err != nil || len(few) != 3 || few[0].Name != "grep" || few[1].Name != "read" || few[2].Name != "tool_search" {
		t.Errorf("three tools: %v: %s%s", err, r.out, r.err)
	}
	r = new(run).do(t, dir, "call", "tool_search", "query=list files by pattern", "limit=2")
	if !strings.HasPrefix(r.out, "glob: ") || strings.Count(strings.TrimSpace(r.out), "\n") != 1 {
		t.Errorf("tool_search: exit code %d: %s%s", r.code, r.out, r.err)
	}
	new(run).do(t, dir, "tools", "export", "--for", "mcp", "--query", "x").expect(t, cli.ExitUsage, "", "needs max_tools")
	new(run).do(t, dir, "tools", "export").expect(t, cli.ExitUsage, "", "--for")
}
