package lifecycle_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/memory"
	"github.com/toold-dev/toold/tool"
)

// For each call, the type slot in this file predicts the status and how often the tool may have run. The operations are starts, decisions,
// cancellations, expiries, crashes and restarts. The test draws a whole sequence of operations first and then executes it on the real
// engine. A failing sequence can therefore be shrunk and repeated.

const slots = 4

// carl is the second approver. Calls of the tool gatedtwo need two approvals.
var carl = tool.Principal{Namespace: "ns", Subject: "carl", Roles: []string{"approver"}}

// op is one operation.
type op struct {
	kind string
	slot int
	tool string
	by   tool.Principal
}

func (o op) String() string { return fmt.Sprintf("%s(%d %s %s)", o.kind, o.slot, o.tool, o.by.Subject) }

var modelTools = []string{"plain", "read", "gated", "gatedread", "gatedtwo", "asker", "fails", "panics", "held", "heldread", "heldidem", "heldask", "chatty"}

// bubbleTools are the tools for games with a fake clock. They include "nesting", whose calls end slowly.
var bubbleTools = append(slices.Clone(modelTools), "nesting")

var opKinds = []string{"start", "again", "yes", "edit", "no", "stale", "cancel", "supersede", "free", "crash", "restart", "expire", "watch", "pause"}

func drawOps(t *rapid.T, tools []string) []op {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) op {
		o := op{
			kind: rapid.SampledFrom(append([]string{"start", "start", "yes", "free"}, opKinds...)).Draw(t, "kind"), // These kinds are listed again, so that they are drawn more often.
			slot: rapid.IntRange(0, slots-1).Draw(t, "slot"),
		}
		switch o.kind {
		case "start":
			o.tool = rapid.SampledFrom(tools).Draw(t, "tool")
		case "yes", "no", "edit", "stale":
			o.by = rapid.SampledFrom([]tool.Principal{alice, bob, carol, carl}).Draw(t, "by")
		}
		return o
	}), 1, 25).Draw(t, "ops")
}

// slot holds the expected state of one call.
type slot struct {
	spec       call.Spec
	tool       string
	started    bool
	status     call.Status
	code       tool.Code
	edited     bool
	superseded bool // a later turn superseded the call
	lost       int  // number of attempts that a crash ended
	freed      bool // the test has let the tool "held" return
	forgot     bool // a crash may have lost the call, because it is read-only and had no step that must be stored first
	last       *call.Call
	opened     string // id of the open suspension
	ending     bool   // the end of the call waits until its tool is freed or the time limit is over
	closed     string // id of the question that was open at the cancellation
	decided    map[string]tool.Decision
	votes      map[string]string // votes on an open question that needs two votes, by voter
	epochs     map[string]string // content of each event, by epoch and sequence
}

// game executes operations on the engine of a world and updates the expected states.
type game struct {
	t     *testing.T
	d     driver
	e     *lifecycle.Engine
	slots [slots]slot
	n     int

	mu    sync.Mutex
	runs  map[string]int             // number of executions by call id
	ran   map[string]map[string]bool // arguments that were executed, by call id
	gates map[string]chan struct{}   // channels that held tools wait on, by call id
}

// driver provides the world in which a game runs.
type driver interface {
	open(cfg lifecycle.Config) (*lifecycle.Engine, error)
	// cut ends the daemon. If crash is true, the daemon ends as with kill -9; otherwise it drains.
	cut(e *lifecycle.Engine, crash bool)
	pass(d time.Duration)
	// settle repeats check until it returns nil or until it cannot succeed any more.
	settle(check func() error) error
	expire(e *lifecycle.Engine) error
}

func (g *game) config() lifecycle.Config {
	tools := &toolbox{}
	tools.set(g.t, g.tools()...)
	ask := namedGate("ask", func(in *hook.Input) (hook.Verdict, error) {
		if !strings.HasPrefix(in.Descriptor.ID, "gated") || in.Answer() != nil {
			return hook.Allow(), nil
		}
		ticket := tool.Ticket{Message: "sure?", Approvers: &tool.Approvers{}, ExpiresIn: time.Hour}
		if in.Descriptor.ID == "gatedtwo" {
			ticket.Approvers.Count = 2
		}
		return hook.Suspend(ticket), nil
	})
	return lifecycle.Config{Tools: tools, Answers: answers{}, Hooks: hook.Set{Gate: []hook.Entry[hook.Gate]{ask}}, Linger: -1, Attempt: 10000 * time.Hour, Expiry: time.Hour}
}

func (g *game) tools() []tool.Tool {
	var tools []tool.Tool
	for _, id := range append(slices.Clone(bubbleTools), "bad", "turns") {
		d := tool.Descriptor{ID: id, Parameters: json.RawMessage(anyObject), Idempotent: id == "heldidem"}
		if strings.HasSuffix(id, "read") {
			d.Effects = reading
		}
		if id == "heldask" {
			d.OnDoubt = tool.OnDoubtAsk
		}
		one := tool.Func(d, func(ctx context.Context, c *tool.Call) (*tool.Result, error) { return g.run(ctx, id, c) })
		if id == "nesting" {
			one = nestingTool{one, g}
		}
		tools = append(tools, one)
	}
	return tools
}

// nestingTool is a tool with nested calls. A call of it ends only after its nested calls, which end when the test frees them.
type nestingTool struct {
	tool.Tool
	g *game
}

func (r nestingTool) Stop(ctx context.Context, c *tool.Call) []string {
	r.g.mu.Lock()
	free := r.g.gates[c.ID]
	r.g.mu.Unlock()
	select {
	case <-free:
	case <-ctx.Done():
	}
	return nil
}

func (g *game) run(ctx context.Context, id string, c *tool.Call) (*tool.Result, error) {
	g.mu.Lock()
	g.runs[c.ID]++
	if g.ran[c.ID] == nil {
		g.ran[c.ID] = map[string]bool{}
	}
	g.ran[c.ID][c.Arguments.Text()] = true
	free := g.gates[c.ID]
	g.mu.Unlock()
	switch {
	case (id == "asker" || id == "nesting") && c.Resume == nil:
		return tool.SuspendedWith(tool.Ticket{Message: "which?", ExpiresIn: time.Hour}), nil
	case id == "fails":
		return tool.Fail("it does not work"), nil
	case id == "panics":
		panic("on purpose")
	case id == "chatty":
		for i := range 50 {
			if err := c.Progress(tool.ProgressRunning, float64(i)/50, "working"); err != nil {
				return nil, err
			}
			if err := c.Output("stdout", []byte("line\n")); err != nil {
				return nil, err
			}
		}
	case strings.HasPrefix(id, "held"):
		select {
		case <-free:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return tool.Text("done"), nil
}

// play executes the operations and returns the first difference between the engine and the expected states.
func (g *game) play(ops []op) error {
	g.runs, g.ran, g.gates = map[string]int{}, map[string]map[string]bool{}, map[string]chan struct{}{}
	e, err := g.d.open(g.config())
	if err != nil {
		return err
	}
	g.e = e
	for i, o := range ops {
		if err := g.do(o); err != nil {
			return fmt.Errorf("step %d %v: %w", i, o, err)
		}
		if err := g.settle(); err != nil {
			return fmt.Errorf("after step %d %v: %w", i, o, err)
		}
	}
	for i := range g.slots {
		if err := g.watch(&g.slots[i]); err != nil {
			return fmt.Errorf("log of slot %d at the end: %w", i, err)
		}
	}
	g.freeAll()
	g.d.cut(g.e, false)
	return nil
}

// errSentAgain makes check run again after the repeated call has ended or is suspended.
var errSentAgain = errors.New("a forgotten call was sent again")

func (g *game) settle() error {
	for {
		if err := g.d.settle(g.check); !errors.Is(err, errSentAgain) {
			return err
		}
	}
}

func (g *game) freeAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.slots {
		if s := &g.slots[i]; s.started && !s.freed {
			close(g.gates[s.spec.ID])
			s.freed = true
		}
	}
}

// freeSlot ends the tool of a call that the game no longer tracks.
func (g *game) freeSlot(s *slot) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s.started && !s.freed {
		close(g.gates[s.spec.ID])
	}
}

func (g *game) do(o op) error {
	s := &g.slots[o.slot]
	switch o.kind {
	case "start":
		return g.start(s, o.tool)
	case "again":
		return g.again(s)
	case "yes", "edit", "no":
		return g.decide(s, o)
	case "stale":
		return g.stale(s, o)
	case "cancel":
		return g.cancel(s)
	case "supersede":
		return g.supersede()
	case "free":
		g.free(s)
	case "crash", "restart":
		return g.restart(o.kind == "crash")
	case "expire":
		g.d.pass(2 * time.Hour)
		for i := range g.slots {
			if t := &g.slots[i]; t.status == call.Suspended {
				t.end(call.Cancelled, tool.Expired)
			}
		}
		return g.d.expire(g.e)
	case "watch":
		return g.watch(s)
	case "pause":
		g.d.pass(100 * time.Millisecond)
	}
	return nil
}

func (s *slot) end(status call.Status, code tool.Code) {
	s.ending = s.tool == "nesting" && status == call.Cancelled && code == tool.Cancelled && !s.freed
	s.status, s.code, s.opened = status, code, ""
}

// start begins a new call in a slot.
func (g *game) start(s *slot, id string) error {
	g.n++
	g.freeSlot(s)
	*s = slot{tool: id, started: true, decided: map[string]tool.Decision{}, votes: map[string]string{}, epochs: map[string]string{}}
	s.spec = call.Spec{Tool: id, Arguments: `{"n":1}`, ID: fmt.Sprintf("model-call-%06d", g.n), Run: tool.Run{ID: "run", Thread: fmt.Sprint("thread-", g.n)}}
	g.mu.Lock()
	g.gates[s.spec.ID] = make(chan struct{})
	g.mu.Unlock()
	s.expectStart()
	return g.send(s)
}

// expectStart sets the state that a call should reach without further operations.
func (s *slot) expectStart() {
	s.forgot = strings.HasSuffix(s.tool, "read") && s.tool != "gatedread"
	switch {
	case strings.HasPrefix(s.tool, "gated"), s.tool == "asker", s.tool == "nesting":
		s.status = call.Suspended
	case s.tool == "fails":
		s.end(call.Failed, tool.ExecutionFailed)
	case s.tool == "panics":
		s.end(call.Failed, tool.Internal)
	case strings.HasPrefix(s.tool, "held"):
		s.status = call.Running
	default:
		s.end(call.Succeeded, "")
	}
}

func (g *game) send(s *slot) error {
	w, err := g.e.Execute(g.t.Context(), alice, s.spec, call.ExecuteOptions{})
	if err != nil {
		return err
	}
	w.Close()
	return nil
}

// again sends the same call again. Whatever the state of the call, the request must attach to it.
func (g *game) again(s *slot) error {
	if !s.started {
		return nil
	}
	if err := g.send(s); err != nil {
		return err
	}
	other := s.spec
	other.Arguments = `{"n":2}`
	_, err := g.e.Execute(g.t.Context(), alice, other, call.ExecuteOptions{})
	return wantReason(err, "CALL_ID_REUSED")
}

func wantReason(err error, reason string) error {
	var r *call.Refusal
	if !errors.As(err, &r) || r.Reason != reason {
		return fmt.Errorf("error %w, want a refusal %s", err, reason)
	}
	return nil
}

// decide answers the open question. The answering principal may or may not have the right to do so.
func (g *game) decide(s *slot, o op) error {
	if s.opened == "" {
		return nil
	}
	c, err := g.e.Records().Get(g.t.Context(), alice, s.spec.ID)
	if err != nil {
		return err
	}
	g.n++
	d := tool.Decision{ID: fmt.Sprintf("model-decision-%06d", g.n), Action: tool.Resume, ExpectedDigest: c.Open().Digest}
	inDoubt := s.tool == "heldask"
	switch {
	case o.kind == "no":
		d.Action = tool.Cancel
	case inDoubt:
		d.Result = `{"outcome":"run_again"}`
	}
	if o.kind == "edit" {
		d.Arguments = `{"n":3}`
	}
	w, err := g.e.Resume(g.t.Context(), o.by, call.ResumeRequest{SuspensionID: s.opened, Decision: d})
	if allowed := s.tool == "asker" || s.tool == "nesting" || hasRole(o.by, "approver"); !allowed {
		return wantReason(err, "NOT_AN_APPROVER")
	}
	if inDoubt && o.kind == "edit" {
		return wantReason(err, "INVALID_FIELD")
	}
	if s.tool == "gatedtwo" && s.votes[o.by.Subject] == o.kind {
		return wantReason(err, "ALREADY_VOTED")
	}
	if err != nil {
		return err
	}
	w.Close()
	if s.tool == "gatedtwo" && !s.agreed(o) {
		return nil
	}
	s.decided[s.opened] = d
	s.forgot = false
	s.edited = s.edited || o.kind == "edit"
	switch {
	case o.kind == "no":
		s.end(call.Cancelled, tool.Cancelled)
	case inDoubt && !s.freed:
		s.status, s.opened = call.Running, ""
	default:
		s.end(call.Succeeded, "")
	}
	return nil
}

// agreed counts a vote and reports whether the vote decides the question.
func (s *slot) agreed(o op) bool {
	if o.kind == "no" {
		return true
	}
	for voter, action := range s.votes {
		if o.kind == "edit" && action != o.kind {
			delete(s.votes, voter)
		}
	}
	s.votes[o.by.Subject] = o.kind
	return s.votes["bob"] == s.votes["carl"]
}

func hasRole(p tool.Principal, role string) bool { return contains(p.Roles, role) }

// stale repeats earlier decisions. The same decision must return the same outcome, and a different decision must be refused. The call must
// not change.
func (g *game) stale(s *slot, o op) error {
	if s.closed != "" {
		g.n++
		d := tool.Decision{ID: fmt.Sprintf("model-decision-%06d", g.n), Action: tool.Resume}
		_, err := g.e.Resume(g.t.Context(), bob, call.ResumeRequest{SuspensionID: s.closed, Decision: d})
		if err := wantReason(err, "ALREADY_DECIDED"); err != nil {
			return err
		}
	}
	for id, d := range s.decided {
		var replays int
		for _, by := range []tool.Principal{alice, bob, carol, carl} { // The slot does not record who decided, so the test tries all principals.
			if w, err := g.e.Resume(g.t.Context(), by, call.ResumeRequest{SuspensionID: id, Decision: d}); err == nil {
				w.Close()
				replays++
			}
		}
		if replays != 1 {
			return fmt.Errorf("%d people could repeat a decision", replays)
		}
		g.n++
		other := tool.Decision{ID: fmt.Sprintf("model-decision-%06d", g.n), Action: tool.Cancel, ExpectedDigest: d.ExpectedDigest}
		_, err := g.e.Resume(g.t.Context(), bob, call.ResumeRequest{SuspensionID: id, Decision: other})
		if err := wantReason(err, "ALREADY_DECIDED"); err != nil {
			return err
		}
	}
	return nil
}

func (g *game) cancel(s *slot) error {
	if !s.started {
		return nil
	}
	if _, err := g.e.Cancel(g.t.Context(), alice, s.spec.ID, "", 0); err != nil {
		return err
	}
	if !s.status.Terminal() {
		s.closed = s.opened
		s.end(call.Cancelled, tool.Cancelled)
		s.forgot = false
	}
	return nil
}

// supersede makes another turn supersede all unfinished calls.
func (g *game) supersede() error {
	if _, err := g.e.CancelAll(g.t.Context(), alice, "run", "", "", "another"); err != nil {
		return err
	}
	for i := range g.slots {
		if s := &g.slots[i]; s.started && !s.status.Terminal() {
			s.end(call.Cancelled, tool.Cancelled)
			s.forgot, s.superseded = false, true
		}
	}
	return nil
}

func (g *game) free(s *slot) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.gates[s.spec.ID]; c != nil && !s.freed {
		close(c)
		s.freed, s.ending = true, false
		if s.status == call.Running {
			s.end(call.Succeeded, "")
		}
	}
}

// restart ends the daemon and starts the next one.
func (g *game) restart(crash bool) error {
	if crash {
		g.d.settle(func() error { return nil })
	}
	g.d.cut(g.e, crash)
	for i := range g.slots {
		s := &g.slots[i]
		switch {
		case !s.started || s.status != call.Running:
		case !crash:
			s.end(call.Cancelled, tool.Interrupted)
			s.forgot = false
		case s.tool == "held":
			s.end(call.Failed, tool.InDoubt)
		case s.tool == "heldidem":
			if s.lost++; s.lost == 3 { // After three lost attempts a call does not run again.
				s.end(call.Failed, tool.InDoubt)
			}
		case s.tool == "heldask":
			s.status = call.Suspended // A person must decide whether the attempt took effect.
		}
	}
	e, err := g.d.open(g.config())
	g.e = e
	return err
}

// check compares the call of every slot in the engine with its expected state.
func (g *game) check() error {
	for i := range g.slots {
		if err := g.checkSlot(&g.slots[i]); err != nil {
			return fmt.Errorf("slot %d (%s): %w", i, g.slots[i].tool, err)
		}
	}
	return nil
}

func (g *game) checkSlot(s *slot) error {
	if !s.started {
		return nil
	}
	c, err := g.e.Records().Get(g.t.Context(), alice, s.spec.ID)
	if err != nil {
		if s.forgot && wantReason(err, "CALL_NOT_FOUND") == nil {
			if err := g.send(s); err != nil { // A crash lost the call, so a request with the same id runs again.
				return err
			}
			return errSentAgain
		}
		return err
	}
	if s.ending && c.Status == call.Resuming {
		return g.checkRuns(s, c)
	}
	s.ending = false
	if c.Status != s.status {
		return fmt.Errorf("status %s, want %s (%+v)", c.Status, s.status, c.Result)
	}
	if c.Status.Terminal() {
		if err := g.checkEnd(s, c); err != nil {
			return err
		}
	}
	if c.Status == call.Suspended {
		if s.opened != "" && s.opened != c.Open().ID {
			return fmt.Errorf("suspension %s became %s", s.opened, c.Open().ID)
		}
		s.opened = c.Open().ID
		if err := s.checkVotes(c); err != nil {
			return err
		}
	}
	return g.checkRuns(s, c)
}

// checkVotes checks that the stored votes equal the expected votes.
func (s *slot) checkVotes(c *call.Call) error {
	votes := map[string]string{}
	for _, v := range c.LastRound().Votes {
		votes[v.Voter.Subject] = map[bool]string{true: "edit", false: "yes"}[v.Edited]
	}
	if !maps.Equal(votes, s.votes) || len(votes) != len(c.LastRound().Votes) {
		return fmt.Errorf("votes %v of %+v, want %v", votes, c.LastRound().Votes, s.votes)
	}
	return nil
}

func (g *game) checkEnd(s *slot, c *call.Call) error {
	var code tool.Code
	if c.Result.Error != nil {
		code = c.Result.Error.Code
	}
	if code != s.code {
		return fmt.Errorf("code %q, want %q", code, s.code)
	}
	if s.superseded && c.Result.Error.Reason != "SUPERSEDED" {
		return fmt.Errorf("ended for %q, want it superseded", c.Result.Error.Reason)
	}
	if s.last != nil && !s.forgot && (c.LastSequence != s.last.LastSequence || c.Result.Data != s.last.Result.Data || !c.Ended.Equal(s.last.Ended)) {
		return fmt.Errorf("a terminal call changed: %+v, was %+v", c, s.last)
	}
	s.last = c
	return nil
}

// checkRuns checks the number of executions (promise P3), and that only approved arguments were executed.
func (g *game) checkRuns(s *slot, c *call.Call) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	most := 1
	switch {
	case strings.HasSuffix(s.tool, "read"), s.tool == "heldidem":
		most = 1 << 20 // A read-only or idempotent tool may run again after each crash, so there is no limit.
	case s.tool == "asker", s.tool == "nesting", s.tool == "heldask":
		most = 1 + len(s.decided)
	}
	if n := g.runs[c.ID]; n > most {
		return fmt.Errorf("ran %d times, at most %d are right", n, most)
	}
	if strings.HasPrefix(s.tool, "gated") && g.runs[c.ID] > 0 && len(s.decided) == 0 {
		return errors.New("ran without an approval")
	}
	if s.edited && strings.HasPrefix(s.tool, "gated") && g.ran[c.ID][`{"n":1}`] {
		return errors.New("ran with arguments that were edited away")
	}
	return nil
}

// watch reads the whole log of a call. The log must be numbered from 1 and have no event after the terminal one. A number must never have a
// different event than before.
func (g *game) watch(s *slot) error {
	if !s.started || s.forgot || s.ending {
		return nil
	}
	w, err := g.e.Watch(g.t.Context(), alice, s.spec.ID, "c1.1.0", false)
	if err != nil {
		return err
	}
	defer w.Close()
	next, over := int64(1), false
	for {
		f, err := w.Next(g.t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if f.Gap != nil {
			return fmt.Errorf("gap %+v", f.Gap)
		}
		for _, ev := range f.Events {
			if ev.Sequence != next || over {
				return fmt.Errorf("event %d %s, want %d (over: %t)", ev.Sequence, ev.Type, next, over)
			}
			next, over = next+1, ev.Type == call.EventFinished
			key, content := fmt.Sprintf("%s/%d", f.Cursor[:3], ev.Sequence), string(ev.Type)+ev.Time.UTC().Truncate(time.Microsecond).String()
			if known, ok := s.epochs[key]; ok && known != content {
				return fmt.Errorf("event %d is %s now, was %s", ev.Sequence, content, known)
			}
			s.epochs[key] = content
		}
	}
	if over != s.status.Terminal() {
		return fmt.Errorf("log ends with an end: %t, status %s", over, s.status)
	}
	return nil
}

// bubble runs games in memory with a fake clock.
type bubble struct {
	store *memory.Store
}

func (b *bubble) open(cfg lifecycle.Config) (*lifecycle.Engine, error) {
	if b.store == nil {
		b.store = memory.New(memory.Config{})
	}
	cfg.Store = store.Store(b.store)
	e, err := lifecycle.New(cfg)
	if err == nil {
		_, err = e.Recover(context.Background())
	}
	return e, err
}

func (b *bubble) cut(e *lifecycle.Engine, crash bool) {
	if crash {
		b.store = b.store.Crash()
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	e.Drain(ctx) // After a crash, this engine cannot write to the journal. The drain only ends its goroutines, which synctest requires.
	if !crash {
		b.store = b.store.Reopen()
	}
}

func (b *bubble) pass(d time.Duration) { time.Sleep(d) }

func (b *bubble) settle(check func() error) error {
	synctest.Wait()
	return check()
}

func (b *bubble) expire(e *lifecycle.Engine) error { return e.ExpireDue(context.Background()) }

// TestModel runs random calls on the in-memory journal.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		if err := playInBubble(t, drawOps(rt, bubbleTools)); err != nil {
			rt.Fatalf("%v", err)
		}
	})
}

// TestModelOfEachTool covers cases that the random test may miss: each operation on each tool, with and without a crash before it.
func TestModelOfEachTool(t *testing.T) {
	for _, id := range bubbleTools {
		for _, kind := range opKinds {
			for _, ops := range [][]op{
				{{kind: "start", tool: id}, {kind: kind, tool: id, by: bob}, {kind: "free"}},
				{{kind: "start", tool: id}, {kind: "crash"}, {kind: kind, tool: id, by: bob}, {kind: "free"}},
				{{kind: "start", tool: id}, {kind: "cancel"}, {kind: kind, tool: id, by: bob}, {kind: "free"}},
				{{kind: "start", tool: id}, {kind: "crash"}, {kind: "crash"}, {kind: "crash"}, {kind: kind, tool: id, by: bob}, {kind: "free"}},
			} {
				if err := playInBubble(t, ops); err != nil {
					t.Errorf("%v: %v", ops, err)
				}
			}
		}
	}
}

func playInBubble(t *testing.T, ops []op) (failed error) {
	synctest.Test(t, func(t *testing.T) {
		g := &game{t: t, d: &bubble{}}
		if failed = g.play(ops); failed != nil {
			g.freeAll()
			g.d.cut(g.e, false)
		}
	})
	return failed
}
