package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

// The type batchModel in this file predicts the status of each call of a batch at the time when no call can change any more. The test makes
// random decisions, cancellations, repeated requests, crashes and restarts, and compares the engine with the prediction. It also checks
// that no call runs twice without a decision.

var batchTools = []string{"plain", "read", "gated", "asker", "fails", "bad", "turns"}

// batchOp is one operation on a batch.
type batchOp struct {
	kind string
	call int
}

// batchPlan is a batch and the operations on it.
type batchPlan struct {
	options call.BatchOptions
	tools   []string
	ops     []batchOp
}

func drawBatch(t *rapid.T) batchPlan {
	p := batchPlan{
		options: call.BatchOptions{
			Strategy: rapid.SampledFrom(strategies).Draw(t, "strategy"),
			FailFast: rapid.IntRange(0, 3).Draw(t, "fail fast") == 0,
			Replay:   rapid.SampledFrom([]call.Replay{call.Immediate, call.AllDecided}).Draw(t, "replay"),
		},
		tools: rapid.SliceOfN(rapid.SampledFrom(batchTools), 1, 6).Draw(t, "tools"),
	}
	most := 3
	if p.options.FailFast || slices.Contains(p.tools, "turns") {
		most = 1 // With a higher limit, two calls could end at the same time, in an undefined order.
	}
	p.options.MaxParallel = rapid.IntRange(0, most).Draw(t, "max parallel")
	p.ops = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) batchOp {
		return batchOp{
			kind: rapid.SampledFrom([]string{"yes", "yes", "no", "cancel", "cancel all", "again", "crash", "restart"}).Draw(t, "kind"),
			call: rapid.IntRange(0, len(p.tools)-1).Draw(t, "call"),
		}
	}), 0, 12).Draw(t, "ops")
	return p
}

// batchModel holds the expected state of each call.
type batchModel struct {
	batchPlan
	at      []string // status of each call; for an ended call with the error code
	decided []int    // number of decisions of each call
	no      []bool   // whether the last decision declined the call
}

func (m *batchModel) open(i int) bool {
	return m.at[i] == "SUSPENDED" || m.at[i] == "RESUMING" || m.at[i] == "NEW"
}

func (m *batchModel) any(holds func(i int) bool) bool {
	for i := range m.at {
		if holds(i) {
			return true
		}
	}
	return false
}

// settle applies all changes that follow from the current state without a further operation.
func (m *batchModel) settle() {
	for m.stop() || m.step() {
	}
}

// stop interrupts the calls behind a Block, and with fail_fast all calls after a failure.
func (m *batchModel) stop() (did bool) {
	failed := m.options.FailFast && m.any(func(i int) bool { return !m.open(i) && m.at[i] != "SUCCEEDED" })
	blocked := slices.Index(m.at, "FAILED/DENIED")
	for i, s := range m.at {
		if (failed || blocked >= 0 && i > blocked) && (s == "NEW" || s == "RESUMING" && !m.no[i]) {
			m.at[i], did = "FAILED/INTERRUPTED", true
		}
	}
	return did
}

func (m *batchModel) step() bool {
	halted := m.options.Strategy == call.Sequential && m.any(func(i int) bool { return m.tools[i] == "asker" && (m.at[i] == "SUSPENDED" || m.at[i] == "RESUMING") })
	fresh := !halted && m.any(func(i int) bool { return m.at[i] == "NEW" })
	waits := m.options.Replay == call.AllDecided && (fresh || m.any(func(i int) bool { return m.at[i] == "SUSPENDED" }))
	declines := m.options.FailFast && m.any(func(i int) bool { return m.at[i] == "RESUMING" && m.no[i] })
	for i, s := range m.at {
		if s == "RESUMING" && !waits && (m.no[i] || !declines) {
			m.resume(i)
			if m.options.Strategy != call.Parallel || m.options.MaxParallel > 0 {
				return true
			}
			for i, s := range m.at { // Calls whose decisions came together resume together.
				if s == "RESUMING" && (m.no[i] || !declines) {
					m.resume(i)
				}
			}
			return true
		}
	}
	return fresh && m.begin()
}

func (m *batchModel) resume(i int) {
	switch {
	case m.no[i]:
		m.at[i] = "CANCELLED/CANCELLED"
	case m.tools[i] == "turns":
		m.at[i] = "FAILED/DENIED"
	default:
		m.at[i] = "SUCCEEDED"
	}
}

// begin runs the first new call. In a PARALLEL batch it runs all new calls after the gates of all of them.
func (m *batchModel) begin() bool {
	if m.options.Strategy != call.Parallel {
		i := slices.Index(m.at, "NEW")
		m.at[i] = m.asked(i)
		if m.at[i] == "" {
			m.at[i] = m.ran(i)
		}
		return true
	}
	var run []int
	for i, s := range m.at {
		if s != "NEW" {
			continue
		}
		end := m.asked(i)
		if end == "" {
			run = append(run, i)
			continue
		}
		if m.at[i] = end; end == "FAILED/DENIED" {
			break
		}
	}
	m.stop()
	for _, i := range run {
		if m.at[i] == "NEW" {
			m.at[i] = m.ran(i)
		}
		if m.options.MaxParallel > 0 {
			m.stop()
		}
	}
	return true
}

// asked returns the status of a call after its gates. An empty string means that the gates allow the call.
func (m *batchModel) asked(i int) string {
	return map[string]string{"gated": "SUSPENDED", "turns": "SUSPENDED", "bad": "FAILED/DENIED"}[m.tools[i]]
}

// ran returns the status of a call after its tool.
func (m *batchModel) ran(i int) string {
	return map[string]string{"plain": "SUCCEEDED", "read": "SUCCEEDED", "asker": "SUSPENDED", "fails": "FAILED/EXECUTION_FAILED"}[m.tools[i]]
}

// batchGame executes a plan on the real engine.
type batchGame struct {
	*game
	*bubble
	m    *batchModel
	spec call.BatchSpec
	n    int
}

func (g *batchGame) play() error {
	g.runs, g.ran, g.gates = map[string]int{}, map[string]map[string]bool{}, map[string]chan struct{}{}
	e, err := g.d.open(g.config())
	if err != nil {
		return err
	}
	g.e = e
	g.spec = call.BatchSpec{ID: "model-batch-00001", BatchOptions: g.m.options}
	for i, id := range g.m.tools {
		g.spec.Calls = append(g.spec.Calls, call.Spec{Tool: id, Arguments: `{"n":1}`, ID: fmt.Sprintf("model-batch-call-%d", i), Run: tool.Run{ID: "run", Thread: "thread"}})
		g.m.at, g.m.decided, g.m.no = append(g.m.at, "NEW"), append(g.m.decided, 0), append(g.m.no, false)
	}
	if err := g.send(); err != nil {
		return err
	}
	for i, o := range append([]batchOp{{kind: "start"}}, g.m.ops...) {
		if err := g.do(o); err != nil {
			return fmt.Errorf("step %d %v: %w", i, o, err)
		}
		g.m.settle()
		if err := g.d.settle(g.check); err != nil {
			return fmt.Errorf("after step %d %v: %w", i, o, err)
		}
	}
	g.d.cut(g.e, false)
	return nil
}

// config adds two gates: one always blocks its tool, and one blocks its tool after an answer.
func (g *batchGame) config() lifecycle.Config {
	c := g.game.config()
	asks := c.Hooks.Gate[0]
	c.Hooks.Gate[0] = namedGate("ask", func(in *hook.Input) (hook.Verdict, error) {
		switch id := in.Descriptor.ID; {
		case id == "bad", id == "turns" && in.Answer() != nil:
			return hook.Block("not here"), nil
		case id == "turns":
			return hook.Suspend(tool.Ticket{Message: "sure?", Approvers: &tool.Approvers{}, ExpiresIn: time.Hour}), nil
		}
		return asks.Hook.Check(context.Background(), in)
	})
	return c
}

func (g *batchGame) send() error {
	w, err := g.e.ExecuteBatch(g.t.Context(), alice, g.spec, call.ExecuteOptions{})
	if err == nil {
		w.Close()
	}
	return err
}

func (g *batchGame) do(o batchOp) error {
	id := g.spec.Calls[o.call].ID
	switch o.kind {
	case "again":
		return g.send()
	case "yes", "no":
		if g.m.at[o.call] == "SUSPENDED" {
			return g.decide(o, id)
		}
	case "cancel":
		if g.m.open(o.call) {
			g.m.at[o.call] = "CANCELLED/CANCELLED"
		}
		_, err := g.e.Cancel(g.t.Context(), alice, id, "", 0)
		return err
	case "cancel all":
		for i := range g.m.at {
			if g.m.open(i) {
				g.m.at[i] = "CANCELLED/CANCELLED"
			}
		}
		_, err := g.e.CancelBatch(g.t.Context(), alice, g.spec.ID, "", "")
		return err
	case "crash", "restart":
		g.d.cut(g.e, o.kind == "crash")
		e, err := g.d.open(g.config())
		g.e = e
		return err
	}
	return nil
}

func (g *batchGame) decide(o batchOp, id string) error {
	c, err := g.e.Records().Get(g.t.Context(), alice, id)
	if err != nil {
		return err
	}
	g.n++
	d := tool.Decision{ID: fmt.Sprintf("model-batch-decision-%d", g.n), Action: tool.Resume, ExpectedDigest: c.Open().Digest}
	g.m.at[o.call] = "RESUMING"
	g.m.decided[o.call]++
	if o.kind == "no" {
		d.Action = tool.Cancel
		g.m.no[o.call] = true
	}
	w, err := g.e.Resume(g.t.Context(), bob, call.ResumeRequest{SuspensionID: c.Open().ID, Decision: d})
	if err == nil {
		w.Close()
	}
	return err
}

func (g *batchGame) check() error {
	var got []string
	for i, s := range g.spec.Calls {
		c, err := g.e.Records().Get(g.t.Context(), alice, s.ID)
		if err != nil {
			return err
		}
		got = append(got, statuses([]*call.Call{c}))
		g.mu.Lock()
		runs := g.runs[s.ID]
		g.mu.Unlock()
		if most := 1 + g.m.decided[i]; runs > most {
			return fmt.Errorf("call %d ran %d times, at most %d are right", i, runs, most)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(g.m.at) {
		return fmt.Errorf("calls are %v, want %v", got, g.m.at)
	}
	record, err := g.store.Batch(g.t.Context(), call.Key{Namespace: "ns", ID: g.spec.ID})
	if err == nil && record.Ended == 0 == !g.m.any(g.m.open) {
		err = errors.New("the batch has ended and its calls have not, or the other way round")
	}
	return err
}

// TestModelOfBatches executes random batches on the in-memory journal.
func TestModelOfBatches(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		plan := drawBatch(rt)
		var failed error
		synctest.Test(t, func(t *testing.T) {
			b := &bubble{}
			g := &batchGame{game: &game{t: t, d: b}, bubble: b, m: &batchModel{batchPlan: plan}}
			if failed = g.play(); failed != nil {
				g.d.cut(g.e, false)
			}
		})
		if failed != nil {
			rt.Fatalf("%+v: %v", plan, failed)
		}
	})
}
