package service

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

// Domain is the domain of the reasons of this API in google.rpc.ErrorInfo.
const Domain = "toold"

// DefaultRetry is the delay before a retry when a refusal for lack of capacity sets no delay.
const DefaultRetry = time.Second

// code returns the gRPC code of a refusal. A kind that is missing here is a bug, and becomes INTERNAL.
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

// Status is the only function that converts errors to statuses:
//
//   - A refusal gets the status of its kind.
//   - The end of the client's context becomes CANCELED or DEADLINE_EXCEEDED.
//   - A status of the transport does not change.
//   - Any other error becomes INTERNAL with an id. The log has its detail, with the same id.
func (s *Service) Status(method string, err error) error {
	if err == nil {
		return nil
	}
	var refusal *call.Refusal
	switch {
	case errors.As(err, &refusal) && code(refusal.Kind) != codes.Internal:
		return Refused(refusal)
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, "the client went away")
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, "no response within the deadline; repeat the request with the same ids")
	}
	if st, ok := status.FromError(err); ok { // Handlers return no statuses, so this is a status of the transport.
		return st.Err()
	}
	id := rand.Text()
	s.log.Error("request failed", zap.String("method", method), zap.String("error_id", id), zap.Error(err))
	return detailed(status.New(codes.Internal, "internal error; the daemon's log has the detail under the id "+id),
		&errdetails.ErrorInfo{Reason: "INTERNAL", Domain: Domain, Metadata: map[string]string{"error_id": id}})
}

// StandbyError returns the status for each request to a daemon that waits for its store, which another daemon owns.
func StandbyError() error {
	return Refused(&call.Refusal{Kind: call.Unavailable, Reason: "STANDBY", Message: "this daemon is on standby: another daemon owns the store"})
}

// Refused returns the status of a refusal, with its reason, the invalid fields and the delay before a retry.
func Refused(r *call.Refusal) error {
	c := code(r.Kind)
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: r.Reason, Domain: Domain, Metadata: r.Metadata}}
	if len(r.Violations) > 0 {
		bad := &errdetails.BadRequest{}
		for _, v := range r.Violations {
			one := &errdetails.BadRequest_FieldViolation{Field: clip(v.Field, shortText), Description: clip(v.Description, shortText)}
			if proto.Size(bad)+proto.Size(one) > maxStatus {
				break // There is no room for more fields. The client can correct the fields before this one first.
			}
			bad.FieldViolations = append(bad.FieldViolations, one)
		}
		details = append(details, bad)
	}
	if c == codes.ResourceExhausted || c == codes.Unavailable {
		after := r.RetryAfter
		if after <= 0 {
			after = DefaultRetry
		}
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(after)})
	}
	return detailed(status.New(c, clip(r.Message, maxStatus)), details...)
}

// maxStatus bounds the message of a status together with its field violations, in bytes. A status is sent in the trailers, and many clients
// accept only 8 KiB of them. Without a limit, a status could quote a text as long as a request.
const maxStatus = 2 << 10

// shortText bounds a quoted part of a message, in bytes.
const shortText = 1 << 10

// clip shortens a text to at most n bytes without splitting a character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// detailed returns the status with its details, or without them when they cannot be encoded.
func detailed(st *status.Status, details ...protoadapt.MessageV1) error {
	if full, err := st.WithDetails(details...); err == nil {
		return full.Err()
	}
	return st.Err()
}
