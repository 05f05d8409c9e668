package registry

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/toold-dev/toold/registry/rank"
	"github.com/toold-dev/toold/tool"
)

// An Origin identifies a tool by its source and by the id that the source gave it.
type Origin struct{ Source, ID string }

// A Name is the id that the operator gave a tool.
type Name struct {
	ID    string
	Alias bool // The id that the source gave the tool becomes an alias.
}

// Describe sets the descriptions of tools and drops the earlier ones. The keys are the ids that the sources gave the tools. The digest of
// an entry covers the new description. The pin of the tool covers the description from the source.
func (r *Registry) Describe(descriptions map[string]string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.overrideLocked(descriptions, r.names); err != nil {
		return err
	}
	r.descriptions = descriptions
	return nil
}

// Rename gives tools new ids, all or none, and drops the earlier ones. The tools need not exist yet. The digest of an entry covers the new
// id. The pin of the tool covers the definition from the source. When a new id is taken, the error wraps a [*DuplicateError].
func (r *Registry) Rename(names map[Origin]Name) error {
	for origin, name := range names {
		if err := checkName(name.ID); err != nil {
			return fmt.Errorf("new id of %q of source %q: %w", origin.ID, origin.Source, err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.overrideLocked(r.descriptions, names); err != nil {
		return err
	}
	r.names = names
	return nil
}

func checkName(id string) error {
	if err := tool.ValidName(id); err != nil {
		return err
	}
	return unreserved(&tool.Descriptor{ID: id})
}

func (r *Registry) overrideLocked(descriptions map[string]string, names map[Origin]Name) error {
	entries := slices.Clone(r.current.Load().entries)
	for i, e := range entries {
		next := *e
		if err := next.override(descriptions, names); err != nil {
			return err
		}
		entries[i] = &next
	}
	return r.applyLocked(entries, nil)
}

// override sets the descriptor of the entry: that of the source with the description and the id that the operator chose.
func (e *Entry) override(descriptions map[string]string, names map[Origin]Name) error {
	e.Descriptor, e.Digest = e.own, e.ownDigest
	e.words = sync.OnceValue(func() *rank.Document { return rank.NewDocument(&e.Descriptor) })
	text, described := descriptions[e.own.ID]
	name, named := names[Origin{e.Source, e.own.ID}]
	if described {
		e.Descriptor.Description = text
		if err := checkTexts(&e.Descriptor); err != nil {
			return fmt.Errorf("description of %q: %w", e.own.ID, err)
		}
	}
	if named {
		if err := e.rename(name); err != nil {
			return err
		}
	}
	if !described && !named {
		return nil
	}
	var err error
	e.Digest, err = e.Descriptor.Digest()
	return err
}

// rename gives the entry a new id. When the new id was an alias of the entry, rename removes that alias.
func (e *Entry) rename(name Name) error {
	d := &e.Descriptor
	d.ID, d.SourceID = name.ID, e.own.ID
	d.Aliases = slices.DeleteFunc(slices.Clone(d.Aliases), func(alias string) bool { return alias == name.ID })
	if name.Alias && name.ID != e.own.ID {
		d.Aliases = append(d.Aliases, e.own.ID)
	}
	if err := checkAliases(d); err != nil {
		return fmt.Errorf("new id of %q of source %q: %w", e.own.ID, e.Source, err)
	}
	return nil
}

// Undescribed returns the ids that have a replacement description but no tool.
func (r *Registry) Undescribed() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r.descriptions)), func(id string) bool {
		return slices.ContainsFunc(r.current.Load().entries, func(e *Entry) bool { return e.own.ID == id })
	})
}

// Unnamed returns the origins that have a new id but no tool.
func (r *Registry) Unnamed() []Origin {
	r.mu.Lock()
	defer r.mu.Unlock()
	origins := slices.SortedFunc(maps.Keys(r.names), func(a, b Origin) int {
		return strings.Compare(a.Source+" "+a.ID, b.Source+" "+b.ID)
	})
	return slices.DeleteFunc(origins, func(o Origin) bool {
		return slices.ContainsFunc(r.current.Load().entries, func(e *Entry) bool { return e.Source == o.Source && e.own.ID == o.ID })
	})
}
