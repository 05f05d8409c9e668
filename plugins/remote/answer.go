package remote

import (
	"cmp"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/hook/external"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/translate"
)

func protocol(format string, args ...any) error {
	return &hook.ProtocolError{Message: fmt.Sprintf(format, args...)}
}

// known returns an error for an answer with unknown fields, because no part of a verdict may be ignored.
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

// ticket converts a service's question. Its action is an approval unless the service names another one.
func ticket(t *tooldv1.HookTicket) tool.Ticket {
	out := translate.ToTicket(t)
	out.Action = cmp.Or(out.Action, "approval")
	return out
}

// setResult converts a result that replaces the tool's.
func setResult(r *tooldv1.HookResult) (*tool.Result, error) {
	out := &tool.Result{Status: tool.ResultStatus(translate.Word(r.GetStatus(), "RESULT_STATUS_"))}
	e := r.GetError()
	switch {
	case out.Status == tool.StatusSuccess && e == nil:
	case out.Status == tool.StatusError && e != nil:
		out.Error = &tool.Error{Code: tool.Code(translate.Word(e.GetCode(), "ERROR_CODE_")), Reason: e.GetReason()}
		if e.GetCode() == tooldv1.ErrorCode_ERROR_CODE_UNSPECIFIED {
			out.Error.Code = tool.Denied
		}
		if !slices.Contains(external.ResultCodes(), out.Error.Code) {
			return nil, protocol("error code %s", e.GetCode())
		}
	default:
		return nil, protocol("a result must be SUCCESS, or ERROR with an error")
	}
	return out, fill(out, r)
}

// changed returns the result in was, with the changes of an After hook or a Filter. These hooks can change the text that models and people
// read, but not how the call ended.
func changed(was *tool.Result, r *tooldv1.HookResult) (*tool.Result, error) {
	if s := r.GetStatus(); s != tooldv1.ResultStatus_RESULT_STATUS_UNSPECIFIED && translate.Word(s, "RESULT_STATUS_") != string(was.Status) {
		return nil, protocol("it changes the status to %s", s)
	}
	out := *was
	e := r.GetError()
	switch {
	case was.Error == nil && e != nil:
		return nil, protocol("it changes a success into an error")
	case was.Error != nil:
		if c := e.GetCode(); c != tooldv1.ErrorCode_ERROR_CODE_UNSPECIFIED && translate.Word(c, "ERROR_CODE_") != string(was.Error.Code) {
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

// fill copies the readable parts of r to out.
func fill(out *tool.Result, r *tooldv1.HookResult) error {
	if r.GetData() != "" {
		if _, err := call.ParseJSON(r.GetData(), 0); err != nil {
			return protocol("data: %v", err)
		}
	}
	out.Data, out.Message, out.Metadata = r.GetData(), r.GetMessage(), r.GetMetadata()
	out.Display = tool.Display(translate.Word(r.GetDisplayPreference(), "DISPLAY_PREFERENCE_"))
	var err error
	if out.Content, err = translate.ToContent(r.GetContent()); err != nil {
		return protocol("%v", err)
	}
	if e := r.GetError(); out.Error != nil && e != nil {
		out.Error.Message, out.Error.Violations = e.GetMessage(), translate.ToViolations(e.GetFieldViolations())
	}
	return nil
}

func commands(list []*tooldv1.DocumentCommand) ([]tool.Command, error) {
	out := translate.ToCommands(list)
	return out, external.CheckCommands(out)
}
