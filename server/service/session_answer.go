package service

import (
	"context"
	"runtime"
	"slices"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// An answer is a message of an item that waits to be sent.
type answer struct {
	it   *item
	body *tooldv1.SessionAnswer
	size int  // estimated bytes on the wire
	last bool // the final answer of its item; no goroutine waits until it is sent
}

// sendAnswer queues an answer and waits until it was sent. If ctx ends first, it stops waiting.
func (c *session) sendAnswer(ctx context.Context, it *item, body *tooldv1.SessionAnswer, size int) error {
	body.CorrelationId = it.id
	if it.sent == nil {
		it.sent = make(chan error, 1)
	}
	it.waits.Store(int64(c.age()))
	c.mu.Lock()
	c.pushLocked(answer{it: it, body: body, size: size})
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

// sendLast queues the final answer of an item and frees its id. The item counts as open until the answer was sent.
func (c *session) sendLast(it *item, body *tooldv1.SessionAnswer, size int) {
	it.ended = true
	body.CorrelationId, body.End = it.id, true
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, it.id)
	c.ending++
	c.items.Add(1)
	c.pushLocked(answer{it: it, body: body, size: size, last: true})
}

func (c *session) pushLocked(a answer) {
	a.size += 16 + len(a.it.id)
	c.queue = append(c.queue, a)
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// withdraw removes the queued answers of an item and reports whether there were any.
func (c *session) withdraw(it *item) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.queue)
	c.queue = slices.DeleteFunc(c.queue, func(a answer) bool { return a.it == it })
	it.waits.Store(0)
	return len(c.queue) < n
}

// deliver sends queued answers until no item is left.
func (c *session) deliver() {
	var message []answer
	for {
		select {
		case <-c.ready:
		case <-c.over:
			return
		}
		runtime.Gosched() // Let other goroutines queue answers first, so that they are part of the same message.
		for message = c.next(message); len(message) > 0; message = c.next(message) {
			c.send(message)
		}
	}
}

// next removes the answers for the next message from the queue. A large answer gets its own message, because the transport may have to wait
// for the client before it can send the message.
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
		resp.Answers[i] = message[i].body
	}
	c.sent.Store(-int64(c.age()))
	err := c.stream.Send(resp)
	c.sent.Store(int64(c.age()))
	ended := 0
	for i := range message {
		if message[i].last { // For a final answer, no goroutine waits for the result.
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

// heartbeat sends a heartbeat if nothing was sent for a second. One heartbeat serves all items.
func (c *session) heartbeat(f *tooldv1.Frame) error {
	last := c.sent.Load()
	if last < 0 || int64(c.age())-last < int64(time.Second) {
		return nil
	}
	return c.sendAnswer(c.ctx, &item{}, &tooldv1.SessionAnswer{Frame: f}, 0)
}

func statusOf(err error) *spb.Status { return status.Convert(err).Proto() }
