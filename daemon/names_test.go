package daemon

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

const renaming = `tools:
  names:
    - {source: builtin, tool: bash, id: shell}
    - {source: builtin, tool: write, id: put, alias: true}
    - {source: command, tool: who, id: whoami}
    - {source: "worker:default/tests", tool: fails, id: breaks}
    - {source: command, tool: absent, id: nobody}
`

const renamedRules = `rules:
  - {action: allow, tools: [shell]}
  - {action: deny, tools: ["shell(rm *)"]}
  - {action: deny, tools: ["bash(curl *)"]}
`

// ids returns the ids of the tools that the daemon lists.
func (p *proc) ids() (ids []string) {
	p.t.Helper()
	list, err := tooldv1.NewToolServiceClient(p.conn).ListTools(within(p.t), &tooldv1.ListToolsRequest{PageSize: 200})
	must(p.t, err)
	for _, one := range list.GetTools() {
		ids = append(ids, one.GetId())
	}
	return ids
}

// renamed is a daemon with renamed tools: built-in ones, one of a manifest and one of a worker.
type renamed struct {
	*site
	config, flag string
}

func newRenamed(t *testing.T) *renamed {
	s := newSite(t, renamedRules)
	_, flag := s.manifests(map[string]string{
		"who.yaml": "id: who\n" + observed + "run: {program: ./who.sh, stdin: call, output: lines}\n",
		"who.sh":   "#!/bin/sh\nsed -n 's/.*\"tool\":\"\\([^\"]*\\)\".*/{\"result\":\"I am [\\1]\"}/p'\n",
	})
	r := &renamed{s, filepath.Join(filepath.Dir(s.rules), "toold.yaml"), flag}
	r.configure(renaming)
	return r
}

func (r *renamed) configure(text string) { must(r.t, os.WriteFile(r.config, []byte(text), 0o600)) }

// TestRenamedTools checks that callers, records and rules have the new ids, while programs and workers get the ids that they know. A
// restricting rule with the id of the source still applies.
func TestRenamedTools(t *testing.T) {
	r := newRenamed(t)
	p := r.start("--config", r.config, r.flag)
	p.logs(t, "an id in tools.names has no tool yet")
	p.worker(languages()[0], p.ready.TCP, p.token())
	ids := p.ids()
	for id, want := range map[string]bool{"shell": true, "put": true, "whoami": true, "breaks": true, "bash": false, "write": false, "who": false, "fails": false} {
		if slices.Contains(ids, id) != want {
			t.Errorf("the list has %s: %t; all: %q", id, !want, ids)
		}
	}
	for _, tt := range []struct{ tool, arguments, record, want string }{
		{"shell", `{"command":"echo done"}`, "shell", "done"},
		{"shell", `{"command":"echo a; rm -f b"}`, "shell", "DENIED"},
		{"shell", `{"command":"echo a; curl b"}`, "shell", "DENIED"},
		{"whoami", `{}`, "whoami", "I am [who]"},
		{"breaks", `{"file":""}`, "breaks", "there is no paint"},
		{"put", `{"path":"a","content":"b"}`, "put", "SUSPENDED"},
		{"write", `{"path":"a","content":"b"}`, "put", "SUSPENDED"},
		{"bash", `{"command":"echo done"}`, "bash", "NOT_FOUND"},
		{"who", `{}`, "who", "NOT_FOUND"},
		{"fails", `{"file":""}`, "fails", "NOT_FOUND"},
	} {
		c := p.callTool(tt.tool, tt.arguments)
		if got := c.String(); c.GetTool() != tt.record || !strings.Contains(got, tt.want) {
			t.Errorf("%s %s: the record of %s says %s; want %s", tt.tool, tt.arguments, c.GetTool(), got, tt.want)
		}
	}
}

// TestRenameOnReload checks that a reload changes ids. A new tool may get an id that becomes free in the same reload. The reload refuses
// ids that are reserved or that another tool has. If another tool has the id, the error names the sources of both tools.
func TestRenameOnReload(t *testing.T) {
	r := newRenamed(t)
	r.configure("{}\n")
	p := r.start("--config", r.config, r.flag)
	for text, want := range map[string][]string{
		`[{source: command, tool: who, id: bash}]`:                                     {`"bash"`, `"command"`, `"builtin"`},
		`[{source: builtin, tool: bash, id: fe_bash}]`:                                 {`"bash"`, `"builtin"`, "reserved"},
		`[{source: builtin, tool: bash, id: a b}]`:                                     {"tools.names[0].id", "not a name"},
		`[{source: builtin, tool: tool_search, id: find}]`:                             {"tools.names[0].tool", "keeps its id"},
		`[{source: builtin, tool: bash, id: tool_search}]`:                             {"tools.names[0].id", "for search"},
		`[{source: "subagent:a", tool: a, id: b}]`:                                     {"tools.names[0].source", "subagents"},
		`[{source: builtin, tool: bash, id: a}, {source: builtin, tool: bash, id: b}]`: {"tools.names[1]", "occurs twice"},
		`[{source: builtin, tool: bash, id: a}, {source: builtin, tool: read, id: a}]`: {"tools.names[1].id"},
		`[{source: builtin, tool: bash, id: who}]`:                                     {`"who"`, `"command"`, `"builtin"`},
	} {
		r.configure("tools: {names: " + text + "}\n")
		_, err := p.admin.Reload(within(t), &tooldv1.ReloadRequest{})
		for _, part := range want {
			if reasonOf(err) != "CONFIG_INVALID" || !strings.Contains(status.Convert(err).Message(), part) {
				t.Errorf("%s: %v; want %s", text, err, part)
			}
		}
	}
	if ids := p.ids(); !slices.Contains(ids, "bash") || !slices.Contains(ids, "who") {
		t.Errorf("after refused reloads the tools are %q", ids)
	}
	r.configure(renaming)
	r.manifests(map[string]string{"bash.yaml": "id: bash\n" + observed + "run: {program: /bin/echo, args: [another]}\n"})
	got, err := p.admin.Reload(within(t), &tooldv1.ReloadRequest{})
	must(t, err)
	if !slices.Contains(got.GetChanged(), "tools.names") || len(got.GetNeedsRestart()) != 0 {
		t.Errorf("reloaded %v", got)
	}
	for id, want := range map[string]string{"bash": "another", "shell": "one"} {
		if c := p.callTool(id, map[string]string{"bash": "{}", "shell": `{"command":"echo one"}`}[id]); !strings.Contains(c.String(), want) {
			t.Errorf("%s: %v", id, c)
		}
	}
}

// TestRenamedOverRestart checks calls that wait while their tools get other ids. When the old id is no alias, the tool of the call is gone:
// the call ends and nothing runs. When it is an alias, the approver is asked again, and the second approval runs the call.
func TestRenamedOverRestart(t *testing.T) {
	r := newRenamed(t)
	r.configure("{}\n")
	p := r.start("--config", r.config, r.flag)
	kept, removed := p.ask("write", `{"path":"kept","content":"x"}`), p.ask("bash", `{"command":"touch gone"}`)
	p.kill()
	r.configure(renaming)
	p = r.start("--config", r.config, r.flag)
	if c := p.answer(removed, "gone-1", ""); c.GetResult().GetError().GetCode() != tooldv1.ErrorCode_ERROR_CODE_NOT_FOUND || r.file("gone") != "no file" {
		t.Errorf("the call of the old id: %v; %s", c, r.file("gone"))
	}
	c := p.answer(kept, "kept-1", "")
	if c.GetStatus() != callWaits || !strings.HasPrefix(c.GetSuspension().GetMessage(), "Allow put: ") || r.file("kept") != "no file" {
		t.Fatalf("the call of the alias: %v; %s", c, r.file("kept"))
	}
	if c = p.answer(c, "kept-2", ""); c.GetStatus() != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED || r.file("kept") != "x" {
		t.Errorf("approved again: %v; %s", c, r.file("kept"))
	}
}
