package mcp_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toold-dev/toold/tools/mcp"
)

func vars() mcp.Variables {
	known := map[string]string{"TOKEN": "t0ken", "MCP_INPUT_API_KEY": "k3y", "EMPTY": ""}
	return mcp.Variables{
		Environment: func(name string) (string, bool) { v, ok := known[name]; return v, ok },
		Home:        "/home/user", Workspace: "/srv/workspace",
	}
}

func TestParse(t *testing.T) {
	tests := []struct {
		name, text string
		want       []mcp.Entry
	}{
		{"Claude Desktop", `{"mcpServers":{"files":{"command":"npx","args":["-y","server","/data"],"env":{"A":"1"}}},"globalShortcut":"x"}`,
			[]mcp.Entry{{Key: "files", Command: "npx", Args: []string{"-y", "server", "/data"}, Env: []string{"A=1"}}}},
		{"Cursor", `{"mcpServers":{"b":{"url":"https://b.example/mcp","headers":{"Authorization":"Bearer ${env:TOKEN}"}},"a":{"command":"${userHome}/bin/a","cwd":"${workspaceFolder}${/}x"},"off":{"command":"x","disabled":true}}}`,
			[]mcp.Entry{{Key: "a", Command: "/home/user/bin/a", Dir: "/srv/workspace/x"}, {Key: "b", URL: "https://b.example/mcp", Headers: map[string]string{"Authorization": "Bearer t0ken"}}}},
		{"VS Code", `{
			// what the team uses
			"inputs": [{"type": "promptString", "id": "api-key", "password": true},],
			"servers": {
				"s": {"type": "sse", "url": "http://localhost:1/sse" /* old */},
				"k": {"type": "stdio", "command": "k", "env": {"KEY": "${input:api-key}", "N": 5, "NONE": null, "S": "a//b,}"}, "args": ["${x} ${", "\"//"],},
			},
		}`, []mcp.Entry{
			{Key: "k", Command: "k", Args: []string{"${x} ${", `"//`}, Env: []string{"KEY=k3y", "N=5", "S=a//b,}"}},
			{Key: "s", URL: "http://localhost:1/sse", Events: true},
		}},
		{"an empty variable is one", `{"mcpServers":{"a":{"command":"a","args":["${env:EMPTY}"]}}}`, []mcp.Entry{{Key: "a", Command: "a", Args: []string{""}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := mcp.Parse([]byte(tt.text), vars())
			must(t, err)
			for i := range got {
				if len(got[i].Args) == 0 {
					got[i].Args = nil
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	tests := []struct{ text, want string }{
		{`{"mcpServers":[]}`, "not the JSON"},
		{`{}`, "neither"},
		{`{"mcpServers":{"a":{}}}`, "either a command or a url"},
		{`{"mcpServers":{"a":{"command":"x","url":"https://x"}}}`, "either a command or a url"},
		{`{"mcpServers":{"\u0435":{"command":"x"}}}`, "must contain letters"},
		{`{"mcpServers":{"a":{"command":"x","args":["${env:NOT_THERE}"]}}}`, "${env:NOT_THERE}"},
		{`{"mcpServers":{"a":{"command":"x","args":["${input:nope}"]}}}`, "${input:nope}"},
		{`{"mcpServers":{"a":{"url":"file:///etc/passwd"}}}`, "http or https"},
		{`{"mcpServers":{"a":{"url":"https://u:p@h/"}}}`, "use headers"},
		{`{"mcpServers":{"a":{"url":"https://h/","headers":{"A":"b\r\nC: d"}}}}`, "header"},
		{`{"mcpServers":{"a":{"command":"x","env":{"A=B":"c"}}}}`, "env has the invalid name"},
		{`{"mcpServers":{"a":{"command":"x\u0000"}}}`, "NUL"},
		{`{"mcpServers":{"a":{"command":"x","type":"websocket"}}}`, "not stdio, http or sse"},
		{`{"mcpServers":{"a":{"command":"x","envFile":".env"}}}`, "envFile"},
	}
	for _, tt := range tests {
		if got, err := mcp.Parse([]byte(tt.text), vars()); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %+v, %v; want %q", tt.text, got, err, tt.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"mcpServers":{"a":{"command":"${env:TOKEN}"}}}`)
	f.Add("{\"servers\":{/* c */\"a\":{\"url\":\"https://x\",},// \n},}")
	f.Fuzz(func(t *testing.T, text string) {
		entries, err := mcp.Parse([]byte(text), vars())
		if err != nil {
			return
		}
		for _, e := range entries {
			if e.Key == "" || (e.Command == "") == (e.URL == "") || strings.ContainsRune(e.Command, 0) {
				t.Errorf("%q gives %+v", text, e)
			}
		}
	})
}
