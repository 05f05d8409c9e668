package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
)

// errFinished is the cause of the cancellation when a program is ended because it still runs after the line that ends the call.
var errFinished = errors.New("the program printed its last line")

// Execute implements [tool.Tool].
func (t *scripted) Execute(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	t = t.of(c.Namespace)
	filled, err := t.fill(c.Arguments)
	if err != nil {
		return nil, neverBegan(err)
	}
	if err := t.verify(); err != nil {
		return nil, neverBegan(err)
	}
	secrets, err := t.secrets(ctx, c)
	if err != nil {
		return nil, neverBegan(err)
	}
	memo := recall(c)
	if t.pool != nil {
		return t.pool.execute(ctx, c, memo, secrets)
	}
	return t.once(ctx, c, memo, filled, secrets)
}

// neverBegan marks the error of a call whose program was not started.
func neverBegan(err error) error { return fmt.Errorf("%w: %w", tool.ErrNotRun, err) }

// verify checks the files of the program against their pins.
func (t *scripted) verify() error {
	for _, p := range t.pins {
		if err := p.verify(); err != nil {
			return &tool.Error{
				Code: tool.ExecutionFailed, Reason: "PROGRAM_CHANGED", Aborted: true, DeveloperMessage: err.Error(),
				Message: fmt.Sprintf("Not run: %s differs from the file that the operator pinned. An operator must check it.", filepath.Base(p.path)),
			}
		}
	}
	return nil
}

// environment returns the environment of the program. When a name occurs several times, the last value is used.
func (t *scripted) environment(more ...[]string) []string {
	all := slices.Clone(t.cfg.Env)
	for _, name := range t.m.Run.Pass {
		if value, ok := os.LookupEnv(name); ok {
			all = append(all, name+"="+value)
		}
	}
	all = append(all, slices.Concat(more...)...)
	var out []string
	seen := map[string]bool{}
	for _, pair := range slices.Backward(all) {
		name, _, _ := strings.Cut(pair, "=")
		if !seen[name] {
			seen[name] = true
			out = append(out, pair)
		}
	}
	slices.Reverse(out)
	return out
}

// home returns the name of the home directory for a call's program. Calls of the same tool and caller in one thread share a home directory;
// without a thread, calls in one run share it. The directory is fresh when the call has neither, and when the program gets a secret, so
// that earlier calls cannot influence a program that has a secret.
func (t *scripted) home(c *tool.Call, s *secrets) string {
	if len(s.env) > 0 || c.Run.Thread == "" && c.Run.ID == "" {
		return sandbox.FreshHome
	}
	run := c.Run.ID
	if c.Run.Thread != "" {
		run = ""
	}
	return fmt.Sprintf("%s %s %q", Source, t.m.ID, []string{c.Namespace, c.Caller.Subject, c.OnBehalfOf, c.Run.Thread, run})
}

// maxVariable is the maximum size in bytes of a variable that describes the call.
const maxVariable = 100 << 10

// about returns the variables that describe the call. A value that is too long for a variable is omitted; the program can read it on
// standard input.
func about(c *tool.Call, m *memo) []string {
	env := []string{
		ownPrefix + "CALL_ID=" + c.ID, ownPrefix + "NAMESPACE=" + c.Namespace, ownPrefix + "ATTEMPT=" + strconv.Itoa(c.Attempt),
		ownPrefix + "IDEMPOTENCY_KEY=" + c.IdempotencyKey(),
	}
	if m.answer != nil && len(m.answer.Result) <= maxVariable {
		env = append(env, ownPrefix+"RESUME="+string(m.answer.Result))
	}
	if m.Checkpoint != nil && len(m.Checkpoint) <= maxVariable {
		env = append(env, ownPrefix+"CHECKPOINT="+string(m.Checkpoint))
	}
	return env
}

// once starts the program for one call and waits for its end.
func (t *scripted) once(ctx context.Context, c *tool.Call, m *memo, f *filled, s *secrets) (*tool.Result, error) {
	running, kill := context.WithCancelCause(ctx)
	defer kill(errFinished)
	o := newOutput(t, c, m)
	complete := false // true when the line that ends the call came before the call was cancelled
	var end sync.Once
	o.done = func() { // Called for the line that ends the call. Afterwards the program may run only for the grace period, because a call that waits for an answer must not hold a process.
		end.Do(func() {
			complete = ctx.Err() == nil
			timer := time.AfterFunc(t.m.Run.Grace, func() { kill(errFinished) })
			context.AfterFunc(running, func() { timer.Stop() })
		})
	}
	spec := sandbox.Spec{
		Path: t.program, Args: f.args, Dir: t.dir, Within: t.workspace, Env: t.environment(f.env, s.env, about(c, m)), Handed: s.handed, Home: t.home(c, s), Tag: c.ID, Policy: t.policy,
		Grace: t.m.Run.Grace, Output: o.write, Harmless: c.ReadOnly,
	}
	switch t.m.Run.Stdin {
	case stdinArguments:
		spec.Stdin = strings.NewReader(c.Arguments.Text() + "\n")
	case stdinCall:
		text, err := request(c, m)
		if err != nil {
			return nil, neverBegan(err)
		}
		spec.Stdin = bytes.NewReader(text)
	}
	exit, err := t.cfg.Exec.Run(running, spec)
	switch {
	case exit == nil && ctx.Err() != nil:
		return nil, neverBegan(context.Cause(ctx))
	case exit == nil:
		return nil, t.notStarted(err)
	case err != nil && !errors.Is(err, errFinished) && !complete: // When complete is true, the program was killed after its result, which remains valid.
		if bad, ok := errors.AsType[*protocolError](err); ok && ctx.Err() == nil {
			return t.report(bad.result(), exit), nil
		}
		return &tool.Result{Status: tool.StatusError, Process: processReport(exit)}, err
	}
	return t.report(o.result(exit, err != nil), exit), nil
}

// notStarted returns the error of a call whose program could not be started.
func (t *scripted) notStarted(err error) error {
	if refused, ok := errors.AsType[*sandbox.RefusedError](err); ok {
		return &tool.Error{
			Code: tool.Sandbox, Reason: refused.Fact, Aborted: true, DeveloperMessage: err.Error(),
			Message: "Not run: the isolation that the program requires is not available here: " + refused.Fact + ".",
		}
	}
	if errors.Is(err, sandbox.ErrKept) {
		return neverBegan(&tool.Error{Code: tool.Interrupted, Reason: "JOURNAL", Message: "Not run", Retryable: true, Aborted: true, DeveloperMessage: err.Error()})
	}
	if t.cfg.Log != nil {
		t.cfg.Log.Warn("the program of a tool does not start", zap.String("tool", t.m.ID), zap.Error(err))
	}
	return neverBegan(&tool.Error{
		Code: tool.ExecutionFailed, Reason: "START_FAILED", Aborted: true, DeveloperMessage: err.Error(),
		Message: "The program could not be started.",
	})
}

// report adds to a result the list of processes that had to be killed.
func (t *scripted) report(r *tool.Result, exit *sandbox.Exit) *tool.Result {
	if len(exit.Killed) > 0 || len(exit.Unverified) > 0 {
		r.Process = processReport(exit)
	}
	return r
}

// processReport lists the processes that had to be killed, and the processes whose death could not be confirmed.
func processReport(exit *sandbox.Exit) *tool.ProcessReport {
	r := &tool.ProcessReport{Killed: slices.Clone(exit.Killed), ConfirmedAt: exit.ConfirmedAt}
	for _, p := range exit.Unverified {
		r.KillUnverified = append(r.KillUnverified, p.PID)
	}
	return r
}

// A memo is the state that a call keeps between its attempts: the checkpoint of the program, and the question that the program asked. The
// program gets an answer only to its own question, and only when the arguments have not changed since. It never gets the answer to a
// question of a gate.
type memo struct {
	Key        string          `json:"key"` // idempotency key of the call when the question was asked
	Asked      string          `json:"asked,omitempty"`
	Checkpoint json.RawMessage `json:"checkpoint,omitempty"`

	answer *answer
}

// An answer is the JSON form in which a program gets the decision on its question.
type answer struct {
	Action    string          `json:"action"`
	Result    json.RawMessage `json:"result"`
	Reason    string          `json:"reason,omitempty"`
	DecidedBy string          `json:"decided_by,omitempty"`
}

func recall(c *tool.Call) *memo {
	m := &memo{Key: c.IdempotencyKey()}
	var last memo
	if len(c.Checkpoint) == 0 || json.Unmarshal(c.Checkpoint, &last) != nil {
		return m
	}
	m.Checkpoint = last.Checkpoint
	if c.Resume == nil || last.Asked == "" || last.Asked != c.Resume.Reason || last.Key != m.Key {
		return m
	}
	m.answer = &answer{
		Action: c.Resume.Reason, Result: json.RawMessage(c.Resume.Result), Reason: c.Resume.Decision.Reason, DecidedBy: c.Resume.Decision.DecidedBy.Subject,
	}
	if c.Resume.Result == "" {
		m.answer.Result = json.RawMessage("null")
	}
	return m
}

// save stores a memo for the next attempt.
func (m *memo) save(c *tool.Call) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return c.SaveCheckpoint(text)
}

// request returns the JSON object, in one line, that describes an attempt for a program.
func request(c *tool.Call, m *memo) ([]byte, error) {
	text, err := json.Marshal(map[string]any{
		"call": struct {
			ID         string          `json:"id"` // id of this attempt; a persistent program repeats it in each line
			CallID     string          `json:"call_id"`
			Tool       string          `json:"tool"`
			Namespace  string          `json:"namespace"`
			Attempt    int             `json:"attempt"`
			Key        string          `json:"idempotency_key"`
			Run        string          `json:"run_id,omitempty"`
			Thread     string          `json:"thread_id,omitempty"`
			Caller     string          `json:"caller,omitempty"`
			Arguments  json.RawMessage `json:"arguments"`
			Resume     *answer         `json:"resume,omitempty"`
			Checkpoint json.RawMessage `json:"checkpoint,omitempty"`
			Deadline   *time.Time      `json:"deadline,omitempty"`
		}{requestID(c), c.ID, c.Tool, c.Namespace, c.Attempt, c.IdempotencyKey(), c.Run.ID, c.Run.Thread, c.Caller.Subject, json.RawMessage(c.Arguments.Text()), m.answer, m.Checkpoint, deadline(c)},
	})
	return append(text, '\n'), err
}

func requestID(c *tool.Call) string { return c.ID + "/" + strconv.Itoa(c.Attempt) }

func deadline(c *tool.Call) *time.Time {
	if c.Deadline.IsZero() {
		return nil
	}
	return &c.Deadline
}
