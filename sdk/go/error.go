package toold

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A Reason says why a request was refused. The constants are the known reasons; a newer daemon may send others. Use it with [errors.Is]:
//
//	if errors.Is(err, toold.ReasonRunBlocked) {
type Reason string

func (r Reason) Error() string { return string(r) }

// An Error says why the daemon refused a request, or why it could not be reached. All methods of a [Client] and of its generated clients
// return it. Use [errors.As] to find it.
type Error struct {
	Code       codes.Code
	Reason     Reason            // empty when there is none
	Message    string            // text for developers
	Metadata   map[string]string // metadata of the ErrorInfo
	Fields     map[string]string // maps a field of the request to its error
	RetryAfter time.Duration     // time after which to send the request again; 0 when the daemon names no time

	status *status.Status
}

func (e *Error) Error() string {
	text := e.Code.String() + ": "
	if e.Reason != "" {
		text += string(e.Reason) + ": "
	}
	return text + e.Message
}

// Hint returns a sentence that says what to do. It is empty for unknown reasons.
func (e *Error) Hint() string { return hints[e.Reason] }

// Is reports whether target is the reason of the error.
func (e *Error) Is(target error) bool {
	r, ok := target.(Reason)
	return ok && r != "" && r == e.Reason
}

// refusal returns the error of a request that this package itself refuses.
func refusal(code codes.Code, reason Reason, message string) error {
	return &Error{Code: code, Reason: reason, Message: message, status: status.New(code, message)}
}

// GRPCStatus makes [status.FromError] return the status with all its details.
func (e *Error) GRPCStatus() *status.Status { return e.status }

// typed converts an error with a status to an *Error.
func typed(err error) error {
	var known *Error
	if err == nil || errors.Is(err, io.EOF) || errors.As(err, &known) {
		return err
	}
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	e := &Error{Code: s.Code(), Message: s.Message(), status: s}
	for _, detail := range s.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			e.Reason, e.Metadata = Reason(d.GetReason()), d.GetMetadata()
		case *errdetails.RetryInfo:
			e.RetryAfter = d.GetRetryDelay().AsDuration()
		case *errdetails.BadRequest:
			e.Fields = map[string]string{}
			for _, f := range d.GetFieldViolations() {
				e.Fields[f.GetField()] = f.GetDescription()
			}
		}
	}
	return e
}

func (v *versionCheck) unary(ctx context.Context, method string, request, answer any, c *grpc.ClientConn, invoke grpc.UnaryInvoker, with ...grpc.CallOption) error {
	if err := v.before(ctx, method, c); err != nil {
		return typed(err)
	}
	return typed(invoke(ctx, method, request, answer, c, with...))
}

func (v *versionCheck) stream(ctx context.Context, d *grpc.StreamDesc, c *grpc.ClientConn, method string, open grpc.Streamer, with ...grpc.CallOption) (grpc.ClientStream, error) {
	if err := v.before(ctx, method, c); err != nil {
		return nil, typed(err)
	}
	s, err := open(ctx, d, c, method, with...)
	if err != nil {
		return nil, typed(err)
	}
	return typedMessages{s}, nil
}

// typedMessages is a stream whose errors are converted to *Error.
type typedMessages struct{ grpc.ClientStream }

func (s typedMessages) RecvMsg(m any) error { return typed(s.ClientStream.RecvMsg(m)) }

func (s typedMessages) SendMsg(m any) error { return typed(s.ClientStream.SendMsg(m)) }
