package httpserver

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/http/jsonform"
	"github.com/toold-dev/toold/server/http/sse"
)

// An eventWriter writes server-sent events as the response to a request. It holds no buffer while it waits for the next event.
type eventWriter struct {
	w     http.ResponseWriter
	r     *http.Request
	stall time.Duration // how long the client may read nothing
	form  jsonform.Form

	began   bool // the status 200 is sent
	gone    bool // a write failed
	closing bool // the last frame said that the stream ends before the watch does
}

// retryEvery is how long an EventSource waits before it connects again.
const retryEvery = time.Second

// frame writes a frame of a watch.
func (e *eventWriter) frame(f *tooldv1.Frame) error {
	e.closing = f.GetClosing() != nil || f.GetLagged() != nil
	return e.write(func(b []byte) ([]byte, error) { return sse.AppendFrame(b, f, e.form) })
}

// event writes an event without an id.
func (e *eventWriter) event(name string, message any) error {
	return e.write(func(b []byte) ([]byte, error) { return sse.Append(b, "", name, message, e.form) })
}

// write writes what appendTo appends. It begins the response if necessary.
func (e *eventWriter) write(appendTo func([]byte) ([]byte, error)) error {
	var b []byte
	if !e.began {
		e.began = true
		h := e.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no") // nginx would hold the events back
		e.w.WriteHeader(http.StatusOK)
		b = sse.AppendRetry(b, retryEvery.Milliseconds())
	}
	b, err := appendTo(b)
	if err != nil {
		return err
	}
	rc := http.NewResponseController(e.w)
	_ = rc.SetWriteDeadline(time.Now().Add(e.stall)) // without deadlines, the write ends with the connection
	if _, err = e.w.Write(b); err == nil {
		err = rc.Flush()
	}
	if err != nil {
		e.gone = true
		return fmt.Errorf("%w: %w", context.Canceled, err) // the client left, or reads nothing
	}
	_ = rc.SetWriteDeadline(time.Time{}) // over HTTP/2, a deadline ends the stream even between writes
	return nil
}

// end ends the response, with an error unless err is nil.
func (e *eventWriter) end(err error) {
	switch {
	case e.gone || e.r.Context().Err() != nil:
	case err == nil && e.closing: // the client connects again
	case err == nil:
		_ = e.write(func(b []byte) ([]byte, error) { return sse.AppendJSON(b, sse.EndID, "end", []byte("{}")), nil })
	case e.began || e.reconnects(err):
		_ = e.write(func(b []byte) ([]byte, error) { return sse.AppendJSON(b, "", "error", errorJSON(err)), nil })
	default:
		writeError(e.w, e.r, err)
	}
}

// reconnects reports whether the client is an EventSource that should connect again after this error. An EventSource never connects again after
// another status than 200.
func (e *eventWriter) reconnects(err error) bool {
	if !strings.Contains(e.r.Header.Get("Accept"), "text/event-stream") {
		return false
	}
	st := status.Convert(err)
	for _, d := range st.Details() {
		if _, ok := d.(*errdetails.RetryInfo); ok {
			return true
		}
	}
	return st.Code() == codes.Unavailable
}

// errorJSON returns the error in the JSON form that Connect uses.
func errorJSON(err error) []byte {
	w := &body{header: http.Header{}}
	r := &http.Request{Method: http.MethodPost, Header: http.Header{}}
	writeError(w, r, err)
	return w.Bytes()
}

// A body is a response of which only the body counts.
type body struct {
	bytes.Buffer
	header http.Header
}

// Header implements [http.ResponseWriter].
func (b *body) Header() http.Header { return b.header }

// WriteHeader implements [http.ResponseWriter].
func (b *body) WriteHeader(int) {}
