package worker

import (
	"errors"
	"fmt"
	"io"

	"github.com/toold-dev/toold/tool"
)

// maxPiece is the maximum size of one piece of input for a worker, in bytes.
const maxPiece = 64 << 10

// A feed passes the input of a call to its worker. The worker requests one piece at a time. So input that the worker has not requested
// stays with the call, where its size is limited. A feed keeps a piece until the worker requests the next one, because the connection may
// break while the piece is sent. The hub's lock guards the fields.
type feed struct {
	in     io.ReadCloser
	wake   chan struct{} // signals pump that the worker has requested input
	begin  int64         // offset of the first byte of piece in the whole input
	piece  []byte        // the last piece, which the worker may not have received
	want   int           // number of bytes requested after piece; 0 means no request
	ended  bool          // No input follows piece.
	closed bool          // The tool reads no more input.
}

// errElsewhere means that a worker requested input at a position that is not available. The worker has already confirmed that input, or has
// not yet received the input before it.
var errElsewhere = errors.New("the input does not continue at this position")

// ReadInput handles a worker's request for input of a call. The first request, which must be for position 0, opens the call for typing.
// ReadInput answers with [link.Line.Input] as soon as there are bytes at position. The parameter most limits the number of bytes in the
// answer; when it is 0, ReadInput answers at once, without bytes. done means that the tool reads no more input.
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
		return ErrNotHeld // While input was opened, another connection of the worker took over the lease.
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

// feed returns a lease and its feed. On first use it opens the input of the call. It returns a nil lease when the session does not hold the
// lease. A new feed starts at position 0. For an attempt that an earlier daemon began, it starts at the worker's position.
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
	l.opening <- struct{}{} // Locks opening, because a worker that reconnects meanwhile makes the same request over its new connection.
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
	go h.pump(l, l.feed) // The goroutine ends when the attempt ends, because that closes the input.
	return l, l.feed, nil
}

// readLocked returns the requested bytes from piece. When piece does not contain them, it stores the request for pump and returns false for
// answered.
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

// pump reads input of the call and sends the worker what it requested. While the worker is disconnected, pump sends nothing; the worker
// repeats its request after it has reconnected.
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
			continue // The worker repeated the request, and readLocked has answered it meanwhile.
		}
		n, err := 0, error(nil)
		for n == 0 && err == nil {
			n, err = f.in.Read(b)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return // The tool closed the input, or the attempt is over. The worker learns this from another message.
		}
		h.mu.Lock()
		if f.closed {
			h.mu.Unlock()
			return
		}
		most := f.want // The worker may have repeated its request with a smaller size meanwhile.
		f.want, f.piece, f.ended = 0, b[:n], err != nil
		piece, ended, _, _ := f.readLocked(f.begin, most)
		s, position := l.session, f.begin
		h.mu.Unlock()
		if s != nil {
			s.line.Input(l.id, position, piece, ended, nil)
		}
	}
}

// hangUp closes the input of a lease that has ended.
func (h *Hub) hangUp(l *lease) {
	h.mu.Lock()
	f := l.feed
	h.mu.Unlock()
	if f != nil {
		_ = f.in.Close()
	}
}
