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

// A responder sends a response that stays open for events.
type responder interface {
	begin(contentType string) error // sends the status 200
	write(b []byte) error           // fails when the client reads nothing for too long
	fail(err error)                 // sends an error in place of begin
}

// An eventWriter writes server-sent events. It holds no buffer while it waits for the next event.
type eventWriter struct {
	to     responder
	form   jsonform.Form
	source bool // the client is an EventSource

	began   bool // the status 200 is sent
	failed  bool // a write failed
	closing bool // the last frame was closing or lagged, so the client connects again
}

// retryEvery is how long an EventSource waits before it connects again.
const retryEvery = time.Second

func newEventWriter(r *http.Request, form jsonform.Form) *eventWriter {
	return &eventWriter{form: form, source: strings.Contains(r.Header.Get("Accept"), "text/event-stream")}
}

// frame writes a frame of a watch.
func (e *eventWriter) frame(f *tooldv1.Frame) error {
	e.closing = f.GetClosing() != nil || f.GetLagged() != nil
	return e.write(func(b []byte) ([]byte, error) { return sse.AppendFrame(b, f, e.form) })
}

// event writes an event without an id.
func (e *eventWriter) event(name string, message any) error {
	return e.write(func(b []byte) ([]byte, error) { return sse.Append(b, "", name, message, e.form) })
}

// write writes the bytes that appendTo appends. It begins the response if necessary.
func (e *eventWriter) write(appendTo func([]byte) ([]byte, error)) error {
	var b []byte
	if !e.began {
		b = sse.AppendRetry(b, retryEvery.Milliseconds())
	}
	b, err := appendTo(b)
	if err != nil {
		return err
	}
	if !e.began {
		e.began = true
		err = e.to.begin("text/event-stream")
	}
	if err == nil {
		err = e.to.write(b)
	}
	if err != nil {
		e.failed = true
		return fmt.Errorf("%w: %w", context.Canceled, err) // The client has left, or it reads nothing.
	}
	return nil
}

// end ends the response, with an error unless err is nil. ctx is the context of the request.
func (e *eventWriter) end(ctx context.Context, err error) {
	switch {
	case e.failed || ctx.Err() != nil:
	case err == nil && e.closing: // The stream ends without an error, so that the client connects again.
	case err == nil:
		_ = e.write(func(b []byte) ([]byte, error) { return sse.AppendJSON(b, sse.EndID, "end", []byte("{}")), nil })
	case e.began || e.source && temporary(err):
		_ = e.write(func(b []byte) ([]byte, error) { return sse.AppendJSON(b, "", "error", recordError(err).Bytes()), nil })
	default:
		e.to.fail(err)
	}
}

// temporary reports whether the same request may succeed later. The server must then not send an error status to an EventSource, because an
// EventSource never connects again after an error status.
func temporary(err error) bool {
	st := status.Convert(err)
	for _, d := range st.Details() {
		if _, ok := d.(*errdetails.RetryInfo); ok {
			return true
		}
	}
	return st.Code() == codes.Unavailable
}

// An attached response is sent by net/http. endSlow ends such a response when its client reads nothing.
type attached struct {
	w http.ResponseWriter
	r *http.Request
}

func (a *attached) begin(contentType string) error {
	a.w.Header().Set("Content-Type", contentType)
	a.w.WriteHeader(http.StatusOK)
	return nil
}

func (a *attached) write(b []byte) error {
	if _, err := a.w.Write(b); err != nil {
		return err
	}
	return http.NewResponseController(a.w).Flush()
}

func (a *attached) fail(err error) { writeError(a.w, a.r, err) }

// recordError returns the response for an error, in the form that Connect uses.
func recordError(err error) *recorded {
	w := &recorded{header: http.Header{}, status: http.StatusOK}
	writeError(w, &http.Request{Method: http.MethodPost, Header: http.Header{}}, err)
	return w
}

// recorded is a response that is not sent yet.
type recorded struct {
	bytes.Buffer
	header http.Header
	status int
}

// Header implements [http.ResponseWriter].
func (b *recorded) Header() http.Header { return b.header }

// WriteHeader implements [http.ResponseWriter].
func (b *recorded) WriteHeader(status int) { b.status = status }
