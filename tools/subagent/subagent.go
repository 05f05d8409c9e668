package subagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/toold-dev/toold/setting"
	"github.com/toold-dev/toold/tool"
)

// A Config configures one subagent.
type Config struct {
	Settings
	// KeyOf returns the endpoint's key for calls of a namespace. It is called for each request. Nil means that there is no key.
	KeyOf func(ctx context.Context, namespace string) (string, error)
	// Siblings are the ids of all subagents. A subagent at the deepest permitted level is not offered them.
	Siblings []string

	MaxArguments int           // maximum size in bytes of a tool call's arguments; 0 means 1 MiB
	FirstDelay   time.Duration // delay before the second try of a question; each further delay is twice as long; 0 means 1 s
	Caller       Caller        // required, except when only the descriptor is used
}

// A Subagent is a tool that gives a task to a model.
type Subagent struct {
	cfg        Config
	model      *model
	descriptor tool.Descriptor
}

const defaultSystem = "You are a helper; another assistant gives you a task. Work on it alone, with your tools, and end with a self-contained answer: " +
	"the assistant reads only your last message, and cannot answer questions."

const parameters = `{"type":"object","properties":{"task":{"type":"string","minLength":1,` +
	`"description":"The task with all necessary information: the helper cannot see this conversation. Describe what the answer should contain."}},` +
	`"required":["task"],"additionalProperties":false}`

// New returns a subagent, or an error for an invalid configuration.
func New(cfg Config) (*Subagent, error) {
	setting.Fill(&cfg.Settings)
	if err := setting.Check(&cfg.Settings).Err(); err != nil {
		return nil, err
	}
	cfg.fill()
	w, _ := cfg.Protocol.words()
	s := &Subagent{cfg: cfg, model: &model{
		words: w, endpoint: strings.TrimRight(cfg.Endpoint, "/"), key: cfg.KeyOf, client: newClient(), timeout: cfg.Request, first: cfg.FirstDelay,
	}}
	s.descriptor = tool.Descriptor{
		ID: cfg.Name, Description: cfg.Description, Category: "agent", Parameters: json.RawMessage(parameters),
		Effects: tool.Effects{Mutability: tool.Mutating, Safety: tool.SafetyDestructive, Tier: tool.Tier(strings.ToUpper(cfg.Tier)), ConcurrencySafe: cfg.Parallel, OpenWorld: true},
		// After a crash, the subagent continues from its checkpoint and finds the calls that it made, so it may run again.
		Idempotent: true,
		Timeouts:   tool.Timeouts{Attempt: cfg.Time + overtime},
		Metadata:   map[string]string{"model": cfg.Model},
	}
	return s, nil
}

// overtime is added to the attempt's timeout, so that a subagent whose time is over can still cancel its calls.
const overtime = 30 * time.Second

func (c *Config) fill() {
	or(&c.Description, "Gives a task to a helper: another model that works on it alone, with tools, and returns a text. Use it when you need the result and not the steps.")
	or(&c.System, defaultSystem)
	or(&c.MaxArguments, 1<<20)
	or(&c.FirstDelay, time.Second)
	if c.KeyOf == nil {
		c.KeyOf = func(context.Context, string) (string, error) { return "", nil }
	}
}

func or[T comparable](v *T, fallback T) {
	var zero T
	if *v == zero {
		*v = fallback
	}
}

// Descriptor implements [tool.Tool].
func (s *Subagent) Descriptor() tool.Descriptor { return s.descriptor }

// Close closes the idle connections to the endpoint.
func (s *Subagent) Close() error {
	if t, ok := s.model.client.Transport.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
	return nil
}

// Describe implements [tool.Describer].
func (s *Subagent) Describe(_ context.Context, c *tool.Call) (tool.Description, error) {
	task := c.Arguments.String("task")
	title, _, _ := strings.Cut(strings.TrimSpace(task), "\n")
	return tool.Description{
		Kind: tool.KindOther, Title: "Ask " + s.cfg.Name + ": " + clip(title, 100),
		Preview: []tool.Content{{Type: tool.ContentText, Text: task}},
		Notes:   []string{fmt.Sprintf("up to %d turns of %s; its tool calls need their own approvals", s.cfg.Turns, s.cfg.Model)},
	}, nil
}

// depthLabel is a label of the calls that a subagent makes. Its value is the number of levels of subagents that are permitted below such a
// call.
const depthLabel = "subagent.depth_left"

// levels returns the number of levels of subagents that are permitted from this call on, including this call's own level.
func (s *Subagent) levels(c *tool.Call) int {
	text, ok := c.Run.Labels[depthLabel]
	if !ok {
		return s.cfg.Depth
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return min(n, s.cfg.Depth)
}

// Execute implements [tool.Tool].
func (s *Subagent) Execute(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	levels := s.levels(c)
	if levels < 1 {
		return exhausted("DEPTH", "Not run: the maximum nesting depth of subagents is reached"), nil
	}
	st, err := decode(c.Checkpoint)
	if err != nil {
		return nil, err
	}
	if st == nil {
		st = newState(c)
	}
	w := &work{s: s, call: c, state: st, began: time.Now(), levels: levels, shown: map[string]*shown{}}
	bounded, stop := context.WithTimeoutCause(ctx, max(0, s.cfg.Time-st.Used), errTime)
	defer stop()
	if st.Key != c.IdempotencyKey() {
		err = w.anew(ctx) // Uses ctx, not bounded: the old calls must be cancelled even when the subagent's time is over. The attempt timeout includes 30 s for that.
	}
	var result *tool.Result
	if err == nil {
		result, err = w.run(bounded)
	}
	if err != nil && drained(ctx) {
		result, err = w.suspend(nil)
	}
	if e, ok := errors.AsType[*tool.Error](err); ok && e.Reason == tool.CheckpointSize {
		return w.overSize(), nil
	}
	return result, err
}

// errTime is the cause when a subagent's time is over.
var errTime = errors.New("the subagent reached its time limit")

// drained reports whether the daemon is stopping. The next daemon then continues the call.
func drained(ctx context.Context) bool {
	e, ok := errors.AsType[*tool.Error](context.Cause(ctx))
	return ok && e.Code == tool.Interrupted
}

func exhausted(reason, format string, args ...any) *tool.Result {
	return &tool.Result{Status: tool.StatusError, Error: &tool.Error{Code: tool.ResourceExhausted, Reason: reason, Message: fmt.Sprintf(format, args...)}}
}
