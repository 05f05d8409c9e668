package shell

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"time"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/typed"
)

func (s *shell) companions() []tool.Tool {
	reads := mildestEffects
	changes := tool.Effects{Mutability: tool.Mutating, Safety: tool.SafetyMutating, Tier: tool.Confirm}
	typing := changes
	typing.OpenWorld = true
	base := tool.Descriptor{Category: "shell", MaxArguments: maxArguments, OutputBudget: s.cfg.OutputBudget, RequiredIsolation: tool.IsolationNone}
	output, input, kill := base, base, base
	input.RequiredIsolation, input.RequiredNetwork = s.cfg.isolation().required, s.cfg.isolation().network // The typed input has the isolation and the network access of the shell that reads it.
	output.ID, output.DisplayName, output.Effects, output.Parameters = "bash_output", "Read a background shell", reads, json.RawMessage(outputParameters)
	output.Description = "Shows the new output of a bash command in the background and whether it still runs. Without shell_id it lists the shells of this conversation."
	output.Timeouts.Attempt = (maxWait + 30) * time.Second
	input.ID, input.DisplayName, input.Effects, input.Mildest, input.Parameters = "bash_input", "Type into a background shell", worstEffects, &typing, json.RawMessage(inputParameters)
	input.Description = "Types text into a bash command in the background that was started with input or pty. End a line with \\n; Ctrl-C is \\u0003 on a pty. bash_output shows the result."
	kill.ID, kill.DisplayName, kill.Effects, kill.Parameters = "bash_kill", "End a background shell", changes, json.RawMessage(killParameters)
	kill.Description = "Ends a bash command in the background and every process that it started."
	return []tool.Tool{
		typed.New(output, s.showOutput, typed.WithValidate(validateOutput), typed.WithDescribe(describeOutput)),
		typed.New(input, s.typeInput, typed.WithAssess(s.assessInput), typed.WithDescribe(s.describeInput)),
		typed.New(kill, s.kill, typed.WithDescribe(describeKill)),
	}
}

// maxWait is the maximum time that bash_output waits for output, in seconds.
const maxWait = 300

const shellParameter = `"shell_id": {"type": "string", "description": "The id from the result of bash.", "minLength": 1, "maxLength": 64}`

const outputParameters = `{
	"type": "object",
	"properties": {
		` + shellParameter + `,
		"since": {"type": "integer", "description": "The start offset in the output, in bytes; default: the end of the last answer.", "minimum": 0},
		"wait": {"type": "integer", "description": "Seconds to wait for the end, or for new output that matches filter; default 0.", "minimum": 0, "maximum": 300},
		"filter": {"type": "string", "description": "Show only lines that match this regular expression (RE2 syntax).", "maxLength": 1024}
	},
	"additionalProperties": false
}`

const inputParameters = `{
	"type": "object",
	"properties": {
		` + shellParameter + `,
		"text": {"type": "string", "description": "The text to type.", "maxLength": 32768},
		"end": {"type": "boolean", "description": "Close the input after this text."},
		"signal": {"type": "string", "description": "Send this signal to the foreground processes.", "enum": ["SIGINT", "SIGQUIT", "SIGTERM", "SIGHUP", "SIGTSTP", "SIGCONT", "SIGUSR1", "SIGUSR2"]}
	},
	"required": ["shell_id"],
	"additionalProperties": false
}`

const killParameters = `{
	"type": "object",
	"properties": {` + shellParameter + `},
	"required": ["shell_id"],
	"additionalProperties": false
}`

type outputArguments struct {
	Shell  string `json:"shell_id,omitempty"`
	Since  *int64 `json:"since,omitempty"`
	Wait   int    `json:"wait,omitempty"`
	Filter string `json:"filter,omitempty"`
}

type inputArguments struct {
	Shell  string `json:"shell_id"`
	Text   string `json:"text,omitempty"`
	End    bool   `json:"end,omitempty"`
	Signal string `json:"signal,omitempty"`
}

type killArguments struct {
	Shell string `json:"shell_id"`
}

// ShellData is the result data of the tools for background shells.
type ShellData struct {
	Shell    string `json:"shell_id"`
	Command  string `json:"command,omitempty"`
	Status   string `json:"status"`    // running, exited, killed or failed
	ExitCode int    `json:"exit_code"` // -1 while the command runs, or when a signal ended it
	Output   string `json:"output,omitempty"`
	From     int64  `json:"from"`           // byte offset of Output in the whole output
	Next     int64  `json:"next"`           // offset at which the next read continues
	Gone     int64  `json:"gone,omitempty"` // number of bytes between the requested offset and From that are no longer stored
	Total    int64  `json:"total"`          // number of bytes of output so far
	More     bool   `json:"more,omitempty"` // more output is already available
}

func validateOutput(args outputArguments) error {
	tree, err := syntax.Parse(args.Filter, syntax.Perl)
	problem := "is not a regular expression in RE2 syntax: "
	if err == nil {
		var program *syntax.Prog
		if program, err = syntax.Compile(tree.Simplify()); err == nil && len(program.Inst) > filterSteps {
			problem, err = "is too complex: ", fmt.Errorf("it has %d instructions, at most %d are accepted; a repeated part counts once for each repetition", len(program.Inst), filterSteps)
		}
	}
	if err != nil {
		return &tool.Error{Code: tool.InvalidArguments, Message: "The filter is not valid.", Violations: []tool.Violation{{
			Field: "filter", Description: problem + strings.TrimPrefix(err.Error(), "error parsing regexp: "),
		}}}
	}
	return nil
}

// filterSteps is the maximum number of instructions of a compiled filter. A match may execute all of them for each byte.
const filterSteps = 2000

func describeOutput(_ context.Context, _ *tool.Call, args outputArguments) (tool.Description, error) {
	title := "List the shells in the background"
	if args.Shell != "" {
		title = "Read shell " + quoted(args.Shell)
	}
	return tool.Description{Kind: tool.KindRead, Title: title}, nil
}

func (s *shell) showOutput(ctx context.Context, call *tool.Call, args outputArguments) (*tool.Result, error) {
	if args.Shell == "" {
		return s.list(call), nil
	}
	n, err := s.jobs.find(call, args.Shell)
	if err != nil {
		return refused(err), nil
	}
	filter, err := regexp.Compile(args.Filter)
	if err != nil {
		return nil, validateOutput(args)
	}
	timer := time.NewTimer(time.Duration(args.Wait) * time.Second)
	defer timer.Stop()
	closed := make(chan struct{})
	close(closed)
	for since := args.Since; ; {
		n.mu.Lock()
		more := n.more
		n.mu.Unlock()
		over := n.over()
		d, text := n.page(since, s.cfg.OutputBudget/4, args.Filter != "")
		shown := text
		if args.Filter != "" {
			shown = matching(text, filter)
		}
		if shown == "" && args.Wait > 0 && (d.More || !over) {
			if d.More { // The page has no match, but a later page may have one, so the loop continues.
				since, more = &d.Next, closed
			}
			select {
			case <-more:
				continue
			case <-n.ended:
				continue
			case <-timer.C:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		n.mu.Lock()
		n.read = d.Next
		n.mu.Unlock()
		d.Output = shown
		return n.result(d), nil
	}
}

// page returns a part of the output of a shell. The part starts at the offset since, or, when since is nil, where the last read ended. The
// parameter most limits the size of the part, in bytes. With lines set, the part ends at a line end if more output follows.
func (n *job) page(since *int64, most int, lines bool) (ShellData, string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	from := n.read
	if since != nil {
		from = *since
	}
	b, from, trimmed := n.log.since(from, most)
	if i := bytes.LastIndexByte(b, '\n'); lines && i >= 0 && from+int64(len(b)) < n.log.total {
		b = b[:i+1]
	}
	return ShellData{Shell: n.id, From: from, Next: from + int64(len(b)), Gone: trimmed, Total: n.log.total, More: from+int64(len(b)) < n.log.total}, valid(b)
}

// result returns the result of a tool call about a shell. d contains the output to show.
func (n *job) result(d ShellData) *tool.Result {
	var state string
	d.Status, state, d.ExitCode = n.state()
	text := strings.TrimRight(strings.ReplaceAll(d.Output, "\r\n", "\n"), "\n")
	if text != "" {
		text += "\n"
	}
	if d.Gone > 0 {
		text = fmt.Sprintf("[%d bytes before this are no longer stored.]\n", d.Gone) + text
	}
	if d.More {
		text += fmt.Sprintf("[There is more output from offset %d on.]\n", d.Next)
	}
	r := tool.SuccessMessage(d, "%s[Shell %s: %s. %d bytes written.]", text, n.id, state, d.Total)
	r.Display = tool.DisplayCode
	if n.over() && n.exit != nil && len(n.exit.Unverified) > 0 {
		r.Process = processReport(n.exit)
	}
	return r
}

// matching returns the lines of text that match filter.
func matching(text string, filter *regexp.Regexp) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if filter.MatchString(strings.TrimRight(line, "\r\n")) {
			b.WriteString(line)
		}
	}
	return b.String()
}

func (s *shell) list(call *tool.Call) *tool.Result {
	list := []ShellData{}
	var b strings.Builder
	for _, n := range s.jobs.of(call) {
		d, _ := n.page(nil, 0, false)
		var state string
		d.Status, state, d.ExitCode = n.state()
		d.Command = clip(n.command, partLength)
		list = append(list, d)
		fmt.Fprintf(&b, "%s  %s  %s\n", n.id, clip(strings.ReplaceAll(n.command, "\n", " "), titleLength), state)
	}
	if len(list) == 0 {
		b.WriteString("This conversation has no background shells.")
	}
	return tool.SuccessMessage(list, "%s", strings.TrimRight(b.String(), "\n"))
}

// assessInput assesses typed text as a command of bash. Text that only reads also counts as a change, because the program that gets the
// text, and the earlier input of that program, are unknown.
func (s *shell) assessInput(args inputArguments) tool.Effects {
	e := tool.Effects{Mutability: tool.Mutating, Safety: tool.SafetyMutating, Tier: tool.Confirm, OpenWorld: true}
	if worst := analyse(args.Text, s.cfg.Dir).worst; worst.safety != tool.SafetyReadOnly {
		e.Safety = worst.safety
	}
	return e
}

func (s *shell) describeInput(_ context.Context, call *tool.Call, args inputArguments) (tool.Description, error) {
	d := tool.Description{Kind: tool.KindExecute, Title: "Type into shell " + quoted(args.Shell), Preview: []tool.Content{{Type: tool.ContentText, Text: args.Text}}}
	if n, err := s.jobs.find(call, args.Shell); err == nil {
		d.Notes = append(d.Notes, "Its command: "+clip(n.command, partLength))
	}
	if args.Signal != "" {
		d.Notes = append(d.Notes, "Sends "+args.Signal+".")
	}
	d.Notes = append(d.Notes, "If the text is read as bash commands:")
	d.Notes = append(d.Notes, analyse(args.Text, s.cfg.Dir).notes()...)
	return d, nil
}

func (s *shell) typeInput(_ context.Context, call *tool.Call, args inputArguments) (*tool.Result, error) {
	n, err := s.jobs.find(call, args.Shell)
	switch {
	case err != nil:
		return refused(err), nil
	case n.over():
		return tool.FailCode("SHELL_ENDED", "Shell %s has ended; nothing was typed.", n.id), nil
	case n.keys == nil && (args.Text != "" || args.End):
		return tool.FailCode("NO_INPUT", "Shell %s accepts no input: it was started without input and pty.", n.id), nil
	case n.keys != nil && !n.keys.put(args.Text, args.End):
		return tool.FailCode("INPUT_FULL", "Shell %s accepts no more input: it has not read the earlier input, or its input was closed. Nothing was typed.", n.id), nil
	}
	if args.Signal != "" {
		if err := n.control.Signal(signals()[args.Signal]); err != nil {
			return tool.FailCode("SHELL_ENDED", "Shell %s has ended; %s was not sent.", n.id, args.Signal), nil //nolint:nilerr // the model reads it
		}
	}
	d, _ := n.page(nil, 0, false)
	return n.result(d), nil
}

func describeKill(_ context.Context, _ *tool.Call, args killArguments) (tool.Description, error) {
	return tool.Description{Kind: tool.KindExecute, Title: "End shell " + quoted(args.Shell)}, nil
}

func (s *shell) kill(ctx context.Context, call *tool.Call, args killArguments) (*tool.Result, error) {
	n, err := s.jobs.find(call, args.Shell)
	if err != nil {
		return refused(err), nil
	}
	n.cancel(errKilled)
	select {
	case <-n.ended:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	d, text := n.page(nil, s.cfg.OutputBudget/4, false)
	d.Output = text
	s.jobs.forget(n)
	r := n.result(d)
	if n.exit != nil {
		r.Process = processReport(n.exit)
	}
	return r, nil
}

func refused(err error) *tool.Result {
	e := tool.AsError(err)
	return tool.FailCode(e.Reason, "%s", e.Message)
}

func quoted(s string) string {
	if len(s) > 64 {
		s = s[:64]
	}
	return strconv.Quote(s)
}
