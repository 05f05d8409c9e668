package worker

import (
	"errors"
	"fmt"
	"io"

	"github.com/toold-dev/toold/tool"
)

// maxPiece is what a worker is given of the input at once.
const maxPiece = 64 << 10

// A feed is the input of a call on its way to the worker that runs it. The worker asks for each piece and for one at a time, so that what nobody
// reads stays with the call, and is bounded there. A piece is kept until the next one is asked for: the connection may have broken
// while it was on its way. The hub guards its fields.
type feed struct {
	in     io.ReadCloser
	wake   chan struct{} // full when something is wanted
	begin  int64         // of piece, in all that was typed
	piece  []byte        // given, and perhaps not there
	want   int           // bytes that are asked for behind piece; 0: none
	ended  bool          // nothing follows piece
	closed bool          // the tool takes no more
}

// errElsewhere refuses a worker that asks for input that it had, or for input after a part that it did not get.
var errElsewhere = errors.New("the input does not go on there")

// ReadInput lets the caller type into a call and gives the worker that runs it up to so many of the bytes from a position on, by
// [link.Line.Input]: once there are some, or at once when it asks for none. The first one is for position 0; done says that the tool takes no more.
func (s *Session) ReadInput(id string, position int64, most int, done bool) error {
	l, f, err := s.feed(id, position)
	switch {
	case l == nil:
		return ErrNotHeld
	case err != nil:
		s.line.Input(id, position, nil, false, err)
		return nil
	case done:
		_ = f.in.Close()
	}
	s.hub.mu.Lock()
	if s.leases[id] != l {
		s.hub.mu.Unlock()
		return ErrNotHeld // another connection has it since
	}
	if done {
		f.closed, f.ended, f.piece, f.begin = true, true, nil, position
	}
	piece, ended, answered, err := f.readLocked(position, most)
	s.hub.mu.Unlock()
	if answered {
		s.line.Input(id, position, piece, ended, err)
		return nil
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
	return nil
}

// feed is that of a lease, which begins when it is asked for first; no lease: the session does not hold it. Of an attempt that an earlier
// daemon began it begins where the worker is.
func (s *Session) feed(id string, position int64) (*lease, *feed, error) {
	h := s.hub
	h.mu.Lock()
	l := s.leases[id]
	if l == nil || l.kind != Execute {
		h.stats.Refused++
		h.mu.Unlock()
		return nil, nil, nil
	}
	f := l.feed
	h.mu.Unlock()
	if f != nil {
		return l, f, nil
	}
	l.opening <- struct{}{} // a worker that reconnects meanwhile asks for the same
	defer func() { <-l.opening }()
	h.mu.Lock()
	f = l.feed
	h.mu.Unlock()
	if f != nil {
		return l, f, nil
	}
	if l.back == nil {
		position = 0
	}
	in, err := l.call.Input(tool.Controls{Position: position})
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		return l, nil, err
	}
	if l.ended {
		_ = in.Close()
		return nil, nil, nil
	}
	l.feed = &feed{in: in, begin: position, wake: make(chan struct{}, 1)}
	go h.pump(l, l.feed) // ends with the attempt, which closes its input
	return l, l.feed, nil
}

// readLocked answers from the buffer, or notes the request.
func (f *feed) readLocked(position int64, most int) (piece []byte, ended, answered bool, err error) {
	if position < f.begin || position > f.begin+int64(len(f.piece)) {
		return nil, false, true, fmt.Errorf("%w: position %d", errElsewhere, position)
	}
	f.piece, f.begin = f.piece[position-f.begin:], position
	if most > 0 && len(f.piece) == 0 && !f.ended {
		f.want = min(most, maxPiece)
		return nil, false, false, nil
	}
	piece = f.piece[:min(max(most, 0), len(f.piece))]
	return piece, f.ended && len(piece) == len(f.piece), true, nil
}

// pump gives a worker what it asks for. One that is away asks again.
func (h *Hub) pump(l *lease, f *feed) {
	for {
		select {
		case <-f.wake:
		case <-l.done:
			return
		}
		h.mu.Lock()
		b := make([]byte, f.want)
		h.mu.Unlock()
		if len(b) == 0 {
			continue // it was asked for twice
		}
		n, err := 0, error(nil)
		for n == 0 && err == nil {
			n, err = f.in.Read(b)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return // the tool closed it, or the attempt is over and its worker learns that in another way
		}
		h.mu.Lock()
		if f.closed {
			h.mu.Unlock()
			return
		}
		most := f.want // less than it was, when it was asked again
		f.want, f.piece, f.ended = 0, b[:n], err != nil
		piece, ended, _, _ := f.readLocked(f.begin, most)
		s, position := l.session, f.begin
		h.mu.Unlock()
		if s != nil {
			s.line.Input(l.id, position, piece, ended, nil)
		}
	}
}

// hangUp ends the input of a lease that has ended.
func (h *Hub) hangUp(l *lease) {
	h.mu.Lock()
	f := l.feed
	h.mu.Unlock()
	if f != nil {
		_ = f.in.Close()
	}
}
