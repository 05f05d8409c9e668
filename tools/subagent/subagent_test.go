package subagent_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/subagent"
	"github.com/toold-dev/toold/tools/subagent/subagenttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var protocols = []string{"openai", "anthropic"}

// daemon executes turns as the real daemon does: it runs each call once, identified by its id.
type daemon struct {
	mu        sync.Mutex
	ran       []subagent.Request
	runs      []tool.Run
	known     map[string]subagent.Outcome
	waits     map[string]bool // tools whose calls wait for a person
	refuse    int             // number of turns that are rejected for lack of capacity
	hang      func()          // called when the turn does not end, so that the test can act meanwhile
	cancelled []string
}

func (d *daemon) Tools(parent *tool.Call, agent tool.Agent, p subagent.Protocol) (subagent.Toolbox, error) {
	box := subagent.Toolbox{Names: map[string]string{"echo": "echo", "ask": "ask"}, Guidance: "Echo gently."}
	if p == subagent.OpenAI {
		box.Tools = json.RawMessage(`[{"type":"function","function":{"name":"echo","parameters":{"type":"object"}}}]`)
	} else {
		box.Tools = json.RawMessage(`[{"name":"echo","input_schema":{"type":"object"}}]`)
	}
	return box, nil
}

func (d *daemon) Carry(ctx context.Context, t *subagent.Turn, report func(subagent.Event)) ([]subagent.Outcome, error) {
	d.mu.Lock()
	if d.refuse--; d.refuse >= 0 {
		d.mu.Unlock()
		return nil, &tool.Error{Code: tool.ResourceExhausted, Retryable: true}
	}
	hang := d.hang
	d.runs = append(d.runs, t.Run)
	d.mu.Unlock()
	if hang != nil {
		hang()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []subagent.Outcome
	for _, r := range t.Calls {
		o, ok := d.known[r.ID]
		if !ok || !o.Missing && !o.Ended && !d.waits[r.Tool] {
			o = subagent.Outcome{ID: r.ID, Tool: r.Tool, Ended: !d.waits[r.Tool], Text: r.Tool + " " + r.Arguments, Waits: "approval"}
			if o.Ended {
				d.ran = append(d.ran, r)
			}
			if d.known == nil {
				d.known = map[string]subagent.Outcome{}
			}
			d.known[r.ID] = o
		}
		report(subagent.Event{Call: r.ID, Tool: r.Tool, Status: "done"})
		out = append(out, o)
	}
	return out, nil
}

func (d *daemon) Lend(context.Context) func(context.Context) error {
	return func(context.Context) error { return nil }
}

func (d *daemon) Cancel(ctx context.Context, t *subagent.Turn, reason string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if ctx.Err() != nil {
		reason += ", at once"
	}
	d.cancelled = append(d.cancelled, reason)
	return []string{t.Calls[0].ID}
}

// log simulates the parts of a call's log that the engine stores.
type log struct {
	tool.Reporter
	checkpoint []byte
	small      int // maximum size of a checkpoint in bytes; 0 means no limit
	activities []string
}

func (l *log) Progress(tool.Progress) error { return nil }
func (l *log) Activity(_, _, content string) error {
	l.activities = append(l.activities, content)
	return nil
}

func (l *log) SaveCheckpoint(b []byte) error {
	if l.small > 0 && len(b) > l.small {
		return &tool.Error{Code: tool.ResourceExhausted, Reason: tool.CheckpointSize}
	}
	l.checkpoint = slices.Clone(b)
	return nil
}

// bench is a subagent with a fake model and a fake daemon.
type bench struct {
	*subagent.Subagent
	d    *daemon
	log  *log
	m    *subagenttest.Server
	run  tool.Run
	task string // task of the call; empty means "work"
	more context.Context
}

func newBench(t *testing.T, protocol string, reply func(q *subagenttest.Question) subagenttest.Reply, set func(*subagent.Config)) *bench {
	t.Helper()
	b := &bench{d: &daemon{}, log: &log{}, m: subagenttest.New(reply), more: t.Context()}
	cfg := subagent.Config{
		Settings: subagent.Settings{Name: "helper", Protocol: subagent.Protocol(protocol), Endpoint: b.m.Endpoint(protocol), Model: "small"}, Caller: b.d, FirstDelay: time.Millisecond,
		KeyOf: func(context.Context, string) (string, error) { return "sesame-sesame", nil },
	}
	if set != nil {
		set(&cfg)
	}
	var err error
	if b.Subagent, err = subagent.New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = b.Close()
		b.m.Close()
		if _, wrong := b.m.Asked(); len(wrong) > 0 {
			t.Errorf("the model was asked what no provider takes: %q", wrong)
		}
	})
	return b
}

// attempt runs the call once, from its last checkpoint.
func (b *bench) attempt() (*tool.Result, error) {
	task := cmp.Or(b.task, "work")
	return b.Execute(b.more, &tool.Call{
		Namespace: "default", ID: "call-0123456789abcdef", Tool: "helper", Run: b.run, Reporter: b.log, Checkpoint: b.log.checkpoint,
		Arguments: tool.NewArguments(`{"task":"`+task+`"}`, map[string]any{"task": task}),
	})
}

func (b *bench) result(t *testing.T) *tool.Result {
	t.Helper()
	r, err := b.attempt()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func calls(list ...subagenttest.Call) subagenttest.Reply {
	return subagenttest.Reply{In: 10, Out: 5, Calls: list}
}

func each(t *testing.T, f func(t *testing.T, protocol string)) {
	for _, p := range protocols {
		t.Run(p, func(t *testing.T) {
			t.Parallel()
			f(t, p)
		})
	}
}

// TestWrongToolCalls checks that the model gets an error for each wrong tool call. The parts that providers would reject are replaced
// before the conversation is sent again.
func TestWrongToolCalls(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, protocol string) {
		cut := `{"text":"a`
		if protocol == "anthropic" {
			cut = `"{\"text\":\"a"` // JSON that is cut off, as some gateways send it
		}
		long := strings.Repeat("x", 2<<20)
		b := newBench(t, protocol, func(q *subagenttest.Question) subagenttest.Reply {
			if q.Turns() > 0 {
				return subagenttest.Reply{Text: "done"}
			}
			list := []subagenttest.Call{
				{ID: "a", Name: "echo", Arguments: `{"text":"1"}`}, {ID: "a", Name: "echo", Arguments: `{"text":"2"}`}, {ID: "", Name: "echo", Arguments: cut},
				{ID: "b c", Name: "no such tool!", Arguments: `{}`}, {ID: "d", Name: "nothing", Arguments: `[1]`}, {ID: "e", Name: "echo", Arguments: `{"t":"` + long + `"}`},
			}
			for i := range 64 {
				list = append(list, subagenttest.Call{ID: fmt.Sprint("n", i), Name: "echo", Arguments: "{}"})
			}
			return calls(list...)
		}, nil)
		if r := b.result(t); r.Message != "done" {
			t.Fatalf("it ended with %+v", r)
		}
		asked, _ := b.m.Asked()
		got := asked[1].Last().Results
		if len(got) != 70 || len(b.d.ran) != 62 {
			t.Fatalf("%d results of %d calls", len(got), len(b.d.ran))
		}
		for i, want := range []string{`echo {"text":"1"}`, `echo {"text":"2"}`, `echo {"text":"a`, `There is no tool "no such tool!"`, `nothing [1]`, "Not run: the arguments have"} {
			if !strings.Contains(got[i].Text, want) {
				t.Errorf("result %d is %.80q", i, got[i].Text)
			}
		}
		if !strings.Contains(got[69].Text, "more than 64") || !strings.Contains(asked[0].System, "Echo gently.") {
			t.Errorf("the last is %q, the system says %q", got[69].Text, asked[0].System)
		}
	})
}

// TestLimits checks that each limit ends a subagent: turns, tokens, time, nesting, and the size of an answer, of the conversation or of a
// checkpoint.
func TestLimits(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, protocol string) {
		endless := func(q *subagenttest.Question) subagenttest.Reply {
			r := calls(subagenttest.Call{ID: "x", Name: "echo", Arguments: "{}"})
			r.Text = "still busy"
			return r
		}
		estimated := func(q *subagenttest.Question) subagenttest.Reply {
			r := endless(q)
			r.NoUsage, r.Text = true, strings.Repeat("word ", 1000)
			return r
		}
		for name, tt := range map[string]struct {
			reply  func(*subagenttest.Question) subagenttest.Reply
			set    func(*subagent.Config)
			reason string
			ran    int
		}{
			"turns":    {endless, func(c *subagent.Config) { c.Turns = 4 }, "TURNS", 3},
			"tokens":   {endless, func(c *subagent.Config) { c.Tokens = 45 }, "TOKENS", 2},
			"no usage": {estimated, func(c *subagent.Config) { c.Tokens = 4000 }, "TOKENS", 2},
			"nonsense": {func(q *subagenttest.Question) subagenttest.Reply {
				r := estimated(q)
				r.NoUsage, r.In = false, -1<<40
				return r
			}, func(c *subagent.Config) { c.Tokens = 4000 }, "TOKENS", 2},
			"large": {func(q *subagenttest.Question) subagenttest.Reply {
				r := endless(q)
				r.Text = strings.Repeat("x", 3<<20)
				return r
			}, nil, "CONVERSATION", 1},
			"no time": {func(q *subagenttest.Question) subagenttest.Reply {
				time.Sleep(30 * time.Millisecond)
				return endless(q)
			}, func(c *subagent.Config) { c.Time = 10 * time.Millisecond }, "TIME", 0},
			"too large": {func(q *subagenttest.Question) subagenttest.Reply {
				return subagenttest.Reply{Body: strings.Repeat(" ", 9<<20)}
			}, nil, "ANSWER_TOO_LARGE", 0},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, protocol, tt.reply, tt.set)
				r := b.result(t)
				if r.Error == nil || r.Error.Reason != tt.reason || len(b.d.ran) != tt.ran {
					t.Fatalf("after %d calls it ended with %.300v", len(b.d.ran), r.Error)
				}
				if tt.ran > 0 && !strings.Contains(r.Error.Message, "Its last message: ") {
					t.Errorf("it says %.300q", r.Error.Message)
				}
			})
		}
	})
	b := newBench(t, "openai", func(*subagenttest.Question) subagenttest.Reply {
		return calls(subagenttest.Call{ID: "x", Name: "echo", Arguments: `{"text":"` + strings.Repeat("<", 1000) + `"}`})
	}, nil)
	b.log.small = 40_000
	if r := b.result(t); r.Error == nil || r.Error.Reason != "CONVERSATION" || len(b.log.checkpoint) == 0 {
		t.Errorf("when its checkpoint is not kept it ends with %+v", r)
	}
	b = newBench(t, "openai", nil, nil)
	b.run.Labels = map[string]string{"subagent.depth_left": "0"}
	if r := b.result(t); r.Error == nil || r.Error.Reason != "DEPTH" {
		t.Errorf("too deep it ends with %+v", r)
	}
}

// TestEndpointFails checks that a question is sent again when the endpoint is busy or fails, but not when it refuses. It also checks that
// the key appears nowhere.
func TestEndpointFails(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, protocol string) {
		for name, tt := range map[string]struct {
			fails  subagenttest.Reply
			times  int32 // number of failures
			asked  int32
			reason string
		}{
			"busy":             {subagenttest.Reply{Status: 429, Header: map[string]string{"Retry-After": "0"}, Body: "slow down"}, 2, 3, ""},
			"down":             {subagenttest.Reply{Status: 503}, 100, 5, "HTTP_503"},
			"busy for an hour": {subagenttest.Reply{Status: 429, Header: map[string]string{"Retry-After": "3600"}}, 100, 1, "HTTP_429"},
			"no such key":      {subagenttest.Reply{Status: 401, Body: "bad key sesame-sesame"}, 100, 1, "HTTP_401"},
			"moved":            {subagenttest.Reply{Status: 307, Header: map[string]string{"Location": "/v1/elsewhere"}}, 100, 1, "HTTP_307"},
			"no JSON":          {subagenttest.Reply{Body: "<html>"}, 1, 2, ""},
			"never JSON":       {subagenttest.Reply{Body: `{"choices":[{}],"type":"error"}`}, 100, 5, "MALFORMED"},
			"no choices":       {subagenttest.Reply{Body: `{"choices":[],"type":null}`}, 100, 5, "MALFORMED"},
			"no function":      {subagenttest.Reply{Body: `{"choices":[{"message":{"tool_calls":[{"id":"x"}]}}],"type":1}`}, 100, 5, "MALFORMED"},
			"strange content":  {subagenttest.Reply{Body: `{"choices":[{"message":{"content":7}}],"content":7}`}, 100, 5, "MALFORMED"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				var n atomic.Int32
				b := newBench(t, protocol, func(q *subagenttest.Question) subagenttest.Reply {
					if n.Add(1) <= tt.times {
						return tt.fails
					}
					return subagenttest.Reply{Text: "at last"}
				}, nil)
				r := b.result(t)
				if n.Load() != tt.asked {
					t.Errorf("it was asked %d times", n.Load())
				}
				if tt.reason == "" && r.Message == "at last" {
					return
				}
				if r.Error == nil || r.Error.Code != tool.Upstream || r.Error.Reason != tt.reason {
					t.Fatalf("it ended with %+v", r)
				}
				if text := r.Error.Message + r.Error.DeveloperMessage; strings.Contains(text, "sesame") {
					t.Errorf("the key is in %q", text)
				}
			})
		}
	})
}

// TestWaits checks that a waiting subagent continues from its checkpoint and repeats neither a question nor a call.
func TestWaits(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, protocol string) {
		b := newBench(t, protocol, func(q *subagenttest.Question) subagenttest.Reply {
			if q.Turns() == 0 {
				return calls(subagenttest.Call{ID: "1", Name: "echo", Arguments: "{}"}, subagenttest.Call{ID: "2", Name: "ask", Arguments: "{}"})
			}
			return subagenttest.Reply{Text: q.Last().Results[0].Text + q.Last().Results[1].Text}
		}, nil)
		b.d.waits, b.d.refuse = map[string]bool{"ask": true}, 2
		var open []string
		for range 2 {
			r := b.result(t)
			if !r.IsPending() || r.Suspension.Action != subagent.Action || r.Suspension.Message != "Waits for ask (approval)" {
				t.Fatalf("it stands at %+v", r)
			}
			open = subagent.Waiting(b.log.checkpoint)
		}
		if len(open) != 1 || subagent.RunOf("call-0123456789abcdef", b.log.checkpoint) != b.d.runs[0].ID {
			t.Errorf("it waits for %v in the run %s", open, b.d.runs[0].ID)
		}
		b.d.waits = nil
		b.d.known[b.d.ran[0].ID] = subagent.Outcome{ID: b.d.ran[0].ID, Missing: true} // The daemon has trimmed the call meanwhile. The checkpoint still has its result.
		if r := b.result(t); r.Message != "echo {}ask {}" {
			t.Errorf("it ended with %+v", r)
		}
		if asked, _ := b.m.Asked(); len(asked) != 2 {
			t.Errorf("the model was asked %d times", len(asked))
		}
		if !strings.Contains(strings.Join(b.log.activities, " "), `"tool":"echo","status":"done"`) {
			t.Errorf("the log shows %v", b.log.activities)
		}
	})
}

// TestStopped checks that a subagent that is cancelled or out of time cancels its calls. A daemon that stops leaves the calls to the next
// daemon.
func TestStopped(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cause     error
		cancelled int
		pending   bool
	}{
		"cancelled": {tool.Errorf(tool.Cancelled, "by somebody"), 1, false},
		"drained":   {tool.Errorf(tool.Interrupted, "the daemon stops"), 0, true},
		"time":      {nil, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			b := newBench(t, "openai", func(q *subagenttest.Question) subagenttest.Reply {
				return calls(subagenttest.Call{ID: "1", Name: "echo", Arguments: "{}"})
			}, func(c *subagent.Config) { c.Time = 2 * time.Second })
			b.more, b.d.hang = ctx, func() {
				if tt.cause != nil {
					cancel(tt.cause)
				}
			}
			r, err := b.attempt()
			if !r.IsPending() { // The engine calls Stop for every outcome except a suspension.
				if unseen := b.Stop(t.Context(), &tool.Call{ID: "call-0123456789abcdef", Checkpoint: b.log.checkpoint}); len(unseen) != tt.cancelled {
					t.Errorf("it does not know the end of %v", unseen)
				}
			}
			if len(b.d.cancelled) != tt.cancelled || r.IsPending() != tt.pending || (err != nil) != (name == "cancelled") {
				t.Errorf("it ended with %+v, %v; cancelled: %v", r, err, b.d.cancelled)
			}
			if name == "time" && (r.Error == nil || r.Error.Reason != "TIME") {
				t.Errorf("it ended with %+v", r)
			}
		})
	}
}

// TestNeverWider checks that a subagent never has more tools than its caller's agent, and that its runs have at least the restrictions of
// its caller's run.
func TestNeverWider(t *testing.T) {
	t.Parallel()
	b := newBench(t, "openai", func(q *subagenttest.Question) subagenttest.Reply {
		if q.Turns() == 0 {
			return calls(subagenttest.Call{ID: "1", Name: "echo", Arguments: "{}"})
		}
		return subagenttest.Reply{Text: "done"}
	}, func(c *subagent.Config) {
		c.Tools.Allow, c.Tools.Exclude, c.Siblings = []string{"e*"}, []string{"bad"}, []string{"helper", "other"}
	})
	b.run = tool.Run{
		ID: "r2", Thread: "t2", ParentRun: "r1", ParentThread: "t1", Origin: subagent.Origin, Unattended: true,
		Agent: tool.Agent{Allow: []string{"echo", "ask"}, Exclude: []string{"worse"}}, Labels: map[string]string{"team": "red", "subagent.depth_left": "1"},
	}
	b.result(t)
	got := b.d.runs[0]
	if !slices.Equal(got.Agent.Allow, []string{"ask", "echo"}) || !slices.Equal(got.Agent.Exclude, []string{"worse", "bad", "helper", "other"}) {
		t.Errorf("it may use %+v", got.Agent)
	}
	if !got.Unattended || got.Labels["team"] != "red" || got.Labels["subagent.depth_left"] != "0" || got.ParentCall == "" {
		t.Errorf("its run is %+v", got)
	}
	if above := subagent.Above(&got); !slices.Equal(above, []subagent.Ancestor{{Run: "r1", Thread: "t1"}, {Run: "r2", Thread: "t2"}}) {
		t.Errorf("above it are %v", above)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	good := subagent.Config{Settings: subagent.Settings{Name: "a", Protocol: "openai", Endpoint: "https://api.example.com/v1", Model: "m"}}
	if _, err := subagent.New(good); err != nil {
		t.Fatal(err)
	}
	for name, wrong := range map[string]func(*subagent.Config){
		"name": func(c *subagent.Config) { c.Name = "a b" }, "protocol": func(c *subagent.Config) { c.Protocol = "x" }, "model": func(c *subagent.Config) { c.Model = "" },
		"endpoint": func(c *subagent.Config) { c.Endpoint = "api.example.com" }, "user": func(c *subagent.Config) { c.Endpoint = "https://u:p@api.example.com" },
		"glob": func(c *subagent.Config) { c.Tools.Allow = []string{"["} }, "tier": func(c *subagent.Config) { c.Tier = "NEVER" }, "turns": func(c *subagent.Config) { c.Turns = -1 },
		"time": func(c *subagent.Config) { c.Time = 25 * time.Hour }, "depth": func(c *subagent.Config) { c.Depth = 9 }, "tokens": func(c *subagent.Config) { c.Tokens = -1 },
	} {
		c := good
		if wrong(&c); c.Name != "" {
			if _, err := subagent.New(c); err == nil {
				t.Errorf("a wrong %s is taken", name)
			}
		}
	}
}

// FuzzAnswer checks that the call ends with a text for any response of an endpoint, and that providers accept the requests that follow.
func FuzzAnswer(f *testing.F) {
	f.Add(`{"choices":[{"message":{"content":"x","tool_calls":[{"id":"a","function":{"name":"echo","arguments":"{"}}]}}]}`)
	f.Add(`{"type":"message","content":[{"type":"tool_use","id":"a","name":"echo","input":[]},{"type":"text","text":"x"}],"usage":{"input_tokens":9e9}}`)
	f.Fuzz(func(t *testing.T, body string) {
		for _, protocol := range protocols {
			second := func(q *subagenttest.Question) subagenttest.Reply {
				if q.Turns() == 0 {
					return subagenttest.Reply{Body: body + " "}
				}
				return subagenttest.Reply{Text: "done"}
			}
			b := newBench(t, protocol, second, func(c *subagent.Config) { c.FirstDelay = time.Nanosecond })
			if r, err := b.attempt(); err != nil || !r.IsSuccess() && !r.IsError() {
				t.Errorf("it ended with %+v, %v", r, err)
			}
		}
	})
}
