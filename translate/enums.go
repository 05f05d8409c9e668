package translate

import (
	"strings"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
)

func FromStatus(s call.Status) tooldv1.CallStatus {
	switch s {
	case call.New:
		return tooldv1.CallStatus_CALL_STATUS_NEW
	case call.Running:
		return tooldv1.CallStatus_CALL_STATUS_RUNNING
	case call.Suspended:
		return tooldv1.CallStatus_CALL_STATUS_SUSPENDED
	case call.Resuming:
		return tooldv1.CallStatus_CALL_STATUS_RESUMING
	case call.Succeeded:
		return tooldv1.CallStatus_CALL_STATUS_SUCCEEDED
	case call.Failed:
		return tooldv1.CallStatus_CALL_STATUS_FAILED
	case call.Cancelled:
		return tooldv1.CallStatus_CALL_STATUS_CANCELLED
	}
	return tooldv1.CallStatus_CALL_STATUS_UNSPECIFIED
}

// ToStatus is the inverse of FromStatus. It returns false for unspecified and unknown values.
func ToStatus(s tooldv1.CallStatus) (call.Status, bool) {
	for _, one := range []call.Status{call.New, call.Running, call.Suspended, call.Resuming, call.Succeeded, call.Failed, call.Cancelled} {
		if FromStatus(one) == s {
			return one, true
		}
	}
	return "", false
}

// ToExecuted is the inverse of FromExecuted. It returns false for unspecified and unknown values.
func ToExecuted(e tooldv1.Executed) (call.Executed, bool) {
	for _, one := range []call.Executed{call.NotStarted, call.Started, call.Finished, call.ExecutedUnknown} {
		if FromExecuted(one) == e {
			return one, true
		}
	}
	return "", false
}

func FromExecuted(e call.Executed) tooldv1.Executed {
	switch e {
	case call.NotStarted:
		return tooldv1.Executed_EXECUTED_NOT_STARTED
	case call.Started:
		return tooldv1.Executed_EXECUTED_STARTED
	case call.Finished:
		return tooldv1.Executed_EXECUTED_FINISHED
	case call.ExecutedUnknown:
		return tooldv1.Executed_EXECUTED_UNKNOWN
	}
	return tooldv1.Executed_EXECUTED_UNSPECIFIED
}

func fromClass(c call.Class) tooldv1.Durability {
	switch c {
	case call.Sync:
		return tooldv1.Durability_DURABILITY_SYNC
	case call.Behind:
		return tooldv1.Durability_DURABILITY_BEHIND
	}
	return tooldv1.Durability_DURABILITY_UNSPECIFIED
}

func fromRunState(s call.RunState) tooldv1.RunState {
	return tooldv1.RunState(tooldv1.RunState_value["RUN_STATE_"+string(s)])
}

func FromVerdictKind(kind string) tooldv1.VerdictAction {
	if kind == "ALLOW" { // Handle the common case first, because a table lookup takes longer.
		return tooldv1.VerdictAction_VERDICT_ACTION_ALLOW
	}
	return tooldv1.VerdictAction(tooldv1.VerdictAction_value["VERDICT_ACTION_"+kind])
}

func fromHookKind(kind string) tooldv1.HookKind {
	return tooldv1.HookKind(tooldv1.HookKind_value["HOOK_KIND_"+kind])
}

func fromQueueReason(reason string) tooldv1.QueueReason {
	return tooldv1.QueueReason(tooldv1.QueueReason_value["QUEUE_REASON_"+reason])
}

func fromAttemptEnd(end call.AttemptEnd) tooldv1.AttemptEnd {
	switch end { // Handle the common cases first, because a table lookup takes longer.
	case "":
		return tooldv1.AttemptEnd_ATTEMPT_END_UNSPECIFIED
	case call.EndReturned:
		return tooldv1.AttemptEnd_ATTEMPT_END_RETURNED
	}
	return tooldv1.AttemptEnd(tooldv1.AttemptEnd_value["ATTEMPT_END_"+string(end)])
}

func fromMutability(m tool.Mutability) tooldv1.Mutability {
	switch m {
	case tool.ReadOnly:
		return tooldv1.Mutability_MUTABILITY_READ_ONLY
	case tool.Mutating:
		return tooldv1.Mutability_MUTABILITY_MUTATING
	}
	return tooldv1.Mutability_MUTABILITY_UNSPECIFIED
}

func fromSafety(s tool.Safety) tooldv1.Safety {
	switch s {
	case tool.SafetyReadOnly:
		return tooldv1.Safety_SAFETY_READ_ONLY
	case tool.SafetyMutating:
		return tooldv1.Safety_SAFETY_MUTATING
	case tool.SafetyDestructive:
		return tooldv1.Safety_SAFETY_DESTRUCTIVE
	case tool.SafetyNetwork:
		return tooldv1.Safety_SAFETY_NETWORK
	}
	return tooldv1.Safety_SAFETY_UNSPECIFIED
}

func fromTier(t tool.Tier) tooldv1.Tier {
	switch t {
	case tool.Observe:
		return tooldv1.Tier_TIER_OBSERVE
	case tool.Confirm:
		return tooldv1.Tier_TIER_CONFIRM
	case tool.Escalate:
		return tooldv1.Tier_TIER_ESCALATE
	}
	return tooldv1.Tier_TIER_UNSPECIFIED
}

// fromKind returns OTHER for a kind that the API does not have, because no decision depends on it.
func fromKind(k tool.Kind) tooldv1.Kind {
	if v := tooldv1.Kind_value["KIND_"+string(k)]; v != 0 {
		return tooldv1.Kind(v)
	}
	return tooldv1.Kind_KIND_OTHER
}

// ToErrorCode is the inverse of FromErrorCode. It returns false for unspecified and unknown values.
func ToErrorCode(c tooldv1.ErrorCode) (tool.Code, bool) {
	name, known := strings.CutPrefix(tooldv1.ErrorCode_name[int32(c)], "ERROR_CODE_")
	return tool.Code(name), known && c != tooldv1.ErrorCode_ERROR_CODE_UNSPECIFIED
}

func FromErrorCode(c tool.Code) tooldv1.ErrorCode {
	return tooldv1.ErrorCode(tooldv1.ErrorCode_value["ERROR_CODE_"+string(c)])
}

func fromDisplay(d tool.Display) tooldv1.DisplayPreference {
	if d == "" {
		return tooldv1.DisplayPreference_DISPLAY_PREFERENCE_UNSPECIFIED
	}
	return tooldv1.DisplayPreference(tooldv1.DisplayPreference_value["DISPLAY_PREFERENCE_"+string(d)])
}

func fromContentType(t tool.ContentType) tooldv1.ContentType {
	switch t {
	case tool.ContentText:
		return tooldv1.ContentType_CONTENT_TYPE_TEXT
	case tool.ContentImage:
		return tooldv1.ContentType_CONTENT_TYPE_IMAGE
	case tool.ContentAudio:
		return tooldv1.ContentType_CONTENT_TYPE_AUDIO
	case tool.ContentDocument:
		return tooldv1.ContentType_CONTENT_TYPE_DOCUMENT
	case tool.ContentDiff:
		return tooldv1.ContentType_CONTENT_TYPE_DIFF
	case tool.ContentLink:
		return tooldv1.ContentType_CONTENT_TYPE_RESOURCE_LINK
	case tool.ContentUI:
		return tooldv1.ContentType_CONTENT_TYPE_UI
	}
	return tooldv1.ContentType_CONTENT_TYPE_UNSPECIFIED
}

func fromResultStatus(s tool.ResultStatus) tooldv1.ResultStatus {
	switch s {
	case tool.StatusSuccess:
		return tooldv1.ResultStatus_RESULT_STATUS_SUCCESS
	case tool.StatusPending:
		return tooldv1.ResultStatus_RESULT_STATUS_PENDING
	case tool.StatusError:
		return tooldv1.ResultStatus_RESULT_STATUS_ERROR
	}
	return tooldv1.ResultStatus_RESULT_STATUS_UNSPECIFIED
}

func fromProgressStatus(s tool.ProgressStatus) tooldv1.ProgressStatus {
	switch s {
	case tool.ProgressPending:
		return tooldv1.ProgressStatus_PROGRESS_STATUS_PENDING
	case tool.ProgressRunning:
		return tooldv1.ProgressStatus_PROGRESS_STATUS_RUNNING
	case tool.ProgressDone:
		return tooldv1.ProgressStatus_PROGRESS_STATUS_DONE
	case tool.ProgressFailed:
		return tooldv1.ProgressStatus_PROGRESS_STATUS_FAILED
	case tool.ProgressCancelled:
		return tooldv1.ProgressStatus_PROGRESS_STATUS_CANCELLED
	}
	return tooldv1.ProgressStatus_PROGRESS_STATUS_UNSPECIFIED
}

func FromScope(s tool.Scope) tooldv1.DocumentScope {
	return tooldv1.DocumentScope(tooldv1.DocumentScope_value["DOCUMENT_SCOPE_"+string(s)])
}

// fromRole returns unspecified for a role that the API does not have.
func fromRole(name string) tooldv1.Role {
	switch name {
	case "caller":
		return tooldv1.Role_ROLE_CALLER
	case "delegate":
		return tooldv1.Role_ROLE_DELEGATE
	case "approver":
		return tooldv1.Role_ROLE_APPROVER
	case "operator":
		return tooldv1.Role_ROLE_OPERATOR
	case "worker":
		return tooldv1.Role_ROLE_WORKER
	case "viewer":
		return tooldv1.Role_ROLE_VIEWER
	case "admin":
		return tooldv1.Role_ROLE_ADMIN
	}
	return tooldv1.Role_ROLE_UNSPECIFIED
}

func fromResumeMode(m tool.ResumeMode) tooldv1.ResumeMode {
	switch m {
	case tool.ReplayToolCall, "":
		return tooldv1.ResumeMode_RESUME_MODE_REPLAY_TOOL_CALL
	case tool.UseDecisionAsToolResult:
		return tooldv1.ResumeMode_RESUME_MODE_USE_DECISION_AS_TOOL_RESULT
	case tool.PassDecisionToTool:
		return tooldv1.ResumeMode_RESUME_MODE_PASS_DECISION_TO_TOOL
	}
	return tooldv1.ResumeMode_RESUME_MODE_UNSPECIFIED
}

func fromAction(a tool.DecisionAction) tooldv1.DecisionAction {
	switch a {
	case tool.Resume:
		return tooldv1.DecisionAction_DECISION_ACTION_RESUME
	case tool.Cancel:
		return tooldv1.DecisionAction_DECISION_ACTION_CANCEL
	}
	return tooldv1.DecisionAction_DECISION_ACTION_UNSPECIFIED
}

func fromOnDoubt(o tool.OnDoubt) tooldv1.OnDoubt {
	if o == tool.OnDoubtAsk {
		return tooldv1.OnDoubt_ON_DOUBT_ASK
	}
	return tooldv1.OnDoubt_ON_DOUBT_FAIL
}

func fromLevel(i tool.Isolation) tooldv1.IsolationLevel {
	if i == tool.IsolationFull {
		return tooldv1.IsolationLevel_ISOLATION_LEVEL_FULL
	}
	return tooldv1.IsolationLevel_ISOLATION_LEVEL_NONE
}

func fromNetwork(n string) tooldv1.NetworkMode {
	switch n {
	case "none", "":
		return tooldv1.NetworkMode_NETWORK_MODE_NONE
	case "proxy":
		return tooldv1.NetworkMode_NETWORK_MODE_PROXY
	case "open":
		return tooldv1.NetworkMode_NETWORK_MODE_OPEN
	}
	return tooldv1.NetworkMode_NETWORK_MODE_UNSPECIFIED
}

func ToSignal(s tooldv1.InputSignal) string {
	return map[tooldv1.InputSignal]string{
		tooldv1.InputSignal_INPUT_SIGNAL_INTERRUPT: "SIGINT", tooldv1.InputSignal_INPUT_SIGNAL_QUIT: "SIGQUIT",
		tooldv1.InputSignal_INPUT_SIGNAL_TERMINATE: "SIGTERM", tooldv1.InputSignal_INPUT_SIGNAL_HANGUP: "SIGHUP",
		tooldv1.InputSignal_INPUT_SIGNAL_STOP: "SIGTSTP", tooldv1.InputSignal_INPUT_SIGNAL_CONTINUE: "SIGCONT",
		tooldv1.InputSignal_INPUT_SIGNAL_USER_1: "SIGUSR1", tooldv1.InputSignal_INPUT_SIGNAL_USER_2: "SIGUSR2",
	}[s]
}

// FromSettlement translates the reason why a question no longer waits.
func FromSettlement(s call.Settlement) tooldv1.Settlement {
	switch s {
	case call.SettledDecision:
		return tooldv1.Settlement_SETTLEMENT_DECIDED
	case call.SettledExpiry:
		return tooldv1.Settlement_SETTLEMENT_EXPIRED
	case call.SettledCancel:
		return tooldv1.Settlement_SETTLEMENT_CANCELLED
	}
	return tooldv1.Settlement_SETTLEMENT_HIDDEN
}
