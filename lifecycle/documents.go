package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/setting"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// Documents bound what tools and hooks may keep: a document travels in one message, and a snapshot holds three scopes in memory.
// Zero is the default.
type Documents struct {
	Size  int   `yaml:"size" default:"262144" min:"1" max:"1048576" help:"bytes of a document that tools and hooks keep" see:"documents.md"`
	Count int   `yaml:"count" default:"256" min:"1" max:"10000" help:"documents of a run, a thread or a namespace"`
	Total int64 `yaml:"total" default:"4194304" min:"1" max:"67108864" help:"bytes of all documents of a run, a thread or a namespace"`
	// NamespaceWriters does not hold for hooks and handlers, which need no permission.
	NamespaceWriters []string `yaml:"namespace_writers" format:"glob" help:"globs on the ids of tools that may write documents of the namespace"`
}

func (d *Documents) fill() error {
	setting.Fill(d)
	if err := setting.Check(d).Err(); err != nil {
		return fmt.Errorf("lifecycle: documents: %w", err)
	}
	return nil
}

func (d *Documents) limits() store.DocumentLimits {
	return store.DocumentLimits{Size: d.Size, Count: d.Count, Total: d.Total}
}

// snapshot is the documents of a call's run, thread and namespace as they were when one of them was first read; a call that
// reads none pays nothing.
type snapshot struct {
	e         *Engine
	namespace string
	run       string
	thread    string

	mu   sync.Mutex
	read bool
	docs []tool.Document
}

// see gives a pipeline run the snapshot that its hooks and its tool see.
func (p *pipeline) see(c *call.Call) {
	s := &p.seen
	if p.documents != nil {
		s = new(snapshot) // a hook may hold the first one still
	}
	s.e, s.namespace, s.run, s.thread = p.l.e, c.Namespace, c.Run.ID, c.Run.Thread
	p.documents = s
}

// Get implements [tool.Documents].
func (s *snapshot) Get(scope tool.Scope, key string) (tool.Document, bool, error) {
	id, ok := scope.ID(s.run, s.thread)
	if !ok {
		return tool.Document{}, false, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.read {
		scopes := []store.DocumentScope{{Scope: tool.NamespaceScope}}
		for _, scope := range [...]tool.Scope{tool.RunScope, tool.ThreadScope} {
			if id, ok := scope.ID(s.run, s.thread); ok {
				scopes = append(scopes, store.DocumentScope{Scope: scope, ID: id})
			}
		}
		list, err := s.e.store.Documents(context.Background(), s.namespace, scopes...)
		if err != nil {
			return tool.Document{}, false, err
		}
		s.docs, s.read = list, true
	}
	for _, d := range s.docs {
		if d.Key == key && d.Scope == scope && d.ScopeID == id {
			return d, true, nil
		}
	}
	return tool.Document{}, false, nil
}

// writing collects the commands of one step, and the events that tell them.
type writing struct {
	p       *pipeline
	changes []store.DocumentChange
	events  []call.Event
}

// documentChanges turns commands into changes and the events that tell them: those of hooks and those of the tool. A command
// that is malformed, or for a scope that the call does not have, is a bug of its author: it is dropped and logged.
func (p *pipeline) documentChanges(ofTool, ofAfter []tool.Command) ([]store.DocumentChange, []call.Event) {
	if len(p.commands)+len(ofTool)+len(ofAfter) == 0 {
		return nil, nil
	}
	w := writing{p: p}
	w.add(p.commands, true, false)
	w.add(ofTool, p.l.e.mayWriteNamespace(p.l.peek().Tool), true)
	w.add(ofAfter, true, false)
	return w.changes, w.events
}

// add adds commands. namespace says that they may be about the namespace's documents; counted, that they are a tool's, which
// count in the call's quota.
func (w *writing) add(commands []tool.Command, namespace, counted bool) {
	l := w.p.l
	for i := range commands {
		c := &commands[i]
		id, ok := c.Scope.ID(w.p.documents.run, w.p.documents.thread)
		err := call.CheckCommand(c)
		switch {
		case !ok:
			err = errors.New("the call has no such scope")
		case len(w.events) >= call.MaxCommands:
			err = fmt.Errorf("there are more than %d", call.MaxCommands)
		case err == nil && counted && !l.takeCommand(c):
			err = errors.New("the call has printed, reported and saved what it may")
		}
		if err != nil {
			l.e.log.Warn("document command dropped", zap.String("call_id", l.key.ID), zap.String("scope", string(c.Scope)), zap.String("key", c.Key), zap.Error(err))
			continue
		}
		notice := &call.DocumentNotice{Scope: c.Scope, ScopeID: id, Key: c.Key, Expected: c.Expected}
		if c.Scope == tool.NamespaceScope && !namespace {
			notice.Conflict = call.ConflictScope
			w.events = append(w.events, call.Event{Type: call.EventStateConflict, Document: notice})
			continue
		}
		w.changes = append(w.changes, store.DocumentChange{ScopeID: id, Command: *c})
		w.events = append(w.events, call.Event{Type: call.EventDocumentChanged, Document: notice})
	}
}

// storedActions returns the actions that a step of the call stores.
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

func (e *Engine) mayWriteNamespace(id string) bool {
	return tool.AnyGlob(e.cfg.Documents.NamespaceWriters, id)
}

// rejectsContent reports whether the journal refused a change for what is in it.
func rejectsContent(err error) bool {
	if err == nil || errors.As(err, new(*call.Refusal)) {
		return false
	}
	for _, other := range [...]error{store.ErrFull, store.ErrBusy, store.ErrFatal, store.ErrClosed, store.ErrExpired, store.ErrTooEarly, errIllegal} {
		if errors.Is(err, other) {
			return false
		}
	}
	return true
}

// lostDocuments are the events of a step whose documents are dropped.
func lostDocuments(events []call.Event) []call.Event {
	events = slices.Clone(events)
	for i := range events {
		if events[i].Type == call.EventDocumentChanged {
			lost := *events[i].Document
			lost.Conflict = call.ConflictJournal
			events[i].Type, events[i].Document = call.EventStateConflict, &lost
		}
	}
	return events
}

// tellDocuments fills the events of document commands with what became of them. A delete of nothing is not told: its event
// goes, and the numbers behind it move up.
func tellDocuments(c *store.Change, told []call.DocumentNotice) {
	first, filled := c.Events[0].Sequence, make([]bool, len(c.Events))
	for i := range told {
		n := &told[i]
		for j := range c.Events {
			ev := &c.Events[j]
			if ev.Type != call.EventDocumentChanged || filled[j] || ev.Document.Scope != n.Scope || ev.Document.ScopeID != n.ScopeID || ev.Document.Key != n.Key {
				continue
			}
			ev.Document, filled[j] = n, true
			if n.Conflict != "" {
				ev.Type = call.EventStateConflict
			}
			break
		}
	}
	c.Events = slices.DeleteFunc(c.Events, func(ev call.Event) bool {
		return ev.Type == call.EventDocumentChanged && ev.Document.Revision == 0
	})
	for i := range c.Events {
		c.Events[i].Sequence = first + int64(i)
	}
	c.Call.LastSequence = first + int64(len(c.Events)) - 1
}
