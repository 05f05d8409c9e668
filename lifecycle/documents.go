package lifecycle

import (
	"context"
	"slices"
	"sync"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// snapshot is the documents of a call's run and thread as they were when one of them was first read; a call that reads
// none pays nothing.
type snapshot struct {
	e         *Engine
	namespace string
	run       string
	thread    string

	mu     sync.Mutex
	scopes map[tool.Scope]map[string]tool.Document
}

func newSnapshot(e *Engine, c *call.Call) *snapshot {
	return &snapshot{e: e, namespace: c.Namespace, run: c.Run.ID, thread: c.Run.Thread}
}

// Get implements [tool.Documents].
func (s *snapshot) Get(scope tool.Scope, key string) (tool.Document, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scopes == nil {
		scopes := map[tool.Scope]map[string]tool.Document{}
		for scope, id := range map[tool.Scope]string{tool.RunScope: s.run, tool.ThreadScope: s.thread} {
			if id == "" {
				continue
			}
			docs, err := s.e.store.Documents(context.Background(), s.namespace, scope, id)
			if err != nil {
				return tool.Document{}, false, err
			}
			scopes[scope] = map[string]tool.Document{}
			for _, d := range docs {
				scopes[scope][d.Key] = d
			}
		}
		s.scopes = scopes
	}
	d, ok := s.scopes[scope][key]
	return d, ok, nil
}

// tellDocuments fills the events of document commands with what became of them. A delete of nothing is not told: its event
// goes, and the numbers behind it move up.
func tellDocuments(c *store.Change, changed, lost []call.DocumentNotice) {
	fillDocuments(c.Events, changed, call.EventDocumentChanged)
	fillDocuments(c.Events, lost, call.EventStateConflict)
	first := c.Events[0].Sequence
	c.Events = slices.DeleteFunc(c.Events, func(ev call.Event) bool {
		return ev.Type == call.EventDocumentChanged && ev.Document.Revision == 0
	})
	for i := range c.Events {
		c.Events[i].Sequence = first + int64(i)
	}
	c.Call.LastSequence = first + int64(len(c.Events)) - 1
}

func fillDocuments(events []call.Event, notices []call.DocumentNotice, what call.EventType) {
	for _, n := range notices {
		for i := range events {
			d := events[i].Document
			if d != nil && d.Revision == 0 && events[i].Type == call.EventDocumentChanged && n.Scope == d.Scope && n.ScopeID == d.ScopeID && n.Key == d.Key {
				events[i].Type, events[i].Document = what, &n
				break
			}
		}
	}
}
