package tool

import (
	"errors"
	"fmt"
	"time"
)

// Code says why a call did not succeed. The codes are stable; reasons refine them.
type Code string

// The codes, as listed in docs/reference/states.md.
const (
	InvalidArguments  Code = "INVALID_ARGUMENTS"
	ExecutionFailed   Code = "EXECUTION_FAILED"
	Denied            Code = "DENIED"
	NotFound          Code = "NOT_FOUND"
	Internal          Code = "INTERNAL"
	Timeout           Code = "TIMEOUT"
	Cancelled         Code = "CANCELLED"
	Expired           Code = "EXPIRED"
	Interrupted       Code = "INTERRUPTED"
	InDoubt           Code = "IN_DOUBT"
	Sandbox           Code = "SANDBOX"
	ResourceExhausted Code = "RESOURCE_EXHAUSTED"
	Upstream          Code = "UPSTREAM"
)

// An Error is the error that a tool returns to abort a call, and also the error inside an ERROR result.
type Error struct {
	Code    Code   `json:"code"`
	Reason  string `json:"reason,omitempty"` // stable name in UPPER_SNAKE_CASE; in an ERROR result it is the tool's own code
	Message string `json:"message"`          // for the model: what was wrong and what would be right

	Violations []Violation `json:"field_violations,omitempty"`
	// Aborted reports that the tool returned an error instead of a result.
	Aborted bool `json:"aborted,omitempty"`
	// TerminateRun reports that the call's run is blocked.
	TerminateRun     bool          `json:"terminate_run,omitempty"`
	Retryable        bool          `json:"retryable,omitempty"`
	RetryAfter       time.Duration `json:"retry_after,omitempty"`
	DeveloperMessage string        `json:"developer_message,omitempty"` // for operators, never for the model; clients get an id instead, by which operators find it
}

// A Violation names one field of the arguments, as a JSON path such as items[2].name, and what is wrong with it.
type Violation struct {
	Field       string `json:"field"`
	Description string `json:"description"`
}

func (e *Error) Error() string { return e.Message }

// A PanicError is the panic of a function that runs outside of the daemon, such as a worker's. A tool that returns it has panicked.
type PanicError struct {
	Text string // for the log: the panic and its stack
}

func (e *PanicError) Error() string { return e.Text }

// Errorf returns an error with this code. The model reads the message.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// AsError returns err itself if it is an [*Error], otherwise an [*Error] with the code ExecutionFailed.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: ExecutionFailed, Message: err.Error()}
}
