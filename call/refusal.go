package call

import (
	"fmt"
	"time"

	"github.com/toold-dev/toold/tool"
)

// A Refusal is why a request is not accepted: nothing was stored and nothing ran. The endpoint turns its kind into
// a status and its reason into an ErrorInfo; both are stable.
type Refusal struct {
	Kind       RefusalKind
	Reason     string // UPPER_SNAKE_CASE
	Message    string // what was wrong and what would be right
	Violations []tool.Violation
	RetryAfter time.Duration
	// Metadata goes into the ErrorInfo, such as the decision that won.
	Metadata map[string]string
}

// RefusalKind is the sort of a refusal, named as gRPC names its codes.
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

// Refuse returns a refusal.
func Refuse(kind RefusalKind, reason, format string, args ...any) *Refusal {
	return &Refusal{Kind: kind, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// InvalidField returns the refusal of one field of a request.
func InvalidField(field, format string, args ...any) *Refusal {
	d := fmt.Sprintf(format, args...)
	return &Refusal{Kind: InvalidArgument, Reason: "INVALID_FIELD", Message: field + ": " + d,
		Violations: []tool.Violation{{Field: field, Description: d}}}
}

// CheckID refuses ids that are not safe in logs, tables and URLs, and those with fewer characters than least.
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
