package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/worker/link"
)

// The kinds of questions about a call that has not started, with the names in the API.
const (
	Validate = "VALIDATE"
	Assess   = "ASSESS"
	Describe = "DESCRIBE"
)

const (
	// questionTime is the time that a worker has for an answer, also for a description that an approver will see. It is shorter than the
	// time that the engine waits, so that the hub's error, which names the worker, comes first.
	questionTime = 900 * time.Millisecond
	// maxQuestions is the maximum number of open questions to one worker. It is many times the number that a worker can answer in
	// questionTime.
	maxQuestions = 1024
)

// A question is sent to a worker and not answered yet. Unlike a lease, it belongs to one connection. When the worker disconnects, the hub
// asks another worker.
type question struct {
	id   string
	done chan *link.Answer // receives nil when the worker has disconnected
}

// Errors for a missing answer.
var (
	errNobody      = errors.New("no worker is connected")
	errUnanswered  = errors.New("the worker did not answer in time")
	errManyAtOnce  = errors.New("too many questions for its workers are open")
	errWrongAnswer = errors.New("the worker sent an invalid answer")
)

// Answer accepts the answer to a question. It ignores an answer when the question is unknown, was sent over another session, or is over.
func (s *Session) Answer(id string, a link.Answer) {
	s.hub.mu.Lock()
	q := s.questions[id]
	delete(s.questions, id)
	s.hub.mu.Unlock()
	if q != nil {
		q.done <- &a // This does not block, because the channel has a buffer.
	}
}

// unansweredLocked ends the open questions of a closed session, so that their callers ask other workers.
func (s *Session) unansweredLocked() {
	for id, q := range s.questions {
		delete(s.questions, id)
		q.done <- nil
	}
}

// question asks a worker of the tool, with the labels that the call requires. When this worker disconnects, it asks another worker.
func (t *offered) question(ctx context.Context, kind string, c *tool.Call) (*link.Answer, error) {
	documents, err := t.documents(c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, questionTime)
	defer cancel()
	end, _ := ctx.Deadline()
	for {
		s, q, err := t.hub.questionOf(t, wants(c))
		if err != nil {
			return nil, err
		}
		s.line.Question(q.id, kind, c, documents, time.Until(end))
		select {
		case a := <-q.done:
			if a != nil {
				return a, nil
			}
		case <-ctx.Done():
			s.Answer(q.id, link.Answer{}) // This removes the question, because the caller no longer waits for it.
			return nil, errUnanswered
		}
	}
}

// questionOf chooses the worker with the fewest open questions among those that serve the tool and have the labels in want. It adds a
// question to this worker.
func (h *Hub) questionOf(t *offered, want map[string]string) (*Session, *question, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var best *Session
	err := errNobody
	for s := range t.serving {
		switch {
		case s.draining && !s.fresh || s.closed || h.closed || !s.fits(want):
		case len(s.questions) >= maxQuestions:
			err = errManyAtOnce
		case best == nil || len(s.questions) < len(best.questions):
			best = s
		}
	}
	if best == nil {
		return nil, nil, err
	}
	q := &question{id: rand.Text(), done: make(chan *link.Answer, 1)}
	best.questions[q.id] = q
	return best, q, nil
}

// bare returns a call with only a namespace, a tool and arguments, because no more is known when arguments are validated.
func (t *offered) bare(args tool.Arguments) *tool.Call {
	namespace, _ := NamespaceOf(t.offer.Descriptor.Source)
	return &tool.Call{Namespace: namespace, Tool: t.offer.Descriptor.ID, Arguments: args}
}

// Validate implements [tool.Validator]. When no worker is connected, it accepts the arguments, because the worker checks them again before
// it executes the call.
func (t *offered) Validate(args tool.Arguments) error {
	if !t.offer.Validates {
		return nil
	}
	a, err := t.question(context.Background(), Validate, t.bare(args))
	switch {
	case errors.Is(err, errNobody):
		return nil
	case err != nil:
		return &tool.Error{
			Code: tool.Upstream, Reason: "NO_ANSWER", Retryable: true, DeveloperMessage: err.Error(),
			Message: fmt.Sprintf("Not run: the worker of %s did not validate the arguments. Try again later.", t.offer.Descriptor.ID),
		}
	}
	return a.Err
}

// Assess implements [tool.Assessor]. When no worker answers, the effects of the descriptor apply.
func (t *offered) Assess(args tool.Arguments) tool.Effects {
	effects := t.offer.Descriptor.Effects
	if !t.offer.Assesses {
		return effects
	}
	if a, err := t.question(context.Background(), Assess, t.bare(args)); err == nil && a.Err == nil && a.Effects != nil {
		effects = *a.Effects
	}
	return effects
}

// Describe implements [tool.Describer]. The engine fills in the parts that a worker omits.
func (t *offered) Describe(ctx context.Context, c *tool.Call) (tool.Description, error) {
	if !t.offer.Describes {
		return tool.Description{}, nil
	}
	a, err := t.question(ctx, Describe, c)
	switch {
	case err != nil:
		return tool.Description{}, err
	case a.Err != nil:
		return tool.Description{}, a.Err
	case a.Description == nil:
		return tool.Description{}, errWrongAnswer
	}
	return *a.Description, nil
}
