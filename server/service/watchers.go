package service

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

// watchers bounds the number of streams that can be slowed by clients that do not read. Each of these streams takes about 1 MB.
type watchers struct {
	each, all int           // limits for one principal and for all principals
	stall     time.Duration // a stream ends when the client reads nothing for this long

	mu    sync.Mutex
	of    map[subject]int
	total int
}

type subject struct{ namespace, name string }

// acquire counts a stream. The caller invokes leave when the stream ends.
func (ws *watchers) acquire(p *access.Identity) (leave func(), err error) {
	who := subject{p.Namespace, p.Subject}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.of[who] >= ws.each || ws.total >= ws.all {
		return nil, &call.Refusal{Kind: call.ResourceExhausted, Reason: "TOO_MANY_WATCHERS", RetryAfter: time.Second,
			Message: fmt.Sprintf("%q watches %d streams, and all principals together %d; the limits are %d and %d", p.Subject, ws.of[who], ws.total, ws.each, ws.all)}
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

// unread is the number of bytes that the transport certainly accepts without waiting for the client. The real number is larger.
const unread = 32 << 10

// pump sends the frames of a watcher until the watcher ends. It then closes the watcher, and invokes leave unless that is nil.
//
// As long as the transport certainly accepts the frames without waiting for the client, pump sends them in the calling goroutine. For a
// typical call, this is enough. For later frames it starts another goroutine, so that the stream can end even if the client reads nothing.
func (s *calls) pump(ctx context.Context, w call.Stream, leave func(), send func(outgoing) error) error {
	watching, cancel := untilDeadline(ctx)
	watching = &flat{watching, watching.Done()}
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
			cursor = "" // A client without a cursor must start again, and then gets the snapshot again.
		}
		if sent += size(&f, out); sent > unread {
			p := &pump{ctx: ctx, watching: watching, w: w, send: send, cursor: cursor}
			if leave == nil {
				if leave, err = s.watchers.acquire(access.From(ctx)); err != nil {
					return p.withCursor(err)
				}
			}
			handed = true
			return p.run(out, s.watchers.stall, func() { w.Close(); cancel(); leave() })
		}
		if err := send(out); err != nil {
			return err
		}
		if f.Cursor != "" { // Heartbeats have no cursor.
			cursor = f.Cursor
		}
	}
}

// A pump sends frames when a send may have to wait for the client.
type pump struct {
	ctx, watching context.Context // watching ends a little before ctx
	w             call.Stream
	send          func(outgoing) error

	mu     sync.Mutex
	cursor string    // cursor of the newest frame that was sent
	since  time.Time // when the current send began; zero when no send is in progress
}

// run sends first and all later frames. It ends the stream when the client reads nothing for the time stall.
func (p *pump) run(first outgoing, stall time.Duration, end func()) error {
	done := make(chan error, 1)
	go func() { // The goroutine returns at the latest when the stream ends.
		defer end()
		done <- p.sendAll(first)
	}()
	return p.supervise(done, stall)
}

// sendAll sends f and all later frames.
func (p *pump) sendAll(f outgoing) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r) // Handle the panic here: the interceptors cannot recover a panic in this goroutine.
		}
	}()
	for {
		if err := p.sendTimed(f); err != nil {
			return err
		}
		next, err := p.w.Next(p.watching)
		if err != nil {
			return ended(p.watching, p.ctx, p.w, err, p.sendTimed)
		}
		f = frameFor(&next)
	}
}

// sendTimed sends a frame and records when the send began.
func (p *pump) sendTimed(f outgoing) error {
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

// supervise waits until all frames are sent, or until the client has read nothing for too long. After it has returned, the stream ends. A
// send that still waits for the client then ends too.
func (p *pump) supervise(done <-chan error, stall time.Duration) error {
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
				return p.withCursor(&call.Refusal{Kind: call.ResourceExhausted, Reason: "WATCHER_LAGGED", RetryAfter: time.Second,
					Message: fmt.Sprintf("the client read nothing from this stream for %v; watch again from the cursor", stall)})
			}
		}
	}
}

// withCursor adds the cursor of the watcher to a refusal.
func (p *pump) withCursor(err error) error {
	var r *call.Refusal
	if errors.As(err, &r) {
		p.mu.Lock()
		r.Metadata = map[string]string{"cursor": p.cursor}
		p.mu.Unlock()
	}
	return err
}

// size estimates how many bytes a frame takes on the wire.
func size(f *call.Frame, out outgoing) int {
	if f.Inbox != nil {
		return unread // The frame contains a record, whose size is known only after the translation.
	}
	if f.Snapshot != nil || f.BatchFinished != nil || f.TurnStarted != nil || f.TurnMessage != nil || f.TurnFinished != nil {
		return proto.Size(out.Frame)
	}
	n := 0
	for i := range f.Events {
		n += 64 + f.Events[i].Weight()
	}
	return n
}
