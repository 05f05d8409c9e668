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

// What a worker is asked about a call before it runs, as the API names it.
const (
	Validate = "VALIDATE"
	Assess   = "ASSESS"
	Describe = "DESCRIBE"
)

const (
	// questionTime is how long a worker may take, also for the person who is shown its description: less than the engine waits, so that
	// the error names the worker.
	questionTime = 900 * time.Millisecond
	// maxQuestions are those of one worker at once: many times what it can answer in that time.
	maxQuestions = 1024
)

// A question is not answered yet. Unlike a lease it is its connection's alone: of a worker that goes, another one is asked.
type question struct {
	id   string
	done chan *link.Answer // nil: its worker is gone
}

// Why there is no answer.
var (
	errNobody      = errors.New("no worker is there")
	errUnanswered  = errors.New("the worker did not answer in time")
	errManyAtOnce  = errors.New("its workers are asked too much at once")
	errWrongAnswer = errors.New("the worker answered something else")
)

// Answer takes the answer to a question. What was not asked, or not of this worker, or is over, does not count.
func (s *Session) Answer(id string, a link.Answer) {
	s.hub.mu.Lock()
	q := s.questions[id]
	delete(s.questions, id)
	s.hub.mu.Unlock()
	if q != nil {
		q.done <- &a // has room
	}
}

// unansweredLocked has the questions of a session that is gone asked elsewhere.
func (s *Session) unansweredLocked() {
	for id, q := range s.questions {
		delete(s.questions, id)
		q.done <- nil
	}
}

// question asks any worker of the tool that has the labels which the call wants.
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
			s.Answer(q.id, link.Answer{}) // nobody waits for it
			return nil, errUnanswered
		}
	}
}

// questionOf opens a question to the worker of a tool that has the fewest.
func (h *Hub) questionOf(t *offered, want map[string]string) (*Session, *question, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var best *Session
	err := errNobody
	for s := range t.serving {
		switch {
		case s.draining && !s.fresh || s.gone || h.closed || !s.fits(want):
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

// bare is all that is known of a call whose arguments are looked at.
func (t *offered) bare(args tool.Arguments) *tool.Call {
	namespace, _ := NamespaceOf(t.offer.Descriptor.Source)
	return &tool.Call{Namespace: namespace, Tool: t.offer.Descriptor.ID, Arguments: args}
}

// Validate implements [tool.Validator]. While no worker is there nothing is wrong: the call waits for one, which looks at the arguments before it runs it.
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
			Message: fmt.Sprintf("Not run: the worker of %s did not say whether the arguments are right. Try again later.", t.offer.Descriptor.ID),
		}
	}
	return a.Err
}

// Assess implements [tool.Assessor]. Without an answer the descriptor holds.
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

// Describe implements [tool.Describer]. The engine fills in all of what a worker does not describe.
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
