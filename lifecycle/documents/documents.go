// Package documents handles the documents that tools and hooks keep for later calls of a run, a thread or a namespace.
//
// A call reads from one [Snapshot]. The commands of its tool and its hooks become changes that are stored with its next step, and events
// that report the changes. [Editor] changes documents for clients.
package documents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/setting"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// Settings limit the documents that tools and hooks keep. The limits exist because a document must fit into one message, and because a
// snapshot holds the documents of three scopes in memory. Zero selects the default.
type Settings struct {
	Size  int   `yaml:"size" default:"262144" min:"1" max:"1048576" help:"largest size in bytes of a document that tools and hooks keep" see:"documents.md"`
	Count int   `yaml:"count" default:"256" min:"1" max:"10000" help:"largest number of documents of a run, a thread or a namespace"`
	Total int64 `yaml:"total" default:"4194304" min:"1" max:"67108864" help:"largest total size in bytes of the documents of a run, a thread or a namespace"`
	// NamespaceWriters restricts only tools. Hooks and handlers need no permission.
	NamespaceWriters []string `yaml:"namespace_writers" format:"glob" help:"globs on the ids of tools that may write documents of the namespace of their call"`
}

// Fill sets the defaults and returns an error for a value that is out of range.
func (d *Settings) Fill() error {
	setting.Fill(d)
	if err := setting.Check(d).Err(); err != nil {
		return fmt.Errorf("documents: %w", err)
	}
	return nil
}

// Limits returns the limits that a store enforces.
func (d *Settings) Limits() store.DocumentLimits {
	return store.DocumentLimits{Size: d.Size, Count: d.Count, Total: d.Total}
}

// A Reader reads the documents of a scope.
type Reader interface {
	Documents(ctx context.Context, namespace string, scopes ...store.DocumentScope) ([]tool.Document, error)
}

// A Snapshot holds the documents of a call's run, thread and namespace, as they were at the first read. A call that reads no document reads
// nothing from the store.
type Snapshot struct {
	Store     Reader
	Namespace string
	Run       string
	Thread    string

	mu   sync.Mutex
	read bool
	docs []tool.Document
}

// Get implements [tool.Documents].
func (s *Snapshot) Get(scope tool.Scope, key string) (tool.Document, bool, error) {
	id, ok := scope.ID(s.Run, s.Thread)
	if !ok {
		return tool.Document{}, false, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.read {
		scopes := []store.DocumentScope{{Scope: tool.NamespaceScope}}
		for _, scope := range [...]tool.Scope{tool.RunScope, tool.ThreadScope} {
			if id, ok := scope.ID(s.Run, s.Thread); ok {
				scopes = append(scopes, store.DocumentScope{Scope: scope, ID: id})
			}
		}
		list, err := s.Store.Documents(context.Background(), s.Namespace, scopes...)
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

// Changes collects the commands of one step, and the events that report them.
type Changes struct {
	Run, Thread string
	// Count reports whether another command of the tool fits into the quota of the call.
	Count func(*tool.Command) bool
	// Dropped is called with each command that is dropped: it is malformed, its scope does not exist for the call, or a limit is reached.
	Dropped func(*tool.Command, error)

	Stored []store.DocumentChange
	Events []call.Event
}

// Add adds commands. namespace permits commands that change documents of the namespace. counted is true for commands of a tool, which use
// the call's quota.
func (w *Changes) Add(commands []tool.Command, namespace, counted bool) {
	for i := range commands {
		c := &commands[i]
		id, ok := c.Scope.ID(w.Run, w.Thread)
		err := call.CheckCommand(c)
		switch {
		case !ok:
			err = errors.New("the call has no such scope")
		case len(w.Events) >= call.MaxCommands:
			err = fmt.Errorf("there are more than %d", call.MaxCommands)
		case err == nil && counted && !w.Count(c):
			err = errors.New("the call has reached its limit of output, reports and artifacts")
		}
		if err != nil {
			w.Dropped(c, err)
			continue
		}
		notice := &call.DocumentNotice{Scope: c.Scope, ScopeID: id, Key: c.Key, Expected: c.Expected}
		if c.Scope == tool.NamespaceScope && !namespace {
			notice.Conflict = call.ConflictScope
			w.Events = append(w.Events, call.Event{Type: call.EventStateConflict, Document: notice})
			continue
		}
		w.Stored = append(w.Stored, store.DocumentChange{ScopeID: id, Command: *c})
		w.Events = append(w.Events, call.Event{Type: call.EventDocumentChanged, Document: notice})
	}
}

// Lost converts the events of a step after its document changes were dropped. The events then report that the changes were lost.
func Lost(events []call.Event) []call.Event {
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

// Publish fills the document events of a change with the results that the journal returned. It removes the event of a delete that deleted
// nothing, and renumbers the events after it.
func Publish(c *store.Change, notices []call.DocumentNotice) {
	first, filled := c.Events[0].Sequence, make([]bool, len(c.Events))
	for i := range notices {
		n := &notices[i]
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
