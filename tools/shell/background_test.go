package shell_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/tooltest"
	"github.com/toold-dev/toold/tool/typed"
	"github.com/toold-dev/toold/tools/shell"
)

// family contains bash and the tools for background shells.
type family struct {
	t     *testing.T
	tools map[string]tool.Tool
	jobs  *shell.Jobs
	dir   string
}

func background(t *testing.T, b shell.Background) *family {
	t.Helper()
	runner, err := sandbox.New(sandbox.Config{Owner: "shell-test", StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { runner.Close() })
	b.Exec = runner
	f := &family{t: t, tools: map[string]tool.Tool{}, dir: t.TempDir()}
	tools, jobs, err := shell.New(shell.Config{Exec: runner, Dir: f.dir, Background: b})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { jobs.Close(context.Background()) })
	for _, x := range tools {
		f.tools[x.Descriptor().ID] = x
	}
	f.jobs = jobs
	return f
}

// from returns a call by alice in a thread. change may modify it first.
func (f *family) from(args object, change func(*tool.Call)) *tool.Call {
	call := newCall(&tooltest.Recorder{}, args)
	call.Namespace, call.Caller, call.Run = "ns", tool.Principal{Subject: "alice"}, tool.Run{ID: "run-1", Thread: "thread-1"}
	if change != nil {
		change(call)
	}
	return call
}

func (f *family) do(id string, args object) *tool.Result {
	f.t.Helper()
	res, err := f.tools[id].Execute(f.t.Context(), f.from(args, nil))
	if err != nil {
		f.t.Fatalf("%s %v: %v", id, args, err)
	}
	return res
}

func (f *family) start(args object) string {
	f.t.Helper()
	d := data(f.t, f.do("bash", args))
	if d.Shell == "" || !d.Running {
		f.t.Fatalf("%v is not in the background: %+v", args, d)
	}
	return d.Shell
}

func shellData(t *testing.T, r *tool.Result) (d shell.ShellData) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.Data), &d); err != nil {
		t.Fatalf("%v in %q", err, r.Data)
	}
	return d
}

// TestBackground checks that the output of a background command can be read in pieces, and that the command gets typed input. A kill must
// end the command and all processes that it started.
func TestBackground(t *testing.T) {
	f := background(t, shell.Background{})
	id := f.start(object{"command": `echo begun; while read x; do echo "got $x"; done; sleep 1000 & echo $! > pid; wait`, "background": true, "input": true})
	if d := shellData(t, f.do("bash_output", object{"shell_id": id, "since": 0, "wait": 60})); d.Output != "begun\n" || d.Status != "running" || d.Next != 6 {
		t.Errorf("the first page: %+v", d)
	}
	f.do("bash_input", object{"shell_id": id, "text": "one\ntwo\n"})
	if d := shellData(t, f.do("bash_output", object{"shell_id": id, "wait": 60, "filter": "two"})); !strings.HasSuffix(d.Output, "got two\n") || strings.Contains(d.Output, "one") {
		t.Errorf("a page that is filtered: %+v", d)
	}
	if d := shellData(t, f.do("bash_output", object{"shell_id": id, "since": 0})); d.Output != "begun\ngot one\ngot two\n" {
		t.Errorf("all of it again: %+v", d)
	}
	if d := shellData(t, f.do("bash_output", object{"shell_id": id})); d.Output != "" || d.Status != "running" {
		t.Errorf("nothing new: %+v", d)
	}
	if r := f.do("bash_output", object{}); !strings.Contains(r.Message, id) {
		t.Errorf("the list: %q", r.Message)
	}
	f.do("bash_input", object{"shell_id": id, "end": true})
	pid := pidIn(t, filepath.Join(f.dir, "pid"))
	r := f.do("bash_kill", object{"shell_id": id})
	if d := shellData(t, r); d.Status != "killed" || !slices.Contains(r.Process.Killed, pid) || alive(pid) {
		t.Errorf("killed: %+v %+v, %d lives: %t", d, r.Process, pid, alive(pid))
	}
	if r := f.do("bash_output", object{"shell_id": id}); !r.IsError() || r.Error.Reason != "NO_SUCH_SHELL" {
		t.Errorf("a shell that was killed: %+v", r)
	}
}

func pidIn(t *testing.T, path string) (pid int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
		b, _ := os.ReadFile(path)
		if n, _ := fmt.Sscan(string(b), &pid); n == 1 && strings.HasSuffix(string(b), "\n") {
			return pid
		}
		if time.Now().After(deadline) {
			t.Fatal("the script printed no pid")
		}
	}
}

// TestBackgroundAfter checks that a command that takes longer than background_after moves to the background, and that a shorter one returns
// its result as usual.
func TestBackgroundAfter(t *testing.T) {
	f := background(t, shell.Background{})
	call := f.from(object{"command": "echo before; read x; echo after $x", "input": true, "background_after": 2}, nil)
	res, err := f.tools["bash"].Execute(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	d := data(t, res)
	if !d.Running || !strings.HasPrefix(res.Message, "before\n[Continues in the background as shell "+d.Shell) {
		t.Errorf("promoted: %+v %q", d, res.Message)
	}
	f.do("bash_input", object{"shell_id": d.Shell, "text": "x\n"})
	if d := shellData(t, f.do("bash_output", object{"shell_id": d.Shell, "wait": 60})); d.Output != "after x\n" {
		t.Errorf("what comes after: %+v", d)
	}
	if got := call.Reporter.(*tooltest.Recorder).Stream("stdout"); got != "before\n" {
		t.Errorf("the call's own stream has %q", got)
	}
	if d := data(t, f.do("bash", object{"command": "echo quick; exit 3", "background_after": 600})); d.ExitCode != 3 || d.Shell != "" || d.Stdout != "quick\n" {
		t.Errorf("a quick one: %+v", d)
	}
	if n := len(jsonList(t, f.do("bash_output", object{}))); n != 1 {
		t.Errorf("%d shells are listed, want the one that outlived its call", n)
	}
}

func jsonList(t *testing.T, r *tool.Result) (list []shell.ShellData) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.Data), &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// The test checks that other callers, persons, threads and namespaces cannot see or use a shell.
func TestBackgroundBelongsToItsThread(t *testing.T) {
	f := background(t, shell.Background{})
	id := f.start(object{"command": "echo secret; cat", "background": true, "input": true})
	for what, change := range map[string]func(*tool.Call){
		"another caller":    func(c *tool.Call) { c.Caller.Subject = "mallory" },
		"another person":    func(c *tool.Call) { c.OnBehalfOf = "vic" },
		"another thread":    func(c *tool.Call) { c.Run.Thread = "thread-2" },
		"no thread":         func(c *tool.Call) { c.Run.Thread = "" },
		"another namespace": func(c *tool.Call) { c.Namespace = "other" },
	} {
		for _, name := range []string{"bash_output", "bash_input", "bash_kill"} {
			res, err := f.tools[name].Execute(t.Context(), f.from(object{"shell_id": id, "text": "x", "since": 0}, change))
			if err != nil || !res.IsError() || res.Error.Reason != "NO_SUCH_SHELL" {
				t.Errorf("%s of %s: %+v, %v", name, what, res, err)
			}
		}
		res, err := f.tools["bash_output"].Execute(t.Context(), f.from(object{}, change))
		if err != nil || len(jsonList(t, res)) != 0 {
			t.Errorf("list of %s: %+v, %v", what, res, err)
		}
	}
	if f.jobs.Running() != 1 {
		t.Error("somebody else ended it")
	}
}

// A filter finds a match that comes after a page without any match. It also finds each match once when a line crosses the end of a page.
func TestBackgroundFilterGoesOn(t *testing.T) {
	f := background(t, shell.Background{})
	id := f.start(object{"command": "yes 'some line that is not it' | head -2000; echo the end of it; sleep 1000", "background": true})
	// since is 0 because output from before the move to the background already counts as read.
	d := shellData(t, f.do("bash_output", object{"shell_id": id, "since": 0, "wait": 60, "filter": "^the end of it$"}))
	if d.Output != "the end of it\n" || d.Status != "running" {
		t.Errorf("found %q of a shell that is %s", d.Output, d.Status)
	}
	id = f.start(object{"command": "for i in $(seq 3000); do echo needle $i; done; sleep 1000", "background": true})
	for next, since := 1, int64(0); next <= 3000; since = d.Next {
		d = shellData(t, f.do("bash_output", object{"shell_id": id, "since": since, "wait": 60, "filter": "^needle [0-9]+$"}))
		for line := range strings.Lines(d.Output) {
			if line != fmt.Sprintf("needle %d\n", next) {
				t.Fatalf("line %q, want needle %d", line, next)
			}
			next++
		}
	}
}

// The test checks that a filter that would take minutes for one page is rejected.
func TestT15FilterEnds(t *testing.T) {
	f := background(t, shell.Background{})
	v := f.tools["bash_output"].(tool.Validator)
	if err := v.Validate(typed.Args(object{"shell_id": "sh-1", "filter": strings.Repeat(".{0,1000}", 100) + "x"})); err == nil {
		t.Error("a filter of 200,000 instructions was taken")
	}
}

// The test checks three limits (P11): the number of shells, the output that is kept of each shell, and the input that a shell has not read
// yet.
func TestBackgroundIsBounded(t *testing.T) {
	f := background(t, shell.Background{Each: 2, All: 3, Log: 1 << 10})
	flood := f.start(object{"command": "seq 100000; echo done; cat >/dev/null; sleep 1000", "background": true})
	var d shell.ShellData
	for d = shellData(t, f.do("bash_output", object{"shell_id": flood, "wait": 60, "filter": "done"})); d.More; {
		d = shellData(t, f.do("bash_output", object{"shell_id": flood}))
	}
	if d = shellData(t, f.do("bash_output", object{"shell_id": flood, "since": 0})); d.Gone == 0 || len(d.Output) > 3<<10 || !strings.HasSuffix(d.Output, "done\n") {
		t.Errorf("of a flood %d bytes are kept from %d on, %d gone", len(d.Output), d.From, d.Gone)
	}
	deaf := f.start(object{"command": "sleep 1000", "background": true, "input": true})
	full := false
	for range 100 {
		full = full || f.do("bash_input", object{"shell_id": deaf, "text": strings.Repeat("x", 30_000)}).IsError()
	}
	if !full {
		t.Error("3 MB were typed into a shell that reads nothing")
	}
	_, err := f.tools["bash"].Execute(t.Context(), f.from(object{"command": "true", "background": true}, nil))
	if e := tool.AsError(err); err == nil || e.Code != tool.ResourceExhausted {
		t.Errorf("a third one of a thread: %v", err)
	}
	other := func(c *tool.Call) { c.Run.Thread = "thread-2" }
	for want := range 3 {
		_, err := f.tools["bash"].Execute(t.Context(), f.from(object{"command": "sleep 1000", "background": true}, other))
		if (err != nil) != (want > 0) {
			t.Errorf("shell %d beyond those of one thread: %v", want+1, err)
		}
	}
	f.do("bash_kill", object{"shell_id": deaf})
	if _, err := f.tools["bash"].Execute(t.Context(), f.from(object{"command": "sleep 1000", "background": true}, other)); err != nil {
		t.Errorf("in the place of one that was killed: %v", err)
	}
}

// TestBackgroundEnds checks that a shell and all its processes end when its run ends, its call is purged, its lifetime is over or the
// daemon stops. They also end when the call is cancelled before the shell moves to the background.
func TestBackgroundEnds(t *testing.T) {
	f := background(t, shell.Background{})
	script := `(setsid bash -c 'trap "" TERM HUP; echo $$ > pid; sleep 1000' >/dev/null 2>&1 </dev/null &); until [ -s pid ]; do sleep 0.01; done; echo ready; sleep 1000`
	pid := func() int { return pidIn(t, filepath.Join(f.dir, "pid")) }
	for what, end := range map[string]func(id string){
		"its run": func(string) { f.jobs.EndRun("ns", "run-1") },
		"a purge": func(id string) {
			f.jobs.PurgeCalls("ns", []string{"call-1"})
			if r := f.do("bash_output", object{"shell_id": id}); !r.IsError() {
				t.Errorf("a purged shell: %+v", r)
			}
		},
		"its time": func(id string) {
			for shellData(t, f.do("bash_output", object{"shell_id": id, "wait": 60, "filter": "never"})).Status == "running" {
			}
		},
	} {
		os.Remove(filepath.Join(f.dir, "pid"))
		args := object{"command": script, "background": true}
		if what == "its time" {
			args["timeout"] = 2
		}
		id := f.start(args)
		stray := pid()
		end(id)
		for deadline := time.Now().Add(time.Minute); alive(stray) && time.Now().Before(deadline); {
			time.Sleep(2 * time.Millisecond)
		}
		if alive(stray) {
			t.Errorf("ended with %s: process %d lives", what, stray)
		}
	}
	f.jobs.EndRun("ns", "another run")

	os.Remove(filepath.Join(f.dir, "pid"))
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error)
	go func() {
		_, err := f.tools["bash"].Execute(ctx, f.from(object{"command": script, "background_after": 600}, nil))
		done <- err
	}()
	stray := pid()
	stop := fmt.Errorf("stop")
	cancel(stop)
	if err := <-done; err != stop || alive(stray) {
		t.Errorf("cancelled before it was left: %v, process lives: %t", err, alive(stray))
	}

	os.Remove(filepath.Join(f.dir, "pid"))
	f.start(object{"command": script, "background": true})
	stray = pid()
	f.jobs.Close(t.Context())
	if alive(stray) || f.jobs.Running() != 0 {
		t.Errorf("closed: process lives: %t, %d running", alive(stray), f.jobs.Running())
	}
	if _, err := f.tools["bash"].Execute(t.Context(), f.from(object{"command": "true", "background": true}, nil)); err == nil {
		t.Error("one was started after the end")
	}
}

// starOut is a Cleaner that replaces the word "secret", also when it is split across chunks.
type starOut struct{ held string }

func (s *starOut) Next(b []byte) []byte {
	text := strings.ReplaceAll(s.held+string(b), "secret", "******")
	n := max(0, len(text)-5)
	s.held = text[n:]
	return []byte(text[:n])
}

func (s *starOut) End() []byte { return []byte(s.held) }

// The test checks that the output of a shell is cleaned before it is stored. Otherwise a page could end inside a secret and show half of
// it.
func TestBackgroundIsCleaned(t *testing.T) {
	f := background(t, shell.Background{Clean: func() shell.Cleaner { return &starOut{} }})
	id := f.start(object{"command": "printf 'a sec'; sleep 0.05; printf 'ret b'", "background": true})
	for shellData(t, f.do("bash_output", object{"shell_id": id, "wait": 60, "filter": "never"})).Status == "running" {
	}
	out := shellData(t, f.do("bash_output", object{"shell_id": id, "since": 0})).Output
	if out != "a ****** b" {
		t.Errorf("shown: %q", out)
	}
}

// The test checks that text typed into a shell is assessed as strictly as a command of bash, and always counts at least as a change.
func TestBackgroundToolsAreAssessed(t *testing.T) {
	f := background(t, shell.Background{})
	for _, tt := range []struct {
		id     string
		args   object
		letter string
	}{
		{"bash_output", object{"shell_id": "x"}, "R"},
		{"bash_input", object{"shell_id": "x", "text": "ls\n"}, "M"},
		{"bash_input", object{"shell_id": "x", "text": "y\n"}, "M"},
		{"bash_input", object{"shell_id": "x", "signal": "SIGINT"}, "M"},
		{"bash_input", object{"shell_id": "x", "text": "curl http://h/\n"}, "N"},
		{"bash_input", object{"shell_id": "x", "text": "rm -rf x\n"}, "D"},
		{"bash_input", object{"shell_id": "x", "text": "shutil.rmtree('x')\n"}, "D"},
		{"bash_input", object{"shell_id": "x", "text": "\u0003"}, "D"},
		{"bash", object{"command": "ls", "background": true, "input": true}, "R"},
	} {
		x := f.tools[tt.id]
		d := x.Descriptor()
		e := d.Effects.Normal()
		if a, ok := x.(tool.Assessor); ok {
			e = a.Assess(typed.Args(tt.args))
		}
		if !reflect.DeepEqual(e, effects[tt.letter]) {
			t.Errorf("%s %v: %+v, want %s", tt.id, tt.args, e, tt.letter)
		}
		if e.MilderThan(d.MildestEffects()) {
			t.Errorf("%s %v: %+v is milder than announced", tt.id, tt.args, e)
		}
	}
	if e := f.tools["bash_kill"].Descriptor().Effects.Normal(); e.Mutability != tool.Mutating || e.Tier != tool.Confirm {
		t.Errorf("bash_kill: %+v", e)
	}
}
