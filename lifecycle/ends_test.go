package lifecycle_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

// ending holds the properties of an outcome that the table of outcomes specifies.
type ending struct {
	status    call.Status
	code      tool.Code // "" when the call succeeded
	reason    string
	executed  call.Executed
	aborted   bool
	terminate bool
	retryable bool
	after     bool   // whether After hooks are called
	text      string // text for the model; a final * matches any text
}

func endingOf(c *call.Call, after *afterHook) ending {
	got := ending{status: c.Status, executed: c.Executed, after: after.saw(c), text: c.Result.ModelText()}
	if e := c.Result.Error; e != nil {
		got.code, got.reason, got.aborted, got.terminate, got.retryable = e.Code, e.Reason, e.Aborted, e.TerminateRun, e.Retryable
	}
	return got
}

func (want ending) check(t *testing.T, got ending) {
	t.Helper()
	if head, ok := strings.CutSuffix(want.text, "*"); ok && strings.HasPrefix(got.text, head) {
		got.text = want.text
	}
	if got != want {
		t.Errorf("ended\n%+v, want\n%+v", got, want)
	}
}

// endRow is a row of the table. run makes the call and returns its id. If run is nil, the test executes the tool once.
type endRow struct {
	name   string
	tool   tool.Tool
	config func(*lifecycle.Config)
	args   string
	run    func(w *world, s call.Spec) string
	want   ending
}

func TestHowCallsEnd(t *testing.T) {
	for _, rows := range [][]endRow{endsOfTools(), endsByHooks(), endsByPeople(), endsByClocks(), endsBeforeTheStart()} {
		for _, row := range rows {
			t.Run(row.name, func(t *testing.T) { row.check(t) })
		}
	}
}

func (row endRow) check(t *testing.T) {
	after := &afterHook{}
	watching := func(c *lifecycle.Config) {
		c.Hooks.After = []hook.Entry[hook.After]{{Name: "after", Hook: after}}
	}
	tools := []tool.Tool{echo("other", mutating)}
	if row.tool != nil {
		tools = append(tools, row.tool)
	}
	config := watching
	if row.config != nil {
		config = both(row.config, watching)
	}
	inBubble(t, tools, config, func(t *testing.T, w *world) {
		s := spec("t", row.args)
		run := row.run
		if run == nil {
			run = func(w *world, s call.Spec) string { return w.do(s).ID }
		}
		id := run(w, s)
		synctest.Wait()
		c := w.get(id)
		if !c.Status.Terminal() {
			t.Fatalf("call is %s", c.Status)
		}
		row.want.check(t, endingOf(c, after))
		w.checkLog(id)
	})
}

func returns(r *tool.Result, err error) tool.Tool {
	return made("t", mutating, func(context.Context, *tool.Call) (*tool.Result, error) { return r, err })
}

func endsOfTools() []endRow {
	schema := tool.Func(tool.Descriptor{ID: "t", Parameters: json.RawMessage(anyObject), ResultSchema: json.RawMessage(`{"type":"string"}`)},
		func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Success(7), nil })
	set := tool.Key[string]{Scope: tool.RunScope, Name: "k"}.Set("v")
	return []endRow{
		{name: "success with a message", tool: returns(tool.SuccessMessage(1, "one"), nil),
			want: ending{status: call.Succeeded, executed: call.Finished, after: true, text: "one"}},
		{name: "success with data", tool: returns(tool.Success(map[string]int{"n": 1}), nil),
			want: ending{status: call.Succeeded, executed: call.Finished, after: true, text: `{"n":1}`}},
		{name: "error result", tool: returns(tool.FailCode("NO_MATCH", "no match for %q", "x"), nil),
			want: ending{status: call.Failed, code: tool.ExecutionFailed, reason: "NO_MATCH", executed: call.Finished, after: true, text: `no match for "x"`}},
		// An ERROR result cannot have a code that is reserved for the engine.
		{name: "error result with a code", tool: returns(&tool.Result{Status: tool.StatusError, Error: tool.Errorf(tool.Denied, "not yours")}, nil),
			want: ending{status: call.Failed, code: tool.ExecutionFailed, reason: "DENIED", executed: call.Finished, after: true, text: "not yours"}},
		{name: "error", tool: returns(tool.Success(1).With(set), errors.New("broken pipe")),
			want: ending{status: call.Failed, code: tool.ExecutionFailed, executed: call.Finished, aborted: true, after: true, text: "broken pipe"}},
		{name: "error of a kind", tool: returns(nil, tool.Errorf(tool.NotFound, "no file a.txt")),
			want: ending{status: call.Failed, code: tool.NotFound, executed: call.Finished, aborted: true, after: true, text: "no file a.txt"}},
		{name: "panic", tool: made("t", mutating, func(context.Context, *tool.Call) (*tool.Result, error) { panic("boom") }),
			want: ending{status: call.Failed, code: tool.Internal, executed: call.Started, aborted: true, after: true, text: "The tool failed internally (*"}},
		{name: "panic outside of the daemon", tool: returns(tool.Success(1).With(set), fmt.Errorf("worker: %w", &tool.PanicError{Text: "boom"})),
			want: ending{status: call.Failed, code: tool.Internal, executed: call.Started, aborted: true, after: true, text: "The tool failed internally (*"}},
		{name: "nothing returned", tool: returns(nil, nil),
			want: ending{status: call.Failed, code: tool.Internal, executed: call.Finished, aborted: true, after: true, text: "The tool ended without a result"}},
		{name: "result schema", tool: schema,
			want: ending{status: call.Failed, code: tool.ExecutionFailed, reason: "RESULT_SCHEMA", executed: call.Finished, after: true, text: "The tool ran, but its result does not match its result schema"}},
		{name: "isolation", tool: returns(nil, &tool.Error{Code: tool.Sandbox, Reason: "net", Message: "needs an isolated network"}),
			want: ending{status: call.Failed, code: tool.Sandbox, reason: "net", executed: call.NotStarted, aborted: true, after: true, text: "needs an isolated network"}},
		{name: "quota", tool: returns(&tool.Result{Status: tool.StatusError, Error: tool.Errorf(tool.ResourceExhausted, "256 MiB used up")}, nil),
			want: ending{status: call.Failed, code: tool.ResourceExhausted, reason: "RESOURCE_EXHAUSTED", executed: call.Finished, after: true, text: "256 MiB used up"}},
		{name: "upstream", tool: returns(nil, tool.Errorf(tool.Upstream, "the server hung up")),
			want: ending{status: call.Failed, code: tool.Upstream, executed: call.Finished, aborted: true, after: true, text: "the server hung up"}},
	}
}

func endsByHooks() []endRow {
	gated := func(v hook.Verdict) func(*lifecycle.Config) {
		return gates(namedGate("g", func(*hook.Input) (hook.Verdict, error) { return v, nil }))
	}
	four := tool.Ticket{Approvers: &tool.Approvers{DistinctFromCaller: true}}
	return []endRow{
		{name: "set result", tool: echo("t", mutating), config: gated(hook.SetResult(tool.Text("cached"))),
			want: ending{status: call.Succeeded, executed: call.NotStarted, after: true, text: "cached"}},
		{name: "denied", tool: echo("t", mutating), config: gated(hook.Deny("not on Sundays")),
			want: ending{status: call.Failed, code: tool.Denied, executed: call.NotStarted, after: true, text: "not on Sundays"}},
		{name: "block", tool: echo("t", mutating), config: gated(hook.Block("exfiltration")),
			want: ending{status: call.Failed, code: tool.Denied, reason: "BLOCKED", executed: call.NotStarted, aborted: true, terminate: true, after: true, text: "Blocked: exfiltration"}},
		{name: "gate fails", tool: echo("t", mutating), config: gated(hook.Verdict{}),
			want: ending{status: call.Failed, code: tool.Denied, reason: "HOOK_FAILED", executed: call.NotStarted, aborted: true, after: true, text: `Refused: the hook "g" failed`}},
		{name: "required before hook", tool: echo("t", mutating), config: func(c *lifecycle.Config) {
			c.Hooks.Before = []hook.Entry[hook.Before]{{Name: "backup", Required: true, Hook: beforeFunc(func(*hook.Input) ([]tool.Command, error) { return nil, errors.New("no") })}}
		}, want: ending{status: call.Failed, code: tool.ExecutionFailed, reason: "backup", executed: call.NotStarted, aborted: true, after: true, text: `Not run: the hook "backup" failed`}},
		{name: "admit", tool: echo("t", mutating), config: func(c *lifecycle.Config) {
			c.Hooks.Admit = []hook.Entry[hook.Admit]{{Name: "rate", Hook: admitFunc(func(*hook.Input) (func(), error) {
				return nil, tool.Errorf(tool.Denied, "10 calls a minute")
			})}}
		}, want: ending{status: call.Failed, code: tool.ResourceExhausted, reason: "rate", executed: call.NotStarted, aborted: true, retryable: true, after: true, text: "10 calls a minute"}},
		{name: "nobody else can approve", tool: echo("t", mutating), config: both(gates(namedGate("g", approval(four))),
			func(c *lifecycle.Config) { c.People = people{"approver": {"alice"}} }),
			want: ending{status: call.Failed, code: tool.Denied, reason: "NO_ELIGIBLE_APPROVER", executed: call.NotStarted, aborted: true, after: true,
				text: "Refused: it needs the approval of somebody with the role approver other than alice, and there is nobody"}},
		// Executed is FINISHED, because the tool ran before it asked.
		{name: "nobody can answer the tool", tool: asks("t", four), config: func(c *lifecycle.Config) { c.People = people{} },
			want: ending{status: call.Failed, code: tool.Denied, reason: "NO_ELIGIBLE_APPROVER", executed: call.Started, aborted: true, after: true,
				text: "Refused: it needs the approval of somebody with the role approver other than alice, and there is nobody"}},
		{name: "a question that cannot be asked", tool: asks("t", tool.Ticket{ResponseSchema: json.RawMessage(`{"type":7}`)}),
			want: ending{status: call.Failed, code: tool.Internal, executed: call.Finished, aborted: true, after: true, text: "The tool asked a question that cannot be answered"}},
	}
}

func endsByPeople() []endRow {
	ask := gates(namedGate("g", approval(tool.Ticket{Message: "sure?"})))
	result := gates(namedGate("g", approval(tool.Ticket{ResumeMode: tool.UseDecisionAsToolResult})))
	decided := func(d tool.Decision) func(*world, call.Spec) string {
		return func(w *world, s call.Spec) string { return w.answer(bob, w.do(s), d).ID }
	}
	cancelled := func(w *world, s call.Spec) string {
		w.begin(s)
		if _, err := w.e.Cancel(w.t.Context(), alice, s.ID, "", time.Minute); err != nil {
			w.t.Fatal(err)
		}
		return s.ID
	}
	tools := tool.Ticket{ResumeMode: tool.UseDecisionAsToolResult}
	return []endRow{
		{name: "the decision is the result", tool: echo("t", mutating), config: result, run: decided(tool.Decision{Action: tool.Resume, Result: `"blue"`}),
			want: ending{status: call.Succeeded, executed: call.NotStarted, after: true, text: `"blue"`}},
		{name: "the decision is the result of a tool that asked", tool: asks("t", tools), run: decided(tool.Decision{Action: tool.Resume, Result: `"blue"`}),
			want: ending{status: call.Succeeded, executed: call.Started, after: true, text: `"blue"`}},
		{name: "declined", tool: echo("t", mutating), config: ask, run: decided(no("too risky")),
			want: ending{status: call.Cancelled, code: tool.Cancelled, reason: "DECLINED", executed: call.NotStarted, after: true, text: "Declined: too risky"}},
		{name: "declined, tool had asked", tool: asks("t", tool.Ticket{}), run: decided(no("")),
			want: ending{status: call.Cancelled, code: tool.Cancelled, reason: "DECLINED", executed: call.Started, after: true, text: "Declined"}},
		{name: "cancelled while running", tool: held().tool("t", mutating), run: cancelled,
			want: ending{status: call.Cancelled, code: tool.Cancelled, executed: call.Started, after: true, text: "Cancelled by user"}},
		{name: "cancelled while waiting", tool: echo("t", mutating), config: ask, run: cancelled,
			want: ending{status: call.Cancelled, code: tool.Cancelled, executed: call.NotStarted, after: true, text: "Cancelled by user"}},
		{name: "cancelled while its own question waits", tool: asks("t", tool.Ticket{}), run: cancelled,
			want: ending{status: call.Cancelled, code: tool.Cancelled, executed: call.Started, after: true, text: "Cancelled by user"}},
		{name: "expired", tool: echo("t", mutating), config: gates(namedGate("g", approval(tool.Ticket{ExpiresIn: time.Hour}))), run: expired,
			want: ending{status: call.Cancelled, code: tool.Expired, executed: call.NotStarted, after: true, text: "No answer within 1h0m0s"}},
		{name: "the tool's question expired", tool: asks("t", tool.Ticket{ExpiresIn: time.Hour}), run: expired,
			want: ending{status: call.Cancelled, code: tool.Expired, executed: call.Started, after: true, text: "No answer within 1h0m0s"}},
	}
}

func expired(w *world, s call.Spec) string {
	w.begin(s)
	time.Sleep(time.Hour)
	if err := w.e.ExpireDue(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return s.ID
}

func endsByClocks() []endRow {
	deaf := held()
	deaf.deaf = true
	queued := func(w *world, s call.Spec) string {
		w.begin(apart(spec("slow", "")))
		return w.do(s).ID
	}
	one := func(c *lifecycle.Config) {
		c.Concurrency = 1
		old := c.Tools.(*toolbox)
		old.put(echo("t", mutating), held().tool("slow", mutating))
	}
	drained := func(first string) func(w *world, s call.Spec) string {
		return func(w *world, s call.Spec) string {
			if first != "" {
				w.begin(apart(spec(first, "")))
			}
			w.begin(s)
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			w.e.Drain(ctx)
			w.store = w.store.Reopen()
			w.open()
			return s.ID
		}
	}
	return []endRow{
		{name: "attempt timeout", tool: held().toolAs(tool.Descriptor{ID: "t", Timeouts: tool.Timeouts{Attempt: 3 * time.Second}}),
			want: ending{status: call.Failed, code: tool.Timeout, reason: "ATTEMPT", executed: call.Started, aborted: true, after: true, text: "Timed out after 3s"}},
		{name: "attempt timeout not heeded", tool: deaf.toolAs(tool.Descriptor{ID: "t", Timeouts: tool.Timeouts{Attempt: 3 * time.Second}}),
			run:  func(w *world, s call.Spec) string { defer deaf.free(); return w.do(s).ID },
			want: ending{status: call.Failed, code: tool.Timeout, reason: "ATTEMPT", executed: call.ExecutedUnknown, aborted: true, after: true, text: "Timed out after 3s; its end is unknown: it may have taken effect, and may still run"}},
		{name: "attempt timeout, end not seen", tool: unseen(tool.Descriptor{ID: "t", Timeouts: tool.Timeouts{Attempt: 3 * time.Second}}),
			want: ending{status: call.Failed, code: tool.Timeout, reason: "ATTEMPT", executed: call.ExecutedUnknown, aborted: true, after: true, text: "Timed out after 3s; its end is unknown: it may have taken effect, and may still run"}},
		{name: "queue deadline", config: one, run: queued,
			want: ending{status: call.Failed, code: tool.Timeout, reason: "QUEUE", executed: call.NotStarted, aborted: true, retryable: true, after: true, text: "Timed out after 30s in the queue; it was not run"}},
		{name: "drained while running", tool: held().tool("t", mutating), run: drained(""),
			want: ending{status: call.Cancelled, code: tool.Interrupted, reason: "DRAIN", executed: call.Started, after: true, text: "Stopped before it finished"}},
		{name: "drained while queued", config: one, run: drained("slow"),
			want: ending{status: call.Failed, code: tool.Interrupted, reason: "DRAIN", executed: call.NotStarted, aborted: true, retryable: true, text: "Not run"}},
		{name: "crash after the start", tool: held().tool("t", mutating), run: func(w *world, s call.Spec) string { w.begin(s); w.crash(); return s.ID },
			want: ending{status: call.Failed, code: tool.InDoubt, executed: call.ExecutedUnknown, aborted: true, text: "It is not known whether this ran"}},
	}
}

func endsBeforeTheStart() []endRow {
	strict := tool.Func(tool.Descriptor{ID: "t", Parameters: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`)},
		func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Success(1), nil })
	unattended := func(w *world, s call.Spec) string {
		w.begin(apart(spec("slow", "")))
		w.start(s, call.ExecuteOptions{Attended: true}).Close()
		time.Sleep(10 * time.Second)
		w.start(s, call.ExecuteOptions{Attended: true}).Close() // A new watcher restarts the linger time of the call.
		time.Sleep(29 * time.Second)
		synctest.Wait()
		if c := w.get(s.ID); c.Status != call.New {
			w.t.Fatalf("call is %s", c.Status)
		}
		time.Sleep(2 * time.Second)
		return s.ID
	}
	return []endRow{
		{name: "arguments break the schema", tool: strict, args: `{"m":1}`,
			want: ending{status: call.Failed, code: tool.InvalidArguments, reason: "SCHEMA", executed: call.NotStarted, aborted: true, text: "The arguments do not fit the parameters of t:\n- m: is not known here; known are n\n- n: is required (an integer)"}},
		{name: "arguments are cut off", tool: strict, args: `{"n":1`,
			want: ending{status: call.Failed, code: tool.InvalidArguments, reason: "TRUNCATED_JSON", executed: call.NotStarted, aborted: true, text: "The arguments are not valid JSON: not valid JSON at byte 6*"}},
		{name: "no such tool", args: `{"n":1`, // The missing tool is reported even when the arguments are invalid.
			want: ending{status: call.Failed, code: tool.NotFound, executed: call.NotStarted, aborted: true, text: `There is no tool "t". Use one of the tools that you were given.`}},
		{name: "not offered", tool: strict, run: func(w *world, s call.Spec) string { s.Run.Agent.Exclude = []string{"t*"}; return w.do(s).ID },
			want: ending{status: call.Failed, code: tool.NotFound, executed: call.NotStarted, aborted: true, text: `There is no tool "t". Use one of the tools that you were given.`}},
		{name: "caller gone before the start", config: func(c *lifecycle.Config) {
			c.Concurrency, c.QueueTimeout = 1, time.Hour
			c.Tools.(*toolbox).put(echo("t", mutating), held().tool("slow", mutating))
		}, run: unattended,
			want: ending{status: call.Failed, code: tool.Interrupted, reason: "CALLER_GONE", executed: call.NotStarted, aborted: true, retryable: true, text: "Not run"}},
		{name: "the intent could not be written", tool: echo("t", mutating), run: withoutIntent,
			want: ending{status: call.Failed, code: tool.Interrupted, reason: "JOURNAL", executed: call.NotStarted, aborted: true, retryable: true, text: "Not run"}},
	}
}

// withoutIntent runs a call on a journal that refuses each intent because it is full.
func withoutIntent(w *world, s call.Spec) string {
	w.cfg.Concurrency = 1
	w.tools.put(echo("t", mutating), held().toolAs(tool.Descriptor{ID: "slow", Effects: reading, Timeouts: tool.Timeouts{Attempt: time.Second}}))
	w.useStore(nil, failing(func(_ int, c *change) bool { return c.Call != nil && c.Call.Status == call.Running }))
	w.begin(apart(spec("slow", ""))) // This call takes the only slot. The call of the tool "t" must then queue, so it is stored before its intent.
	return w.do(s).ID
}

// unseen returns a tool that cannot confirm that a program outside toold has stopped its work.
func unseen(d tool.Descriptor) tool.Tool {
	return tool.Func(d, func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
		<-ctx.Done()
		return nil, fmt.Errorf("%w: %w", context.Cause(ctx), tool.ErrLost)
	})
}
