package translate

import (
	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
)

func FromDocument(d *tool.Document) *tooldv1.Document {
	return &tooldv1.Document{Scope: FromScope(d.Scope), ScopeId: d.ScopeID, Key: d.Key, Value: d.Value, Revision: d.Revision}
}

func FromDeadLetter(d *call.DeadLetter) *tooldv1.DeadLetter {
	return &tooldv1.DeadLetter{
		ActionId: d.ID, CallId: d.CallID, RunId: d.Run, ThreadId: d.Thread, Caller: d.Caller, Handler: d.Handler, Phase: string(d.Phase), Payload: d.Payload,
		Round: int32(d.Round), Attempts: int32(d.Attempts), Error: d.Error, CreatedAt: FromTime(d.Created),
	}
}

// FromHookDocument translates a document for a hook or a worker. It leaves out the id of the scope, because that is part of the call.
func FromHookDocument(d *tool.Document) *tooldv1.HookDocument {
	return &tooldv1.HookDocument{Scope: FromScope(d.Scope), Key: d.Key, Value: d.Value, Revision: d.Revision}
}
