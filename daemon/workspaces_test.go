package daemon

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/toold-dev/toold/daemon/config"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tools/mcp/mcptest"
)

// tenants is a site whose namespaces a and b have separate workspaces. The namespaces c and default share the workspace of the site.
type tenants struct {
	*site
	dir, config string
	at          map[string]string // workspace directories by namespace
}

// A tenant is a client of one namespace.
type tenant struct {
	t         *testing.T
	namespace string
	epoch     int64
	calls     tooldv1.CallServiceClient
	tools     tooldv1.ToolServiceClient
	admin     tooldv1.AdminServiceClient
	n         int
}

func newTenants(t *testing.T, rules string) *tenants {
	t.Helper()
	s := newSite(t, rules)
	dir := filepath.Dir(s.data)
	w := &tenants{site: s, dir: dir, config: filepath.Join(dir, "toold.yaml"), at: map[string]string{"a": filepath.Join(dir, "of a"), "b": filepath.Join(dir, "b"), "c": s.workspace}}
	for namespace, at := range w.at {
		must(t, errors.Join(os.MkdirAll(filepath.Join(at, "secret"), 0o755), os.WriteFile(filepath.Join(at, "notes.txt"), []byte("notes of "+namespace+"\n"), 0o644)))
	}
	w.configure("")
	return w
}

// configure writes the configuration file and adds more to it.
func (w *tenants) configure(more string) {
	w.t.Helper()
	text := "auth:\n  tokens:\n"
	for _, namespace := range []string{"a", "b", "c"} {
		text += fmt.Sprintf("    - {name: ann, namespace: %s, roles: [caller, approver, operator, viewer], hash: 'sha256:%x'}\n", namespace, sha256.Sum256([]byte(tokenOf(namespace))))
	}
	text += fmt.Sprintf("workspaces:\n  a: %q\n  b: %q\n", w.at["a"], w.at["b"])
	must(w.t, os.WriteFile(w.config, []byte(text+more), 0o600))
}

func tokenOf(namespace string) string { return "token-of-namespace-" + namespace + "-0123456789" }

// as returns a client of a namespace.
func (p *proc) as(namespace string) *tenant {
	p.t.Helper()
	conn, err := grpc.NewClient(p.ready.TCP, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(bearer(tokenOf(namespace))))
	must(p.t, err)
	p.t.Cleanup(func() { conn.Close() })
	return &tenant{
		t: p.t, namespace: namespace, epoch: p.ready.Epoch, calls: tooldv1.NewCallServiceClient(conn), tools: tooldv1.NewToolServiceClient(conn), admin: tooldv1.NewAdminServiceClient(conn),
	}
}

func (c *tenant) spec(tool string, args map[string]any) *tooldv1.CallSpec {
	c.t.Helper()
	text, err := json.Marshal(args)
	must(c.t, err)
	c.n++
	return &tooldv1.CallSpec{
		Tool: tool, CallId: fmt.Sprintf("workspaces-call-%d-%04d", c.epoch, c.n), Arguments: string(text), // Calls of different namespaces get the same ids.
		Run: &tooldv1.Run{RunId: "run", ThreadId: "thread"},
	}
}

// call runs a call to its end and returns its record.
func (c *tenant) call(tool string, args map[string]any) *tooldv1.Call {
	c.t.Helper()
	got, err := c.calls.CallTool(within(c.t), &tooldv1.CallToolRequest{Spec: c.spec(tool, args)})
	must(c.t, err)
	return got.GetCall()
}

// textOf runs a call and returns the text that a model gets.
func (c *tenant) textOf(tool string, args map[string]any) string {
	c.t.Helper()
	r := c.call(tool, args).GetResult()
	return r.GetMessage() + r.GetError().GetMessage() + r.GetError().GetReason()
}

// For every tool that uses files, the same relative path names a different file in each namespace. No tool of one namespace reaches the
// workspace of another.
func TestWorkspacesOfNamespaces(t *testing.T) {
	w := newTenants(t, "rules:\n  - {action: deny, tools: ['*(path ~ \"secret/*\")']}\n  - {action: allow, tools: ['*']}\n")
	must(t, errors.Join(os.Symlink("secret", filepath.Join(w.at["a"], "way")), os.Mkdir(filepath.Join(w.at["b"], "way"), 0o755), os.Mkdir(filepath.Join(w.at["c"], "way"), 0o755)))
	for namespace, at := range w.at {
		must(t, os.WriteFile(filepath.Join(at, "way", "x"), []byte("way of "+namespace), 0o644))
	}
	must(t, os.MkdirAll(filepath.Join(w.at["a"], ".git"), 0o755))
	must(t, os.WriteFile(filepath.Join(w.at["a"], ".git", "config"), nil, 0o644))
	must(t, os.Symlink(".git/config", filepath.Join(w.at["a"], "settings")))
	_, manifests := w.manifests(map[string]string{
		"show.yaml":    "id: show\n" + observed + "parameters: {properties: {file: {type: string}}, required: [file]}\nrun: {program: /bin/cat, args: [\"{file:path}\"]}\n",
		"resides.yaml": "id: resides\n" + observed + "run: {program: ./resides.sh, output: lines, persistent: {instances: 1}}\n",
		"resides.sh":   "#!/bin/sh\nwhile read -r line; do id=$(echo \"$line\" | sed 's/.*\"id\":\"\\([^\"]*\\)\",\"call_id.*/\\1/'); echo \"{\\\"id\\\":\\\"$id\\\",\\\"result\\\":\\\"$(cat notes.txt)\\\"}\"; done\n",
	})
	exe, err := os.Executable()
	must(t, err)
	servers, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"greeter": map[string]any{"command": exe, "env": map[string]string{mcptest.Mode: "good"}}}})
	must(t, err)
	file := filepath.Join(w.dir, "mcp.json")
	must(t, os.WriteFile(file, servers, 0o600))
	w.configure("mcp:\n  files: [" + file + "]\n")
	p := w.start("--config", w.config, manifests)
	eventually(t, "the server is there", func() bool { return p.hasTool("greeter__peek") })
	all := map[string]*tenant{"a": p.as("a"), "b": p.as("b"), "c": p.as("c")}
	for namespace, c := range all {
		other := w.at[map[string]string{"a": "b", "b": "c", "c": "a"}[namespace]]
		own := "notes of " + namespace
		reads := func(what, got string) {
			t.Helper()
			if !strings.Contains(got, own) || strings.Count(got, "notes of") != 1 {
				t.Errorf("%s: %s of its file says %q", namespace, what, got)
			}
		}
		refused := func(what, got string) {
			t.Helper()
			if strings.Contains(got, "notes of") || strings.Contains(got, "notes.txt\n") || got == "" {
				t.Errorf("%s: %s of another workspace says %q", namespace, what, got)
			}
		}
		reads("read", c.textOf("read", map[string]any{"path": "notes.txt"}))
		reads("read", c.textOf("read", map[string]any{"path": filepath.Join(w.at[namespace], "notes.txt")}))
		refused("read", c.textOf("read", map[string]any{"path": filepath.Join(other, "notes.txt")}))
		reads("grep", c.textOf("grep", map[string]any{"pattern": "notes of"}))
		refused("glob", c.textOf("glob", map[string]any{"pattern": "*", "path": other}))
		c.call("write", map[string]any{"path": "made", "content": "made by " + namespace})
		if text, _ := os.ReadFile(filepath.Join(w.at[namespace], "made")); string(text) != "made by "+namespace {
			t.Errorf("%s: write made %q", namespace, text)
		}
		reads("bash", c.textOf("bash", map[string]any{"command": "cat notes.txt"}))
		refused("bash", c.textOf("bash", map[string]any{"command": "cat '" + other + "/notes.txt'; ls '" + other + "'; ls -R '" + w.dir + "' | grep -x notes.txt | wc -l | sed 1d"}))
		if got := c.textOf("bash", map[string]any{"command": "ls -A ~; echo mine > ~/mark; pwd"}); !strings.Contains(got, w.at[namespace]) || strings.Contains(got, "mark") {
			t.Errorf("%s: the home and the directory of bash are %q", namespace, got)
		}
		var shell struct {
			ID string `json:"shell_id"`
		}
		must(t, json.Unmarshal([]byte(c.call("bash", map[string]any{"command": "cat notes.txt; sleep 600", "background": true}).GetResult().GetData()), &shell))
		reads("a shell in the background", c.textOf("bash_output", map[string]any{"shell_id": shell.ID, "since": 0, "wait": 60, "filter": "notes"}))
		for _, one := range all {
			if got := one.textOf("bash_output", map[string]any{"shell_id": shell.ID}); one != c && !strings.Contains(got, "NO_SUCH_SHELL") {
				t.Errorf("%s sees a shell of %s: %q", one.namespace, namespace, got)
			}
		}
		reads("a manifest", c.textOf("show", map[string]any{"file": "notes.txt"}))
		reads("a persistent program", c.textOf("resides", nil))
		reads("an MCP server", c.textOf("greeter__peek", map[string]any{"path": "notes.txt"}))
		refused("an MCP server", c.textOf("greeter__peek", map[string]any{"path": filepath.Join(other, "notes.txt")}))
		got, err := c.calls.DescribeCall(within(t), &tooldv1.DescribeCallRequest{Spec: c.spec("write", map[string]any{"path": "notes.txt", "content": "new\n"})})
		must(t, err)
		reads("a preview", got.String())
		if got := c.textOf("read", map[string]any{"path": "way/x"}); strings.Contains(got, "way of "+namespace) == (namespace == "a") {
			t.Errorf("%s: a rule about what a link leads to in a's workspace decides %q", namespace, got)
		}
		got, err = c.calls.DescribeCall(within(t), &tooldv1.DescribeCallRequest{Spec: c.spec("write", map[string]any{"path": "settings", "content": "x"})})
		must(t, err)
		if destructive := got.GetAssessment().GetSafety() == tooldv1.Safety_SAFETY_DESTRUCTIVE; destructive != (namespace == "a") {
			t.Errorf("%s: a write to what is protected in a's workspace is %v", namespace, got.GetAssessment())
		}
		info, err := c.admin.GetInfo(within(t), &tooldv1.GetInfoRequest{})
		must(t, err)
		sources, err := c.admin.ListSources(within(t), &tooldv1.ListSourcesRequest{})
		must(t, err)
		if listed := info.String() + sources.String(); strings.Contains(listed, other) {
			t.Errorf("%s sees the workspace of %s: %s", namespace, other, listed)
		}
		var names []string
		for _, s := range sources.GetSources() {
			names = append(names, s.GetName())
		}
		want := []string{"builtin", "command", "mcp:greeter"}
		if namespace != "c" {
			want = append(want, "mcp:greeter@"+namespace)
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s: the sources are %v, want %v", namespace, names, want)
		}
	}
	for _, id := range []string{"bash", "write", "show", "resides", "greeter__peek"} {
		digests := map[string]bool{}
		for _, c := range all {
			got, err := c.tools.GetTool(within(t), &tooldv1.GetToolRequest{Tool: id})
			must(t, err)
			digests[got.GetTool().GetDigest()] = true
		}
		if len(digests) != 1 {
			t.Errorf("%s has the digests %v", id, digests)
		}
	}
}

// Commands without isolation start in the workspace of their namespace and have separate home directories.
func TestWorkspacesWithoutIsolation(t *testing.T) {
	w := newTenants(t, "rules:\n  - {action: allow, tools: ['*']}\n")
	p := w.start("--config", w.config, "--bash-profile", "none")
	homes := map[string]bool{}
	for namespace, at := range w.at {
		got := p.as(namespace).textOf("bash", map[string]any{"command": "cat notes.txt; pwd; echo home $HOME"})
		if !strings.Contains(got, "notes of "+namespace+"\n"+at+"\n") {
			t.Errorf("%s: bash says %q", namespace, got)
		}
		_, home, _ := strings.Cut(got, "home ")
		homes[home] = true
	}
	if len(homes) != len(w.at) {
		t.Errorf("the homes are %v", homes)
	}
}

// TestWorkspacesHoldUntilARestart checks a reload that changes the workspaces. It reports that a restart is needed. Until then, the
// reloaded parts use the old workspaces. After the restart, a backup can be written to the old directory, and not to the new workspace.
func TestWorkspacesHoldUntilARestart(t *testing.T) {
	w := newTenants(t, "")
	dir, manifests := w.manifests(map[string]string{"show.yaml": "id: show\n" + observed + "run: {program: /bin/cat, args: [notes.txt]}\n"})
	p := w.start("--config", w.config, manifests)
	must(t, os.WriteFile(filepath.Join(dir, "again.yaml"), []byte("id: again\n"+observed+"run: {program: /bin/cat, args: [notes.txt]}\n"), 0o644))
	before := w.at["a"]
	w.at["a"] = filepath.Join(w.dir, "moved")
	must(t, errors.Join(os.Mkdir(w.at["a"], 0o755), os.WriteFile(filepath.Join(w.at["a"], "notes.txt"), []byte("moved\n"), 0o644)))
	w.configure("backup:\n  directories: [" + w.dir + "]\n")
	done, err := p.admin.Reload(within(t), &tooldv1.ReloadRequest{})
	must(t, err)
	if !slices.Contains(done.GetNeedsRestart(), "workspaces") {
		t.Errorf("the reload says %v", done)
	}
	a := p.as("a")
	for _, id := range []string{"show", "again", "read"} {
		if got := a.textOf(id, map[string]any{"path": "notes.txt"}); id == "read" && !strings.Contains(got, "notes of a") {
			t.Errorf("%s says %q", id, got)
		}
	}
	for _, id := range []string{"show", "again"} {
		if got := a.textOf(id, nil); got != "notes of a\n" {
			t.Errorf("%s says %q", id, got)
		}
	}
	p.kill()
	p = w.start("--config", w.config, manifests)
	if got := p.as("a").textOf("show", nil); got != "moved\n" {
		t.Errorf("after the restart: %q", got)
	}
	_, err = p.admin.Backup(within(t), &tooldv1.BackupRequest{Directory: filepath.Join(w.at["a"], "copy")})
	if err == nil || !strings.Contains(err.Error(), "is in the workspace") {
		t.Errorf("a backup into a workspace: %v", err)
	}
	_, err = p.admin.Backup(within(t), &tooldv1.BackupRequest{Directory: filepath.Join(before, "copy")})
	must(t, err) // the old directory no longer belongs to any namespace
}

// The configuration refuses two workspaces that overlap after links are resolved. It also refuses a setting that shows the workspace of one
// namespace to another.
func TestWorkspacesAreApart(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"ws/sub", "a/sub", "b", "data", "homes", "backups"} {
		must(t, os.MkdirAll(at(name), 0o755))
	}
	for link, to := range map[string]string{"again": "a", "later": "a/not-yet", "a/out": "../b", "loop": "loop"} {
		must(t, os.Symlink(to, at(link)))
	}
	tests := []struct {
		name, workspaces, more, say string // say is a text of the error; empty when the configuration is accepted
	}{
		{"side by side", "{a: DIR/a, b: DIR/b}", "", ""},
		{"a name with a dot", "{team.one: DIR/a, 'x y': DIR/b}", "", ""},
		{"the default namespace", "{default: DIR/a}", "", ""},
		{"none", "{}", "", ""},
		{"not there yet", "{a: DIR/new}", "", ""},
		{"equal", "{a: DIR/a, b: DIR/a}", "", "workspaces.b: DIR/a and DIR/a (workspaces.a) overlap"},
		{"one in another", "{a: DIR/a, b: DIR/a/sub}", "", "workspaces.b: DIR/a/sub and DIR/a (workspaces.a) overlap"},
		{"that of the others", "{a: DIR/ws}", "", "workspaces.a: DIR/ws and DIR/ws (workspace) overlap"},
		{"in that of the others", "{a: DIR/ws/sub}", "", "(workspace) overlap"},
		{"around that of the others", "{a: DIR}", "", "keep them apart"},
		{"by a link", "{a: DIR/a, b: DIR/again}", "", "workspaces.b: DIR/a and DIR/a (workspaces.a) overlap"},
		{"by a link to what is not there yet", "{a: DIR/a, b: DIR/later}", "", "overlap"},
		{"over a link that others may change", "{a: DIR/a, b: DIR/a/out}", "", "workspaces.b: the path to DIR/b passes through DIR/a/out"},
		{"a link to itself", "{a: DIR/loop}", "", "workspaces.a: cannot check"},
		{"in the data directory", "{a: DIR/data/a}", "", "workspaces.a: DIR/data/a is in the data directory"},
		{"around the data directory", "{a: DIR/data/..}", "", "data: DIR/data is in the workspace"},
		{"with backups", "{a: DIR/a}", "backup: {directories: [DIR/a/backups]}", "backup.directories: DIR/a/backups is in the workspace DIR/a"},
		{"with homes", "{a: DIR/a}", "sandbox: {homes: DIR/a/homes}", "sandbox.homes: DIR/a/homes is in the workspace DIR/a"},
		{"with homes by a link", "{a: DIR/a}", "sandbox: {homes: DIR/again/homes}", "sandbox.homes: DIR/a/homes is in the workspace DIR/a"},
		{"in homes", "{a: DIR/homes/a}", "sandbox: {homes: DIR/homes}", "workspaces.a: DIR/homes/a is in sandbox.homes DIR/homes"},
		{"rules", "{a: DIR/a}", "rules: DIR/a/rules.yaml", "rules: DIR/a/rules.yaml is in the workspace DIR/a"},
		{"manifests", "{a: DIR/a}", "command: {directory: DIR/a/sub}", "command.directory: DIR/a/sub is in the workspace DIR/a"},
		{"a profile that shows it", "{a: DIR/a}", "sandbox: {profiles: [{name: x, read: [DIR/a/sub]}]}", "sandbox.profiles: \"x\" shows DIR/a/sub"},
		{"a profile that shows what is around it", "{a: DIR/a}", "sandbox: {profiles: [{name: x, read: [DIR]}]}", "sandbox.profiles: \"x\" shows DIR, and with it the workspace DIR/a (workspaces.a)"},
		{"empty", "{a: ''}", "", "workspaces.a: is empty"},
		{"no name", "{'': DIR/a}", "", "workspaces: the name of a namespace is empty"},
		{"a list", "[DIR/a]", "", "workspaces is a mapping of names to values"},
		{"a number", "{a: 1}", "", "workspaces: a and its value must be text"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.ReplaceAll("data: DIR/data\nworkspace: DIR/ws\nworkspaces: "+tt.workspaces+"\n"+tt.more+"\n", "DIR", dir)
			cfg, err := load(t, text, nil)
			if tt.say == "" {
				must(t, err)
				again, err := load(t, config.Text(cfg), nil)
				must(t, err)
				if fmt.Sprint(cfg.Workspaces) != fmt.Sprint(again.Workspaces) {
					t.Errorf("shown as %v", again.Workspaces)
				}
				return
			}
			if _, usage := errors.AsType[config.Error](err); !usage || !strings.Contains(err.Error(), strings.ReplaceAll(tt.say, "DIR", dir)) {
				t.Errorf("got %v, want a usage error that says %q", err, tt.say)
			}
		})
	}
}

// Both config check and serve refuse an MCP server that would show one namespace the workspace of another.
func TestServersInWorkspaces(t *testing.T) {
	w := newTenants(t, "")
	file := filepath.Join(w.dir, "mcp.json")
	w.configure("mcp:\n  files: [" + file + "]\n")
	for _, tt := range []struct{ name, entry, say string }{
		{"in the workspace of each", `{"command": "/bin/true", "args": ["${workspaceFolder}"]}`, ""},
		{"elsewhere", `{"command": "/bin/true", "cwd": "/usr"}`, ""},
		{"in the workspace of one", `{"command": "/bin/true", "cwd": "` + w.at["a"] + `"}`, "callers of one namespace reach the workspace of another, " + w.at["a"] + " (workspaces.a)"},
		{"around them", `{"command": "/bin/true", "cwd": "` + w.dir + `"}`, "callers of one namespace reach the workspace of another"},
		{"beside its own", `{"command": "/bin/true", "cwd": "${workspaceFolder}/../b"}`, "(workspaces.b)"},
		{"an address", `{"url": "https://x.example/${workspaceFolder}"}`, "remove ${workspaceFolder}"},
	} {
		must(t, os.WriteFile(file, []byte(`{"mcpServers": {"x": `+tt.entry+`}}`), 0o600))
		r := new(run).do(t, w.data, "config", "check", "--config", w.config, "--data", w.data, "--workspace", w.workspace)
		if (r.code == 0) != (tt.say == "") || !strings.Contains(r.err, tt.say) {
			t.Errorf("%s: exit code %d: %s%s", tt.name, r.code, r.out, r.err)
		}
	}
	if out, err := w.command("--config", w.config).CombinedOutput(); err == nil || !strings.Contains(string(out), "remove ${workspaceFolder}") {
		t.Errorf("it starts: %v\n%s", err, out)
	}
}

// TestServersAreLedToNoOtherWorkspace (T131) checks the working directory of an MCP server. After the daemon has started, and before it
// starts the server, the directory is replaced by a link to another workspace or to a directory outside all workspaces. The daemon must
// refuse to start the server.
func TestServersAreLedToNoOtherWorkspace(t *testing.T) {
	for _, to := range []string{"b", "outside"} {
		t.Run(to, func(t *testing.T) { leadServer(t, to) })
	}
}

// leadServer replaces the working directory of the server of namespace a by a link to the directory to.
func leadServer(t *testing.T, to string) {
	w := newTenants(t, "rules:\n  - {action: allow, tools: ['*']}\n")
	to = filepath.Join(w.dir, to)
	must(t, errors.Join(os.MkdirAll(to, 0o755), os.WriteFile(filepath.Join(to, "notes.txt"), []byte("notes of others\n"), 0o644)))
	for _, at := range w.at {
		must(t, os.Mkdir(filepath.Join(at, "sub"), 0o755))
	}
	exe, err := os.Executable()
	must(t, err)
	servers, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"greeter": map[string]any{"command": exe, "cwd": "sub", "env": map[string]string{mcptest.Mode: "good"}}}})
	must(t, err)
	file := filepath.Join(w.dir, "mcp.json")
	must(t, os.WriteFile(file, servers, 0o600))
	w.configure("mcp:\n  files: [" + file + "]\n")
	p := w.start("--config", w.config)
	eventually(t, "the server is there", func() bool { return p.hasTool("greeter__peek") })
	a := p.as("a")
	if got := a.textOf("bash", map[string]any{"command": "rmdir sub && ln -s '" + to + "' sub"}); !strings.Contains(got, "no output") {
		t.Fatalf("the link: %q", got)
	}
	spec := a.spec("greeter__peek", map[string]any{"path": "notes.txt"})
	answered := make(chan string, 1)
	go func() {
		got, err := a.calls.CallTool(within(t), &tooldv1.CallToolRequest{Spec: spec})
		answered <- fmt.Sprint(got.GetCall().GetResult(), err)
	}()
	defer func() { p.kill(); <-answered }()
	refused := "a symbolic link leads out of " + w.at["a"] + ", where other users can write; replace it with a directory"
	eventually(t, "the server is tried", func() bool { return strings.Contains(p.log.String(), refused) || len(answered) > 0 })
	if len(answered) > 0 {
		text := <-answered
		t.Errorf("the server says %q", text)
		answered <- text
	}
	if got := p.as("b").textOf("greeter__peek", map[string]any{"path": "../notes.txt"}); !strings.Contains(got, "No such file") && !strings.Contains(got, "no such file") {
		t.Errorf("b's server sees more than it starts in: %q", got)
	}
}

// The commands that test rules and isolation use the workspace of the given namespace.
func TestCommandsInWorkspaces(t *testing.T) {
	w := newTenants(t, "rules:\n  - {action: deny, tools: ['*(path ~ \"secret/*\")']}\n")
	must(t, os.Symlink("secret", filepath.Join(w.at["a"], "way")))
	flags := []string{"--config", w.config, "--data", w.data, "--workspace", w.workspace}
	for namespace, want := range map[string]string{"a": "DENY", "b": "ALLOW"} {
		new(run).do(t, w.data, append([]string{"rules", "test", "read", "path=way/x", "--namespace", namespace, "--rules", w.rules}, flags...)...).wants(t, 0, want)
		new(run).do(t, w.data, append(append([]string{"sandbox", "run", "--namespace", namespace}, flags...), "--", "cat", "notes.txt")...).expect(t, 0, "notes of "+namespace+"\n")
	}
}
