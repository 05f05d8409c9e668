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

// maxTries is how often a request of one attempt is made before it is by itself.
const maxTries = 4

// A remote is a tool of a server.
type remote struct {
	server     *server
	name       string // that the server calls it
	descriptor tool.Descriptor
	claimed    tool.Descriptor // with nothing of the operator's
}

// Descriptor implements [tool.Tool].
func (t *remote) Descriptor() tool.Descriptor { return t.descriptor }

// Claimed implements [tool.Claimer].
func (t *remote) Claimed() tool.Descriptor { return t.claimed }

// Describe implements [tool.Describer]. What a server's tool does nobody but the server knows.
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
		case errors.As(err, new(*unsentError)): // the next connection may deliver it
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

// answerOf separates an answer of the server, which a model reads, from an error that prevented one.
func answerOf(err error) (*tool.Result, error) {
	if e, ok := errors.AsType[*tool.Error](err); ok && e.Code == tool.ExecutionFailed {
		return &tool.Result{Status: tool.StatusError, Error: e}, nil
	}
	return nil, err
}

// ask suspends the call. Its memo is stored before a person sees the question.
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

// A memo is the state with which a call that asked continues.
type memo struct {
	Key     string      `json:"key"` // the idempotency key: of other arguments nothing was asked
	Open    []*question `json:"open,omitempty"`
	State   string      `json:"state,omitempty"`
	Answers []answer    `json:"answers,omitempty"` // of all rounds, in order

	Given map[string]answer `json:"given,omitempty"` // by the id that the question had in its round
	Visit *visit            `json:"visit,omitempty"` // that somebody was asked to sign in by

	Visits int `json:"visits,omitempty"` // how often somebody was asked to sign in

	arrived bool // the decision is about the visit
}

// recallMemo takes up what the last attempt left, with the decision that the call was resumed by.
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
		return m, nil // other arguments, or another call's question
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

// responses are the answers of the last round for a server that knows where it was.
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
