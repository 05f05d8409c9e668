package grpcserver

import (
	"context"
	"runtime"
	"slices"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// An answer waits to be sent.
type answer struct {
	it   *item
	says *tooldv1.SessionAnswer
	size int  // about, on the wire
	last bool // of its item: nobody waits for it
}

// tell queues an answer and waits until it was sent. It gives up when ctx ends before the turn of the item comes.
func (c *session) tell(ctx context.Context, it *item, says *tooldv1.SessionAnswer, size int) error {
	says.CorrelationId = it.id
	if it.sent == nil {
		it.sent = make(chan error, 1)
	}
	it.waits.Store(int64(c.age()))
	c.mu.Lock()
	c.pushLocked(answer{it: it, says: says, size: size})
	c.mu.Unlock()
	select {
	case err := <-it.sent:
		return err
	case <-ctx.Done():
	}
	if c.withdraw(it) {
		return context.Cause(ctx)
	}
	return <-it.sent
}

// tellEnd queues the last answer of an item and frees its name. The item counts until its client can have heard of it.
func (c *session) tellEnd(it *item, says *tooldv1.SessionAnswer, size int) {
	it.ended = true
	says.CorrelationId, says.End = it.id, true
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, it.id)
	c.ending++
	c.items.Add(1)
	c.pushLocked(answer{it: it, says: says, size: size, last: true})
}

func (c *session) pushLocked(a answer) {
	a.size += 16 + len(a.it.id)
	c.queue = append(c.queue, a)
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// withdraw takes what an item has to tell off the queue. It reports whether it was still there.
func (c *session) withdraw(it *item) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.queue)
	c.queue = slices.DeleteFunc(c.queue, func(a answer) bool { return a.it == it })
	it.waits.Store(0)
	return len(c.queue) < n
}

// deliver sends what is queued until no item is left.
func (c *session) deliver() {
	var message []answer
	for {
		select {
		case <-c.ready:
		case <-c.over:
			return
		}
		runtime.Gosched() // what is about to be answered goes into the same message
		for message = c.next(message); len(message) > 0; message = c.next(message) {
			c.send(message)
		}
	}
}

// next cuts the next message off the queue. What may have to wait for the client, because the transport does not take as
// much, goes alone.
func (c *session) next(message []answer) []answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for size := 0; n < len(c.queue); n++ {
		if size += c.queue[n].size; size > unread && n > 0 {
			break
		}
		c.queue[n].it.waits.Store(0)
	}
	message = append(message[:0], c.queue[:n]...)
	c.queue = slices.Delete(c.queue, 0, n)
	return message
}

func (c *session) send(message []answer) {
	resp := &tooldv1.SessionResponse{Answers: make([]*tooldv1.SessionAnswer, len(message))}
	for i := range message {
		resp.Answers[i] = message[i].says
	}
	c.sent.Store(-int64(c.age()))
	err := c.stream.Send(resp)
	c.sent.Store(int64(c.age()))
	ended := 0
	for i := range message {
		if message[i].last { // a client that went away hears nothing
			ended++
			if message[i].it.leave != nil {
				message[i].it.leave()
			}
		} else {
			message[i].it.sent <- err
		}
		message[i] = answer{}
	}
	c.mu.Lock()
	c.ending -= ended
	c.mu.Unlock()
	c.items.Add(-ended)
}

// beat passes a heartbeat on when nothing else was sent for a while: one is enough for all items.
func (c *session) beat(f *tooldv1.Frame) error {
	last := c.sent.Load()
	if last < 0 || int64(c.age())-last < int64(time.Second) {
		return nil
	}
	return c.tell(c.ctx, &item{}, &tooldv1.SessionAnswer{Frame: f}, 0)
}

func statusOf(err error) *spb.Status { return status.Convert(err).Proto() }
