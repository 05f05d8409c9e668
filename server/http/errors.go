package httpserver

import (
	"errors"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toold-dev/toold/server/service"
)

// invalid returns the error for a part of a request. want says what is wrong and what would be right.
func invalid(field, want string) error {
	st, err := status.New(codes.InvalidArgument, field+": "+want).WithDetails(
		&errdetails.ErrorInfo{Reason: "INVALID_FIELD", Domain: service.Domain},
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: field, Description: want}}})
	if err != nil {
		panic(err) // WithDetails fails only for the status OK
	}
	return st.Err()
}

// toConnect converts the status of a request to an error of Connect, with its details.
func toConnect(err error) *connect.Error {
	st := status.Convert(err)
	e := connect.NewError(connect.Code(st.Code()), errors.New(st.Message()))
	for _, d := range st.Proto().GetDetails() {
		if detail, err := connect.NewErrorDetail(d); err == nil {
			e.AddDetail(detail)
		}
	}
	return e
}

// route calls the handler of the API method that the request's path names, or else mux. mux has the methods too, but takes longer, because
// it compares a path with patterns. route gives routing errors the same form as all other errors.
func route(methods map[string]http.Handler, mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := methods[r.URL.Path]; h != nil && r.URL.RawPath == "" { // With a RawPath, the path has escapes, which mux distinguishes from what they stand for.
			h.ServeHTTP(w, r)
			return
		}
		if h, pattern := mux.Handler(r); pattern != "" {
			if strings.Contains(pattern, "{") {
				h = mux // only mux stores the values from the path in the request
			}
			h.ServeHTTP(w, r)
			return
		}
		plain := &recorded{header: http.Header{}}
		mux.ServeHTTP(plain, r)
		e := recordError(status.Errorf(codes.NotFound, "no route has the path %q", r.URL.Path))
		if plain.status == http.StatusMethodNotAllowed {
			e = recordError(status.Errorf(codes.Unimplemented, "the route has no method %s", r.Method))
			e.status = plain.status
			w.Header().Set("Allow", plain.header.Get("Allow"))
		}
		w.Header().Set("Content-Type", e.header.Get("Content-Type"))
		w.WriteHeader(e.status)   // Write this status, and not the redirect that mux would send for a path with dots.
		_, _ = w.Write(e.Bytes()) // Ignore the error: a write fails only when the client is gone.
	})
}

var errorWriter = connect.NewErrorWriter()

// fail writes the error of a route. The error may be a refusal.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	writeError(w, r, s.cfg.Service.Status(r.Method+" "+r.URL.Path, err))
}

// writeError writes the error of a route that is not a method of the API, in the JSON form that Connect uses.
func writeError(w http.ResponseWriter, r *http.Request, err error) {
	r.Header.Set("Connect-Protocol-Version", "1") // The writer chooses the form of the error by this header.
	if r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/json")
	}
	_ = errorWriter.Write(w, r, toConnect(err)) // Ignore the error: a write fails only when the client is gone.
}
