package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
)

// A session handles many requests, called items, over one stream.
//
// Each item has at most one answer that waits to be sent. The item reads its next frame from the log of its call only after this answer was
// sent. A slow client therefore costs the memory of one frame for each item, and an item delays the other items by at most one frame. An
// item whose answer waits too long ends as lagged.
type session struct {
	*calls
	id       *access.Identity
	stream   grpc.BidiStreamingServer[tooldv1.SessionRequest, tooldv1.SessionResponse]
	ctx      context.Context // context of the stream
	watching context.Context // ends shortly before the deadline of the client

	began time.Time     // start of the session, with a monotonic clock reading
	ready chan struct{} // holds a value when something was queued
	sent  atomic.Int64  // While a message is being sent, this is minus the age of the session at the beginning of the send. At other times, it is the age at the end of the last send.

	work chan *item // passes an item to an idle goroutine
	idle atomic.Int32
	over chan struct{} // closed when no item is left

	mu      sync.Mutex
	open    map[string]*item
	queue   []answer // answers that were not sent yet
	ending  int      // number of final answers that were not sent yet
	stopped bool     // the session starts no more items
	items   sync.WaitGroup
}

const (
	// maxItems bounds the open items of a session.
	maxItems = 1024
	// idleItems is the number of idle goroutines that a session keeps for later items. A kept goroutine is cheaper than a new one, because
	// its stack has already grown.
	idleItems = 64
)

var (
	errLeft   = context.Canceled // cause of an item's context when the client leaves the item
	errLagged = &call.Refusal{
		Kind: call.ResourceExhausted, Reason: "WATCHER_LAGGED", Message: "the client read nothing from the session for too long; watch its calls again", RetryAfter: time.Second,
	}
)

// Session serves many requests over one stream.
func (s *calls) Session(stream grpc.BidiStreamingServer[tooldv1.SessionRequest, tooldv1.SessionResponse]) error {
	ctx := stream.Context()
	watching, cancel := untilDeadline(ctx)
	defer cancel()
	c := &session{
		calls: s, id: access.From(ctx), stream: stream, ctx: ctx, watching: watching,
		began: time.Now(), ready: make(chan struct{}, 1), work: make(chan *item), over: make(chan struct{}), open: map[string]*item{},
	}
	c.sent.Store(int64(c.age()))
	ended := make(chan error, 1)
	go func() { // The goroutine returns at the latest when the stream ends.
		err := c.receive()
		c.items.Wait()
		close(c.over)
		ended <- err
	}()
	go c.deliver()
	return c.supervise(ended)
}

// age returns how long the session has been open. Changes of the system clock do not affect it.
func (c *session) age() time.Duration { return max(time.Since(c.began), 1) }

// supervise waits until the session ends, the credential expires, or the client reads nothing for too long. After it has returned, the
// stream ends. Goroutines that wait for the client then end too.
func (c *session) supervise(ended <-chan error) error {
	tick := time.NewTicker(c.watchers.stall / 4)
	defer tick.Stop()
	stopping := c.service.stopping.Done()
	for {
		select {
		case err := <-ended:
			return err
		case <-c.ctx.Done():
			c.stopAll(context.Cause(c.ctx))
			return context.Cause(c.ctx)
		case <-stopping: // The engine drains: do not end the session, because each item ends by itself.
			c.stopAll(errStopping)
			c.items.Wait()
			return errStopping
		case <-tick.C:
			now := c.age()
			if began := time.Duration(-c.sent.Load()); began > 0 && now-began >= c.watchers.stall {
				c.stopAll(errLagged)
				return errLagged
			}
			c.endLate(now)
		}
	}
}

// receive starts items until the client half-closes the stream.
func (c *session) receive() error {
	for {
		req, err := c.stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if c.ctx.Err() != nil {
			err = context.Cause(c.ctx)
		}
		for _, asked := range req.GetItems() {
			if err == nil {
				err = c.begin(asked)
			}
		}
		if err != nil {
			c.stopAll(err)
			return err
		}
	}
}

// begin starts an item, or ends an item that the client leaves. If begin returns an error, the session ends.
func (c *session) begin(req *tooldv1.SessionItem) error {
	id := req.GetCorrelationId()
	if id == "" || len(id) > 64 {
		return call.InvalidField("correlation_id", "has %d bytes; an item needs an id of 1 to 64", len(id))
	}
	c.mu.Lock()
	earlier := c.open[id]
	if _, ok := req.GetItem().(*tooldv1.SessionItem_Leave); ok {
		c.mu.Unlock()
		if earlier != nil {
			earlier.stop(errLeft)
		}
		return nil
	}
	if earlier != nil {
		c.mu.Unlock()
		return call.InvalidField("correlation_id", "%q belongs to an open item", id)
	}
	it := &item{id: id, req: req}
	if refusal := c.admitLocked(it); refusal != nil {
		c.mu.Unlock()
		return c.sendAnswer(c.ctx, it, &tooldv1.SessionAnswer{End: true, Error: statusOf(Refused(refusal))}, 0)
	}
	c.mu.Unlock()
	select {
	case c.work <- it:
	default:
		go c.serveItems(it)
	}
	return nil
}

// admitLocked registers an item as open, or refuses it.
func (c *session) admitLocked(it *item) *call.Refusal {
	switch {
	case c.stopped:
		return errStopping
	case len(c.open)+c.ending >= maxItems:
		return &call.Refusal{Kind: call.ResourceExhausted, Reason: "TOO_MANY_ITEMS",
			Message: fmt.Sprintf("%d items of this session are open, which is the limit; wait for some to end", maxItems)}
	}
	it.ctx, it.stop = context.WithCancelCause(c.watching)
	c.open[it.id] = it
	c.items.Add(1)
	return nil
}

// serveItems serves an item, then waits for further items and serves them until the session ends.
func (c *session) serveItems(it *item) {
	for {
		c.serve(it)
		if c.idle.Add(1) > idleItems {
			c.idle.Add(-1)
			return
		}
		select {
		case it = <-c.work:
			c.idle.Add(-1)
		case <-c.over:
			return
		}
	}
}

// stopAll ends every item and prevents new ones.
func (c *session) stopAll(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	for _, it := range c.open {
		it.stop(cause)
	}
}

// endLate ends each item whose answer has waited for half of the stall time. It does not wait longer, because the whole session ends after
// the full stall time.
func (c *session) endLate(now time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, it := range c.open {
		if since := time.Duration(it.waits.Load()); since > 0 && now-since >= c.watchers.stall/2 {
			it.stop(errLagged)
		}
	}
}
