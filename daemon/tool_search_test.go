package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/toold-dev/toold/daemon/config"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	toold "github.com/toold-dev/toold/sdk/go"
	"github.com/toold-dev/toold/tool"
)

// TestFoundToolsAreCalled checks the whole way to a tool that is not in the list of a model: the model calls tool_search, the refreshed list
// has the found tool, and a call of it runs.
func TestFoundToolsAreCalled(t *testing.T) {
	client := ofManyTools(t)
	for _, f := range []struct {
		provider toold.Provider
		strict   bool
		message  string // template for the name of a tool and its arguments
	}{
		{toold.OpenAI, true, `{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":%q,"arguments":%q}}]}`},
		{toold.OpenAIResponses, true, `[{"type":"function_call","call_id":"1","name":%q,"arguments":%q}]`},
		{toold.Anthropic, false, `{"role":"assistant","stop_reason":"tool_use","content":[{"type":"tool_use","id":"1","name":%q,"input":%s}]}`},
		{toold.Gemini, false, `{"role":"model","parts":[{"functionCall":{"name":%q,"args":%s}}]}`},
		{toold.AISDK, false, `{"role":"assistant","content":[{"type":"tool-call","toolCallId":"1","toolName":%q,"input":%s}]}`},
	} {
		t.Run(string(f.provider), func(t *testing.T) {
			for _, tt := range []struct {
				name           string
				allow, exclude []string
				found, runs    bool
			}{
				{"everything", nil, nil, true, true},
				{"allowed", []string{"t_*"}, nil, true, true},
				{"not allowed", []string{"t_?"}, nil, false, false},
				{"excluded", nil, []string{"t_k*"}, false, false},
			} {
				cfg := toold.ToolsetConfig{Strict: f.strict, MaxTools: 10, Allow: tt.allow, Exclude: tt.exclude}
				if tt.name == "not allowed" {
					cfg.MaxTools = 5 // fewer tools than match
				}
				set, err := client.Toolset(within(t), f.provider, cfg)
				must(t, err)
				run := func(name, arguments string) (answer string) {
					r, err := set.Turn(&tooldv1.TurnSpec{TurnId: toold.NewTurnID(), Message: fmt.Sprintf(f.message, name, arguments)}).Run(within(t), toold.RunOptions{})
					must(t, err)
					if len(r.Messages) != 1 {
						t.Fatalf("%s: %s has the answers %s, open %q", tt.name, name, r.Messages, r.Open)
					}
					return string(r.Messages[0])
				}
				if names := namesIn(set.Tools()); !slices.Contains(names, tool.SearchID) || slices.Contains(names, "t_kite") || len(names) != cfg.MaxTools {
					t.Errorf("%s: the first list has %q", tt.name, names)
				}
				search := `{"query":"fly a kite"}`
				if f.strict {
					search = `{"query":"fly a kite","limit":null}`
				}
				answer := run(tool.SearchID, search)
				changed, err := set.Refresh(within(t))
				must(t, err)
				names := namesIn(set.Tools())
				if strings.Contains(answer, "t_kite") != tt.found || changed != tt.found || slices.Contains(names, "t_kite") != tt.found || len(names) != cfg.MaxTools {
					t.Errorf("%s: tool_search answers %s, and the refreshed list (changed: %t) has %q", tt.name, answer, changed, names)
				}
				if answer := run("t_kite", `{}`); strings.Contains(answer, "the kite flies") != tt.runs {
					t.Errorf("%s: the call of t_kite has the answer %s", tt.name, answer)
				}
			}
		})
	}
}

// TestCalledToolsStay checks that found tools do not displace a called tool.
func TestCalledToolsStay(t *testing.T) {
	set, err := ofManyTools(t).Toolset(within(t), toold.Gemini, toold.ToolsetConfig{MaxTools: 10})
	must(t, err)
	for _, call := range []string{`{"name":"t_kite"}`, `{"name":"tool_search","args":{"query":"fold paper"}}`} {
		message := fmt.Sprintf(`{"role":"model","parts":[{"functionCall":%s}]}`, call)
		_, err := set.Turn(&tooldv1.TurnSpec{TurnId: toold.NewTurnID(), Message: message}).Run(within(t), toold.RunOptions{})
		must(t, err)
	}
	_, err = set.Refresh(within(t))
	must(t, err)
	if names := namesIn(set.Tools()); !slices.Contains(names, "t_kite") || len(names) != 10 {
		t.Errorf("after a search, the list has %q", names)
	}
}

// ofManyTools returns a client of a daemon with 200 tools.
func ofManyTools(t *testing.T) *toold.Client {
	t.Helper()
	s := newSite(t, "")
	cfg, err := config.Parse([]string{"--data", s.data, "--workspace", s.workspace, "--listen-tcp", "127.0.0.1:0", "--log-level", "error"}, nil)
	must(t, err)
	reading := tool.Effects{Mutability: tool.ReadOnly, Tier: tool.Observe}
	kite := func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text("the kite flies"), nil }
	tools := []tool.Tool{tool.Func(tool.Descriptor{ID: "t_kite", Description: "Flies a kite.", Effects: reading}, kite)}
	for i := range 199 {
		tools = append(tools, tool.Func(tool.Descriptor{ID: fmt.Sprintf("t_%x", i), Description: "Folds paper.", Effects: reading}, kite))
	}
	ready, ended := make(chan Ready, 1), make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	go func() { ended <- New(cfg, WithTools(tools...), WithReady(func(r Ready) { ready <- r })).Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the daemon ended with %v", err)
		}
	})
	var at Ready
	select {
	case at = <-ready:
	case err := <-ended:
		ended <- nil
		t.Fatalf("the daemon ended: %v", err)
	}
	token, err := os.ReadFile(at.TokenFile)
	must(t, err)
	client, err := toold.Dial(at.TCP, toold.WithToken(strings.TrimSpace(string(token))))
	must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

var toolName = regexp.MustCompile(`"name":"(\w+)"`)

// namesIn returns the names of the tools of a list.
func namesIn(list json.RawMessage) (names []string) {
	for _, m := range toolName.FindAllSubmatch(list, -1) {
		names = append(names, string(m[1]))
	}
	return names
}
