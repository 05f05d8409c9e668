package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toold-dev/toold/tool"
)

// maxTries is the maximum number of times that one attempt sends its request.
const maxTries = 4

// A remote is a tool of a server.
type remote struct {
	server     *server
	name       string // the server's name for the tool
	descriptor tool.Descriptor
	claimed    tool.Descriptor // descriptor without the operator's settings
}

// Descriptor implements [tool.Tool].
func (t *remote) Descriptor() tool.Descriptor { return t.descriptor }

// Claimed implements [tool.Claimer].
func (t *remote) Claimed() tool.Descriptor { return t.claimed }

// Describe implements [tool.Describer]. The kind is always KindOther, because only the server knows what the tool does.
func (t *remote) Describe(context.Context, *tool.Call) (tool.Description, error) {
	return tool.Description{Kind: tool.KindOther, Title: t.descriptor.DisplayName}, nil
}

// Execute implements [tool.Tool].
func (t *remote) Execute(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	m, err := recallMemo(c)
	if err == nil && m.arrived {
		err = t.server.arrive(ctx, c, m)
	}
	if err != nil {
		return answerOf(err)
	}
	var last error
	for range maxTries {
		n, err := t.server.ready(ctx, c.Namespace)
		if errors.Is(err, errSignIn) {
			return t.server.visit(ctx, c, m)
		}
		if err == nil {
			err = n.server.agrees(t)
		}
		if err != nil {
			return nil, err
		}
		r, err := n.call(ctx, t.name, c, m)
		last = err
		switch {
		case errors.Is(err, errAlone):
			continue
		case errors.Is(err, errSignIn):
			n.server.drop(n)
			return t.server.visit(ctx, c, m)
		case errors.As(err, new(*unsentError)): // The server did not get the request, so it is sent again over the next connection.
			n.server.drop(n)
			continue
		case err != nil:
			return answerOf(err)
		case len(r.questions) > 0:
			return t.ask(c, m, r)
		}
		return resultOf(c, r.result)
	}
	if unsent, ok := errors.AsType[*unsentError](last); ok {
		return nil, t.server.away(unsent.Error())
	}
	return nil, tool.Errorf(tool.Upstream, "The server asks questions, and it is unknown which call they belong to")
}

// answerOf converts an error that is the server's answer to a result for the model. It returns other errors unchanged.
func answerOf(err error) (*tool.Result, error) {
	if e, ok := errors.AsType[*tool.Error](err); ok && e.Code == tool.ExecutionFailed {
		return &tool.Result{Status: tool.StatusError, Error: e}, nil
	}
	return nil, err
}

// ask suspends the call with the questions of a round. It saves the memo first, so that an answer always finds the memo.
func (t *remote) ask(c *tool.Call, m *memo, r *round) (*tool.Result, error) {
	m.Open, m.State, m.Given, m.Visit = r.questions, r.state, nil, nil
	text, err := json.Marshal(m)
	if err == nil {
		err = c.SaveCheckpoint(text)
	}
	if err != nil {
		return nil, err
	}
	return tool.SuspendedWith(ticket(t.server.entry.Key, r.questions)), nil
}

// A memo is the state that a call with a question keeps between attempts.
type memo struct {
	Key     string      `json:"key"` // idempotency key of the call; the answers are valid only for this key
	Open    []*question `json:"open,omitempty"`
	State   string      `json:"state,omitempty"`
	Answers []answer    `json:"answers,omitempty"` // answers of all rounds, in order

	Given map[string]answer `json:"given,omitempty"` // answers of the last round, by the ids of its questions
	Visit *visit            `json:"visit,omitempty"` // the current request to sign in

	Visits int `json:"visits,omitempty"` // number of times that people were asked to sign in

	arrived bool // the current decision answers Visit
}

// recallMemo returns the memo of the last attempt, with the answers from the decision that resumed the call.
func recallMemo(c *tool.Call) (*memo, error) {
	m := &memo{Key: c.IdempotencyKey()}
	if len(c.Checkpoint) == 0 || c.Resume == nil {
		return m, nil
	}
	var last memo
	if err := json.Unmarshal(c.Checkpoint, &last); err != nil {
		return nil, tool.Errorf(tool.Internal, "the checkpoint of the call cannot be read: %v", err)
	}
	if last.Key == m.Key && last.Visit != nil && c.Resume.Reason == "auth" {
		last.arrived = true
		return &last, nil
	}
	m.Visits = last.Visits
	if last.Key != m.Key || len(last.Open) == 0 || c.Resume.Reason != ticket("", last.Open).Action {
		return m, nil // The decision does not count: the arguments have changed, or another part of toold asked the question.
	}
	answers := answersTo(last.Open, c.Resume.Result)
	m.State, m.Given = last.State, map[string]answer{}
	for i, q := range last.Open {
		if q.ID != "" {
			m.Given[q.ID] = answers[i]
		}
	}
	m.Answers = slices.Concat(last.Answers, answers)
	return m, nil
}

// earlier returns all answers. A server of an earlier era asks all questions again from the beginning.
func (m *memo) earlier() []answer { return slices.Clone(m.Answers) }

// responses returns the answers of the last round. A server of the stateless era continues with these.
func (m *memo) responses() sdk.InputResponseMap {
	if len(m.Given) == 0 {
		return nil
	}
	out := sdk.InputResponseMap{}
	for id, a := range m.Given {
		out[id] = a.result()
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
