package lifecycle

import (
	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/documents"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// see gives a pipeline run a document snapshot, for its hooks and its tool.
func (p *pipeline) see(c *call.Call) {
	s := &p.seen
	if p.documents != nil {
		s = new(documents.Snapshot) // Use a new snapshot, because a hook may still hold the first one.
	}
	s.Store, s.Namespace, s.Run, s.Thread = p.l.e.store, c.Namespace, c.Run.ID, c.Run.Thread
	p.documents = s
}

// documentChanges returns the document changes from the commands of hooks and the tool, and the events that report them.
func (p *pipeline) documentChanges(ofTool, ofAfter []tool.Command) ([]store.DocumentChange, []call.Event) {
	if len(p.commands)+len(ofTool)+len(ofAfter) == 0 {
		return nil, nil
	}
	l := p.l
	w := documents.Changes{Run: p.documents.Run, Thread: p.documents.Thread, Count: l.intake.takeCommand, Dropped: func(c *tool.Command, err error) {
		l.e.log.Warn("document command dropped", zap.String("call_id", l.key.ID), zap.String("scope", string(c.Scope)), zap.String("key", c.Key), zap.Error(err))
	}}
	w.Add(p.commands, true, false)
	w.Add(ofTool, tool.AnyGlob(l.e.cfg.Documents.NamespaceWriters, l.peek().Tool), true)
	w.Add(ofAfter, true, false)
	return w.Stored, w.Events
}

// storedActions returns the actions to store with a step of the call.
func (p *pipeline) storedActions(asked []tool.Action) []store.Action {
	if len(asked) == 0 {
		return nil
	}
	c := p.l.peek()
	ended := p.l.e.owners.HasEnded(c.Namespace, c.Run.ID)
	return p.l.e.outbox.Actions(store.Action{
		Namespace: c.Namespace, CallID: c.ID, Run: c.Run.ID, Thread: c.Run.Thread, Batch: c.BatchID, Caller: c.Caller.Subject, Round: 1,
	}, asked, ended)
}
