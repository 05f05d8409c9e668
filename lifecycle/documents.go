package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"unicode/utf8"

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

// storable returns what is wrong with a command that a tool or a hook made.
func storable(c tool.Command) error {
	switch {
	case c.Op != tool.OpSet && c.Op != tool.OpDelete:
		return fmt.Errorf("there is no command %q", c.Op)
	case c.Key == "" || !utf8.ValidString(c.Key):
		return errors.New("the key is empty or not UTF-8")
	case c.Op == tool.OpSet && !(utf8.ValidString(c.Value) && json.Valid([]byte(c.Value))):
		return errors.New("the value is not JSON")
	}
	return nil
}

// takesNot reports whether the journal refused a change for what is in it.
func takesNot(err error) bool {
	if err == nil || errors.As(err, new(*call.Refusal)) {
		return false
	}
	for _, other := range [...]error{store.ErrFull, store.ErrFatal, store.ErrClosed, store.ErrExpired, store.ErrTooEarly, errIllegal} {
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
			events[i].Type = call.EventStateConflict
		}
	}
	return events
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
