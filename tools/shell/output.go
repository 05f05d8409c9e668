package shell

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
)

// Data is the result data of bash.
type Data struct {
	ExitCode int    `json:"exit_code"` // -1 when a signal ended the command
	Signal   string `json:"signal,omitempty"`
	Stdout   string `json:"stdout"` // Beginning and end of a long stream. U+FFFD replaces bytes that are not UTF-8. With a terminal, this field contains all output.
	Stderr   string `json:"stderr"`
	TimedOut bool   `json:"timed_out"`
	// Truncated reports that Stdout or Stderr is incomplete. The call's streams have all output.
	Truncated   bool  `json:"truncated"`
	StdoutBytes int64 `json:"stdout_bytes"` // size of the whole stream in bytes
	StderrBytes int64 `json:"stderr_bytes"`
	// Shell is the id of the background shell when the command still runs; ExitCode is then -1.
	Shell   string `json:"shell_id,omitempty"`
	Running bool   `json:"running,omitempty"`
}

const (
	stdout = "stdout"
	stderr = "stderr"
	pty    = "pty" // the only stream of a command with a terminal
)

// An output collects both streams for the result. Each stream is written by one goroutine. The result may only be built when no goroutine
// writes any more.
//
// The engine stores each whole stream as an artifact with the name of the stream.
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

// finished returns the result of a command that ended by itself, not by a timeout or a cancel.
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

// timedOut returns the result of a command whose timeout has expired. It is an error that contains the output, because the output often
// shows what took so long.
func (o *output) timedOut(exit *sandbox.Exit, limit time.Duration) *tool.Result {
	return o.fit(exit, true, func(d Data, text string) *tool.Result {
		r := tool.FailCode("COMMAND_TIMEOUT", "The command was killed because it did not end within %v.%s", limit, soFar(text))
		r.Data = tool.Success(d).Data
		return r
	})
}

func soFar(text string) string {
	if text == "" {
		return " It had no output."
	}
	return " Its output:\n" + text
}

// ending appends to text how the command ended. The model reads it.
func ending(text string, exit *sandbox.Exit) string {
	lines := []string{text}
	if text == "" {
		lines[0] = "(no output)"
	}
	switch {
	case exit.Signal != "":
		lines = append(lines, "Ended by signal "+exit.Signal)
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

// fit builds a result that does not exceed the budget and contains as much of both streams as possible. It tries several sizes, because the
// encoded size cannot be computed simply: a control character takes six bytes in JSON and appears once more in the text.
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
			first = strings.ReplaceAll(first, "\r\n", "\n") // The terminal has added carriage returns, which are removed here.
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

// both joins the two streams in one text, without their final line ends.
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

// A keeper keeps the first most bytes of a stream, and at least the last most bytes.
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
	if len(k.tail) > 4*k.most { // Trimming only at four times the limit avoids a copy for each chunk.
		k.tail = append(k.tail[:0], k.tail[len(k.tail)-k.most:]...)
	}
}

// text returns the whole stream unless it is larger than the limit most, in bytes. Of a larger stream, it returns about most/2 bytes of the
// beginning and as many of the end, with a line between them that says how much is missing. Then it also adds the artifact of the stream to
// cut.
func (k *keeper) text(most int, cut []tool.Artifact) (string, []tool.Artifact) {
	if k.total <= int64(most) {
		return valid(k.head), cut
	}
	all := append(append([]byte{}, k.head...), k.tail...) // When the stream was longer than head and tail together, the bytes between them are missing.
	head, tail := wholeEnd(all[:most/2]), wholeStart(all[len(all)-most/2:])
	missing := k.total - int64(len(head)) - int64(len(tail))
	return fmt.Sprintf("%s\n[… %d bytes left out; the full text is %s …]\n%s", valid(head), missing, tool.ArtifactHandle(k.call, k.name), valid(tail)),
		append(cut, tool.Artifact{Name: k.name, MIMEType: "text/plain", Size: k.total})
}

// wholeEnd returns b without an incomplete character at its end.
func wholeEnd(b []byte) []byte {
	for i := len(b) - 1; i >= max(0, len(b)-utf8.UTFMax); i-- {
		if utf8.RuneStart(b[i]) && !utf8.FullRune(b[i:]) {
			return b[:i]
		}
	}
	return b
}

// wholeStart returns b without an incomplete character at its start.
func wholeStart(b []byte) []byte {
	for i := range min(len(b), utf8.UTFMax) {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}

// valid returns b as text, with U+FFFD for bytes that are not UTF-8.
func valid(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }
