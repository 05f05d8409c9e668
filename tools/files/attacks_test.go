package files_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/files"
)

// everyTool returns arguments for each tool, all with the same path.
func everyTool(path string) map[string]object {
	return map[string]object{
		"read":       {"path": path},
		"write":      {"path": path, "content": "x", "overwrite": true},
		"edit":       {"path": path, "old_text": "a", "new_text": "b", "overwrite": true},
		"multi_edit": {"path": path, "edits": []object{{"old_text": "a", "new_text": "b"}}, "overwrite": true},
		"glob":       {"path": path, "pattern": "*"},
		"grep":       {"path": path, "pattern": "."},
	}
}

func TestT04PathsOutsideAreRefused(t *testing.T) {
	b := newBench(t, files.Config{})
	b.put("a/b", "inside")
	for _, path := range []string{
		"../../etc/passwd", "/etc/passwd", "a/../../x", "..", "./..//", "../", "//etc/passwd", "a/../..", "a/b/../../../ws/a/b", "/",
	} {
		for id, args := range everyTool(path) {
			r := b.refused(id, "OUTSIDE_WORKSPACE", args)
			if r.Error.Code != tool.InvalidArguments {
				t.Errorf("%s %s is refused only when it runs", id, path)
			}
			if strings.Contains(r.ModelText(), filepath.Dir(b.dir)) {
				t.Errorf("%s names the host: %s", id, r.ModelText())
			}
		}
	}
	for _, pattern := range []string{"../*", "/etc/*", "a/../../*", "/*"} {
		b.refused("glob", "OUTSIDE_WORKSPACE", object{"pattern": pattern})
	}
	if r := b.run("glob", object{"pattern": "*/../../*"}); !r.IsError() || r.Error.Code != tool.InvalidArguments {
		t.Errorf("pattern with .. after a wildcard: %+v", r)
	}
	for _, path := range []string{"", "a\x00b"} {
		if err := b.tools["read"].(tool.Validator).Validate(arguments(t, object{"path": path})); tool.AsError(err).Code != tool.InvalidArguments {
			t.Errorf("path %q: %v", path, err)
		}
	}
}

func TestT05SiblingWithTheSamePrefixIsRefused(t *testing.T) {
	dir := t.TempDir()
	ws := filepath.Join(dir, "ws")
	b := benchAt(t, ws, files.Config{Root: "/srv/ws"})
	b.put("f", "inside\n")
	evil := filepath.Join(dir, "ws-evil")
	if err := os.MkdirAll(evil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(evil, "f"), []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/srv/ws-evil/f", "../ws-evil/f", "/srv/ws/../ws-evil/f", "/srv"} {
		for id, args := range everyTool(path) {
			b.refused(id, "OUTSIDE_WORKSPACE", args)
		}
	}
	for _, path := range []string{"/srv/ws/f", "/srv//ws/./f", "f", "./f"} {
		if r := b.ok("read", object{"path": path}); !strings.Contains(r.Message, "inside") {
			t.Errorf("read %s: %s", path, r.Message)
		}
	}
	if r := b.ok("glob", object{"pattern": "/srv/ws/*"}); !strings.Contains(r.Message, "f") {
		t.Errorf("absolute pattern: %s", r.Message)
	}
}

func TestT06LinksThatLeadOutAreRefused(t *testing.T) {
	b := newBench(t, files.Config{})
	outside := filepath.Join(filepath.Dir(b.dir), "outside")
	if err := os.MkdirAll(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("canary a\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b.put("plain.txt", "nothing\n")
	b.put("sub/plain.txt", "nothing\n")
	b.link("/etc/passwd", "absolute")
	b.link("../outside/secret", "relative")
	b.link("../outside", "folder")
	b.link("relative", "chain")
	b.link(b.dir+"/plain.txt", "home") // This link leads to a file in the workspace, but its target is an absolute path of the host.
	b.link("../../outside/secret", "sub/up")
	for _, path := range []string{"absolute", "relative", "folder/secret", "folder", "chain", "home", "sub/up", "folder/new"} {
		for id, args := range everyTool(path) {
			b.refused(id, "OUTSIDE_WORKSPACE", args)
		}
	}
	b.refused("glob", "OUTSIDE_WORKSPACE", object{"pattern": "folder/*"})
	// grep walks the folder and must not follow the links in it.
	if r := b.ok("grep", object{"pattern": "canary|root"}); !strings.Contains(r.Message, "No line matches") {
		t.Errorf("grep followed a link: %s", r.Message)
	}
	if r := b.ok("glob", object{"pattern": "**"}); strings.Contains(r.Message, "secret") || strings.Contains(r.Message, "absolute") {
		t.Errorf("glob followed a link: %s", r.Message)
	}
	if got, err := os.ReadFile(filepath.Join(outside, "secret")); err != nil || string(got) != "canary a\n" {
		t.Errorf("outside file: %q, %v", got, err)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside folder: %v, %v", entries, err)
	}
}

func TestT11DevicesPipesAndSparseFilesAreBounded(t *testing.T) {
	b := newBench(t, files.Config{})
	b.link("/dev/zero", "zero")
	b.link("/proc/self/environ", "environ")
	b.refused("read", "OUTSIDE_WORKSPACE", object{"path": "zero"})
	b.refused("read", "OUTSIDE_WORKSPACE", object{"path": "environ"})
	if err := syscall.Mkfifo(filepath.Join(b.dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for id, args := range everyTool("pipe") {
		b.refused(id, "NOT_REGULAR", args)
	}
	devices := benchAt(t, "/dev", files.Config{})
	devices.dir = "no host path to look for"
	devices.refused("read", "NOT_REGULAR", object{"path": "zero"})
	devices.refused("grep", "NOT_REGULAR", object{"path": "zero", "pattern": "x"})

	head := strings.Repeat("text\n", 4000)
	for name, text := range map[string]string{"holes": "", "head": head} {
		b.put(name, text)
		if err := os.Truncate(filepath.Join(b.dir, name), 1<<40); err != nil {
			t.Fatal(err)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b.refused("read", "IS_BINARY", object{"path": "holes"})
	if r := b.ok("read", object{"path": "head", "limit": 10}); !strings.Contains(r.Message, "of a file of 1099511627776 bytes") {
		t.Errorf("sparse text: %s", r.Message)
	}
	b.refused("read", "IS_BINARY", object{"path": "head", "offset": 3999})
	b.refused("read", "TOO_LARGE", object{"path": "head", "offset": 4_000_000})
	b.refused("grep", "IS_BINARY", object{"path": "head", "pattern": "nowhere"})
	b.refused("edit", "TOO_LARGE", object{"path": "head", "old_text": "t", "new_text": "u", "overwrite": true})
	b.ok("grep", object{"pattern": "nowhere"})
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 128<<20 {
		t.Errorf("allocated %d MiB", grown>>20)
	}
}

func TestT15SearchesEndByTheirCaps(t *testing.T) {
	b := newBench(t, files.Config{Limits: files.Limits{Entries: 2000, SearchTime: time.Second}})
	for i := range 60 {
		dir := filepath.Join(b.dir, fmt.Sprintf("d%02d", i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for j := range 60 {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%02d.txt", j)), []byte("line\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.link("..", "d00/loop")
	b.link("self", "self")
	deep := strings.Repeat("deep/", 300)
	if err := os.MkdirAll(filepath.Join(b.dir, deep), 0o755); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		id   string
		args object
	}{
		{"glob", object{"pattern": strings.Repeat("**/", 100) + "*"}},
		{"glob", object{"pattern": "**"}},
		{"glob", object{"pattern": strings.Repeat("*a", 100) + "x"}},
		{"glob", object{"pattern": "**/" + strings.Repeat("{f,f}", 9) + "*"}},
		{"grep", object{"pattern": "line"}},
		{"grep", object{"pattern": "(a?){300}a{300}"}},
	}
	type cutData struct {
		Truncated bool
		Cut       string
	}
	for _, tt := range tests {
		start := time.Now()
		r := b.ok(tt.id, tt.args)
		if d := data[cutData](t, r); !d.Truncated || d.Cut == "" {
			t.Errorf("%s %v: not reported as truncated: %s", tt.id, tt.args, r.Data)
		}
		if took := time.Since(start); took > 2*time.Minute {
			t.Errorf("%s %v took %v, far beyond its cap of a second", tt.id, tt.args, took)
		}
	}
	// Matching a single name against one of these patterns would take very long, so the pattern is rejected before any file is read.
	for _, bomb := range []string{strings.Repeat("{a,b}", 20), strings.Repeat("{a,a,", 150) + strings.Repeat("}", 150)} {
		if r := b.run("glob", object{"pattern": bomb}); !r.IsError() || r.Error.Code != tool.InvalidArguments {
			t.Errorf("brace bomb: %+v", r)
		}
		if r := b.run("grep", object{"pattern": "x", "glob": bomb}); !r.IsError() || r.Error.Code != tool.InvalidArguments {
			t.Errorf("brace bomb: %+v", r)
		}
	}
	// A regular expression that could take minutes for one block is rejected too. A search with an accepted but slow expression stops in
	// the middle of a block when its time is over.
	if err := os.WriteFile(filepath.Join(b.dir, "long.txt"), []byte(strings.Repeat("a", 100_000)), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := b.run("grep", object{"pattern": strings.Repeat(".{0,1000}", 400) + "x", "path": "long.txt"}); !r.IsError() || r.Error.Code != tool.InvalidArguments {
		t.Errorf("a pattern of very many instructions: %+v", r)
	}
	if err := os.WriteFile(filepath.Join(b.dir, "lines.txt"), []byte(strings.Repeat(strings.Repeat("a", 5000)+"\n", 25)), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := b.ok("grep", object{"pattern": "(a?){300}\\sa", "path": "lines.txt"}); !data[cutData](t, r).Truncated {
		t.Errorf("a slow pattern: %s", r.Data)
	}
	b.refused("read", "LINK_LOOP", object{"path": "self"})
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := fmt.Errorf("stop")
	cancel(stop)
	for _, id := range []string{"glob", "grep", "read", "write"} {
		args := object{"pattern": "**", "path": ".", "content": "x"}
		if _, err := b.tools[id].Execute(ctx, b.call(args)); err != stop {
			t.Errorf("%s with a cancelled context: %v", id, err)
		}
	}
}

func TestT16StrangeNamesGoRoundAndAreShownEscaped(t *testing.T) {
	names := []string{
		"new\nline", "esc\x1b[31mred", "right\u202eto left", strings.Repeat("n", 255), "bad\xffutf8", `"quoted"`, `back\slash`, "tab\t", " space ", "日本語",
	}
	b := newBench(t, files.Config{})
	for _, name := range names {
		b.put(name, "needle in "+fmt.Sprintf("%q", name)+"\n")
	}
	found := data[struct{ Files []struct{ Path string } }](t, b.ok("glob", object{"pattern": "*"}))
	listed := data[struct{ Entries []struct{ Name string } }](t, b.ok("read", object{"path": "."}))
	lines := data[struct{ Lines []struct{ Path, Text string } }](t, b.ok("grep", object{"pattern": "needle", "context": 1}))
	if len(found.Files) != len(names) || len(listed.Entries) != len(names) || len(lines.Lines) != len(names) {
		t.Fatalf("%d names: glob %d, list %d, grep %d", len(names), len(found.Files), len(listed.Entries), len(lines.Lines))
	}
	seen := map[string]bool{}
	for _, f := range found.Files {
		seen[b.ok("read", object{"path": f.Path}).Message] = true
		b.ok("edit", object{"path": f.Path, "old_text": "needle", "new_text": "thread"})
		if d := b.describe("edit", b.call(object{"path": f.Path, "old_text": "thread", "new_text": "x"})); strings.ContainsAny(d.Title, "\n\x1b\u202e\t") {
			t.Errorf("title is not escaped: %q", d.Title)
		}
	}
	if len(seen) != len(names) {
		t.Errorf("only %d of %d names lead back to their files", len(seen), len(names))
	}
	for _, name := range names {
		if got := b.content(name); !strings.HasPrefix(got, "thread") {
			t.Errorf("%q was not edited: %q", name, got)
		}
	}
	for id, args := range map[string]object{
		"glob": {"pattern": "**"}, "grep": {"pattern": "thread", "output": "files"}, "read": {"path": "."},
	} {
		if r := b.ok(id, args); strings.ContainsAny(r.Message, "\x1b\u202e\t") || !utf8.ValidString(r.Message) {
			t.Errorf("%s shows a name unescaped: %q", id, r.Message)
		}
	}
}

func TestT17ArgumentsCannotWidenTheRoot(t *testing.T) {
	b := newBench(t, files.Config{Root: "/srv/ws"})
	for id, tl := range b.tools {
		var schema struct {
			Properties           map[string]any
			AdditionalProperties *bool
		}
		if err := json.Unmarshal(tl.Descriptor().Parameters, &schema); err != nil {
			t.Fatal(err)
		}
		if schema.AdditionalProperties == nil || *schema.AdditionalProperties {
			t.Errorf("%s takes arguments that it does not name", id)
		}
		for _, name := range []string{"cwd", "workspace", "root", "dir"} {
			if schema.Properties[name] != nil {
				t.Errorf("%s has an argument %s", id, name)
			}
		}
		// Even if these arguments were accepted, they would change nothing.
		args := everyTool("/etc/passwd")[id]
		args["cwd"], args["workspace"], args["root"] = "/", "/", "/"
		b.refused(id, "OUTSIDE_WORKSPACE", args)
	}
}

func TestT19EditsThatDoNotFitLeaveTheFileAlone(t *testing.T) {
	b := newBench(t, files.Config{})
	const text = "one\ntwo\none\nthree\n"
	b.put("f", text)
	path := filepath.Join(b.dir, "f")
	if err := os.Chmod(path, 0o751); err != nil {
		t.Fatal(err)
	}
	b.refused("edit", "NOT_READ", object{"path": "f", "old_text": "two", "new_text": "2"})
	b.ok("read", object{"path": "f"})
	r := b.refused("edit", "NOT_UNIQUE", object{"path": "f", "old_text": "one", "new_text": "1"})
	if !strings.Contains(r.ModelText(), "2 times") || !strings.Contains(r.ModelText(), "lines 1, 3") {
		t.Errorf("refusal does not say how often and where: %s", r.ModelText())
	}
	b.refused("edit", "NO_MATCH", object{"path": "f", "old_text": "four", "new_text": "4"})
	if got := b.content("f"); got != text {
		t.Fatalf("refused edits changed the file: %q", got)
	}
	b.put("f", text+"changed by somebody\n")
	for id, args := range map[string]object{
		"edit":       {"path": "f", "old_text": "two", "new_text": "2"},
		"multi_edit": {"path": "f", "edits": []object{{"old_text": "two", "new_text": "2"}}},
		"write":      {"path": "f", "content": "gone"},
	} {
		b.refused(id, "FILE_CHANGED", args)
	}
	if got := b.content("f"); got != text+"changed by somebody\n" {
		t.Fatalf("refused edits changed the file: %q", got)
	}
	old, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	b.ok("read", object{"path": "f"})
	b.ok("edit", object{"path": "f", "old_text": "one", "new_text": "1", "replace_all": true})
	now, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.content("f"); got != "1\ntwo\n1\nthree\nchanged by somebody\n" {
		t.Errorf("edited file: %q", got)
	}
	if now.Mode() != 0o751 || os.SameFile(old, now) {
		t.Errorf("mode %v, want it kept; replaced as a whole: %t", now.Mode(), !os.SameFile(old, now))
	}
	if entries, err := os.ReadDir(b.dir); err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v; want the file alone", entries, err)
	}
}

func TestHardLinksAreRefused(t *testing.T) {
	b := newBench(t, files.Config{})
	secret := filepath.Join(filepath.Dir(b.dir), "secret")
	if err := os.WriteFile(secret, []byte("a canary\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(secret, filepath.Join(b.dir, "second")); err != nil {
		t.Fatal(err)
	}
	for id, args := range everyTool("second") {
		b.refused(id, "HARD_LINKED", args)
	}
	if r := b.ok("grep", object{"pattern": "canary"}); !strings.Contains(r.Message, "No line matches") {
		t.Errorf("grep read a hard link: %s", r.Message)
	}
	root, err := os.OpenRoot(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	open := benchAt(t, b.dir, files.Config{Workspace: &files.Local{Root: root, AllowHardLinks: true}})
	if r := open.ok("grep", object{"pattern": "canary"}); !strings.Contains(r.Message, "second:1:a canary") {
		t.Errorf("allowed hard link: %s", r.Message)
	}
}

// The test checks that a change of a file counts as destructive when the file can make other programs run commands later (T118). This holds
// for every spelling of the path and through every link.
func TestT118ProtectedFilesAreDestructive(t *testing.T) {
	b := newBench(t, files.Config{Root: "/ws"})
	for _, file := range []string{".git/config", "sub/.git/HEAD", ".envrc", "plain/f", "rules/r.yaml"} {
		b.put(file, "a")
	}
	for link, to := range map[string]string{"dir": ".git", "plain/up": "../.git/hooks", "file": ".envrc", "twice": "dir", "absent": ".bashrc"} {
		b.link(to, link)
	}
	safety := func(path string) tool.Safety {
		args := arguments(t, object{"path": path, "content": "x", "old_text": "a", "new_text": "b", "edits": []object{{"old_text": "a", "new_text": "b"}}})
		var found []tool.Safety
		for _, id := range []string{"write", "edit", "multi_edit"} {
			found = append(found, b.tools[id].(tool.Assessor).Assess(args).Safety)
		}
		if found[0] != found[1] || found[1] != found[2] {
			t.Errorf("%s: %v", path, found)
		}
		return found[0]
	}
	for _, path := range []string{
		".git/config", ".git/hooks/pre-commit", ".GIT/Config", "./.git//hooks/../config", "/ws/.git/config", "plain/../.git/config", ".git",
		"sub/.git/hooks/x", "sub/.git/info/attributes", ".bashrc", "a/b/.bashrc", ".envrc", ".env", ".mcp.json", ".npmrc", ".gitconfig", ".ssh/authorized_keys",
		".vscode/tasks.json", "sub/.idea/x.xml", ".claude/settings.json", ".Cursor/mcp.json", ".husky/pre-commit", ".pre-commit-config.yaml", ".cargo/config.toml", ".Rprofile",
		".local/lib/python3.11/site-packages/e.pth", ".config/git/config", ".bash_aliases", ".hg/hgrc", ".yarnrc.yml", ".vimrc", ".devcontainer/devcontainer.json",
		"dir/config", "dir/hooks/x", "plain/up/x", "file", "twice/config", "twice/hooks/x", "absent",
	} {
		if got := safety(path); got != tool.SafetyDestructive {
			t.Errorf("%s is %s", path, got)
		}
	}
	for _, path := range []string{"plain/f", "plain/new", ".gitignore", ".github/x", "envrc", ".environment", "rules/r.yaml", "x/.gitx/config"} {
		if got := safety(path); got != tool.SafetyMutating {
			t.Errorf("%s is %s", path, got)
		}
	}
	own := newBench(t, files.Config{Protect: []string{"rules", ".x"}})
	for path, want := range map[string]tool.Safety{
		"rules/r.yaml": tool.SafetyDestructive, "Rules/r.yaml": tool.SafetyDestructive, "a/rules/r.yaml": tool.SafetyMutating, "a/.x": tool.SafetyDestructive,
		".git/config": tool.SafetyDestructive, ".bashrc": tool.SafetyMutating,
	} {
		if got := own.tools["write"].(tool.Assessor).Assess(arguments(t, object{"path": path, "content": "x"})).Safety; got != want {
			t.Errorf("with a list of its own %s is %s", path, got)
		}
	}
}

// The test checks that a call does not change a protected file through a link that was created after the assessment (T118).
func TestT118LinkMadeBehindTheAssessment(t *testing.T) {
	b := newBench(t, files.Config{})
	b.put(".git/hooks/x.sample", "a")
	b.put("docs/f", "a")
	b.put(".envrc", "a")
	b.ok("read", object{"path": ".envrc"})
	call := b.call(object{"path": "docs/pre-commit", "content": "evil"})
	if got := b.tools["write"].(tool.Assessor).Assess(call.Arguments).Safety; got != tool.SafetyMutating {
		t.Fatalf("assessed as %s", got)
	}
	must(t, os.RemoveAll(filepath.Join(b.dir, "docs")))
	b.link(".git/hooks", "docs")
	b.link(".envrc", "plain")
	for id, args := range map[string]object{
		"write": {"path": "docs/pre-commit", "content": "evil", "overwrite": true}, "edit": {"path": "plain", "old_text": "a", "new_text": "evil"},
	} {
		b.refused(id, "PROTECTED_FILE", args)
		call := b.call(args)
		shown := b.describe(id, call) // After an approver has seen the target of the link, the change is allowed.
		if notes := strings.Join(shown.Notes, "\n"); !strings.Contains(notes, "follows a symbolic link") || !strings.Contains(notes, "protected") || strings.Contains(notes, "refused") {
			t.Errorf("notes %q", notes)
		}
		if r := b.execute(id, resumed(call, shown.Basis)); !r.IsSuccess() {
			t.Errorf("approved: %+v", r)
		}
	}
}

// The test checks that an approval is valid only for the file to which the path led when the approver saw the change (T120).
func TestT120DirectoryBecomesALink(t *testing.T) {
	b := newBench(t, files.Config{})
	b.put(".git/hooks/x.sample", "a")
	b.put("elsewhere/f", "a")
	for _, to := range []string{"../.git/hooks", "../elsewhere"} {
		b.put("docs2/e1/f", "a")
		call := b.call(object{"path": "docs2/e1/pre-commit", "content": "evil"})
		shown := b.describe("write", call)
		must(t, os.RemoveAll(filepath.Join(b.dir, "docs2/e1")))
		b.link(to, "docs2/e1")
		if r := b.execute("write", resumed(call, shown.Basis)); !r.IsError() {
			t.Errorf("%s: %+v", to, r)
		}
		for _, made := range []string{".git/hooks/pre-commit", "elsewhere/pre-commit"} {
			if _, err := os.Lstat(filepath.Join(b.dir, made)); err == nil {
				t.Errorf("%s was made", made)
			}
		}
		must(t, os.RemoveAll(filepath.Join(b.dir, "docs2")))
	}
}

// The test checks that when an approver edits the path, the approval is valid for the new path (T120).
func TestT120EditedPath(t *testing.T) {
	b := newBench(t, files.Config{})
	shown := b.describe("write", b.call(object{"path": "a/f", "content": "x"}))
	if r := b.execute("write", resumed(b.call(object{"path": "b/f", "content": "x"}), shown.Basis)); !r.IsSuccess() {
		t.Errorf("%+v", r)
	}
}

// The test checks that Replace does not follow a folder of the path that has become a link (T120).
func TestT120ReplaceFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer root.Close()
	must(t, os.MkdirAll(filepath.Join(dir, ".git/hooks"), 0o755))
	must(t, os.Symlink(".git/hooks", filepath.Join(dir, "docs")))
	local := &files.Local{Root: root}
	for _, name := range []string{"docs/pre-commit", "docs/new/f"} {
		if err := local.Replace(t.Context(), name, []byte("evil"), ""); !errors.Is(err, files.ErrChanged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, err := os.ReadDir(filepath.Join(dir, ".git/hooks")); err != nil || len(left) != 0 {
		t.Errorf("made %v, %v", left, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
