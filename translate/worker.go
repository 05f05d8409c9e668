package translate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
)

// Word returns the name of an enum value without its prefix; "" for unspecified and unknown values.
func Word(e interface {
	protoreflect.Enum
	String() string
}, prefix string) string {
	name, ok := strings.CutPrefix(e.String(), prefix)
	if !ok || e.Number() == 0 {
		return ""
	}
	return name
}

// MaxContent is the maximum size of inline content in bytes; larger data is an artifact.
const MaxContent = 64 << 10

// WorkerProtocol returns the error for work with an unusable result: the tool ran, and its result is unknown.
func WorkerProtocol(format string, args ...any) error {
	return &tool.Error{
		Code: tool.ExecutionFailed, Reason: "WORKER_PROTOCOL", Message: "The tool ran, but its worker returned no valid result",
		DeveloperMessage: fmt.Sprintf(format, args...),
	}
}

// maxPanic is the maximum size in bytes of a worker's panic in the log.
const maxPanic = 16 << 10

// ToWorkerResult translates the outcome of work. It returns nil and no error when d has no result, no panic, and does not say that nothing
// ran. Only RECONCILE, POLL and ABANDON may end so.
func ToWorkerResult(d *tooldv1.WorkerDone) (*tool.Result, error) {
	r := d.GetResult()
	switch {
	case d.GetNotRun():
		return nil, fmt.Errorf("%w: %w", tool.ErrNotRun, &tool.Error{
			Code: tool.Upstream, Reason: "WORKER_REFUSED", Retryable: true, Message: "Not run: the worker did not begin. Try again later.",
		})
	case d.GetPanic() != "":
		return nil, &tool.PanicError{Text: strings.ToValidUTF8(d.GetPanic()[:min(len(d.GetPanic()), maxPanic)], "")}
	case r == nil:
		return nil, nil
	}
	out := &tool.Result{
		Status: tool.ResultStatus(Word(r.GetStatus(), "RESULT_STATUS_")), Data: r.GetData(), Message: r.GetMessage(), Metadata: r.GetMetadata(),
		Display: tool.Display(Word(r.GetDisplayPreference(), "DISPLAY_PREFERENCE_")), Documents: ToCommands(r.GetDocuments()),
	}
	if out.Data != "" {
		if _, err := call.ParseJSON(out.Data, 0); err != nil {
			return nil, WorkerProtocol("data: %v", err)
		}
	}
	var err error
	if out.Content, err = ToContent(r.GetContent()); err != nil {
		return nil, WorkerProtocol("%v", err)
	}
	switch {
	case out.Status == tool.StatusSuccess && r.GetError() == nil && r.GetTicket() == nil:
		return out, nil
	case out.Status == tool.StatusPending && r.GetError() == nil && r.GetTicket() == nil && r.GetOperation() != nil:
		return withOperation(out, r.GetOperation())
	case out.Status == tool.StatusPending && r.GetError() == nil && r.GetOperation() == nil:
		if t := r.GetTicket(); t != nil {
			ticket := ToTicket(t)
			ticket.DefaultResult = t.GetDefaultResult()
			out.Suspension = &ticket
		}
		return out, nil
	case out.Status == tool.StatusError && r.GetTicket() == nil:
		return withError(out, r.GetError())
	}
	return nil, WorkerProtocol("a result is SUCCESS, ERROR, or PENDING with a ticket or an operation; this is %s", r.GetStatus())
}

// ToContent translates the content of a result or of a description.
func ToContent(list []*tooldv1.Content) ([]tool.Content, error) {
	var out []tool.Content
	for _, c := range list {
		one := tool.Content{
			Type: tool.ContentType(strings.ToLower(Word(c.GetType(), "CONTENT_TYPE_"))), Text: c.GetText(), MIMEType: c.GetMimeType(), Data: c.GetData(),
			URI: c.GetUri(), Name: c.GetName(), Artifact: c.GetArtifact(),
		}
		if one.Type == "" || len(one.Data) > MaxContent {
			return nil, fmt.Errorf("content of type %s with %d bytes", c.GetType(), len(one.Data))
		}
		out = append(out, one)
	}
	return out, nil
}

// withOperation returns a result with the operation that continues outside of toold. The engine refuses an operation that it cannot follow.
func withOperation(out *tool.Result, o *tooldv1.WorkerOperation) (*tool.Result, error) {
	for _, d := range []*durationpb.Duration{o.GetPollAfter(), o.GetExpiresIn()} {
		if d != nil && (d.CheckValid() != nil || d.AsDuration() <= 0) {
			return nil, WorkerProtocol("an operation has durations of more than 0, or none")
		}
	}
	out.Operation = &tool.Operation{ID: o.GetOperationId(), PollAfter: o.GetPollAfter().AsDuration(), ExpiresIn: o.GetExpiresIn().AsDuration()}
	return out, nil
}

// workerCodes returns the error codes that a tool may report. Only the daemon reports other codes.
func workerCodes() []tool.Code {
	return []tool.Code{
		tool.InvalidArguments, tool.ExecutionFailed, tool.Denied, tool.NotFound, tool.Internal, tool.Timeout, tool.Cancelled,
		tool.ResourceExhausted, tool.Upstream,
	}
}

// withError returns an ERROR result, or an error when the tool did not finish.
func withError(out *tool.Result, e *tooldv1.ToolError) (*tool.Result, error) {
	failure := ToWorkerError(e, tool.ExecutionFailed)
	if e.GetAborted() {
		return nil, failure
	}
	out.Error = failure
	return out, nil
}

// ToWorkerError translates an error. otherwise replaces a code that a worker may not report.
func ToWorkerError(e *tooldv1.ToolError, otherwise tool.Code) *tool.Error {
	failure := &tool.Error{
		Code: tool.Code(Word(e.GetCode(), "ERROR_CODE_")), Reason: e.GetReason(), Message: e.GetMessage(), Retryable: e.GetRetryable(),
		RetryAfter: e.GetRetryAfter().AsDuration(), DeveloperMessage: e.GetDeveloperMessage(),
	}
	if !slices.Contains(workerCodes(), failure.Code) {
		failure.Code = otherwise
	}
	failure.Violations = ToViolations(e.GetFieldViolations())
	if failure.Message == "" {
		failure.Message = "The tool failed without saying why"
	}
	return failure
}

// ToViolations translates the errors of fields.
func ToViolations(list []*tooldv1.FieldViolation) (out []tool.Violation) {
	for _, v := range list {
		out = append(out, tool.Violation{Field: v.GetField(), Description: v.GetDescription()})
	}
	return out
}

// A Ticket is the common part of the questions of workers and hooks.
type Ticket interface {
	GetAction() string
	GetMessage() string
	GetParameters() string
	GetResponseSchema() string
	GetResumeMode() tooldv1.ResumeMode
	GetApprovers() *tooldv1.Approvers
	GetExpiresIn() *durationpb.Duration
}

// ToTicket translates the question of a worker or hook.
func ToTicket(t Ticket) tool.Ticket {
	out := tool.Ticket{
		Action: t.GetAction(), Message: t.GetMessage(), Parameters: ToJSON(t.GetParameters()), ResponseSchema: ToJSON(t.GetResponseSchema()),
		ResumeMode: tool.ResumeMode(Word(t.GetResumeMode(), "RESUME_MODE_")), ExpiresIn: t.GetExpiresIn().AsDuration(),
	}
	if a := t.GetApprovers(); a != nil {
		out.Approvers = &tool.Approvers{DistinctFromCaller: a.GetDistinctFromCaller(), Count: int(a.GetCount()), ResultInstead: a.GetResultInstead(), Groups: a.GetGroups()}
		for _, r := range a.GetRoles() {
			out.Approvers.Roles = append(out.Approvers.Roles, strings.ToLower(Word(r, "ROLE_")))
		}
	}
	return out
}

// ToCommands translates changes of documents. The engine checks them.
func ToCommands(list []*tooldv1.DocumentCommand) []tool.Command {
	var out []tool.Command
	for _, c := range list {
		out = append(out, tool.Command{
			Op:    tool.CommandOp(strings.ToLower(Word(c.GetOperation(), "DOCUMENT_OPERATION_"))),
			Scope: tool.Scope(Word(c.GetScope(), "DOCUMENT_SCOPE_")), Key: c.GetKey(), Value: c.GetValue(), Expected: c.ExpectedRevision,
		})
	}
	return out
}

// ToProgress translates progress.
func ToProgress(p *tooldv1.Progress) tool.Progress {
	return tool.Progress{
		Status: tool.ProgressStatus(strings.ToLower(Word(p.GetStatus(), "PROGRESS_STATUS_"))), Fraction: p.GetFraction(), Message: p.GetMessage(),
		Loaded: p.GetLoaded(), Total: p.GetTotal(),
	}
}

// Limits of a worker's description of a call.
const (
	maxDescribed = 64 << 10 // bytes in total
	maxLocations = 256
	maxNotes     = 64
	maxPreviews  = 16
	maxCommand   = 64
)

// ToDescription translates a description. Every field is optional.
func ToDescription(d *tooldv1.Description) (*tool.Description, error) {
	if proto.Size(d) > maxDescribed || len(d.GetLocations()) > maxLocations || len(d.GetNotes()) > maxNotes || len(d.GetPreview()) > maxPreviews ||
		len(d.GetCommand()) > maxCommand {
		return nil, errors.New("the description is too large")
	}
	preview, err := ToContent(d.GetPreview())
	if err != nil {
		return nil, WorkerProtocol("%v", err)
	}
	if slices.ContainsFunc(preview, func(c tool.Content) bool { return c.Artifact != "" }) {
		return nil, errors.New("a call that does not run yet has no artifacts")
	}
	out := &tool.Description{Kind: tool.Kind(Word(d.GetKind(), "KIND_")), Title: d.GetTitle(), Preview: preview, Notes: d.GetNotes(), Basis: d.GetBasis()}
	for _, l := range d.GetLocations() {
		out.Locations = append(out.Locations, tool.Location{Path: l.GetPath(), Line: int(l.GetLine())})
	}
	for _, p := range d.GetCommand() {
		out.Command = append(out.Command, tool.CommandPart{Text: p.GetText(), Safety: tool.Safety(Word(p.GetSafety(), "SAFETY_")), Reason: p.GetReason(), Unknown: p.GetUnknown()})
	}
	return out, nil
}

// FromWorkerCall translates a call for the worker that runs it, with the documents that the tool asked for.
func FromWorkerCall(c *tool.Call, documents []tool.Document) *tooldv1.WorkerCall {
	out := &tooldv1.WorkerCall{
		Tool: c.Tool, Arguments: c.Arguments.Text(), CallId: c.ID, Namespace: c.Namespace, Caller: FromPrincipal(&c.Caller), ModelCallId: c.ModelCallID,
		Run: fromRunOf(&call.Call{Run: c.Run, OnBehalfOf: c.OnBehalfOf}), Attempt: int32(c.Attempt), Deadline: FromTime(c.Deadline),
		IdempotencyKey: c.IdempotencyKey(), Checkpoint: c.Checkpoint,
		Documents: Each(documents, FromHookDocument),
	}
	if c.Operation != nil {
		out.OperationId = c.Operation.ID
	}
	if r := c.Resume; r != nil {
		out.Resume = &tooldv1.WorkerResume{
			SuspensionId: r.SuspensionID, Reason: r.Reason, Round: int32(r.Round), Result: r.Result, Decision: FromDecision(&r.Decision, nil), Basis: r.Basis,
		}
	}
	return out
}
