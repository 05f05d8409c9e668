package grpcserver

import (
	"context"
	"crypto/rand"
	"errors"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toold-dev/toold/call"
)

// domain marks the reasons of this API in google.rpc.ErrorInfo.
const domain = "toold"

// retryAfter is told with refusals for want of room that name no time themselves.
const retryAfter = time.Second

// code returns the gRPC code of a refusal. A kind that is not named here is a bug and is told as one.
func code(k call.RefusalKind) codes.Code {
	switch k {
	case call.InvalidArgument:
		return codes.InvalidArgument
	case call.Unauthenticated:
		return codes.Unauthenticated
	case call.PermissionDenied:
		return codes.PermissionDenied
	case call.NotFound:
		return codes.NotFound
	case call.AlreadyExists:
		return codes.AlreadyExists
	case call.FailedPrecondition:
		return codes.FailedPrecondition
	case call.ResourceExhausted:
		return codes.ResourceExhausted
	case call.Unavailable:
		return codes.Unavailable
	case call.OutOfRange:
		return codes.OutOfRange
	case call.DataLoss:
		return codes.DataLoss
	}
	return codes.Internal
}

// toStatus is the only place where an error becomes a status. A refusal is told as it is; the end of the client's own
// context by its name; what the transport says is passed on; everything else is INTERNAL with an id, and its detail goes
// to the log.
func (s *Server) toStatus(method string, err error) error {
	if err == nil {
		return nil
	}
	var refusal *call.Refusal
	switch {
	case errors.As(err, &refusal) && code(refusal.Kind) != codes.Internal:
		return refused(refusal)
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, "the client went away")
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, "no answer within the deadline; ask again with the same ids")
	}
	if st, ok := status.FromError(err); ok { // of the transport: a handler makes none
		return st.Err()
	}
	id := rand.Text()
	s.log.Error("request failed", zap.String("method", method), zap.String("error_id", id), zap.Error(err))
	return detailed(status.New(codes.Internal, "internal error; the daemon's log has the detail under the id "+id),
		&errdetails.ErrorInfo{Reason: "INTERNAL", Domain: domain, Metadata: map[string]string{"error_id": id}})
}

// refused tells a refusal with its reason, the fields that are wrong, and when to come back.
func refused(r *call.Refusal) error {
	c := code(r.Kind)
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: r.Reason, Domain: domain, Metadata: r.Metadata}}
	if len(r.Violations) > 0 {
		bad := &errdetails.BadRequest{}
		for _, v := range r.Violations {
			one := &errdetails.BadRequest_FieldViolation{Field: clip(v.Field, shortText), Description: clip(v.Description, shortText)}
			if proto.Size(bad)+proto.Size(one) > maxStatus {
				break // enough to begin with
			}
			bad.FieldViolations = append(bad.FieldViolations, one)
		}
		details = append(details, bad)
	}
	if c == codes.ResourceExhausted || c == codes.Unavailable {
		after := r.RetryAfter
		if after <= 0 {
			after = retryAfter
		}
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(after)})
	}
	return detailed(status.New(c, clip(r.Message, maxStatus)), details...)
}

// maxStatus bounds the message of a status, and its field violations together, in bytes: a status travels in trailers, of which
// many clients take 8 KiB, and what is refused may be as long as a request.
const maxStatus = 2 << 10

// shortText bounds a part of a message, in bytes.
const shortText = 1 << 10

// clip shortens a text at a character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// detailed returns the status with its details, or bare when they cannot be packed.
func detailed(st *status.Status, details ...protoadapt.MessageV1) error {
	if full, err := st.WithDetails(details...); err == nil {
		return full.Err()
	}
	return st.Err()
}
