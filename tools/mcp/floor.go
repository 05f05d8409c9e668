package mcp

import (
	"context"
	"errors"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toold-dev/toold/tool"
)

var (
	// errAsked ends the request of a call that has a question: the call suspends and makes it again with the answer.
	errAsked = errors.New("the server asks")
	// errAlone ends requests of which nobody knows which one asked: each is made again by itself.
	errAlone = errors.New("the calls of this server are made one at a time")
)

// A flight is a request that a server has not answered.
type flight struct {
	call    *tool.Call
	end     context.CancelCauseFunc
	answers []answer  // that are known of earlier rounds, in order
	asked   *question // what it suspends with
	meter   meter
}

// A floor knows which requests are with a server of an earlier era, whose questions do not say which request they belong to.
// With one request that is clear. With several a question waits until only those are left that may have asked it, and new
// ones wait meanwhile; when that still leaves two, all of them are made again, one at a time, and so are all later ones.
type floor struct {
	mu      sync.Mutex
	flights map[string]*flight // by progress token
	asked   []*pending
	alone   bool
	changed chan struct{}
}

// A pending is a question that a server waits for.
type pending struct {
	question *question
	answered chan *sdk.ElicitResult // room for one
}

func newFloor() *floor { return &floor{flights: map[string]*flight{}, changed: make(chan struct{})} }

// enter admits a request; the caller leaves.
func (f *floor) enter(ctx context.Context, token string, x *flight) error {
	for {
		f.mu.Lock()
		if len(f.asked) == 0 && (!f.alone || len(f.flights) == 0) {
			f.flights[token] = x
			f.mu.Unlock()
			return nil
		}
		changed := f.changed
		f.mu.Unlock()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}

func (f *floor) leave(token string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.flights, token)
	f.settleLocked()
}

// empty waits until no request is with the server, or ctx is done.
func (f *floor) empty(ctx context.Context) {
	for {
		f.mu.Lock()
		n, changed := len(f.flights), f.changed
		f.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

func (f *floor) flight(token string) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.flights[token]
}

// only returns the request of a server that has one.
func (f *floor) only() *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.flights) != 1 {
		return nil
	}
	for _, x := range f.flights {
		return x
	}
	return nil
}

// ask gives a question to the request that it belongs to and returns the answer for the server.
func (f *floor) ask(ctx context.Context, q *question) *sdk.ElicitResult {
	p := &pending{q, make(chan *sdk.ElicitResult, 1)}
	f.mu.Lock()
	f.asked = append(f.asked, p)
	f.settleLocked()
	f.mu.Unlock()
	select {
	case r := <-p.answered:
		return r
	case <-ctx.Done():
		f.mu.Lock()
		defer f.mu.Unlock()
		f.answerLocked(p, nil)
		return dismissed()
	}
}

// dismissed is the answer for a question without an answer.
func dismissed() *sdk.ElicitResult { return &sdk.ElicitResult{Action: "cancel"} }

func (f *floor) settleLocked() {
	defer func() { close(f.changed); f.changed = make(chan struct{}) }()
	switch {
	case len(f.asked) == 0 || len(f.flights) > len(f.asked):
		return
	case len(f.flights) == 1 && len(f.asked) == 1:
		for _, x := range f.flights {
			f.answerLocked(f.asked[0], x.take(f.asked[0].question))
		}
		return
	}
	for _, x := range f.flights {
		f.alone = true
		x.end(errAlone)
	}
	for len(f.asked) > 0 {
		f.answerLocked(f.asked[0], nil)
	}
}

// answerLocked takes a question off the floor; nil dismisses it.
func (f *floor) answerLocked(p *pending, r *sdk.ElicitResult) {
	for i, other := range f.asked {
		if other == p {
			f.asked = append(f.asked[:i:i], f.asked[i+1:]...)
			if r == nil {
				r = dismissed()
			}
			p.answered <- r
			return
		}
	}
}

// take returns the answer that an earlier round brought, or ends the request so that the call can ask.
func (x *flight) take(q *question) *sdk.ElicitResult {
	for i, a := range x.answers {
		if a.Digest == q.digest() {
			x.answers = append(x.answers[:i:i], x.answers[i+1:]...)
			return a.result()
		}
	}
	if x.asked == nil {
		x.asked = q
	}
	x.end(errAsked)
	return nil
}
