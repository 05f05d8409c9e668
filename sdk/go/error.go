package toold

import (
	"context"
	"errors"
	"io"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// An Error says why the daemon refused a request, or why it could not be reached. All methods of a [Client] and of its generated clients
// return it. Use [errors.As] to find it.
type Error struct {
	Code     codes.Code
	Reason   string            // of the ErrorInfo, such as RUN_BLOCKED; empty when there is none
	Message  string            // text for developers
	Metadata map[string]string // of the ErrorInfo
	Fields   map[string]string // maps a field of the request to its error

	status *status.Status
}

func (e *Error) Error() string {
	text := e.Code.String() + ": "
	if e.Reason != "" {
		text += e.Reason + ": "
	}
	return text + e.Message
}

// GRPCStatus makes [status.FromError] return the status with all its details.
func (e *Error) GRPCStatus() *status.Status { return e.status }

// typed converts an error with a status to an *Error.
func typed(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
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
			e.Reason, e.Metadata = d.GetReason(), d.GetMetadata()
		case *errdetails.BadRequest:
			e.Fields = map[string]string{}
			for _, f := range d.GetFieldViolations() {
				e.Fields[f.GetField()] = f.GetDescription()
			}
		}
	}
	return e
}

func typedUnary(ctx context.Context, method string, request, answer any, c *grpc.ClientConn, invoke grpc.UnaryInvoker, with ...grpc.CallOption) error {
	return typed(invoke(ctx, method, request, answer, c, with...))
}

func typedStream(ctx context.Context, d *grpc.StreamDesc, c *grpc.ClientConn, method string, open grpc.Streamer, with ...grpc.CallOption) (grpc.ClientStream, error) {
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
