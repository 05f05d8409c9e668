package show_test

import (
	"strings"
	"testing"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// TestSources checks that text that a server reports about itself cannot control the terminal.
func TestSources(t *testing.T) {
	text := show.View{}.Sources([]*tooldv1.Source{
		{Name: "builtin", State: tooldv1.SourceState_SOURCE_STATE_READY, Tools: 13},
		{Name: "mcp:w", State: tooldv1.SourceState_SOURCE_STATE_DOWN, Error: "gone \x1b[31m " + strings.Repeat("far ", 50) + "away", Refused: []*tooldv1.RefusedTool{{Name: "read\u202e", Reason: "no name"}}},
	})
	for _, want := range []string{"builtin", "ready", "13", "mcp:w", "down", "gone", "far away\n", "not taken:\n", "no name"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.ContainsAny(text, "\x1b\u202e") {
		t.Errorf("%q", text)
	}
}
