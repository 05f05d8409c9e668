package command_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/command"
)

// hot is a persistent program. It answers each call with its process id, the number of calls that it has served, and a secret. The argument
// do selects other behaviour.
const hot = `#!/bin/sh
echo started >&2
n=0
while read -r l; do
  n=$((n+1)); id=${l#*'"id":"'}; id=${id%%'"'*}
  case $l in
  *'"do":"die"'*) echo last words >&2; exit 7;;
  *'"do":"hang"'*) (setsid sleep 600 &); echo "{\"id\":\"$id\",\"progress\":{\"message\":\"hanging\"}}"; sleep 600;;
  *'"do":"whisper"'*) echo private >&2;;
  *'"do":"foreign"'*) echo "{\"id\":\"other/1\",\"result\":1}"; sleep 600;;
  *'"do":"ask"'*) case $l in *'"resume"'*) ;; *) echo "{\"id\":\"$id\",\"suspend\":{\"message\":\"?\"}}"; continue;; esac;;
  esac
  echo noise
  echo "{\"id\":\"$id\",\"checkpoint\":$n}"
  echo "{\"id\":\"$id\",\"result\":[$$,$n,\"$KEY\"]}"
  echo "{\"id\":\"$id\",\"progress\":{\"message\":\"late\"}}"
done
echo bye >> ended
`

func hotManifest(more string) string {
	return "id: hot\nparameters: {properties: {do: {type: string}}}\nrun: {program: ./run, output: lines, grace: 300ms, persistent: {" + more + "}}\n"
}

// served returns the process id, the number of calls served and the secret from a result of hot.
func served(t *testing.T, r *tool.Result, err error) (pid, n int, key string) {
	t.Helper()
	if err != nil || !r.IsSuccess() {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := fmt.Sscanf(r.Data, "[%d,%d,%q]", &pid, &n, &key); err != nil {
		t.Fatalf("%s: %v", r.Data, err)
	}
	return pid, n, key
}

// caller returns a client for a call in a namespace.
func caller(t *testing.T, one tool.Tool, namespace, id string) *client {
	c := newClient(t, one)
	c.call.Namespace, c.call.ID = namespace, "call-0000000000-"+id
	return c
}

// The test checks that one process serves many calls of a namespace, up to its limit, and that another namespace gets its own process.
func TestHotServesMany(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	one := s.load(hotManifest("calls: 3"), hot)
	for i := range 4 {
		c := caller(t, one, "default", fmt.Sprint(i))
		r, err := c.run("{}")
		if _, n, _ := served(t, r, err); n != i%3+1 {
			t.Errorf("call %d is the %dth of its process", i, n)
		}
		if out := c.reporter.Stream("stdout"); out != "noise\n" {
			t.Errorf("output %q", out)
		}
		if p := c.reporter.ProgressReports(); len(p) != 0 {
			t.Errorf("output after the end was published: %v", p)
		}
	}
	r, err := caller(t, one, "other", "x").run("{}")
	if _, n, _ := served(t, r, err); n != 1 {
		t.Error("a process serves two namespaces")
	}
}

// The test checks that at most as many processes run at the same time as the setting instances allows, and that further calls wait for a
// free process.
func TestHotAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	one := s.load(hotManifest("instances: 2"), hot)
	pids := map[int]bool{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			r, err := caller(t, one, "default", fmt.Sprint(i)).run("{}")
			mu.Lock()
			defer mu.Unlock()
			if err != nil || !r.IsSuccess() {
				t.Errorf("%v, %v", r, err)
				return
			}
			pid, _, _ := served(t, r, err)
			pids[pid] = true
		})
	}
	all.Wait()
	if len(pids) == 0 || len(pids) > 2 {
		t.Errorf("%d processes served", len(pids))
	}
}

// The test checks that a call that asked a question continues in the same process when the answer arrives.
func TestHotAsks(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	c := caller(t, s.load(hotManifest(""), hot), "default", "a")
	r, err := c.run(`{"do":"ask"}`)
	if err != nil || !r.IsPending() {
		t.Fatalf("%+v, %v", r, err)
	}
	c.call.Resume = &tool.ResumeInput{Reason: "tool:hot", Result: "true"}
	r, err = c.run(`{"do":"ask"}`)
	if _, n, _ := served(t, r, err); n != 2 {
		t.Errorf("%s", r.Data)
	}
}

// The test checks that a cancel kills the process and all processes that it started, and that the next call gets a new process.
func TestHotCancel(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	one := s.load(hotManifest(""), hot)
	c := caller(t, one, "default", "a")
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	go func() {
		for len(c.reporter.ProgressReports()) == 0 {
			time.Sleep(5 * time.Millisecond)
		}
		cancel(why)
	}()
	r, err := c.within(ctx, `{"do":"hang"}`)
	if !errors.Is(err, why) || r == nil || r.Process == nil || len(r.Process.Killed) < 2 || r.Process.ConfirmedAt.IsZero() {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = caller(t, one, "default", "b").run("{}")
	if _, n, _ := served(t, r, err); n != 1 {
		t.Errorf("%s", r.Data)
	}
}

// The test checks the error of a call when its process ends early, violates the protocol or cannot be started. A later call gets a new
// process.
func TestHotFailures(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	one := s.load(hotManifest(""), hot)
	for _, tt := range []struct{ do, reason, text string }{
		{"die", "PROGRAM_ENDED", "The program ended before it answered, with exit code 7.\nstarted\nlast words"},
		{"foreign", "BAD_LINE", `The program printed a line for the call "other/1", which it never received`},
	} {
		r, err := caller(t, one, "default", tt.do).run(`{"do":"` + tt.do + `"}`)
		if err != nil || r.Error == nil || r.Error.Reason != tt.reason || r.ModelText() != tt.text {
			t.Errorf("%s: %+v, %v", tt.do, r, err)
		}
	}
	r, err := caller(t, one, "default", "after").run("{}")
	served(t, r, err)
	missing := caller(t, s.load(hotManifest(""), "#!/bin/no-such-interpreter\n"), "default", "none")
	if _, err := missing.run("{}"); tool.AsError(err).Reason != "START_FAILED" || !errors.Is(err, tool.ErrNotRun) {
		t.Errorf("a program that does not start: %v", err)
	}
}

// The test checks that an idle process is ended, and that its standard input is closed first, so that it can end by itself.
func TestHotIdle(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	one := s.load(hotManifest("idle: 10ms"), hot)
	r, err := caller(t, one, "default", "a").run("{}")
	served(t, r, err)
	ended := func() bool { text, _ := os.ReadFile(s.workspace + "/ended"); return string(text) == "bye\n" }
	for deadline := time.Now().Add(2 * time.Minute); !ended(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it never ends")
		}
	}
	r, err = caller(t, one, "default", "b").run("{}")
	if _, n, _ := served(t, r, err); n != 1 {
		t.Errorf("%s", r.Data)
	}
}

// The test checks that a call starts a new process when the value of a secret has changed.
func TestHotSecrets(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	v := &vault{values: map[string]string{"key": "old"}}
	s.cfg.Secrets = v
	one := s.load(strings.Replace(hotManifest(""), "program:", "secrets: {KEY: 'secret://key'}, program:", 1), hot)
	for i, want := range []string{"old", "old", "new"} {
		if i == 2 {
			v.set("key", "new")
		}
		r, err := caller(t, one, "default", fmt.Sprint(i)).run("{}")
		if _, n, key := served(t, r, err); key != want || n != []int{1, 2, 1}[i] {
			t.Errorf("call %d: %s", i, r.Data)
		}
	}
}

// The test checks that a reload keeps the processes of unchanged manifests and ends the others.
func TestHotReload(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("run", hot)
	s.write("hot.yaml", hotManifest(""))
	load := func(earlier *command.Set) *command.Set {
		set, err := command.Load(s.cfg, s.dir, earlier)
		must(t, err)
		return set
	}
	first := load(nil)
	r, err := caller(t, first.Tools()[0], "default", "a").run("{}")
	pid, _, _ := served(t, r, err)
	second := load(first)
	first.Retire(second)
	if !second.Same(first) {
		t.Error("nothing changed, and yet the sets are not the same")
	}
	r, err = caller(t, second.Tools()[0], "default", "b").run("{}")
	if again, n, _ := served(t, r, err); again != pid || n != 2 {
		t.Errorf("a reload without a change ended the process")
	}
	s.write("hot.yaml", hotManifest("calls: 5"))
	third := load(second)
	second.Retire(third)
	defer third.Close()
	if third.Same(second) {
		t.Error("a change is none")
	}
	second.Close() // Close ends the programs and waits for their end.
	r, err = caller(t, third.Tools()[0], "default", "c").run("{}")
	if _, n, _ := served(t, r, err); n != 1 {
		t.Errorf("a changed manifest is served by the old process: %s", r.Data)
	}
}
