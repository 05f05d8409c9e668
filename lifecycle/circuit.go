package lifecycle

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
	"go.uber.org/zap"
)

// circuits keep calls from sources whose upstream failed again and again: the circuit of such a source is open for a time, then
// one call tries, and the others wait for how that ends. Each namespace has circuits of its own, because a caller may be what
// makes a source fail.
type circuits struct {
	after int           // failures in a row; 0: circuits are always closed
	open  time.Duration // until one call tries

	mu sync.Mutex
	of map[upstream]*circuit // of those that failed last; each namespace has no more than there are sources
}

// An upstream is a source as a namespace reaches it.
type upstream struct{ namespace, source string }

func (p *pass) upstream() upstream {
	return upstream{p.in.Caller.Namespace, p.def.Descriptor.Source}
}

type circuit struct {
	failures int
	until    time.Time // zero: closed
	probe    *pass     // that tries
}

// probeRetry is when to come back while one call tries.
const probeRetry = time.Second

// enter returns for how long a source is not asked, and after how many failures; 0: the call goes on and is told to leave.
func (s *circuits) enter(u upstream, p *pass) (wait time.Duration, failures int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.of[u]
	if c == nil || c.until.IsZero() {
		return 0, 0
	}
	if wait := time.Until(c.until); wait > 0 {
		return wait, c.failures
	}
	if c.probe != nil {
		return probeRetry, c.failures
	}
	c.probe = p
	return 0, 0
}

// leave notes how a call that entered has ended. It reports whether that opened the circuit.
func (s *circuits) leave(u upstream, p *pass, failed, reached bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.of[u]
	if c != nil && c.probe == p {
		c.probe = nil // who tries next, when this one has found nothing out
	} else if c != nil && !c.until.IsZero() {
		return false // it began before the circuit opened
	}
	switch {
	case reached:
		delete(s.of, u)
	case failed:
		if c == nil {
			c = &circuit{}
			if s.of == nil {
				s.of = map[upstream]*circuit{}
			}
			s.of[u] = c
		}
		if c.failures++; c.failures >= s.after {
			c.until = time.Now().Add(s.open)
			return true
		}
	}
	return false
}

// sources returns those that have a circuit which is not closed.
func (s *circuits) sources() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var open []string
	for u, c := range s.of {
		if !c.until.IsZero() {
			open = append(open, u.source)
		}
	}
	slices.Sort(open)
	return slices.Compact(open)
}

// connect ends a call of a source whose circuit is open.
func (p *pass) connect() *end {
	s := &p.l.e.circuits
	if s.after == 0 {
		return nil
	}
	wait, failures := s.enter(p.upstream(), p)
	if wait == 0 {
		p.connected = true
		return nil
	}
	return &end{status: call.Failed, executed: call.NotStarted, after: true, result: failure(&tool.Error{
		Code: tool.Upstream, Reason: "CIRCUIT_OPEN", Aborted: true, Retryable: true, RetryAfter: wait,
		Message: fmt.Sprintf("Not run: what %s reaches has failed %d times in a row. It is tried again in %v; use another tool, or come back then.",
			p.def.Descriptor.ID, failures, wait.Round(100*time.Millisecond)),
	})}
}

// disconnect tells the circuit of the source how the call ended. A question, a cancel and a timeout say nothing about what
// the tool reaches; an answer of its own does, whatever it says.
func (p *pass) disconnect(out *end) {
	if !p.connected {
		return
	}
	p.connected = false
	var code tool.Code
	if out.result != nil && out.result.Error != nil {
		code = out.result.Error.Code
	}
	reached := out.ticket == nil && out.executed == call.Finished && !slices.Contains([]tool.Code{tool.Upstream, tool.Timeout, tool.Cancelled, tool.Internal}, code)
	u := p.upstream()
	if p.l.e.circuits.leave(u, p, code == tool.Upstream, reached) {
		p.l.e.log.Warn("circuit opened: an upstream fails again and again", zap.String("source", u.source), zap.String("namespace", u.namespace), zap.Duration("for", p.l.e.circuits.open))
	}
}
