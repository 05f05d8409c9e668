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

// A Config says how a registry starts.
type Config struct {
	// FirstRevision is where the revision starts. One that is greater than any of an earlier run of the daemon keeps
	// clients from taking an old list for the current one. Zero means 1.
	FirstRevision int64
	// CachedSchemas is how many schemas [Registry.CompileSchema] keeps. Zero means 128.
	CachedSchemas int
	// Pins keep the definitions that are trusted: that of a tool which is seen for the first time, until an operator
	// accepts another one. nil trusts all.
	Pins Pins
	// Trusted are sources that come with the daemon and change with it.
	Trusted []string
}

// A Registry holds the tools of all sources. Its methods may be called from many goroutines; looking up never waits for
// a registration.
type Registry struct {
	cfg     Config
	schemas *schemaCache

	mu           sync.Mutex // serialises changes
	descriptions map[string]string
	current      atomic.Pointer[snapshot]
}

// A snapshot is the registry at one revision. It never changes.
type snapshot struct {
	revision int64
	entries  []*Entry          // by id
	byName   map[string]*Entry // ids and aliases
	replaced chan struct{}     // closed when there is a newer one
}

// New returns an empty registry.
func New(cfg Config) *Registry {
	if cfg.FirstRevision <= 0 {
		cfg.FirstRevision = 1
	}
	if cfg.CachedSchemas <= 0 {
		cfg.CachedSchemas = 128
	}
	r := &Registry{cfg: cfg, schemas: newSchemaCache(cfg.CachedSchemas)}
	r.current.Store(&snapshot{revision: cfg.FirstRevision, byName: map[string]*Entry{}, replaced: make(chan struct{})})
	return r
}

// A DuplicateError means that an id or alias is taken.
type DuplicateError struct {
	Name    string
	Sources [2]string // that has it, that wants it
}

func (e *DuplicateError) Error() string {
	if e.Sources[0] == e.Sources[1] {
		return fmt.Sprintf("tool name %q is there twice in source %q", e.Name, e.Sources[0])
	}
	return fmt.Sprintf("tool name %q of source %q is taken by source %q", e.Name, e.Sources[1], e.Sources[0])
}

// Register adds tools to a source, all or none. The error names every tool that is refused and why; for a name that is
// taken it holds a [*DuplicateError].
func (r *Registry) Register(source string, tools ...tool.Tool) error {
	added, err := newEntries(source, tools)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.applyLocked(append(slices.Clone(r.current.Load().entries), added...), added)
}

// Declared returns a tool that is in no list and that no other call finds: who declared it keeps it.
func (r *Registry) Declared(source string, t tool.Tool) (*Entry, error) {
	return newEntry(source, t, r.schemas.compile)
}

// Replace makes tools the only ones of a source, all or none: on an error the earlier ones stay.
func (r *Registry) Replace(source string, tools ...tool.Tool) error {
	added, err := newEntries(source, tools)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.applyLocked(append(r.withoutLocked(source), added...), added)
}

// Unregister removes a source. Calls that run keep the entry they have.
func (r *Registry) Unregister(source string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.applyLocked(r.withoutLocked(source), nil) // fewer tools cannot collide
}

func (r *Registry) withoutLocked(source string) []*Entry {
	return slices.DeleteFunc(slices.Clone(r.current.Load().entries), func(e *Entry) bool { return e.Source == source })
}

// newEntries compiles outside the lock: a source with many tools does not stop the others.
func newEntries(source string, tools []tool.Tool) ([]*Entry, error) {
	if source == "" {
		return nil, errors.New("register: a source needs a name")
	}
	entries := make([]*Entry, 0, len(tools))
	var refused []error
	for i, t := range tools {
		if t == nil {
			refused = append(refused, fmt.Errorf("source %q: tool %d is nil", source, i))
			continue
		}
		e, err := newEntry(source, t, CompileSchema)
		if err == nil {
			err = unreserved(&e.Descriptor)
		}
		if err != nil {
			refused = append(refused, fmt.Errorf("source %q: tool %q: %w", source, t.Descriptor().ID, err))
			continue
		}
		entries = append(entries, e)
	}
	return entries, errors.Join(refused...)
}

// applyLocked makes entries the registry's, unless two of them share a name. Those that are added are judged and described.
func (r *Registry) applyLocked(entries, added []*Entry) error {
	slices.SortStableFunc(entries, func(a, b *Entry) int { return strings.Compare(a.Descriptor.ID, b.Descriptor.ID) })
	byName := make(map[string]*Entry, len(entries))
	var taken []error
	for _, e := range entries {
		for _, name := range names(&e.Descriptor) {
			if other := byName[name]; other != nil {
				taken = append(taken, &DuplicateError{name, [2]string{other.Source, e.Source}})
				continue
			}
			byName[name] = e
		}
	}
	if len(taken) > 0 {
		return errors.Join(taken...)
	}
	for _, e := range added {
		if err := errors.Join(r.judge(e), e.describe(r.descriptions)); err != nil {
			return err
		}
	}
	r.storeLocked(entries, byName)
	return nil
}

func (r *Registry) storeLocked(entries []*Entry, byName map[string]*Entry) {
	old := r.current.Load()
	r.current.Store(&snapshot{
		revision: old.revision + 1,
		entries:  entries,
		byName:   byName,
		replaced: make(chan struct{}),
	})
	close(old.replaced)
}

// Refresh begins a new revision without a change of tools. It is called when what callers may see has changed for another
// reason, such as new rules: lists that were fetched before are old, and watchers look again.
func (r *Registry) Refresh() {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.current.Load()
	r.storeLocked(old.entries, old.byName)
}

// Lookup returns the tool with this id or alias, whoever asks. For a caller use [Registry.View].
func (r *Registry) Lookup(name string) (*Entry, bool) {
	e, ok := r.current.Load().byName[name]
	if !ok || e.trusted != nil {
		return nil, false
	}
	return e, true
}

// Revision grows with each change.
func (r *Registry) Revision() int64 { return r.current.Load().revision }

// Sources returns the names of the sources that have tools, sorted.
func (r *Registry) Sources() []string {
	sources := map[string]bool{}
	for _, e := range r.current.Load().entries {
		sources[e.Source] = true
	}
	return slices.Sorted(maps.Keys(sources))
}

// CompileSchema is the function of the same name with a cache: response schemas of tickets come again and again.
func (r *Registry) CompileSchema(raw json.RawMessage) (*Schema, error) { return r.schemas.compile(raw) }
