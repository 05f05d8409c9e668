package httpserver

import (
	"context"
	"io"
	"net/http"
	"time"
)

// bodyTime is the default time within which a client must send the body of a request. There is no limit for streams of messages from a
// client with a credential.
const bodyTime = time.Minute

// endSlow ends a request whose client takes too long to send the body, or reads nothing of the response.
func (s *Server) endSlow(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t := &timed{controller: *http.NewResponseController(w)}
		t.out = timedWriter{w, &t.controller, s.cfg.Stall, r.ProtoMajor > 1}
		if r.Body != nil && r.Body != http.NoBody {
			_ = t.controller.SetReadDeadline(time.Now().Add(s.bodyTime)) // Ignore the error: if the connection has no deadlines, a slow body ends only with the connection.
			t.body = timedBody{r.Body, &t.controller}
			t.unread = *r // net/http looks at the body of r when it sends a response before the end of the body
			r = &t.unread
			r.Body = &t.body
		}
		next.ServeHTTP(&t.out, r)
		t.out.arm() // Set the time limit again, because net/http sends the rest of the response after the handler.
	})
}

// timed has the parts that endSlow adds to a request. One struct needs one allocation; separate parts would need four.
type timed struct {
	controller http.ResponseController
	out        timedWriter
	body       timedBody
	unread     http.Request
}

// unlimitBody ends the time limit of a request's body.
func unlimitBody(ctx context.Context) {
	if c, ok := ctx.Value(controllerKey{}).(*http.ResponseController); ok {
		_ = c.SetReadDeadline(time.Time{}) // Ignore the error: if the limit remains, it ends the request early.
	}
}

// A timedBody removes the time limit at the end of the body. After the body, net/http keeps reading until the client leaves, and this read
// must not be limited.
type timedBody struct {
	io.ReadCloser
	controller *http.ResponseController
}

// Read implements [io.Reader].
func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		_ = b.controller.SetReadDeadline(time.Time{}) // see unlimitBody
	}
	return n, err
}

// A timedWriter limits the time of each write.
type timedWriter struct {
	http.ResponseWriter
	controller *http.ResponseController
	stall      time.Duration
	disarms    bool // set for HTTP/2, where a deadline would end the stream even between two writes
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
func (t *timedWriter) Flush() { _ = t.FlushError() } // the next write fails too

// FlushError flushes like [http.ResponseController.Flush].
func (t *timedWriter) FlushError() error {
	defer t.disarm()
	t.arm()
	return t.controller.Flush()
}

// Unwrap is for [http.ResponseController].
func (t *timedWriter) Unwrap() http.ResponseWriter { return t.ResponseWriter }

func (t *timedWriter) arm() {
	_ = t.controller.SetWriteDeadline(time.Now().Add(t.stall)) // Ignore the error: if the connection has no deadlines, a write ends only with the connection.
}

func (t *timedWriter) disarm() {
	if t.disarms {
		_ = t.controller.SetWriteDeadline(time.Time{}) // Ignore the error: the next write sets the deadline again.
	}
}
