package batch_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/batch"
	"github.com/toold-dev/toold/tool"
)

// script defines the behavior of one call: the verdict of its gate and the result of its tool.
type script struct {
	gate string // verdict of the gate: allow, ask or block
	tool string // result of the tool: succeed, fail, ask, or elsewhere for work outside the daemon
	does tool.Effects
}

// model stands in for the engine in this test. It executes the plans of a batch, and keeps only the state of each call.
type model struct {
	*rapid.T
	batch.Batch
	scripts []script
}

// TestPlansLeadToTheEnd makes random calls, decisions and cancellations. It checks that every batch ends and that no plan breaks a rule of
// the batch.
func TestPlansLeadToTheEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range 20 { // Several batches for each check, to reach rare states.
			play(t)
		}
	})
}

func play(t *rapid.T) {
	n := rapid.IntRange(1, 6).Draw(t, "calls")
	m := &model{T: t, scripts: make([]script, n), Batch: batch.Batch{
		Strategy:    rapid.SampledFrom([]call.Strategy{call.Sequential, call.Auto, call.Parallel}).Draw(t, "strategy"),
		Replay:      rapid.SampledFrom([]call.Replay{call.Immediate, call.AllDecided}).Draw(t, "replay"),
		FailFast:    rapid.Bool().Draw(t, "fail fast"),
		MaxParallel: rapid.IntRange(0, 3).Draw(t, "max parallel"),
		Calls:       make([]batch.Call, n),
	}}
	for i := range m.scripts {
		m.scripts[i] = script{
			rapid.SampledFrom([]string{"allow", "allow", "ask", "block"}).Draw(t, "gate"),
			rapid.SampledFrom([]string{"succeed", "succeed", "fail", "ask", "elsewhere"}).Draw(t, "tool"),
			drawEffects(t),
		}
		m.Calls[i] = batch.Call{State: batch.NotBegun, Effects: m.scripts[i].does}
	}
	for range 40 * n {
		m.Held = rapid.IntRange(0, 9).Draw(t, "held") == 0
		if rapid.IntRange(0, 9).Draw(t, "cancel") == 0 {
			m.cancel(rapid.IntRange(0, n-1).Draw(t, "which"))
		}
		plan := m.Next()
		m.check(plan)
		if plan.Do == batch.End {
			return
		}
		m.runPlan(plan)
	}
	t.Fatalf("no end after many plans: %+v", m.Batch)
}

func (m *model) which(is func(c *batch.Call) bool) (calls []int) {
	for i := range m.Calls {
		if is(&m.Calls[i]) {
			calls = append(calls, i)
		}
	}
	return calls
}

// drawEffects returns the effects of a call that is safe, that names resources, or that is exclusive.
func drawEffects(t *rapid.T) (e tool.Effects) {
	switch rapid.SampledFrom([]string{"safe", "names", "names", "exclusive"}).Draw(t, "effects") {
	case "safe":
		e.Mutability, e.ConcurrencySafe = tool.ReadOnly, true
	case "names":
		e.Resources = []tool.Resource{{Kind: "k", ID: rapid.SampledFrom([]string{"a", "b", "c", "a/b", ""}).Draw(t, "id"), Shared: rapid.Bool().Draw(t, "shared")}}
	}
	return e
}

func together(a, b *tool.Effects) bool {
	return a.ConcurrencySafe && b.ConcurrencySafe || !tool.Overlap(a.Resources, b.Resources)
}

func executes(c *batch.Call) bool { return c.State == batch.Running && !c.Pending }

func (m *model) check(plan batch.Plan) {
	allowed := []batch.Action{batch.Withdraw, batch.Wait, batch.End, batch.Idle}
	if m.Held && !slices.Contains(allowed, plan.Do) {
		m.Fatalf("%+v while nothing may begin", plan)
	}
	first := slices.IndexFunc(m.Calls, func(c batch.Call) bool { return c.Blocks })
	failed := m.FailFast && len(m.which(func(c *batch.Call) bool { return c.Failed })) > 0
	behind := func(i int) bool { return failed || first >= 0 && i > first }
	switch plan.Do {
	case batch.Begin:
		for i := range m.Calls {
			if m.Calls[i].State == batch.NotBegun && behind(i) {
				m.Fatalf("call %d begins behind one that stops it: %+v", i, m.Batch)
			}
		}
	case batch.Resume:
		open := m.which(func(c *batch.Call) bool {
			return c.State == batch.Asking || c.State == batch.Halting || c.State == batch.Running
		})
		if m.Replay == call.AllDecided && len(open) > 0 {
			m.Fatalf("%v resume while %v are open: %+v", plan.Calls, open, m.Batch)
		}
		declined := func(c *batch.Call) bool { return c.Declined }
		for _, i := range plan.Calls {
			if (behind(i) || m.FailFast && len(m.which(declined)) > 0) && !m.Calls[i].Declined {
				m.Fatalf("call %d resumes behind one that stops it: %+v", i, m.Batch)
			}
		}
	case batch.Wait:
		if len(m.which(executes)) == 0 {
			m.Fatalf("waits, and nothing executes: %+v", m.Batch)
		}
	}
}

// checkRunning checks that the strategy allows the executing calls to run together.
func (m *model) checkRunning() {
	running := m.which(executes)
	if m.MaxParallel > 0 && len(running) > m.MaxParallel || m.Strategy == call.Sequential && len(running) > 1 {
		m.Fatalf("%v execute: %+v", running, m.Batch)
	}
	if m.Strategy == call.Auto && len(running) > 1 {
		for n, i := range running {
			for _, j := range running[:n] {
				if !together(&m.Calls[i].Effects, &m.Calls[j].Effects) {
					m.Fatalf("calls %d and %d overlap and execute together: %+v", j, i, m.Batch)
				}
			}
		}
	}
}

func (m *model) end(i int, failed bool) {
	m.Calls[i] = batch.Call{State: batch.Ended, Effects: m.scripts[i].does, Failed: failed}
}

func (m *model) cancel(i int) {
	switch m.Calls[i].State {
	case batch.Ended:
	case batch.Asking, batch.Halting, batch.Elsewhere:
		m.end(i, true)
	default:
		m.Calls[i].Cancelled = true
	}
}

func (m *model) runPlan(plan batch.Plan) {
	switch plan.Do {
	case batch.Withdraw:
		for _, i := range plan.Calls {
			m.Calls[i].State, m.Calls[i].Pending = batch.NotBegun, false
		}
	case batch.Interrupt:
		for _, i := range plan.Calls {
			m.end(i, true)
		}
	case batch.Launch:
		for _, i := range plan.Calls {
			if m.Calls[i].Pending = false; m.Calls[i].Cancelled {
				m.end(i, true)
			}
		}
	case batch.Resume:
		for _, i := range plan.Calls {
			m.Calls[i].State, m.Calls[i].Halted = batch.Running, false
		}
	case batch.Begin:
		m.begin()
	case batch.Wait:
		m.progress(rapid.SampledFrom(m.which(executes)).Draw(m.T, "progress"))
	case batch.Idle:
		waiting := m.which(func(c *batch.Call) bool { return c.State != batch.Ended })
		if !m.Held {
			waiting = m.which(func(c *batch.Call) bool {
				return c.State == batch.Asking || c.State == batch.Halting || c.State == batch.Elsewhere
			})
		}
		if len(waiting) == 0 {
			m.Fatalf("is idle for ever: %+v", m.Batch)
		}
		m.decide(rapid.SampledFrom(waiting).Draw(m.T, "decide"))
	}
	m.checkRunning()
}

// begin starts new calls as the engine does.
func (m *model) begin() {
	var group []int
	var effects []*tool.Effects
	for i := range m.Calls {
		c, s := &m.Calls[i], &m.scripts[i]
		if c.State != batch.NotBegun {
			continue
		}
		stays, tentative := s.gate != "allow", !m.Parallel() && len(group) > 0
		if tentative && !stays && !m.Joins(effects, &s.does) {
			m.checkStop(group, i)
			break
		}
		if tentative && stays {
			break
		}
		if stays {
			if c.State = batch.Asking; s.gate == "block" {
				m.end(i, true)
				c.Blocks = true
			}
			if c.Blocks || !m.Parallel() {
				break
			}
			continue
		}
		if group, effects = append(group, i), append(effects, &s.does); m.Alone(&s.does) {
			break
		}
	}
	for _, i := range group {
		m.Calls[i].State, m.Calls[i].Pending = batch.Running, len(group) > 1 || m.Parallel()
	}
}

// checkStop checks that a call stays out of a group only when it overlaps a call of the group.
func (m *model) checkStop(group []int, i int) {
	if !slices.ContainsFunc(group, func(g int) bool { return !together(&m.scripts[g].does, &m.scripts[i].does) }) {
		m.Fatalf("call %d overlaps none of %v and does not run with them: %+v", i, group, m.Batch)
	}
}

func (m *model) progress(i int) {
	c, s := &m.Calls[i], &m.scripts[i]
	switch {
	case c.Declined, c.Cancelled, s.tool == "fail":
		m.end(i, true)
	case s.tool == "ask":
		c.State, s.tool = batch.Halting, "succeed"
	case s.tool == "elsewhere":
		c.State, s.tool = batch.Elsewhere, "succeed"
	default:
		m.end(i, false)
	}
}

func (m *model) decide(i int) {
	c := &m.Calls[i]
	switch c.State {
	case batch.Elsewhere:
		m.end(i, rapid.Bool().Draw(m.T, "failed"))
	case batch.Asking, batch.Halting:
		c.Halted = c.State == batch.Halting
		c.State, c.Declined = batch.Decided, rapid.Bool().Draw(m.T, "declined")
	}
}
