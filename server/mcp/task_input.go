package mcpserver

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// Limits of the answers to a part of a ticket's questions, which wait in memory for the other answers.
const (
	maxPartial      = 256      // tickets; a new one replaces the oldest
	maxPartialBytes = 16 << 10 // bytes of the answers to one ticket
)

// partial holds the answers of tickets that have other open questions. toold decides a ticket at once, so these answers are not in the
// journal. After a restart, the client is asked again.
type partial struct {
	mu      sync.Mutex
	answers map[string]map[string]json.RawMessage // by suspension id and key
	order   []string                              // suspension ids, oldest first
}

// add adds answers to a ticket and returns all of them.
func (p *partial) add(suspension string, answers map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all, size := map[string]json.RawMessage{}, 0
	for _, some := range []map[string]json.RawMessage{p.answers[suspension], answers} {
		for key, a := range some {
			all[key] = a
		}
	}
	for key, a := range all {
		size += len(key) + len(a)
	}
	if size > maxPartialBytes {
		return nil, invalid("the answers are too large; send those to all questions of the task in one request")
	}
	if p.answers == nil {
		p.answers = map[string]map[string]json.RawMessage{}
	}
	if p.answers[suspension] == nil {
		p.order = append(p.order, suspension)
	}
	p.answers[suspension] = all
	if len(p.order) > maxPartial {
		delete(p.answers, p.order[0])
		p.order = slices.Delete(p.order, 0, 1)
	}
	return all, nil
}

func (p *partial) of(suspension string) map[string]json.RawMessage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answers[suspension]
}

func (p *partial) drop(suspension string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answers[suspension] == nil {
		return
	}
	delete(p.answers, suspension)
	p.order = slices.DeleteFunc(p.order, func(s string) bool { return s == suspension })
}

// taskQuestions returns the questions of a ticket that have no answer yet. Their keys are unique for the life of the task, because they begin
// with the id of the suspension. It returns nil if the ticket is not offered to the client.
func (s *Server) taskQuestions(ctx context.Context, c *client, q *tooldv1.Suspension) (mcp.InputRequestMap, error) {
	all, err := s.questionsOf(ctx, c, q)
	if err != nil || all == nil {
		return nil, err
	}
	open, answered := mcp.InputRequestMap{}, s.partial.of(q.GetSuspensionId())
	for key, question := range all {
		if answered[key] == nil {
			open[taskKey(q, key)] = question
		}
	}
	return open, nil
}

// isClosed reports whether an answer says that the person closed the form.
func isClosed(text json.RawMessage) bool {
	var a elicited
	return json.Unmarshal(text, &a) == nil && a.Action == "cancel"
}

func taskKey(q *tooldv1.Suspension, key string) string { return q.GetSuspensionId() + "." + key }

// updateTask takes answers to the questions of a task. It ignores answers to other questions, such as those of an earlier round.
func (s *Server) updateTask(ctx context.Context, session *mcp.ServerSession, p *taskAnswers) (*ack, error) {
	c := clientOf(&mcp.ServerRequest[*taskAnswers]{Session: session, Params: p})
	is, err := s.ownCall(ctx, p.ID)
	if err != nil {
		return nil, err
	}
	done := &ack{ResultType: "complete"}
	q := is.GetSuspension()
	questions, err := s.questionsOf(ctx, c, q)
	if err != nil || questions == nil {
		return done, err
	}
	answers := map[string]json.RawMessage{}
	for key := range ticketOf(q).forms {
		if text := p.Responses[taskKey(q, key)]; text != nil && !isClosed(text) {
			answers[key] = text
		}
	}
	if len(answers) == 0 {
		return done, nil
	}
	if answers, err = s.partial.add(q.GetSuspensionId(), answers); err != nil {
		return done, err
	}
	d, err := decisionOf(q, answers)
	if err == nil && d == nil {
		return done, nil
	}
	s.partial.drop(q.GetSuspensionId()) // Answers that are refused have to be sent again.
	if err != nil {
		return done, err
	}
	err = s.decide(ctx, p.ID, q, d)
	if status.Code(err) == codes.FailedPrecondition { // Another answer was first, or the call has ended.
		err = nil
	}
	return done, err
}
