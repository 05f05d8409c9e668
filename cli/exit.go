package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// The exit codes. exitCodesHelp and docs/reference/command-line.md list the same codes for users.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitSuspended   = 3
	ExitUnreachable = 4
	ExitRefused     = 5
	ExitNotFound    = 6
	ExitCancelled   = 7
	ExitConflict    = 8
	ExitBusy        = 9
	ExitInterrupted = 130
)

const exitCodesHelp = `Exit codes:

    0  done; of a call: SUCCEEDED
    1  the call FAILED, or another error without a code of its own
    2  usage: a flag, an argument, a configuration or a request that is not valid
    3  the call is suspended and waits for a decision
    4  the daemon cannot be reached, or the connection was lost permanently
    5  refused: the credential is missing or not valid, or the role does not permit this
    6  not found: no such tool, call, run, suspension or artifact
    7  the call is CANCELLED: cancelled, declined or expired
    8  conflict with stored data: the question is already decided, the call id was used before, or the run is blocked
    9  not possible now: the queue is full, the disk is full, or the daemon is stopping; try again later
  130  interrupted
`

// A usageError is an error that the user can correct in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// WrongUsage marks the error as a [wrongUsage].
func (usageError) WrongUsage() {}

// A wrongUsage is an error that the user can correct in the command line or in the configuration that the command reads.
type wrongUsage interface {
	error
	WrongUsage()
}

// Usagef returns an error that the user can correct in the command line.
func Usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// An ending is an exit code without a message, because the command has already printed everything.
type ending int

func (e ending) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// A codedError is an error with its own exit code. Its message is still printed.
type codedError struct {
	error
	code int
}

// Exit returns an error that ends the command with code and prints nothing more.
func Exit(code int) error { return ending(code) }

// Fail returns an error that ends the command with code and prints err.
func Fail(code int, err error) error { return codedError{err, code} }

// endOf returns the exit code that matches the status of a call.
func endOf(s tooldv1.CallStatus) error {
	switch s {
	case tooldv1.CallStatus_CALL_STATUS_FAILED:
		return ending(ExitFailed)
	case tooldv1.CallStatus_CALL_STATUS_SUSPENDED:
		return ending(ExitSuspended)
	case tooldv1.CallStatus_CALL_STATUS_CANCELLED:
		return ending(ExitCancelled)
	default:
		return nil
	}
}

// report prints an error with a hint how to correct it, and returns the exit code.
func (a *App) report(ctx context.Context, err error) int {
	if err == nil {
		return ExitOK
	}
	if end, ok := errors.AsType[ending](err); ok {
		return int(end)
	}
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled) {
		fmt.Fprintln(a.Err, "toold: interrupted")
		return ExitInterrupted
	}
	if coded, ok := errors.AsType[codedError](err); ok {
		fmt.Fprintln(a.Err, "toold: "+show.Text(coded.Error()))
		return coded.code
	}
	if st, ok := refusal(err); ok {
		return a.reportStatus(st)
	}
	fmt.Fprintln(a.Err, "toold: "+show.Text(err.Error()))
	if _, usage := errors.AsType[wrongUsage](err); usage || !a.started {
		return ExitUsage
	}
	return ExitFailed
}

// refusal finds the gRPC status from the daemon in err.
func refusal(err error) (*status.Status, bool) {
	answered, ok := errors.AsType[interface {
		error
		GRPCStatus() *status.Status
	}](err)
	if !ok {
		return nil, false
	}
	return answered.GRPCStatus(), true // the inner status, because wrapping errors add gRPC code names
}

func (a *App) reportStatus(st *status.Status) int {
	reason, violations, retry := detailsOf(st)
	code, hint := a.judge(st.Code(), reason != "")
	text := "toold: " + show.Text(messageOf(st))
	if reason != "" && !strings.Contains(st.Message(), reason) {
		text += " (" + show.Line(reason) + ")"
	}
	fmt.Fprintln(a.Err, text)
	for _, v := range violations {
		if st.Message() == v.GetField()+": "+v.GetDescription() {
			continue // the message already contains it
		}
		fmt.Fprintf(a.Err, "  %s: %s\n", show.Line(v.GetField()), show.Line(v.GetDescription()))
	}
	if retry != "" {
		hint = "try again after " + retry
	}
	if list := map[string]string{"TOOL_NOT_FOUND": "tools", "CALL_NOT_FOUND": "calls", "SUSPENSION_NOT_FOUND": "inbox", "RULE_NOT_FOUND": "rules"}[reason]; list != "" {
		hint = a.Program() + " " + list + " lists them"
	}
	if hint != "" {
		fmt.Fprintln(a.Err, "  "+hint)
	}
	return code
}

// messageOf returns the message of a status. It removes the words that gRPC puts around a connection error.
func messageOf(st *status.Status) string {
	cause, wrapped := strings.CutPrefix(st.Message(), `connection error: desc = "transport: `)
	if !wrapped {
		return st.Message()
	}
	return strings.TrimPrefix(strings.TrimSuffix(cause, `"`), "Error while dialing: ")
}

func detailsOf(st *status.Status) (reason string, violations []*errdetails.BadRequest_FieldViolation, retry string) {
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			reason = d.GetReason()
		case *errdetails.BadRequest:
			violations = d.GetFieldViolations()
		case *errdetails.RetryInfo:
			retry = show.Duration(d.GetRetryDelay().AsDuration())
		}
	}
	return reason, violations, retry
}

// judge maps a gRPC code to an exit code and a hint. byDaemon means that the status has a reason, so the daemon sent it. UNAVAILABLE
// without a reason is a connection failure.
func (a *App) judge(c codes.Code, byDaemon bool) (exit int, hint string) {
	switch c {
	case codes.InvalidArgument, codes.OutOfRange:
		return ExitUsage, ""
	case codes.NotFound:
		return ExitNotFound, ""
	case codes.Unauthenticated:
		return ExitRefused, a.connection.tokenHint()
	case codes.PermissionDenied:
		return ExitRefused, ""
	case codes.AlreadyExists, codes.FailedPrecondition, codes.Aborted:
		return ExitConflict, ""
	case codes.ResourceExhausted:
		return ExitBusy, ""
	case codes.Unavailable:
		if byDaemon {
			return ExitBusy, "the daemon is starting or stopping; try again"
		}
		return ExitUnreachable, a.connection.reachHint(a.Program())
	case codes.Unimplemented:
		return ExitFailed, "this daemon does not support it; compare the versions: " + a.Program() + " version, " + a.Program() + " info"
	default:
		return ExitFailed, ""
	}
}
