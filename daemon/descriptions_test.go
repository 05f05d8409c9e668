package daemon

import (
	"os"
	"path/filepath"
	"testing"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// TestDescriptions checks that models get the tool descriptions of the configuration. When a reload removes such a description, models get
// the tool's own description again.
func TestDescriptions(t *testing.T) {
	s := newSite(t, bashAllowed)
	config := filepath.Join(filepath.Dir(s.rules), "toold.yaml")
	write := func(text string) { must(t, os.WriteFile(config, []byte(text), 0o600)) }
	write("tools:\n  descriptions:\n    - {tool: read, text: Reads what was agreed on.}\n")
	p := s.start("--config", config)
	tools := tooldv1.NewToolServiceClient(p.conn)
	read := func() *tooldv1.Descriptor {
		t.Helper()
		got, err := tools.GetTool(within(t), &tooldv1.GetToolRequest{Tool: "read"})
		must(t, err)
		return got.GetTool()
	}
	described := read()
	if described.GetDescription() != "Reads what was agreed on." {
		t.Errorf("the description is %q", described.GetDescription())
	}
	write("{}\n")
	got, err := p.admin.Reload(within(t), &tooldv1.ReloadRequest{})
	must(t, err)
	if len(got.GetChanged()) != 1 || len(got.GetNeedsRestart()) != 0 {
		t.Errorf("reloaded %v", got)
	}
	if own := read(); own.GetDescription() == described.GetDescription() || own.GetDigest() == described.GetDigest() {
		t.Error("the description stays")
	}
	write("tools:\n  descriptions:\n    - {tool: read, text: x}\n    - {tool: read, text: y}\n")
	if _, err := p.admin.Reload(within(t), &tooldv1.ReloadRequest{}); reasonOf(err) != "CONFIG_INVALID" {
		t.Errorf("one tool twice: %v", err)
	}
}
