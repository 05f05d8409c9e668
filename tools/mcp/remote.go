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

// maxTries is how often an attempt sends its request before it gives up.
const maxTries = 4

// A remote is a tool of a server.
type remote struct {
	server     *server
	name       string // the server's name for the tool
	descriptor tool.Descriptor
	claimed    tool.Descriptor // without settings of the operator
}

// Descriptor implements [tool.Tool].
func (t *remote) Descriptor() tool.Descriptor { return t.descriptor }

// Claimed implements [tool.Claimer].
func (t *remote) Claimed() tool.Descriptor { return t.claimed }

// Describe implements [tool.Describer]. Only the server knows what its tool does, so the kind is KindOther.
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
		case errors.As(err, new(*unsentError)): // The next connection may deliver the request.
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
	return nil, tool.Errorf(tool.Upstream, "The server asks questions of which it cannot be told what call they belong to")
}

// answerOf turns an answer of the server into a result for the model, and returns other errors unchanged.
func answerOf(err error) (*tool.Result, error) {
	if e, ok := errors.AsType[*tool.Error](err); ok && e.Code == tool.ExecutionFailed {
		return &tool.Result{Status: tool.StatusError, Error: e}, nil
	}
	return nil, err
}

// ask suspends the call. It stores the memo before a person sees the question.
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
	Key     string      `json:"key"` // idempotency key; answers count only for the same arguments
	Open    []*question `json:"open,omitempty"`
	State   string      `json:"state,omitempty"`
	Answers []answer    `json:"answers,omitempty"` // of all rounds, in order

	Given map[string]answer `json:"given,omitempty"` // by the id of the question in its round
	Visit *visit            `json:"visit,omitempty"` // the current request to sign in

	Visits int `json:"visits,omitempty"` // how often people were asked to sign in

	arrived bool // The decision answers the visit.
}

// recallMemo combines the state of the last attempt with the decision that resumed the call.
func recallMemo(c *tool.Call) (*memo, error) {
	m := &memo{Key: c.IdempotencyKey()}
	if len(c.Checkpoint) == 0 || c.Resume == nil {
		return m, nil
	}
	var last memo
	if err := json.Unmarshal(c.Checkpoint, &last); err != nil {
		return nil, tool.Errorf(tool.Internal, "what the call had noted cannot be read: %v", err)
	}
	if last.Key == m.Key && last.Visit != nil && c.Resume.Reason == "auth" {
		last.arrived = true
		return &last, nil
	}
	m.Visits = last.Visits
	if last.Key != m.Key || len(last.Open) == 0 || c.Resume.Reason != ticket("", last.Open).Action {
		return m, nil // The arguments differ, or the question was not the server's.
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

// earlier returns the answers for a server that asks again from the beginning.
func (m *memo) earlier() []answer { return slices.Clone(m.Answers) }

// responses returns the answers of the last round for a server that continues where it was.
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
