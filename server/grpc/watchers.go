package grpcserver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/server/access"
)

// watchers bounds the streams whose clients may leave what they are sent unread: each holds about a megabyte then.
type watchers struct {
	each, all int           // at most so many of one principal, and of everybody
	stall     time.Duration // a client that takes nothing for so long is cut off

	mu    sync.Mutex
	of    map[subject]int
	total int
}

type subject struct{ namespace, name string }

// enter counts a stream in, and returns what counts it out again.
func (ws *watchers) enter(p *access.Identity) (leave func(), err error) {
	who := subject{p.Namespace, p.Subject}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.of[who] >= ws.each || ws.total >= ws.all {
		return nil, &call.Refusal{Kind: call.ResourceExhausted, Reason: "TOO_MANY_WATCHERS", RetryAfter: time.Second,
			Message: fmt.Sprintf("%q watches %d streams, all together %d; at most %d and %d can be served", p.Subject, ws.of[who], ws.total, ws.each, ws.all)}
	}
	ws.of[who]++
	ws.total++
	return func() {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		ws.total--
		if ws.of[who]--; ws.of[who] == 0 {
			delete(ws.of, who)
		}
	}, nil
}

// unread is how many bytes the transport takes without waiting for the client, with much to spare.
const unread = 32 << 10

// pump sends what a watcher sees until its end, closes the watcher, and calls leave unless that is nil. As long as nothing
// can be unread for want of a client that reads, which is the whole of a common call, no more is done; then the sending
// moves to a goroutine of its own, so that a client that takes nothing can be left.
func (s *calls) pump(ctx context.Context, w call.Stream, leave func(), send func(outgoing) error) error {
	watching, cancel := untilDeadline(ctx)
	handed := false
	defer func() {
		if !handed {
			w.Close()
			cancel()
			if leave != nil {
				leave()
			}
		}
	}()
	sent, cursor := 0, w.Cursor()
	for {
		f, err := w.Next(watching)
		if err != nil {
			return ended(watching, ctx, w, err, send)
		}
		out := frameFor(&f)
		if f.Snapshot != nil {
			cursor = "" // only a fresh look brings it again
		}
		if sent += size(&f, out); sent > unread {
			p := &pump{ctx: ctx, watching: watching, w: w, send: send, cursor: cursor}
			if leave == nil {
				if leave, err = s.watchers.enter(access.From(ctx)); err != nil {
					return p.at(err)
				}
			}
			handed = true
			return p.run(out, s.watchers.stall, func() { w.Close(); cancel(); leave() })
		}
		if err := send(out); err != nil {
			return err
		}
		if f.Cursor != "" { // heartbeats have none
			cursor = f.Cursor
		}
	}
}

// A pump sends frames that may have to wait for the client.
type pump struct {
	ctx, watching context.Context // watching ends a little earlier
	w             call.Stream
	send          func(outgoing) error

	mu     sync.Mutex
	cursor string    // of the newest frame that was sent
	since  time.Time // when the frame that is being sent began to wait; zero: none is
}

// run sends a frame and all that come after it, and cuts off a client that takes nothing.
func (p *pump) run(first outgoing, stall time.Duration, end func()) error {
	done := make(chan error, 1)
	go func() { // ends with the stream at the latest
		defer end()
		done <- p.goOn(first)
	}()
	return p.attend(done, stall)
}

// goOn sends a frame and all that come after it.
func (p *pump) goOn(f outgoing) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r) // the chain around the handler does not see it here
		}
	}()
	for {
		if err := p.timed(f); err != nil {
			return err
		}
		next, err := p.w.Next(p.watching)
		if err != nil {
			return ended(p.watching, p.ctx, p.w, err, p.timed)
		}
		f = frameFor(&next)
	}
}

// timed sends a frame and shows since when it waits.
func (p *pump) timed(f outgoing) error {
	p.mu.Lock()
	p.since = time.Now()
	p.mu.Unlock()
	err := p.send(f)
	p.mu.Lock()
	p.since = time.Time{}
	if f.GetCursor() != "" {
		p.cursor = f.GetCursor()
	}
	p.mu.Unlock()
	return err
}

// attend waits for the end, and cuts off a client that takes nothing: returning ends the stream, and with it the send.
func (p *pump) attend(done <-chan error, stall time.Duration) error {
	tick := time.NewTicker(stall / 4)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case now := <-tick.C:
			p.mu.Lock()
			stalled := !p.since.IsZero() && now.Sub(p.since) >= stall
			p.mu.Unlock()
			if stalled {
				return p.at(&call.Refusal{Kind: call.ResourceExhausted, Reason: "WATCHER_LAGGED", RetryAfter: time.Second,
					Message: fmt.Sprintf("nothing was taken from this stream for %v; watch again from the cursor", stall)})
			}
		}
	}
}

// at adds where the watcher stands to a refusal.
func (p *pump) at(err error) error {
	var r *call.Refusal
	if errors.As(err, &r) {
		p.mu.Lock()
		r.Metadata = map[string]string{"cursor": p.cursor}
		p.mu.Unlock()
	}
	return err
}

// size is about what a frame takes on the wire.
func size(f *call.Frame, out outgoing) int {
	if f.Snapshot != nil || f.BatchFinished != nil {
		return proto.Size(out.Frame)
	}
	n := 0
	for i := range f.Events {
		n += 64 + f.Events[i].Weight()
	}
	return n
}
