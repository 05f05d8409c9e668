package httpserver

import (
	"context"
	"net/http"
	"time"

	"github.com/toold-dev/toold/server/access"
)

// endSlow ends a request whose client reads nothing of the response.
func (s *Server) endSlow(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{ResponseController: *http.NewResponseController(w)}
		x.out = timedWriter{ResponseWriter: w, controller: &x.ResponseController, stall: s.cfg.Stall, disarms: r.ProtoMajor > 1}
		r = r.WithContext(context.WithValue(access.WithCredential(r.Context(), &x.credential), exchangeKey{}, x))
		next.ServeHTTP(&x.out, r)
		x.out.rearm() // Set the time limit again, because net/http sends the rest of the response after the handler.
	})
}

// An exchange has what the server adds to a request and its response. One struct needs one allocation; separate parts would need three.
type exchange struct {
	http.ResponseController
	out        timedWriter
	credential access.Credential // set by withCredential
}

// exchangeKey is the key of the *exchange in the context of a request. In the context of a detached response, it is the key of the connection.
type exchangeKey struct{}

// unlimitBody ends the time limit of a request's body.
func unlimitBody(ctx context.Context) {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		_ = x.SetReadDeadline(time.Time{}) // Ignore the error: if the limit remains, it ends the request early.
	}
}

// A timedWriter limits the time of each write.
type timedWriter struct {
	http.ResponseWriter
	controller *http.ResponseController
	stall      time.Duration
	armed      time.Time // when the time limit was set
	disarms    bool      // set for HTTP/2, where a deadline would end the stream even between two writes
}

// timedPart is the largest number of bytes that a client must read within the time of one write.
const timedPart = 64 << 10

// Write implements [http.ResponseWriter].
func (t *timedWriter) Write(b []byte) (n int, err error) {
	defer t.disarm()
	for {
		part := b[n:min(len(b), n+timedPart)]
		t.arm()
		written, err := t.ResponseWriter.Write(part)
		if n += written; err != nil || n == len(b) {
			return n, err
		}
	}
}

// Flush implements [http.Flusher].
func (t *timedWriter) Flush() { _ = t.FlushError() } // Ignore the error: the next write fails too.

// FlushError flushes like [http.ResponseController.Flush].
func (t *timedWriter) FlushError() error {
	defer t.disarm()
	t.arm()
	return t.controller.Flush()
}

// Unwrap is for [http.ResponseController].
func (t *timedWriter) Unwrap() http.ResponseWriter { return t.ResponseWriter }

func (t *timedWriter) arm() {
	t.armed = time.Now()
	_ = t.controller.SetWriteDeadline(t.armed.Add(t.stall)) // Ignore the error: if the connection has no deadlines, a write ends only with the connection.
}

// rearm sets the time limit again when more than a tenth of it has passed. For HTTP/2 it always sets the limit.
func (t *timedWriter) rearm() {
	if t.disarms || time.Since(t.armed) > t.stall/10 {
		t.arm()
	}
}

func (t *timedWriter) disarm() {
	if t.disarms {
		_ = t.controller.SetWriteDeadline(time.Time{}) // Ignore the error: the next write sets the deadline again.
	}
}
