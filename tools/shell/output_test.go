package shell_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/tooltest"
	"github.com/toold-dev/toold/tool/typed"
	"github.com/toold-dev/toold/tools/shell"
)

// script is an Exec that writes given chunks as output.
type script struct {
	chunks []chunk
	exit   sandbox.Exit
	err    error
}

type chunk struct {
	stream string
	b      []byte
}

func (s script) Run(_ context.Context, spec sandbox.Spec) (*sandbox.Exit, error) {
	buffer := make([]byte, 0, 64)
	for _, c := range s.chunks {
		buffer = append(buffer[:0], c.b...)
		if err := spec.Output(c.stream, buffer); err != nil {
			return &s.exit, err
		}
		clear(buffer) // Clearing the buffer shows whether the tool keeps it, which is forbidden.
	}
	return &s.exit, s.err
}

var missing = regexp.MustCompile(`\n\[… (\d+) bytes left out; the full text is artifact://[^/]+/(\w+) …\]\n`)

// The test checks that for any output the result does not exceed its budget. The result contains each stream in full, or the real beginning
// and end of the stream.
func TestResultKeepsHeadAndTail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := script{}
		text := map[string]string{}
		// The alphabets are: plain text, characters of several bytes, bytes that take six bytes in JSON, and invalid UTF-8.
		alphabets := []string{"abc\n", "ä€😀", "\x00\x1b\"\\", "\xff\xc3"}
		for range rapid.IntRange(0, 12).Draw(t, "chunks") {
			stream := rapid.SampledFrom([]string{"stdout", "stderr"}).Draw(t, "stream")
			piece := rapid.SampledFrom(alphabets).Draw(t, "alphabet")
			b := strings.Repeat(piece, rapid.IntRange(1, 1500).Draw(t, "repeat"))
			s.chunks = append(s.chunks, chunk{stream, []byte(b)})
			text[stream] += b
		}
		budget := rapid.IntRange(1<<10, 16<<10).Draw(t, "budget")
		tools, _, err := shell.New(shell.Config{Exec: s, Dir: "/", OutputBudget: budget})
		if err != nil {
			t.Fatal(err)
		}
		r := &tooltest.Recorder{}
		res, err := tools[0].Execute(context.Background(), newCall(r, object{"command": "x"}))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(res.Data) + len(res.Message); n > budget {
			t.Fatalf("data and message have %d bytes, the budget is %d", n, budget)
		}
		d := decodeData(t, res)
		checkStream(t, res, "stdout", text["stdout"], d.Stdout, d.StdoutBytes)
		checkStream(t, res, "stderr", text["stderr"], d.Stderr, d.StderrBytes)
		if d.Truncated != (len(res.Artifacts) > 0) || res.Truncated != d.Truncated {
			t.Fatalf("truncated %t and %t with artifacts %v", d.Truncated, res.Truncated, res.Artifacts)
		}
		for stream, all := range text {
			if r.Stream(stream) != all {
				t.Fatalf("%s was streamed with %d bytes of %d", stream, len(r.Stream(stream)), len(all))
			}
		}
	})
}

func decodeData(t *rapid.T, res *tool.Result) (d shell.Data) {
	var value map[string]any = typed.Args(rawJSON(res.Data)).Value()
	if err := typed.Decode(value, &d); err != nil {
		t.Fatalf("data %q: %v", res.Data, err)
	}
	return d
}

type rawJSON string

func (r rawJSON) MarshalJSON() ([]byte, error) { return []byte(r), nil }

func checkStream(t *rapid.T, res *tool.Result, name, all, shown string, size int64) {
	if size != int64(len(all)) {
		t.Fatalf("%s has %d bytes, reported %d", name, len(all), size)
	}
	listed := false
	for _, a := range res.Artifacts {
		listed = listed || a.Name == name && a.Size == size
	}
	gap := missing.FindStringSubmatchIndex(shown)
	if gap == nil {
		if want := strings.ToValidUTF8(all, "\uFFFD"); shown != want || listed {
			t.Fatalf("%s = %q, want %q; listed %t", name, shown, want, listed)
		}
		return
	}
	if !listed || shown[gap[4]:gap[5]] != name {
		t.Fatalf("%s is cut and names %q of %v", name, shown[gap[4]:gap[5]], res.Artifacts)
	}
	left, err := strconv.Atoi(shown[gap[2]:gap[3]])
	if err != nil || left <= 0 {
		t.Fatalf("%s: %d bytes left out", name, left)
	}
	head, tail := shown[:gap[0]], shown[gap[1]:]
	if !utf8.ValidString(all) {
		return // Replacing a single byte by U+FFFD changes the length, so the rest cannot be compared.
	}
	if !strings.HasPrefix(all, head) || !strings.HasSuffix(all, tail) || len(head)+left+len(tail) != len(all) {
		t.Fatalf("%s: %d bytes: head %q, %d left out, tail %q", name, len(all), head, left, tail)
	}
}

// The test checks that the result of a megabyte of output uses most of the budget.
func TestLongOutputUsesTheBudget(t *testing.T) {
	const budget = 48 << 10
	res, d := run(t, bash(t, shell.Config{}), object{"command": "seq 1 200000"})
	if n := len(res.Data) + len(res.Message); n > budget || n < budget/2 {
		t.Errorf("data and message have %d bytes of %d", n, budget)
	}
	if !strings.HasPrefix(d.Stdout, "1\n2\n3\n") || !strings.HasSuffix(d.Stdout, "\n199999\n200000\n") || !d.Truncated || d.StdoutBytes != 1288895 {
		t.Errorf("stdout of %d bytes: %.20q … %q", d.StdoutBytes, d.Stdout, d.Stdout[len(d.Stdout)-20:])
	}
}

func TestATimeoutKeepsWithinTheBudget(t *testing.T) {
	noise := chunk{"stderr", []byte(strings.Repeat("\x1b[31m", 20000))}
	x := bash(t, shell.Config{Exec: timeout{script{chunks: []chunk{noise}}}, OutputBudget: 4096})
	res, err := x.Execute(t.Context(), newCall(nil, object{"command": "x", "timeout": 1}))
	if err != nil || res.Error == nil || len(res.Data)+len(res.Error.Message) > 4096 || !res.Truncated {
		t.Errorf("result %+v, %v", res, err)
	}
}

// timeout is an Exec that does not return before the timeout of the command expires.
type timeout struct{ script }

func (s timeout) Run(ctx context.Context, spec sandbox.Spec) (*sandbox.Exit, error) {
	exit, err := s.script.Run(ctx, spec)
	<-ctx.Done()
	return exit, errors.Join(err, context.Cause(ctx))
}

// The test checks that processes whose death could not be confirmed are reported: their number to the model, and their ids in the record.
func TestUnverifiedProcessesAreReported(t *testing.T) {
	s := script{exit: sandbox.Exit{Killed: []int{7, 8}, Unverified: []sandbox.Process{{PID: 9}}}}
	res, err := bash(t, shell.Config{Exec: s}).Execute(t.Context(), newCall(nil, object{"command": "x"}))
	if err != nil {
		t.Fatal(err)
	}
	if want := "(no output)\nProcesses left running were killed: 2\nProcesses that may still run: 1"; res.ModelText() != want {
		t.Errorf("the model reads %q", res.ModelText())
	}
	if got := fmt.Sprint(res.Process.Killed, res.Process.KillUnverified, res.Process.ConfirmedAt.IsZero()); got != "[7 8] [9] true" {
		t.Errorf("process = %s", got)
	}
}
