package command

import (
	"encoding/json"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/hook/external"
	"github.com/toold-dev/toold/tool"
)

// question is the input of a program. The first fields have the names that hooks of coding agents use, so that one script can work for both
// toold and a coding agent.
type question struct {
	Event     string          `json:"hook_event_name"` // PreToolUse or PostToolUse
	SessionID string          `json:"session_id,omitempty"`
	CWD       string          `json:"cwd,omitempty"`
	ToolName  string          `json:"tool_name"`
	ToolUseID string          `json:"tool_use_id"`
	ToolInput json.RawMessage `json:"tool_input"`
	// ToolResponse is the data of the result, or its message. Only After hooks get it.
	ToolResponse any `json:"tool_response,omitempty"`

	Kind        string              `json:"kind"` // rewrite, gate, admit, release, before, after
	Hook        string              `json:"hook"`
	Namespace   string              `json:"namespace"`
	CallID      string              `json:"call_id"`
	Requested   string              `json:"requested_arguments"` // JSON text as the client sent it
	Descriptor  *tool.Descriptor    `json:"descriptor"`
	ToolDigest  string              `json:"tool_digest,omitempty"`
	Run         tool.Run            `json:"run"`
	Caller      tool.Principal      `json:"caller"`
	OnBehalfOf  string              `json:"on_behalf_of,omitempty"`
	Assessment  tool.Effects        `json:"assessment"`
	Description tool.Description    `json:"description"`
	Documents   map[string]document `json:"documents,omitempty"`
	Attempt     int                 `json:"attempt"`
	Answer      *tool.Decision      `json:"answer,omitempty"`    // only for a gate: the answer to its own question about exactly this call
	Outcome     *hook.Outcome       `json:"outcome,omitempty"`   // only for After
	Admission   string              `json:"admission,omitempty"` // only for release: the admission that the program returned
}

type document struct {
	Value    json.RawMessage `json:"value"`
	Revision int64           `json:"revision"`
}

func (h *Hook) question(kind string, in *hook.Input) (*question, error) {
	q := &question{
		Event: "PreToolUse", SessionID: in.Run.Thread, CWD: h.workspace(in.Namespace), ToolName: in.Descriptor.ID, ToolUseID: in.CallID,
		ToolInput: json.RawMessage(in.Arguments.Text()), Kind: kind, Hook: h.cfg.Name, Namespace: in.Namespace, CallID: in.CallID,
		Requested: in.Requested, Descriptor: in.Descriptor, ToolDigest: in.ToolDigest, Run: in.Run, Caller: in.Caller, OnBehalfOf: in.OnBehalfOf,
		Assessment: in.Assessment, Description: in.Description, Attempt: in.Attempt,
	}
	found, err := external.Documents(in, h.cfg.Documents)
	for _, d := range found {
		if q.Documents == nil {
			q.Documents = map[string]document{}
		}
		q.Documents[string(d.Scope)+"/"+d.Key] = document{json.RawMessage(d.Value), d.Revision}
	}
	return q, err
}

// workspace returns the working directory of a namespace's tools.
func (h *Hook) workspace(namespace string) string {
	if own, ok := h.cfg.Workspaces[namespace]; ok {
		return own
	}
	return h.cfg.Workspace
}

func (q *question) ended(o hook.Outcome) {
	q.Event, q.Outcome = "PostToolUse", &o
	switch {
	case o.Result.IsError():
		q.Event, q.ToolResponse = "PostToolUseFailure", o.Result.ModelText()
	case o.Result.Data != "":
		q.ToolResponse = json.RawMessage(o.Result.Data)
	default:
		q.ToolResponse = o.Result.Message
	}
}

func (q *question) encode() ([]byte, error) {
	b, err := json.Marshal(q)
	return append(b, '\n'), err
}
