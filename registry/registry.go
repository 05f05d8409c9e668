package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/toold-dev/toold/tool"
)

// A Config has the settings of a registry.
type Config struct {
	// CachedSchemas is how many schemas [Registry.CompileSchema] caches. Zero means 128.
	CachedSchemas int
	// AssertFormats makes Validate check formats also in schemas of the draft 2020-12, the default draft. Without it, formats in that draft
	// are only descriptions, as that draft says.
	AssertFormats bool
	// Pins stores the trusted definitions. The first definition of each tool is trusted until an operator accepts another one. With nil,
	// all definitions are trusted.
	Pins Pins
	// Trusted lists the sources that are part of the daemon. Their definitions are always trusted.
	Trusted []string
	// NamespaceOf returns the only namespace whose callers have the tools of a source. It returns false when all namespaces have them. nil
	// means false for all sources.
	NamespaceOf func(source string) (string, bool)
}

// A Registry holds the tools of all sources. Its methods may be called from many goroutines; a lookup never waits for a registration.
type Registry struct {
	cfg     Config
	schemas *schemaCache

	mu           sync.Mutex // serializes changes
	descriptions map[string]string
	names        map[Origin]Name
	current      atomic.Pointer[snapshot]
}

// A snapshot is the registry at one moment. It never changes.
type snapshot struct {
	entries  []*Entry          // sorted by id
	names    map[string]*names // By namespace. The key "" has the names of the shared tools, which every namespace has.
	replaced chan struct{}     // closed when a newer snapshot exists
}

// find returns the tool with an id or alias in a namespace, or nil.
func (s *snapshot) find(namespace, name string) *Entry {
	if e := s.names[""].exact[name]; e != nil || namespace == "" {
		return e
	}
	if own := s.names[namespace]; own != nil {
		return own.exact[name]
	}
	return nil
}

// shows reports whether a namespace has a tool. A namespace does not have a tool whose name a shared tool has taken.
func (s *snapshot) shows(e *Entry, namespace string) bool {
	return (e.namespace == "" || e.namespace == namespace) && s.names[e.namespace].exact[e.Descriptor.ID] == e
}

// names has the ids and aliases of one namespace. No two may differ only in case, because people and models confuse Bash and bash.
type names struct {
	exact  map[string]*Entry
	folded map[string]*Entry // entries by lower-case name
}

func newNames() *names { return &names{map[string]*Entry{}, map[string]*Entry{}} }

func (n *names) add(e *Entry) {
	for _, name := range namesOf(&e.Descriptor) {
		n.exact[name], n.folded[strings.ToLower(name)] = e, e
	}
}

// taken returns an error for each name of e that another tool has.
func (n *names) taken(e *Entry) (errs []error) {
	for _, name := range namesOf(&e.Descriptor) {
		if other := n.folded[strings.ToLower(name)]; other != nil {
			errs = append(errs, &DuplicateError{name, [2]string{other.Source, e.Source}, e.own.ID, n.exact[name] == nil})
		}
	}
	return errs
}

// New returns an empty registry.
func New(cfg Config) *Registry {
	if cfg.CachedSchemas <= 0 {
		cfg.CachedSchemas = 128
	}
	r := &Registry{cfg: cfg, schemas: newSchemaCache(cfg.CachedSchemas, cfg.AssertFormats)}
	r.current.Store(&snapshot{names: map[string]*names{"": newNames()}, replaced: make(chan struct{})})
	return r
}

// A DuplicateError means that an id or alias is taken.
type DuplicateError struct {
	Name    string
	Sources [2]string // the source that has the name, and the source that was refused
	Tool    string    // id that the refused source gave the tool
	Case    bool      // The two names differ only in case.
}

func (e *DuplicateError) Error() string {
	if e.Case {
		return fmt.Sprintf("tool name %q of source %q differs in case alone from one of source %q", e.Name, e.Sources[1], e.Sources[0])
	}
	if e.Sources[0] == e.Sources[1] {
		return fmt.Sprintf("tool name %q occurs twice in source %q", e.Name, e.Sources[0])
	}
	return fmt.Sprintf("tool name %q of source %q is taken by source %q", e.Name, e.Sources[1], e.Sources[0])
}

// Register adds tools to a source, all or none. The error has a reason for every refused tool. For a name that is taken it wraps a
// [*DuplicateError].
func (r *Registry) Register(source string, tools ...tool.Tool) error {
	added, err := r.newEntries(source, tools)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.applyLocked(append(slices.Clone(r.current.Load().entries), added...), added)
}

// Declared returns an entry for a tool without registering it. No list and no lookup returns it.
func (r *Registry) Declared(source string, t tool.Tool) (*Entry, error) {
	return newEntry(source, t, r.schemas.compile)
}

// Replace replaces all tools of a source with tools, all or none: after an error the earlier tools stay. Without tools it removes the
// source. Running calls keep their entry.
func (r *Registry) Replace(source string, tools ...tool.Tool) error {
	added, err := r.newEntries(source, tools)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	others := slices.DeleteFunc(slices.Clone(r.current.Load().entries), func(e *Entry) bool { return e.Source == source })
	return r.applyLocked(append(others, added...), added)
}

// newEntries compiles without holding the lock, so that a source with many tools does not delay others.
func (r *Registry) newEntries(source string, tools []tool.Tool) ([]*Entry, error) {
	if source == "" {
		return nil, errors.New("register: a source needs a name")
	}
	namespace := ""
	if r.cfg.NamespaceOf != nil {
		namespace, _ = r.cfg.NamespaceOf(source)
	}
	entries := make([]*Entry, 0, len(tools))
	var refused []error
	for i, t := range tools {
		if t == nil {
			refused = append(refused, fmt.Errorf("source %q: tool %d is nil", source, i))
			continue
		}
		e, err := newEntry(source, t, r.schemas.fresh)
		if err == nil {
			err = unreserved(&e.Descriptor)
		}
		if err != nil {
			refused = append(refused, fmt.Errorf("source %q: tool %q: %w", source, t.Descriptor().ID, err))
			continue
		}
		e.namespace = namespace
		entries = append(entries, e)
	}
	return entries, errors.Join(refused...)
}

// applyLocked replaces the entries of the registry, unless two of them have the same name. It sets the ids and descriptions of the added
// entries, and compares these entries with their pins.
func (r *Registry) applyLocked(entries, added []*Entry) error {
	for _, e := range added {
		if err := e.override(r.descriptions, r.names); err != nil {
			return err
		}
	}
	byNamespace, err := r.nameLocked(entries) // The added entries are last, so they are refused when a name is taken.
	if err != nil {
		return err
	}
	slices.SortStableFunc(entries, func(a, b *Entry) int { return strings.Compare(a.Descriptor.ID, b.Descriptor.ID) })
	for _, e := range added {
		if err := r.judge(e); err != nil {
			return err
		}
	}
	r.storeLocked(entries, byNamespace)
	return nil
}

// nameLocked assigns names to entries. When a shared tool and a tool of one namespace have the same name, the shared tool gets the name.
// The other tool gets the name back when the name is free. A new tool of one namespace whose name is taken is an error.
func (r *Registry) nameLocked(entries []*Entry) (map[string]*names, error) {
	shared := newNames()
	byNamespace := map[string]*names{"": shared}
	var taken []error
	for _, e := range entries {
		if e.namespace == "" {
			taken = append(taken, shared.taken(e)...)
			shared.add(e)
		}
	}
	for _, e := range entries {
		if e.namespace == "" {
			continue
		}
		own := byNamespace[e.namespace]
		if own == nil {
			own = newNames()
			byNamespace[e.namespace] = own
		}
		switch other := shared.taken(e); {
		case len(other) == 0:
			taken = append(taken, own.taken(e)...)
			own.add(e)
		case !r.hasLocked(e):
			taken = append(taken, other...)
		}
	}
	return byNamespace, errors.Join(taken...)
}

// hasLocked reports whether the source of a tool already has this tool under the same id.
func (r *Registry) hasLocked(e *Entry) bool {
	return slices.ContainsFunc(r.current.Load().entries, func(old *Entry) bool {
		return old.Source == e.Source && old.own.ID == e.own.ID && old.Descriptor.ID == e.Descriptor.ID
	})
}

func (r *Registry) storeLocked(entries []*Entry, byNamespace map[string]*names) {
	old := r.current.Load()
	r.current.Store(&snapshot{entries: entries, names: byNamespace, replaced: make(chan struct{})})
	close(old.replaced)
}

// Refresh makes watchers compare their views again although no tool has changed. Call it when the visible tools have changed for another
// reason, such as new rules.
func (r *Registry) Refresh() {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.current.Load()
	r.storeLocked(old.entries, old.names)
}

// Lookup returns the shared tool with this id or alias: a tool that every namespace has. Use [Registry.View] to look up a tool for a
// caller.
func (r *Registry) Lookup(name string) (*Entry, bool) {
	return r.View(Offer{}).Lookup(name)
}

// Shadowed reports whether a shared tool has taken the names of this source's tool.
func (r *Registry) Shadowed(source, id string) bool {
	at := r.current.Load()
	return slices.ContainsFunc(at.entries, func(e *Entry) bool {
		return e.Source == source && e.own.ID == id && !at.shows(e, e.namespace)
	})
}

// All returns the trusted tools of all namespaces, sorted by id.
func (r *Registry) All() []*Entry {
	return slices.DeleteFunc(slices.Clone(r.current.Load().entries), func(e *Entry) bool { return e.trusted != nil })
}

// Sources returns the names of the sources that have tools, sorted.
func (r *Registry) Sources() []string {
	sources := map[string]bool{}
	for _, e := range r.current.Load().entries {
		sources[e.Source] = true
	}
	return slices.Sorted(maps.Keys(sources))
}

// CompileSchema compiles a JSON Schema. The draft is 2020-12, unless $schema names draft 4, 6, 7 or 2019-09. It asserts formats, except in
// 2020-12, where they are only descriptions unless [Config.AssertFormats] is set. It caches results, because calls often repeat the same
// response schemas.
//
// Before it compiles, it refuses:
//
//   - texts that are longer than [MaxSchemaBytes] or that [call.ParseJSON] refuses
//   - references to other documents
//   - patterns that Go's regexp does not support, such as those with lookaround or back references
//   - schemas that would take too long to check even against a small value
//
// The error is a [*SchemaError].
func (r *Registry) CompileSchema(raw json.RawMessage) (*Schema, error) { return r.schemas.compile(raw) }
