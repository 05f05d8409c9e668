package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	return string(text)
}

// block returns the code block of a page that begins with a text.
func block(t *testing.T, page, first string) string {
	t.Helper()
	_, rest, found := strings.Cut(readText(t, "../docs/reference/tools/"+page), "```"+first)
	if !found {
		t.Fatalf("%s has no block that begins with %q", page, first)
	}
	code, _, _ := strings.Cut(rest, "```")
	return code
}

// TestPagesOfSources checks the configuration on the page of each tool source: a daemon with it starts and has the tools of that page.
// Other tests check the pages about commands, subagents and workers.
func TestPagesOfSources(t *testing.T) {
	servers, err := filepath.Abs("../tools/mcp/testdata/npm/node_modules")
	must(t, err)
	needNode(t, servers, "scripts/mcp-servers.sh")
	s := newSite(t, block(t, "frontend.md", "yaml\n# rules.yaml\n"))
	dir := filepath.Dir(s.rules)
	// In the page, npx fetches these packages from the network. Here they are installed already, with the versions of the page.
	file := block(t, "mcp.md", "json\n")
	for _, name := range []string{"memory", "filesystem"} {
		program := "@modelcontextprotocol/server-" + name
		if !strings.Contains(readText(t, "../tools/mcp/testdata/npm/package.json"), program+`": "2026.8.31"`) || !strings.Contains(file, program+"@2026.8.31") {
			t.Fatalf("the page and package.json differ about %s", program)
		}
		file = strings.Replace(file, `"npx", "args": ["-y", "`+program+`@2026.8.31"`, `"node", "args": ["`+servers+"/"+program+`/dist/index.js"`, 1)
	}
	must(t, os.WriteFile(filepath.Join(dir, "mcp.json"), []byte(file), 0o600))
	t.Setenv("SEARCH_TOKEN", "nobody-asks-for-it")
	config := strings.Join([]string{
		strings.ReplaceAll(strings.ReplaceAll(block(t, "mcp.md", "yaml\n# toold.yaml\n"), "/etc/toold", dir), "profile: network", "profile: servers"),
		"sandbox: {profiles: [{name: servers, read: [" + servers + "]}]}\n",
		block(t, "web.md", "yaml\n# toold.yaml\n"), block(t, "worker.md", "yaml\n"),
		strings.Replace(block(t, "builtin.md", "yaml\n# toold.yaml\n"), "workspace: workspace\n", "", 1),
	}, "\n")
	must(t, os.WriteFile(filepath.Join(dir, "toold.yaml"), []byte(config), 0o600))
	p := s.start("--config", filepath.Join(dir, "toold.yaml"))
	for _, tool := range []string{"memory__read_graph", "files__read_text_file", "fetch", "web_search", "bash", "todo_write"} {
		eventually(t, tool+" is there", func() bool { return p.hasTool(tool) })
	}
	got, err := p.calls.CallTool(within(t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: "memory__read_graph", CallId: "pages-call-memory-1"}})
	must(t, err)
	if c := got.GetCall(); c.GetStatus() != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED || !strings.Contains(c.GetResult().GetData(), `"entities"`) {
		t.Errorf("the server of the page answered %v", c)
	}
	for line := range strings.SplitSeq(readText(t, "../docs/reference/tools/builtin.md"), "\n") {
		names, _, isRow := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		if !isRow || !strings.HasPrefix(names, "`") {
			continue
		}
		for name := range strings.SplitSeq(names, ", ") {
			if !p.hasTool(strings.Trim(name, "`")) {
				t.Errorf("the page has %s, and the daemon does not", name)
			}
		}
	}
}
