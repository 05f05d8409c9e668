package command_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/command"
)

func quoted(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return b
}

// TestResults checks which result a call gets, depending on the program's output and exit code.
func TestResults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, run, script, data, text string }{
		{"text", "", "echo hello", `"hello\n"`, "hello\n"},
		{"nothing", "", "true", `""`, "(no output)"},
		{"no UTF-8", "", `printf 'a\377b'`, `"a�b"`, "a\uFFFDb"},
		{"exit code", "", "echo out; echo because >&2; exit 3", "null", "The program ended with exit code 3.\nout\nbecause"},
		{"exit code that is no failure", ", exit_codes: [0, 1]", "echo none; exit 1", `"none\n"`, "none\n\nExit code 1"},
		{"signal", "", "kill -9 $$", "null", "The program was stopped by signal SIGKILL."},
		{"standard input", ", stdin: arguments", "cat", `"{}\n"`, "{}\n"},
		{"no standard input", "", "cat", `""`, "(no output)"},
		{"JSON", ", output: json", `printf '{"n": 1.50}\n'`, `{"n": 1.50}`, `{"n": 1.50}`},
		{"no JSON", ", output: json", "echo {; echo because >&2", "null", "The program's output is not valid JSON.\nbecause"},
		{"two of JSON", ", output: json", "echo 1; echo 2", "null", "The program's output is not valid JSON."},
		{"JSON without end", ", output: json, limits: {output: 1000}", "yes", "null", "The program printed more than the 1000 bytes of JSON that its manifest allows"},
		{"line", ", output: lines", `echo noise; echo '{"result": {"n": 1.50}, "message": "done", "display_preference": "CODE"}'; echo '{"result": 2}'`, `{"n": 1.50}`, "done"},
		{"text in a line", ", output: lines", `printf '{"result": "a\\nb"}'`, `"a\nb"`, "a\nb"},
		{"no line", ", output: lines", "echo noise", "null", "The program ended without a result."},
		{"line and exit code", ", output: lines", `echo '{"result": 1}'; echo because >&2; exit 1`, "null", "The program ended with exit code 1.\nbecause"},
		{"error in a line", ", output: lines", `echo '{"error": {"reason": "NO_MATCH", "message": "nothing", "data": [1]}}'; exit 1`, "[1]", "nothing"},
		{"bad line", ", output: lines", `echo; echo '{"resul": 1}'; sleep 60`, "null", `The program printed an invalid line: line 2 resul: is not a known member of a line`},
		{"long line", ", output: lines, limits: {output: 1000}", `head -c 2000 /dev/zero; sleep 60`, "null", "The program printed a line of more than the 1000 bytes that its manifest allows"},
		{"it goes on", ", output: lines, grace: 50ms", `echo '{"result": 1}'; sleep 60`, "1", "1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			one := newClient(t, s.load("id: x\nrun: {program: ./run"+tt.run+"}\n", "#!/bin/sh\n"+tt.script+"\n"))
			began := time.Now()
			r, err := one.run("{}")
			if err != nil || r.JSON() != tt.data || r.ModelText() != tt.text {
				t.Errorf("%v\ndata %s\ntext %q", err, r.JSON(), r.ModelText())
			}
			if time.Since(began) > 50*time.Second {
				t.Error("the call waited for a program that had given its whole answer")
			}
		})
	}
}

// TestLines checks that a program can report progress, activities, output and checkpoints in lines while the call runs.
func TestLines(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	one := newClient(t, s.load("id: x\nrun: {program: ./run, output: lines}\n", `#!/bin/sh
cat <<'END'
{"progress": {"fraction": 0.5, "message": "half"}}
{"activity": {"id": "a", "type": "plan", "content": {"n": 1}}}
{"activity_delta": {"id": "a", "patch": {"op": "replace", "path": "/n", "value": 2}}}
{"output": "words\n"}
{"output": {"stream": "log", "text": "more"}}
{"checkpoint": {"done": 3}}
{"result": null}
END
echo stderr >&2
`))
	r, err := one.run("{}")
	if err != nil || !r.IsSuccess() || r.JSON() != "null" {
		t.Fatalf("%v, %v", r, err)
	}
	if p := one.reporter.ProgressReports(); len(p) != 1 || p[0].Status != tool.ProgressRunning || p[0].Fraction != 0.5 || p[0].Message != "half" {
		t.Errorf("progress %+v", p)
	}
	if a := strings.Join(one.reporter.ActivityReports(), "|"); a != `a plan {"n":1}|a [{"op":"replace","path":"/n","value":2}]` {
		t.Errorf("activities %s", a)
	}
	if out, log, e := one.reporter.Stream("stdout"), one.reporter.Stream("log"), one.reporter.Stream("stderr"); out != "words\n" || log != "more" || e != "stderr\n" {
		t.Errorf("output %q, %q, %q", out, log, e)
	}
	if c := string(one.reporter.Checkpoint()); !strings.Contains(c, `"checkpoint":{"done":3}`) {
		t.Errorf("checkpoint %s", c)
	}
}

const asks = `#!/bin/sh
if [ -z "$TOOLD_RESUME" ]; then
  echo '{"checkpoint": [1]}'
  echo '{"suspend": {"action": "input", "message": "Name?", "response_schema": {"type": "string"}, "parameters": {"a": 1}, "expires_in": "2d"}}'
else
  printf '{"result": {"answer": %s, "checkpoint": %s}}\n' "$TOOLD_RESUME" "$TOOLD_CHECKPOINT"
fi
`

// TestAnswers checks that a program gets the answer to its question, together with its checkpoint. The program gets no answer to the
// question of a gate, and none when the arguments have changed.
func TestAnswers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	one := newClient(t, s.load("id: x\nparameters: {properties: {a: {type: string}}}\nrun: {program: ./run, output: lines, args: ['{a}']}\n", asks))
	answered := func(action, result string) *tool.ResumeInput {
		return &tool.ResumeInput{Reason: action, Result: result}
	}
	one.call.Resume = answered("approval", "") // This question came from a gate, not from the program.
	r, err := one.run("{}")
	if err != nil || !r.IsPending() || r.Suspension.Action != "input" || r.Suspension.Message != "Name?" || r.Suspension.ExpiresIn != 48*time.Hour ||
		string(r.Suspension.ResponseSchema) != `{"type": "string"}` || string(r.Suspension.Parameters) != `{"a": 1}` {
		t.Fatalf("%+v, %v", r, err)
	}
	one.call.Resume = answered("approval", `"not mine"`)
	if r, err = one.run("{}"); err != nil || !r.IsPending() {
		t.Errorf("an answer to a gate is taken for its own: %v, %v", r, err)
	}
	one.call.Resume = answered("input", `"Ada"`)
	if r, err = one.run(`{"a":"edited"}`); err != nil || !r.IsPending() {
		t.Errorf("an answer about other arguments is taken: %v, %v", r, err)
	}
	if r, err = one.run(`{"a":"edited"}`); err != nil || r.JSON() != `{"answer": "Ada", "checkpoint": [1]}` {
		t.Errorf("%v, %v", r.JSON(), err)
	}
}

// The test checks that a program whose manifest sets `stdin: call` reads the whole description of the attempt.
func TestCallOnStandardInput(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	one := newClient(t, s.load("id: x\nparameters: {properties: {a: {type: number}}}\nrun: {program: /bin/cat, stdin: call, output: json}\n", ""))
	r, err := one.run(`{"a":1.50}`)
	var input struct {
		Call struct {
			ID        string          `json:"call_id"`
			Tool      string          `json:"tool"`
			Attempt   int             `json:"attempt"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"call"`
	}
	if err == nil {
		err = json.Unmarshal([]byte(r.Data), &input)
	}
	if c := input.Call; err != nil || c.ID != one.call.ID || c.Tool != "x" || c.Attempt != 1 || string(c.Arguments) != `{"a":1.50}` {
		t.Errorf("%+v, %v", r, err)
	}
}

// The test checks that the result contains the beginning and the end of a long output, and that the stream contains the whole output.
func TestLongOutput(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	one := newClient(t, s.load("id: x\noutput_budget: 8000\nrun: {program: /usr/bin/seq, args: ['100000']}\n", ""))
	r, err := one.run("{}")
	if err != nil || !r.Truncated || len(r.Message) > 8000 || !strings.HasPrefix(r.Message, "1\n2\n") || !strings.HasSuffix(r.Message, "\n100000\n") ||
		!strings.Contains(r.Message, "artifact://call-00000000000001/stdout") {
		t.Errorf("%v, %d, %.100s … %.100s", err, len(r.Message), r.Message, r.Message[len(r.Message)-50:])
	}
	if got := one.reporter.Stream("stdout"); len(got) != 588895 {
		t.Errorf("the stream has %d bytes", len(got))
	}
}

// TestCancel checks that a cancel kills all processes of the program and that the result lists them.
func TestCancel(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	one := newClient(t, s.load("id: x\nrun: {program: ./run, grace: 100ms}\n", "#!/bin/sh\ntrap '' TERM\n(setsid sleep 600 &)\necho here\nwhile :; do sleep 1; done\n"))
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	go func() {
		for one.reporter.Stream("stdout") == "" {
			time.Sleep(5 * time.Millisecond)
		}
		cancel(why)
	}()
	r, err := one.within(ctx, "{}")
	if !errors.Is(err, why) || r == nil || r.Process == nil || len(r.Process.Killed) < 2 || r.Process.ConfirmedAt.IsZero() {
		t.Errorf("%+v, %v", r, err)
	}
}

// cancelling is an Exec that invokes the function printed after each output of the program, and the function ended when the program has ended.
type cancelling struct {
	command.Exec
	printed, ended func()
}

func (c cancelling) Run(ctx context.Context, spec sandbox.Spec) (*sandbox.Exit, error) {
	write := spec.Output
	spec.Output = func(stream string, chunk []byte) error {
		defer c.printed()
		return write(stream, chunk)
	}
	defer c.ended()
	return c.Exec.Run(ctx, spec)
}

// The test checks that a result remains valid when it is complete before the kill. A result that the program prints because of the kill is
// ignored.
func TestCancelComesLate(t *testing.T) {
	t.Parallel()
	why := errors.New("enough")
	for _, tt := range []struct {
		name, run, script string
		printed           bool // true: the call is cancelled after the first output; false: after the end of the program
		want              string
	}{
		{"it ended by itself", "", "echo done", false, "done\n"},
		{"and as lines", ", output: lines", `echo '{"result":1}'`, false, "1"},
		{"and failed", "", "echo no; exit 3", false, "The program ended with exit code 3.\nno"},
		{"it lingers", ", output: lines", `echo '{"result":1}'; sleep 600`, true, "1"},
		{"it has a question and lingers", ", output: lines", `echo '{"suspend":{"message":"?"}}'; sleep 600`, true, "PENDING"},
		{"it answers the kill", ", output: lines", `trap 'echo "{\"result\":1}"; exit' TERM; echo up; while :; do sleep 0.05; done`, true, "enough"},
		{"half of the output", "", "echo half; sleep 600", true, "enough"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			late := cancelling{runner, func() {}, func() { cancel(why) }}
			if tt.printed {
				late.printed = late.ended
			}
			s.cfg.Exec = late
			r, err := newClient(t, s.load("id: x\nrun: {program: ./run"+tt.run+"}\n", "#!/bin/sh\n"+tt.script+"\n")).within(ctx, "{}")
			got := fmt.Sprint(err)
			switch {
			case err == nil && r.IsPending():
				got = string(r.Status)
			case err == nil:
				got = r.ModelText()
			}
			if got != tt.want {
				t.Errorf("%q, want %q: %+v", got, tt.want, r)
			}
		})
	}
}

// TestIsolation checks that a program sees its own files and the workspace, and starts in the directory run.directory. It does not run when
// it cannot be isolated.
func TestIsolation(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	must(t, os.Mkdir(filepath.Join(s.workspace, "sub"), 0o755))
	s.write("data", "mine")
	s.write("other", "other")
	one := newClient(t, s.load("id: x\nrun: {program: ./run, files: [{path: ./data}], directory: sub}\n",
		"#!/bin/sh\npwd\ncat "+s.dir+"/data; cat "+s.dir+"/other 2>&1; wc -l < /proc/net/dev\n"))
	want := filepath.Join(s.workspace, "sub") + "\nmine" + "cat: " + s.dir + "/other: No such file or directory\n3\n"
	if got := one.text("{}"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	must(t, os.Remove(filepath.Join(s.workspace, "sub"))) // A caller could replace the directory with a link that leads out of the workspace (T131).
	must(t, os.Symlink(s.dir, filepath.Join(s.workspace, "sub")))
	for _, profile := range []string{"none", "default"} {
		one = newClient(t, s.load("id: x\nrun: {program: /bin/pwd, directory: sub, profile: "+profile+"}\n", ""))
		if r, err := one.run("{}"); err == nil || !strings.Contains(tool.AsError(err).DeveloperMessage, "a symbolic link leads out of "+s.workspace) {
			t.Errorf("profile %s: %+v, %v", profile, r, err)
		}
	}
	s.cfg.Exec = refusing{}
	one = newClient(t, s.load("id: x\nrun: {program: /bin/true}\n", ""))
	_, err := one.run("{}")
	if e := tool.AsError(err); e.Code != tool.Sandbox || e.Reason != "net" {
		t.Errorf("without isolation: %v", err)
	}
}

// refusing is an Exec on a machine that cannot isolate the network.
type refusing struct{}

func (refusing) Run(context.Context, sandbox.Spec) (*sandbox.Exit, error) {
	return nil, &sandbox.RefusedError{Fact: "net", Step: "network", Err: errors.New("no namespace")}
}

func FuzzLine(f *testing.F) {
	for _, text := range []string{
		`{"progress":{"status":"done","fraction":1}}`, `{"id":"a/1","result":{"a":1e400},"message":"m","content":[{"type":"text","text":"x"}]}`,
		`{"suspend":{"message":"?","expires_in":"7d","approvers":{"roles":["a"]}}}`, `{"error":{"reason":"A","message":"b"}}`, `{"output":"x"}`, `{"result":1}{`, `{"result":1,"result":2}`,
		`{"checkpoint":null}`, "{\"\xff\":1}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		last, err := command.ParseLineForTest(text)
		if err == nil && !json.Valid(text) {
			t.Errorf("%q is taken for a line, %t", text, last)
		}
	})
}

// The test checks that when a program runs out of memory, the reason of the error says so (T27).
func TestT27OutOfMemory(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	facts, err := runner.Prove(t.Context(), sandbox.Policy{Workspace: s.workspace})
	must(t, err)
	t.Logf("mem_limit: %+v", facts.MemLimit)
	if !facts.MemLimit.Held {
		if facts.MemLimit.Detail == "" {
			t.Error("there is no reason why not")
		}
		return
	}
	const limits = "limits: {memory_total: 67108864, cpus: 2}"
	one := newClient(t, s.load("id: x\nrun: {program: ./run, "+limits+"}\n", "#!/bin/sh\necho begun; head -c 256M /dev/zero | tail -c 256M | wc -c\n"))
	r, err := one.run("{}")
	if err != nil || r.Error == nil || r.Error.Reason != sandbox.ReasonOOM || !strings.Contains(r.ModelText(), "out of memory") || !strings.Contains(r.ModelText(), "begun") {
		t.Errorf("%v, %+v", err, r)
	}
	one = newClient(t, s.load("id: x\nrun: {program: ./run, output: lines, stdin: call, persistent: {}, "+limits+"}\n", "#!/bin/sh\nread x; head -c 256M /dev/zero | tail -c 256M >/dev/null\n"))
	if r, err := one.run("{}"); err != nil || r.Error == nil || r.Error.Reason != sandbox.ReasonOOM {
		t.Errorf("persistent: %v, %+v", err, r)
	}
}
