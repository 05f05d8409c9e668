package server

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
)

// word is the value of an enum as ours: "" for unspecified and for numbers that the API does not know.
func word(e interface {
	protoreflect.Enum
	String() string
}, prefix string) string {
	name, ok := strings.CutPrefix(e.String(), prefix)
	if !ok || e.Number() == 0 {
		return ""
	}
	return name
}

// maxWorkerContent is the bytes that a content of a result may hold itself.
const maxWorkerContent = 64 << 10

// broken is the end of work whose result cannot be taken as it is: the tool ran, and nobody may act on what it said.
func broken(format string, args ...any) error {
	return &tool.Error{
		Code: tool.ExecutionFailed, Reason: "WORKER_PROTOCOL", Message: "The tool ran, but its worker gave no proper result",
		DeveloperMessage: fmt.Sprintf(format, args...),
	}
}

// toWorkerResult reads how work ended. Nothing at all is right for questions alone, and told as nil.
func toWorkerResult(d *tooldv1.WorkerDone) (*tool.Result, error) {
	r := d.GetResult()
	switch {
	case d.GetNotRun():
		return nil, fmt.Errorf("%w: %w", tool.ErrNotRun, &tool.Error{
			Code: tool.Upstream, Reason: "WORKER_REFUSED", Retryable: true, Message: "Not run: the worker did not begin. Try again later.",
		})
	case r == nil:
		return nil, nil
	}
	out := &tool.Result{
		Status: tool.ResultStatus(word(r.GetStatus(), "RESULT_STATUS_")), Data: r.GetData(), Message: r.GetMessage(), Metadata: r.GetMetadata(),
		Display: tool.Display(word(r.GetDisplayPreference(), "DISPLAY_PREFERENCE_")), Documents: toCommands(r.GetDocuments()),
	}
	if out.Data != "" {
		if _, err := call.ParseJSON(out.Data, 0); err != nil {
			return nil, broken("data: %v", err)
		}
	}
	var err error
	if out.Content, err = toWorkerContent(r.GetContent()); err != nil {
		return nil, err
	}
	switch {
	case out.Status == tool.StatusSuccess && r.GetError() == nil && r.GetTicket() == nil:
		return out, nil
	case out.Status == tool.StatusPending && r.GetError() == nil && r.GetTicket() == nil && r.GetOperation() != nil:
		return withOperation(out, r.GetOperation())
	case out.Status == tool.StatusPending && r.GetError() == nil && r.GetOperation() == nil:
		out.Suspension = toTicket(r.GetTicket())
		return out, nil
	case out.Status == tool.StatusError && r.GetTicket() == nil:
		return withError(out, r.GetError())
	}
	return nil, broken("a result is SUCCESS, ERROR, or PENDING with a ticket or an operation; this is %s", r.GetStatus())
}

func toWorkerContent(list []*tooldv1.Content) ([]tool.Content, error) {
	var out []tool.Content
	for _, c := range list {
		one := tool.Content{
			Type: tool.ContentType(strings.ToLower(word(c.GetType(), "CONTENT_TYPE_"))), Text: c.GetText(), MIMEType: c.GetMimeType(), Data: c.GetData(),
			URI: c.GetUri(), Name: c.GetName(), Artifact: c.GetArtifact(),
		}
		if one.Type == "" || len(one.Data) > maxWorkerContent {
			return nil, broken("content of type %s with %d bytes", c.GetType(), len(one.Data))
		}
		out = append(out, one)
	}
	return out, nil
}

// withOperation makes the result of work that goes on elsewhere. What cannot be followed the engine finds.
func withOperation(out *tool.Result, o *tooldv1.WorkerOperation) (*tool.Result, error) {
	for _, d := range []*durationpb.Duration{o.GetPollAfter(), o.GetExpiresIn()} {
		if d != nil && (d.CheckValid() != nil || d.AsDuration() <= 0) {
			return nil, broken("an operation has durations of more than 0, or none")
		}
	}
	out.Operation = &tool.Operation{ID: o.GetOperationId(), PollAfter: o.GetPollAfter().AsDuration(), ExpiresIn: o.GetExpiresIn().AsDuration()}
	return out, nil
}

// workerCodes are what a tool may say of itself; the others are the daemon's to find.
func workerCodes() []tool.Code {
	return []tool.Code{
		tool.InvalidArguments, tool.ExecutionFailed, tool.Denied, tool.NotFound, tool.Internal, tool.Timeout, tool.Cancelled,
		tool.ResourceExhausted, tool.Upstream,
	}
}

// withError makes the ERROR result, or the error of a tool that did not come to its end.
func withError(out *tool.Result, e *tooldv1.ToolError) (*tool.Result, error) {
	failure := toWorkerError(e, tool.ExecutionFailed)
	if e.GetAborted() {
		return nil, failure
	}
	out.Error = failure
	return out, nil
}

// toWorkerError reads an error; otherwise is the code of one that a worker may not give.
func toWorkerError(e *tooldv1.ToolError, otherwise tool.Code) *tool.Error {
	failure := &tool.Error{
		Code: tool.Code(word(e.GetCode(), "ERROR_CODE_")), Reason: e.GetReason(), Message: e.GetMessage(), Retryable: e.GetRetryable(),
		RetryAfter: e.GetRetryAfter().AsDuration(), DeveloperMessage: e.GetDeveloperMessage(),
	}
	if !slices.Contains(workerCodes(), failure.Code) {
		failure.Code = otherwise
	}
	for _, v := range e.GetFieldViolations() {
		failure.Violations = append(failure.Violations, tool.Violation{Field: v.GetField(), Description: v.GetDescription()})
	}
	if failure.Message == "" {
		failure.Message = "The tool failed without saying why"
	}
	return failure
}

func toTicket(t *tooldv1.WorkerTicket) *tool.Ticket {
	if t == nil {
		return nil
	}
	out := &tool.Ticket{
		Action: t.GetAction(), Message: t.GetMessage(), Parameters: rawJSON(t.GetParameters()), ResponseSchema: rawJSON(t.GetResponseSchema()),
		ResumeMode: tool.ResumeMode(word(t.GetResumeMode(), "RESUME_MODE_")), ExpiresIn: t.GetExpiresIn().AsDuration(), DefaultResult: t.GetDefaultResult(),
	}
	if a := t.GetApprovers(); a != nil {
		out.Approvers = &tool.Approvers{DistinctFromCaller: a.GetDistinctFromCaller(), Count: int(a.GetCount())}
		for _, r := range a.GetRoles() {
			out.Approvers.Roles = append(out.Approvers.Roles, strings.ToLower(word(r, "ROLE_")))
		}
	}
	return out
}

func toCommands(list []*tooldv1.DocumentCommand) []tool.Command {
	var out []tool.Command
	for _, c := range list {
		out = append(out, tool.Command{
			Op:    tool.CommandOp(strings.ToLower(word(c.GetOperation(), "DOCUMENT_OPERATION_"))),
			Scope: tool.Scope(word(c.GetScope(), "DOCUMENT_SCOPE_")), Key: c.GetKey(), Value: c.GetValue(), Expected: c.ExpectedRevision,
		})
	}
	return out
}

func toProgress(p *tooldv1.Progress) tool.Progress {
	return tool.Progress{
		Status: tool.ProgressStatus(strings.ToLower(word(p.GetStatus(), "PROGRESS_STATUS_"))), Fraction: p.GetFraction(), Message: p.GetMessage(),
		Loaded: p.GetLoaded(), Total: p.GetTotal(),
	}
}
