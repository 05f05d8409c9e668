package shell

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
)

// Data is the data of a result of bash.
type Data struct {
	ExitCode int    `json:"exit_code"` // -1 when a signal ended the command
	Signal   string `json:"signal,omitempty"`
	Stdout   string `json:"stdout"` // head and tail when it is long; what is not UTF-8 became U+FFFD; all of a terminal
	Stderr   string `json:"stderr"`
	TimedOut bool   `json:"timed_out"`
	// Truncated says that Stdout or Stderr left something out. The call's streams have all of it.
	Truncated   bool  `json:"truncated"`
	StdoutBytes int64 `json:"stdout_bytes"` // of the whole stream
	StderrBytes int64 `json:"stderr_bytes"`
	// Shell is that of a command which runs on in the background; ExitCode is -1 then.
	Shell   string `json:"shell_id,omitempty"`
	Running bool   `json:"running,omitempty"`
}

const (
	stdout = "stdout"
	stderr = "stderr"
	pty    = "pty" // of a terminal, in place of the two
)

// An output gathers both streams for the result. Each stream has one writer; the result is made after both.
//
// The names of the streams are those of the artifacts in which the engine keeps all of them.
type output struct {
	budget         int
	stdout, stderr keeper
}

func newOutput(call string, budget int, terminal bool) *output {
	first := stdout
	if terminal {
		first = pty
	}
	return &output{budget: budget, stdout: keeper{call: call, name: first, most: budget / 2}, stderr: keeper{call: call, name: stderr, most: budget / 2}}
}

func (o *output) stream(name string) *keeper {
	if name == stderr {
		return &o.stderr
	}
	return &o.stdout
}

// finished is the result of a command that ended by itself.
func (o *output) finished(exit *sandbox.Exit) *tool.Result {
	if why := exit.OutOfMemory(); why != "" {
		return o.fit(exit, false, func(d Data, text string) *tool.Result {
			r := tool.FailCode(sandbox.ReasonOOM, "The command ran out of memory. %s%s", why, soFar(ending(text, exit)))
			r.Data = tool.Success(d).Data
			return r
		})
	}
	return o.fit(exit, false, func(d Data, text string) *tool.Result {
		return tool.SuccessMessage(d, "%s", ending(text, exit))
	})
}

// timedOut is the result of a command that its own clock ended. It is an error that keeps the output, which often says
// what took so long.
func (o *output) timedOut(exit *sandbox.Exit, limit time.Duration) *tool.Result {
	return o.fit(exit, true, func(d Data, text string) *tool.Result {
		r := tool.FailCode("COMMAND_TIMEOUT", "The command was killed because it did not end within %v.%s", limit, soFar(text))
		r.Data = tool.Success(d).Data
		return r
	})
}

func soFar(text string) string {
	if text == "" {
		return " It had written nothing."
	}
	return " What it had written:\n" + text
}

// ending appends to the output what else the model should know of the end.
func ending(text string, exit *sandbox.Exit) string {
	lines := []string{text}
	if text == "" {
		lines[0] = "(no output)"
	}
	switch {
	case exit.Signal != "":
		lines = append(lines, "Ended by "+exit.Signal)
	case exit.Code != 0:
		lines = append(lines, fmt.Sprintf("Exit code %d", exit.Code))
	}
	if n := len(exit.Killed); n > 0 {
		lines = append(lines, fmt.Sprintf("Processes left running were killed: %d", n))
	}
	if n := len(exit.Unverified); n > 0 {
		lines = append(lines, fmt.Sprintf("Processes that may still run: %d", n))
	}
	return strings.Join(lines, "\n")
}

// fit makes the result with as much of the streams as the budget has room for. What a byte of output costs depends on
// what it is (six in JSON for a control character, and once more in the text), so that it is tried, not computed.
func (o *output) fit(exit *sandbox.Exit, timedOut bool, build func(Data, string) *tool.Result) *tool.Result {
	for most := o.budget / 2; ; most = most * 3 / 4 {
		d := Data{
			ExitCode: exit.Code, Signal: exit.Signal, TimedOut: timedOut,
			StdoutBytes: o.stdout.total, StderrBytes: o.stderr.total,
		}
		var cut []tool.Artifact
		d.Stdout, cut = o.stdout.text(most, cut)
		d.Stderr, cut = o.stderr.text(most, cut)
		d.Truncated = len(cut) > 0
		first := d.Stdout
		if o.stdout.name == pty {
			first = strings.ReplaceAll(first, "\r\n", "\n") // the terminal made them so
		}
		r := build(d, both(first, d.Stderr))
		size := len(r.Data) + len(r.Message)
		if r.Error != nil {
			size += len(r.Error.Message)
		}
		if size > o.budget && most > 0 {
			continue
		}
		r.Truncated, r.Artifacts = d.Truncated, cut
		r.Display = tool.DisplayCode
		if len(exit.Killed) > 0 || len(exit.Unverified) > 0 {
			r.Process = processReport(exit)
		}
		return r
	}
}

// both shows the streams one after the other, without the line end that the last line has anyway.
func both(out, err string) string {
	out, err = strings.TrimRight(out, "\n"), strings.TrimRight(err, "\n")
	switch {
	case err == "":
		return out
	case out == "":
		return "stderr:\n" + err
	default:
		return out + "\nstderr:\n" + err
	}
}

// A keeper keeps the first and the last bytes of a stream, most/2 of each at least.
type keeper struct {
	call, name string
	most       int
	head, tail []byte
	total      int64
}

func (k *keeper) write(b []byte) {
	k.total += int64(len(b))
	n := min(len(b), k.most-len(k.head))
	k.head = append(k.head, b[:n]...)
	k.tail = append(k.tail, b[n:]...)
	if len(k.tail) > 4*k.most { // now and then, not with each chunk
		k.tail = append(k.tail[:0], k.tail[len(k.tail)-k.most:]...)
	}
}

// text returns the stream, or about its first and last most/2 bytes with a line between them that says how much is
// missing. Then the stream's artifact is added to cut.
func (k *keeper) text(most int, cut []tool.Artifact) (string, []tool.Artifact) {
	if k.total <= int64(most) {
		return valid(k.head), cut
	}
	all := append(append([]byte{}, k.head...), k.tail...) // has a gap in the middle when the stream was longer
	head, tail := wholeEnd(all[:most/2]), wholeStart(all[len(all)-most/2:])
	missing := k.total - int64(len(head)) - int64(len(tail))
	return fmt.Sprintf("%s\n[… %d bytes left out; the whole is %s …]\n%s", valid(head), missing, tool.ArtifactHandle(k.call, k.name), valid(tail)),
		append(cut, tool.Artifact{Name: k.name, MIMEType: "text/plain", Size: k.total})
}

// wholeEnd returns b without a character that was cut off at its end.
func wholeEnd(b []byte) []byte {
	for i := len(b) - 1; i >= max(0, len(b)-utf8.UTFMax); i-- {
		if utf8.RuneStart(b[i]) && !utf8.FullRune(b[i:]) {
			return b[:i]
		}
	}
	return b
}

// wholeStart returns b without the rest of a character at its start.
func wholeStart(b []byte) []byte {
	for i := range min(len(b), utf8.UTFMax) {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}

// valid returns the bytes as text.
func valid(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }
