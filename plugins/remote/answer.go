package remote

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/hook/outside"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
)

func protocol(format string, args ...any) error {
	return &hook.ProtocolError{Message: fmt.Sprintf(format, args...)}
}

// known refuses an answer with fields that this version of the API does not know: what they say cannot be left out of a verdict.
func known(m proto.Message) error {
	if where := unknown(m.ProtoReflect()); where != "" {
		return protocol("%s has fields that this kind of hook may not give", where)
	}
	return nil
}

func unknown(m protoreflect.Message) (where string) {
	if len(m.GetUnknown()) > 0 {
		return string(m.Descriptor().Name())
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap() || f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				if where = unknown(v.List().Get(i).Message()); where != "" {
					return false
				}
			}
		default:
			where = unknown(v.Message())
		}
		return where == ""
	})
	return where
}

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

func verdict(r *tooldv1.GateResponse) (hook.Verdict, error) {
	if err := known(r); err != nil {
		return hook.Verdict{}, err
	}
	switch v := r.GetVerdict().(type) {
	case *tooldv1.GateResponse_Allow:
		return hook.AllowBecause(v.Allow.GetReason()).Under(r.GetPolicyVersion()), nil
	case *tooldv1.GateResponse_Deny:
		return hook.Deny(orReason(v.Deny.GetReason())).Under(r.GetPolicyVersion()), nil
	case *tooldv1.GateResponse_Block:
		return hook.Block(orReason(v.Block.GetReason())).Under(r.GetPolicyVersion()), nil
	case *tooldv1.GateResponse_Suspend:
		return hook.Suspend(ticket(v.Suspend)).Under(r.GetPolicyVersion()), nil
	case *tooldv1.GateResponse_SetResult:
		result, err := setResult(v.SetResult)
		return hook.SetResult(result).Under(r.GetPolicyVersion()), err
	}
	return hook.Verdict{}, fmt.Errorf("an answer without a verdict")
}

func orReason(reason string) string {
	if reason == "" {
		return "no reason given"
	}
	return reason
}

func ticket(t *tooldv1.HookTicket) tool.Ticket {
	out := tool.Ticket{
		Action: t.GetAction(), Message: t.GetMessage(), ResumeMode: tool.ResumeMode(word(t.GetResumeMode(), "RESUME_MODE_")),
		Parameters: raw(t.GetParameters()), ResponseSchema: raw(t.GetResponseSchema()), ExpiresIn: t.GetExpiresIn().AsDuration(),
	}
	if out.Action == "" {
		out.Action = "approval"
	}
	if a := t.GetApprovers(); a != nil {
		out.Approvers = &tool.Approvers{DistinctFromCaller: a.GetDistinctFromCaller(), Count: int(a.GetCount())}
		for _, r := range a.GetRoles() {
			out.Approvers.Roles = append(out.Approvers.Roles, strings.ToLower(word(r, "ROLE_")))
		}
	}
	return out
}

func raw(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

// setResult is a result that stands for a tool's.
func setResult(r *tooldv1.HookResult) (*tool.Result, error) {
	out := &tool.Result{Status: tool.ResultStatus(word(r.GetStatus(), "RESULT_STATUS_"))}
	e := r.GetError()
	switch {
	case out.Status == tool.StatusSuccess && e == nil:
	case out.Status == tool.StatusError && e != nil:
		out.Error = &tool.Error{Code: tool.Code(word(e.GetCode(), "ERROR_CODE_")), Reason: e.GetReason()}
		if e.GetCode() == tooldv1.ErrorCode_ERROR_CODE_UNSPECIFIED {
			out.Error.Code = tool.Denied
		}
		if !slices.Contains(outside.ResultCodes(), out.Error.Code) {
			return nil, protocol("error code %s", e.GetCode())
		}
	default:
		return nil, protocol("a result is SUCCESS, or ERROR with an error")
	}
	return out, fill(out, r)
}

// changed is what an After hook or a Filter makes of a result: what is read, not how the call ended.
func changed(was *tool.Result, r *tooldv1.HookResult) (*tool.Result, error) {
	if s := r.GetStatus(); s != tooldv1.ResultStatus_RESULT_STATUS_UNSPECIFIED && word(s, "RESULT_STATUS_") != string(was.Status) {
		return nil, protocol("it changes the status to %s", s)
	}
	out := *was
	e := r.GetError()
	switch {
	case was.Error == nil && e != nil:
		return nil, protocol("it makes an error of a success")
	case was.Error != nil:
		if c := e.GetCode(); c != tooldv1.ErrorCode_ERROR_CODE_UNSPECIFIED && word(c, "ERROR_CODE_") != string(was.Error.Code) {
			return nil, protocol("it changes the code to %s", c)
		}
		if reason := e.GetReason(); reason != "" && reason != was.Error.Reason {
			return nil, protocol("it changes the reason to %q", reason)
		}
		changedError := *was.Error
		out.Error = &changedError
	}
	return &out, fill(&out, r)
}

// fill takes over what is read of a result.
func fill(out *tool.Result, r *tooldv1.HookResult) error {
	if r.GetData() != "" {
		if _, err := call.ParseJSON(r.GetData(), 0); err != nil {
			return protocol("data: %v", err)
		}
	}
	out.Data, out.Message, out.Metadata = r.GetData(), r.GetMessage(), r.GetMetadata()
	out.Display, out.Content = tool.Display(word(r.GetDisplayPreference(), "DISPLAY_PREFERENCE_")), nil
	for _, c := range r.GetContent() {
		one := tool.Content{
			Type: tool.ContentType(strings.ToLower(word(c.GetType(), "CONTENT_TYPE_"))), Text: c.GetText(), MIMEType: c.GetMimeType(), Data: c.GetData(),
			Artifact: c.GetArtifact(), URI: c.GetUri(), Name: c.GetName(),
		}
		if one.Type == "" || len(one.Data) > maxContent {
			return protocol("content of type %s with %d bytes", c.GetType(), len(one.Data))
		}
		out.Content = append(out.Content, one)
	}
	if e := r.GetError(); out.Error != nil && e != nil {
		out.Error.Message, out.Error.Violations = e.GetMessage(), nil
		for _, v := range e.GetFieldViolations() {
			out.Error.Violations = append(out.Error.Violations, tool.Violation{Field: v.GetField(), Description: v.GetDescription()})
		}
	}
	return nil
}

// maxContent is the bytes that a content may hold itself.
const maxContent = 64 << 10

func commands(list []*tooldv1.DocumentCommand) ([]tool.Command, error) {
	out := make([]tool.Command, len(list))
	for i, c := range list {
		out[i] = tool.Command{
			Op:    tool.CommandOp(strings.ToLower(word(c.GetOperation(), "DOCUMENT_OPERATION_"))),
			Scope: tool.Scope(word(c.GetScope(), "DOCUMENT_SCOPE_")), Key: c.GetKey(), Value: c.GetValue(), Expected: c.ExpectedRevision,
		}
	}
	return out, outside.CheckCommands(out)
}
