package mcp

import (
	"context"
	"errors"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toold-dev/toold/tool"
)

var (
	// errAsked ends the request of a call for which the server asks a question. The call suspends, and repeats the request with the answer.
	errAsked = errors.New("the server asked a question")
	// errAlone ends several requests when it is unknown which of them asked a question. Each request is then repeated alone.
	errAlone = errors.New("toold sends one call at a time to this server")
)

// A flight is a request that a server has not answered yet.
type flight struct {
	call    *tool.Call
	end     context.CancelCauseFunc
	answers []answer  // answers of earlier rounds that are not used yet, in order
	asked   *question // the question for which the call suspends
	meter   meter
}

// A floor tracks the open requests to a server of an earlier era. Such a server does not say which request a question belongs to. When only
// one request is open, the question belongs to it.
//
// When several requests are open, a question waits until the other requests have been answered. New requests wait meanwhile. When at least
// as many questions as requests are open, it is unclear which question belongs to which request. Then all open requests are ended and made
// again, one at a time. All later requests are also made one at a time.
type floor struct {
	mu      sync.Mutex
	flights map[string]*flight // requests by progress token
	asked   []*pending
	alone   bool
	changed chan struct{}
}

// A pending is a question of a server that waits for the answer.
type pending struct {
	question *question
	answered chan *sdk.ElicitResult // buffered for one answer
}

func newFloor() *floor { return &floor{flights: map[string]*flight{}, changed: make(chan struct{})} }

// enter waits until the request may be sent, and records it. After success, the caller must call leave.
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

// empty waits until the server has no open request or ctx is done.
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

// only returns the open request if there is exactly one. Otherwise it returns nil.
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

// ask finds the request to which a question belongs, and returns the reply for the server.
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

// dismissed returns the reply that dismisses a question.
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

// answerLocked removes a pending question and sends the reply. A nil reply dismisses the question.
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

// take returns the reply for a question from the answers of earlier rounds. When there is none, it ends the request, so that the call can
// ask a person.
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
