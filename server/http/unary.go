package httpserver

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"sync"

	"connectrpc.com/connect"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/server/http/jsonform"
	"github.com/toold-dev/toold/server/service"
)

// A method serves a unary method of the API. It serves plain requests itself: requests over HTTP/1.1 with JSON of at most 64 KiB, without
// compression and without headers of Connect. Connect would take 3 µs longer for such a request. Connect serves all other requests, and
// writes the error for a body that cannot be read.
type method struct {
	name    string
	service *service.Service
	open    func() proto.Message // returns an empty request
	call    func(context.Context, proto.Message) (proto.Message, error)
	forms   map[string]*plainForm // by media type
	buffers *sync.Pool            // pool of *buffers
	connect http.Handler
}

// A plainForm is a form and its media type. The media type is stored as the value of a header, which all responses share.
type plainForm struct {
	jsonform.Form
	contentType []string
}

func plainForms() map[string]*plainForm {
	forms := map[string]*plainForm{}
	for _, form := range jsonform.All() {
		contentType := form.MediaType("application/json")
		forms[contentType] = &plainForm{form, []string{contentType}}
	}
	return forms
}

// buffers hold a request and its response.
type buffers struct{ in, out []byte }

// plainSize is the size of the largest plain request, and of the largest buffer that is reused. It is small, because the server allocates
// the buffer of a request before the body arrives.
const plainSize = 64 << 10

// connectHeaders are the headers that Connect evaluates. A request that has one of them is not plain.
var connectHeaders = []string{"Content-Encoding", "Accept-Encoding", "Connect-Protocol-Version", "Connect-Timeout-Ms"}

// form returns the form of a plain request, or nil.
func (m *method) form(r *http.Request) *plainForm {
	media := r.Header["Content-Type"]
	if r.Method != http.MethodPost || r.ProtoMajor != 1 || len(media) != 1 || r.ContentLength < 1 || r.ContentLength > plainSize {
		return nil
	}
	if slices.ContainsFunc(connectHeaders, func(name string) bool { return len(r.Header[name]) > 0 }) {
		return nil
	}
	return m.forms[media[0]]
}

// ServeHTTP implements [http.Handler].
func (m *method) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	form := m.form(r)
	if form == nil {
		m.connect.ServeHTTP(w, r)
		return
	}
	b := m.buffers.Get().(*buffers)
	defer func() {
		if cap(b.out) <= plainSize {
			m.buffers.Put(b)
		}
	}()
	b.in = slices.Grow(b.in[:0], int(r.ContentLength))[:r.ContentLength]
	req := m.open()
	if n, err := io.ReadFull(r.Body, b.in); err != nil || form.Unmarshal(b.in, req) != nil {
		r.Body = again{io.MultiReader(bytes.NewReader(b.in[:n]), r.Body), r.Body}
		m.connect.ServeHTTP(w, r)
		return
	}
	res, err := m.serve(r.Context(), req)
	if err == nil {
		if b.out, err = form.MarshalAppend(b.out[:0], res); err != nil {
			err = status.Errorf(codes.Internal, "marshal message: %v", err)
		}
	}
	if err != nil {
		writeError(w, r, err)
		return
	}
	w.Header()["Content-Type"] = form.contentType
	_, _ = w.Write(b.out) // Ignore the error: a write fails only when the client is gone.
}

// again is a request body that begins with the bytes that were already read.
type again struct {
	io.Reader
	io.Closer
}

func (m *method) serve(ctx context.Context, req proto.Message) (res proto.Message, err error) {
	err = m.service.Serve(ctx, access.CredentialFrom(ctx), m.name, req, func(ctx context.Context) (err error) {
		res, err = m.call(ctx, req)
		return err
	})
	return res, err
}

// throughConnect returns the handler of Connect.
func (m *method) throughConnect(options connect.HandlerOption) http.Handler {
	return connect.NewUnaryHandler(m.name, func(ctx context.Context, r *connect.Request[envelope]) (*connect.Response[envelope], error) {
		res, err := m.serve(ctx, r.Msg.Message)
		if err != nil {
			return nil, toConnect(err)
		}
		return connect.NewResponse(&envelope{res}), nil
	}, options)
}
