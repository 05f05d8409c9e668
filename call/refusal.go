package call

import (
	"fmt"
	"time"

	"github.com/toold-dev/toold/tool"
)

// A Refusal says why a request is not accepted. Nothing was stored and nothing ran. The endpoint maps Kind to a status and Reason to an
// ErrorInfo; both are stable.
type Refusal struct {
	Kind       RefusalKind
	Reason     string // UPPER_SNAKE_CASE
	Message    string // the error and how to correct it
	Violations []tool.Violation
	RetryAfter time.Duration
	// Metadata is added to the ErrorInfo, such as the decision that won.
	Metadata map[string]string
}

// RefusalKind is the kind of a refusal. The names are those of the gRPC codes.
type RefusalKind string

// The kinds of refusals.
const (
	InvalidArgument    RefusalKind = "INVALID_ARGUMENT"
	Unauthenticated    RefusalKind = "UNAUTHENTICATED"
	PermissionDenied   RefusalKind = "PERMISSION_DENIED"
	NotFound           RefusalKind = "NOT_FOUND"
	AlreadyExists      RefusalKind = "ALREADY_EXISTS"
	FailedPrecondition RefusalKind = "FAILED_PRECONDITION"
	ResourceExhausted  RefusalKind = "RESOURCE_EXHAUSTED"
	Unavailable        RefusalKind = "UNAVAILABLE"
	OutOfRange         RefusalKind = "OUT_OF_RANGE"
	DataLoss           RefusalKind = "DATA_LOSS"
)

func (r *Refusal) Error() string { return r.Message }

// Refuse returns a Refusal with a formatted message.
func Refuse(kind RefusalKind, reason, format string, args ...any) *Refusal {
	return &Refusal{Kind: kind, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// InvalidField returns the Refusal for one invalid field of a request.
func InvalidField(field, format string, args ...any) *Refusal {
	d := fmt.Sprintf(format, args...)
	return &Refusal{Kind: InvalidArgument, Reason: "INVALID_FIELD", Message: field + ": " + d,
		Violations: []tool.Violation{{Field: field, Description: d}}}
}

// CheckID refuses an id that is shorter than least or longer than 64 characters. It also refuses an id that is not safe in logs and tables.
func CheckID(field, id string, least int) error {
	if len(id) < least || len(id) > 64 {
		return InvalidField(field, "has %d characters; %d to 64 are accepted", len(id), least)
	}
	for i := range len(id) {
		if c := id[i]; c <= ' ' || c > '~' {
			return InvalidField(field, "has a byte 0x%02x at %d; printable ASCII without spaces is accepted", c, i)
		}
	}
	return nil
}
