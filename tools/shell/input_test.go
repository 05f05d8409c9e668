package shell_test

import (
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/tooltest"
	"github.com/toold-dev/toold/tool/typed"
	"github.com/toold-dev/toold/tools/shell"
)

// TestTerminal checks that with a terminal the command sees a terminal, people can type, and all output is in one stream.
func TestTerminal(t *testing.T) {
	x := bash(t, shell.Config{})
	keys, typist := io.Pipe()
	rec := &tooltest.Recorder{Keys: keys}
	go func() {
		io.WriteString(typist, "hello\n")
		_ = typist.Close()
	}()
	res, err := x.Execute(t.Context(), newCall(rec, object{"command": `stty -echo size; echo $TERM >&2; read x; echo "got $x"; cat; echo end`, "pty": object{"rows": 10}}))
	if err != nil {
		t.Fatal(err)
	}
	output := res.Message
	if strings.Count(output, "hello\n") == 2 { // One of the two lines is the echo of the terminal, which may come before or between the lines of the command.
		output = strings.Replace(output, "hello\n", "", 1)
	}
	if want := "10 80\nxterm-256color\ngot hello\nend"; output != want {
		t.Errorf("message %q, want %q", res.Message, want)
	}
	if got := rec.Stream("pty"); !strings.HasSuffix(got, "end\r\n") || rec.Stream("stdout")+rec.Stream("stderr") != "" {
		t.Errorf("stream pty %q, stdout %q", got, rec.Stream("stdout"))
	}
	if rec.Controls.Signal == nil || rec.Controls.Signal("SIGINT") == nil || rec.Controls.Signal("SIGNOSE") == nil {
		t.Error("a signal to what has ended, or to nobody, is taken")
	}
}

// TestInput checks a command without a terminal. With input set it reads typed text from a pipe; otherwise its standard input is empty.
func TestInput(t *testing.T) {
	x := bash(t, shell.Config{})
	for _, tt := range []struct {
		args object
		want string
	}{
		{object{"command": "cat", "input": true}, "typed"},
		{object{"command": "cat"}, "(no output)"},
		{object{"command": "[ -t 0 ] && echo terminal; exit", "pty": object{}, "input": false}, "terminal"},
	} {
		rec := &tooltest.Recorder{Keys: io.NopCloser(strings.NewReader("typed"))}
		res, err := x.Execute(t.Context(), newCall(rec, tt.args))
		if err != nil || res.Message != tt.want {
			t.Errorf("%v: %v, %v, want %q", tt.args, res, err, tt.want)
		}
	}
}

// The test checks that a call that accepts typed input never counts as read-only, because the text of its command does not show what people
// will type.
func TestInputIsNotReadFromTheText(t *testing.T) {
	x := bash(t, shell.Config{})
	for _, tt := range []struct {
		args   object
		letter string
	}{
		{object{"command": "ls"}, "R"},
		{object{"command": "ls", "pty": object{}}, "D"},
		{object{"command": "ls", "input": true}, "D"},
		{object{"command": "ls", "pty": object{}, "input": false}, "R"},
	} {
		args := typed.Args(tt.args)
		if got := x.(tool.Assessor).Assess(args); !reflect.DeepEqual(got, effects[tt.letter]) {
			t.Errorf("%v: %+v, want %s", tt.args, got, tt.letter)
		}
		if shell.TakesInput(args) != (tt.letter == "D") {
			t.Errorf("%v: takes input %t", tt.args, shell.TakesInput(args))
		}
	}
}
