package mcpserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// Limits of answers that wait in memory until all other questions of their ticket have answers.
const (
	maxPartial      = 256      // tickets; a new one replaces the oldest
	maxPartialBytes = 16 << 10 // bytes of the answers to one ticket
)

// partial holds the answers of tickets that still have open questions. toold can only decide a ticket as a whole, so these answers are not
// in the journal. They can be lost, for example at a restart. The questions then get new keys, because a client ignores a key that it has
// already answered.
type partial struct {
	mu      sync.Mutex
	tickets map[string]*answers // by suspension id
	order   []string            // suspension ids, oldest first
	round   string              // round of all tickets without an entry in the map
}

// answers holds the answers to one ticket so far. The keys of the questions contain the round. When answers are lost, a new round begins.
type answers struct {
	round string
	by    map[string]json.RawMessage // answers by the key of their form
}

func newPartial() partial { return partial{tickets: map[string]*answers{}, round: newRound()} }

func newRound() string { return rand.Text()[:8] }

// add adds answers to a ticket and returns all of them.
func (p *partial) add(suspension string, some map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all, size := maps.Clone(some), 0
	is := p.tickets[suspension]
	if is == nil {
		is = &answers{round: p.round}
	}
	for key, a := range is.by {
		if all[key] == nil {
			all[key] = a
		}
	}
	for key, a := range all {
		size += len(key) + len(a)
	}
	if size > maxPartialBytes {
		return nil, invalid("the answers are too large; send those to all questions of the task in one request")
	}
	if p.tickets[suspension] == nil {
		p.order = append(p.order, suspension)
	}
	p.tickets[suspension] = &answers{round: is.round, by: all}
	if len(p.order) > maxPartial {
		delete(p.tickets, p.order[0])
		p.order = slices.Delete(p.order, 0, 1)
		p.round = newRound()
	}
	return all, nil
}

// of returns the answers to a ticket. The caller must not change the map.
func (p *partial) of(suspension string) answers {
	p.mu.Lock()
	defer p.mu.Unlock()
	if is := p.tickets[suspension]; is != nil {
		return *is
	}
	return answers{round: p.round}
}

// refuse forgets the answers to a ticket after the daemon has refused them, so that the client is asked again.
func (p *partial) refuse(suspension string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tickets[suspension] != nil {
		p.tickets[suspension] = &answers{round: newRound()}
	}
}

// drop forgets the answers to a ticket that was decided.
func (p *partial) drop(suspension string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tickets[suspension] == nil {
		return
	}
	delete(p.tickets, suspension)
	p.order = slices.DeleteFunc(p.order, func(s string) bool { return s == suspension })
}

// taskQuestions returns the questions of a ticket that have no answer yet. Their keys are unique for the life of the task, because they
// contain the id of the suspension and the round. It returns nil if the client may not answer the ticket.
func (s *Server) taskQuestions(ctx context.Context, c *client, q *tooldv1.Suspension) (mcp.InputRequestMap, error) {
	all, err := s.questionsOf(ctx, c, q)
	if err != nil || all == nil {
		return nil, err
	}
	open, answered := mcp.InputRequestMap{}, s.partial.of(q.GetSuspensionId())
	for key, question := range all {
		if answered.by[key] == nil {
			open[q.GetSuspensionId()+"."+answered.round+"."+key] = question
		}
	}
	return open, nil
}

// formOf returns the key of the form that a key of taskQuestions names. It accepts the key of any round, because the client may still show
// a form of an earlier round. For a key of another ticket it returns an empty text.
func formOf(q *tooldv1.Suspension, key string) string {
	suspension, rest, _ := strings.Cut(key, ".")
	_, form, _ := strings.Cut(rest, ".")
	if suspension != q.GetSuspensionId() {
		return ""
	}
	return form
}

// isClosed reports whether an answer says that the person closed the form.
func isClosed(text json.RawMessage) bool {
	var a elicited
	return json.Unmarshal(text, &a) == nil && a.Action == "cancel"
}

// updateTask accepts answers to the questions of a task. It ignores answers to questions of other tickets.
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
	given, forms := map[string]json.RawMessage{}, ticketOf(q).forms
	for key, text := range p.Responses {
		form := formOf(q, key)
		if _, ok := forms[form]; ok && !isClosed(text) {
			given[form] = text
		}
	}
	if len(given) == 0 {
		return done, nil
	}
	if given, err = s.partial.add(q.GetSuspensionId(), given); err != nil {
		return done, err
	}
	d, err := decisionOf(q, given)
	if err == nil && d == nil {
		return done, nil
	}
	if err == nil {
		err = s.decide(ctx, p.ID, q, d)
	}
	if status.Code(err) == codes.FailedPrecondition { // Another answer was applied first, or the call has ended.
		err = nil
	}
	if err != nil {
		s.partial.refuse(q.GetSuspensionId())
		return done, err
	}
	s.partial.drop(q.GetSuspensionId())
	return done, nil
}
