package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/worker/link"
)

// memoryTime is the time limit for storing data while a worker registers.
const memoryTime = 30 * time.Second

// ErrSilent means that a worker sent nothing for the whole time of a lease.
var ErrSilent = errors.New("the worker sent nothing within the time limit")

// ErrReplaced means that the worker has opened another connection.
var ErrReplaced = errors.New("a newer connection of the worker continues")

// A Session is one connection of one worker.
type Session struct {
	hub     *Hub
	id      string
	owner   tool.Principal
	source  string
	name    string
	version string
	labels  map[string]string
	limit   int
	line    link.Line

	began time.Time    // start of the session; it contains the monotonic clock, so that seen can count from it
	seen  atomic.Int64 // time of the last message, in nanoseconds after began
	busy  atomic.Bool  // A message is being processed, so the worker does not count as silent.

	// The hub's lock guards the fields from here on.
	silence   *time.Timer
	tools     map[string]*offered
	later     map[string]link.Tool // offered definitions that are not served, because other workers serve the tool with a different definition
	leases    map[string]*lease
	questions map[string]*question // questions to the worker that are not answered yet, by id
	given     uint64
	draining  bool
	fresh     bool // The response to the offer was not sent yet. Questions to the worker wait until then.
	closed    bool
	refused   []link.Refusal
}

// Connect registers a worker. The caller must send answer to the worker and then call ready, after which the worker gets work. The caller
// must close the session when the connection ends.
func (h *Hub) Connect(p tool.Principal, o link.Offer, line link.Line) (s *Session, answer link.Accepted, ready func(), err error) {
	if err := checkOffer(&o); err != nil {
		return nil, answer, nil, err
	}
	s = &Session{
		hub: h, began: time.Now(), id: rand.Text(), owner: p, source: SourceOf(p.Namespace, o.Pool), name: o.Name, version: o.Version, labels: o.Labels, limit: o.Limit, line: line,
		tools: map[string]*offered{}, later: map[string]link.Tool{}, leases: map[string]*lease{},
		questions: map[string]*question{}, draining: true, fresh: true,
	}
	if s.limit == 0 {
		s.limit = defaultLimit
	}
	s.busy.Store(true) // Until ready is called, the worker does not count as silent, because registering may wait for Registry and Memory.
	if err := h.enter(s); err != nil {
		return nil, answer, nil, err
	}
	h.keepKey()
	answer = link.Accepted{ID: s.id, StoreID: h.cfg.StoreID, Epoch: h.cfg.Epoch, Lease: h.cfg.Lease, Refused: h.register(s, o.Tools)}
	h.mu.Lock()
	s.refused, h.sourceLocked(s.source).since = answer.Refused, time.Now()
	h.mu.Unlock()
	cancelled := map[string]error{}
	if answer.Kept, err = h.awaitTaken(h.takeBack(s, o.Held, cancelled)); err != nil {
		s.Close(false)
		return nil, answer, nil, err
	}
	h.replaced(s, o.Previous)
	h.log.Info("worker connected", zap.String("worker_id", s.id), zap.String("source", s.source), zap.String("name", o.Name), zap.String("version", o.Version),
		zap.String("subject", p.Subject), zap.Int("tools", len(o.Tools)-len(answer.Refused)), zap.Any("refused", answer.Refused))
	return s, answer, func() {
		for id, cause := range cancelled {
			line.Cancel(id, cause)
		}
		s.received()
		h.mu.Lock()
		defer h.mu.Unlock()
		s.draining, s.fresh = false, false
		h.fillLocked(s)
	}, nil
}

// enter adds a session to the hub. It returns an error when the hub is closed or the namespace has the maximum number of workers.
func (h *Hub) enter(s *Session) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return ErrClosed
	}
	n := 0
	for other := range h.sessions {
		if other.owner.Namespace == s.owner.Namespace {
			n++
		}
	}
	if n >= h.cfg.Workers {
		return fmt.Errorf("%w: %d of this namespace are connected", ErrTooMany, n)
	}
	h.sessions[s] = struct{}{}
	s.seen.Store(int64(time.Since(s.began)))
	s.silence = time.AfterFunc(h.cfg.Lease, s.listen)
	return nil
}

// takeBack gives a worker those leases in held that the worker had over an earlier connection. It stores in cancelled why calls of these
// leases were cancelled.
func (h *Hub) takeBack(s *Session, held []string, cancelled map[string]error) (kept []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var expected map[string]*lease
	if len(held) > 0 && len(h.expected) > 0 {
		expected = h.expectedLocked(s)
	}
	for _, id := range held {
		if a := h.answered[id]; a != nil && a.owner == s.owner.Subject {
			kept = append(kept, id) // The worker may keep this lease, because it must report the outcome again.
			continue
		}
		if l := expected[id]; l != nil {
			delete(h.expected, l)
			close(l.back)
			l.id = id
			h.giveLocked(l, s)
			kept = append(kept, id)
			continue
		}
		l := h.leases[id]
		if l == nil || l.owner != s.owner.Subject || s.tools[l.tool.offer.Descriptor.ID] != l.tool {
			continue
		}
		if l.session != nil { // The daemon has not noticed yet that the old connection has ended.
			delete(l.session.leases, id)
		}
		if l.expiry != nil {
			l.expiry.Stop()
		}
		h.giveLocked(l, s)
		kept = append(kept, id)
		if l.cause != nil {
			cancelled[id] = l.cause
		}
	}
	return kept
}

// replaced closes the earlier session of a worker that has reconnected. Without this, the earlier session could look open for the time of a
// lease and get more work. Leases of the earlier session that the worker's offer did not name are lost at once.
func (h *Hub) replaced(s *Session, previous string) {
	var old *Session
	h.mu.Lock()
	for other := range h.sessions {
		if other != s && other.id == previous && other.owner.Subject == s.owner.Subject && other.source == s.source {
			old = other
		}
	}
	h.mu.Unlock()
	if old != nil {
		old.close(true)
		old.line.End("WORKER_REPLACED", ErrReplaced)
	}
}

// Receive invokes take, which processes a message of the worker and may wait for the journal. While take runs, the worker does not count as
// silent.
func (s *Session) Receive(take func() error) error {
	s.busy.Store(true)
	defer s.received()
	return take()
}

func (s *Session) received() {
	s.seen.Store(int64(time.Since(s.began)))
	s.busy.Store(false)
}

// listen runs when the timer of a session expires. It closes the session when the worker was silent for too long, and otherwise starts the
// timer again.
func (s *Session) listen() {
	if left := s.left(); left > 0 {
		s.hub.mu.Lock()
		defer s.hub.mu.Unlock()
		if !s.closed && !s.hub.closed {
			s.silence.Reset(left)
		}
		return
	}
	s.hub.log.Warn("worker stopped responding", zap.String("worker_id", s.id), zap.String("source", s.source))
	s.close(true)
	s.line.End("WORKER_SILENT", ErrSilent)
}

// left returns the time until the worker's leases expire, if no message comes before.
func (s *Session) left() time.Duration {
	if s.busy.Load() {
		return s.hub.cfg.Lease
	}
	return s.hub.cfg.Lease - (time.Since(s.began) - time.Duration(s.seen.Load()))
}

// Reporter returns the reporter of the call for which the session holds this lease.
func (s *Session) Reporter(id string) (tool.Reporter, error) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	l := s.leases[id]
	if l == nil || l.kind != Execute && l.kind != Poll || l.call.Reporter == nil {
		s.hub.stats.Refused++
		return nil, ErrNotHeld
	}
	return l.call.Reporter, nil
}

// Serves returns the namespace and the source of the worker. The worker may complete only operations of this source.
func (s *Session) Serves() (namespace, source string) { return s.owner.Namespace, s.source }

// Finish ends the work of a lease with an outcome. The hub confirms the outcome with [link.Line.Ack]. For EXECUTE, it does so when the
// journal has the outcome.
func (s *Session) Finish(id string, r *tool.Result, err error) error {
	acknowledged, err := s.finish(id, r, err)
	if acknowledged {
		s.line.Ack(id)
	}
	return err
}

func (s *Session) finish(id string, r *tool.Result, err error) (acknowledged bool, _ error) {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	l := s.leases[id]
	if a := h.answered[id]; l == nil && a != nil && a.owner == s.owner.Subject {
		a.by = s // The worker has already reported this outcome over an earlier connection, so only the acknowledgement is missing.
		return false, nil
	}
	if l == nil {
		h.stats.Refused++
		return false, ErrNotHeld
	}
	h.endLocked(l, r, err)
	if l.kind != Execute || l.settled {
		return true, nil
	}
	l.by, h.answered[id] = s, l
	return false, nil
}

// Drain makes the hub assign no more work to the worker.
func (s *Session) Drain() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.draining = true
}

// Close ends the session. When left is true, the worker disconnected on purpose and loses all leases at once. Otherwise its leases remain
// valid until they expire, so that it can reconnect.
func (s *Session) Close(left bool) { s.close(left) }

func (s *Session) close(lose bool) {
	h := s.hub
	h.mu.Lock()
	if s.closed {
		h.mu.Unlock()
		return
	}
	s.closed = true
	s.silence.Stop()
	delete(h.sessions, s)
	var alone []string // tools that have no worker any more
	for id, t := range s.tools {
		delete(t.serving, s)
		if len(t.serving) == 0 {
			alone = append(alone, id)
		}
		t.leftLocked()
	}
	s.unansweredLocked()
	left := s.left()
	for _, l := range s.leases {
		if lose || h.closed || left <= 0 {
			h.endLocked(l, nil, tool.ErrLost)
			continue
		}
		delete(s.leases, l.id)
		l.session = nil
		l.expiry = time.AfterFunc(left, func() { h.expire(l) })
	}
	if source := h.sourceLocked(s.source); len(source.tools) > 0 {
		source.since = time.Now()
	} else {
		delete(h.sources, s.source) // The source is not needed, because the pool has never served a tool.
	}
	h.mu.Unlock()
	h.log.Info("worker disconnected", zap.String("worker_id", s.id), zap.String("source", s.source))
	h.succeed(s.source, alone)
}

func (h *Hub) keep(source string, t *offered) {
	now := time.Now().Truncate(24 * time.Hour)
	if h.cfg.Memory == nil || t.seen.Equal(now) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), memoryTime)
	defer cancel()
	if err := h.cfg.Memory.Keep(ctx, Known{Source: source, Offer: t.offer, Seen: now}); err != nil {
		h.log.Error("tool of a worker could not be stored: after a restart it is unknown until its worker reconnects", zap.String("tool", t.offer.Descriptor.ID), zap.Error(err))
		return
	}
	t.seen = now
}
