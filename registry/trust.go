package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/toold-dev/toold/tool"
)

// A Pin is the definition of a tool that is trusted.
type Pin struct {
	Digest     string          `json:"digest"`     // of the source's own definition
	Descriptor json.RawMessage `json:"descriptor"` // what it was, to compare with
}

// Pins keep what is trusted, over restarts. They are asked under the registry's lock.
type Pins interface {
	Pinned(source, id string) (Pin, bool)
	// Pin has it durable when it returns.
	Pin(source, id string, p Pin) error
}

// ErrNotQuarantined means that there is nothing to accept.
var ErrNotQuarantined = errors.New("no definition of this tool waits to be accepted")

// A DigestError means that another definition waits than the one that was looked at.
type DigestError struct{ Want, Have string }

func (e *DigestError) Error() string {
	return fmt.Sprintf("the definition that waits has the digest %s, not %s", e.Have, e.Want)
}

// judge pins a definition that is seen for the first time, and quarantines one that is not as it was pinned.
func (r *Registry) judge(e *Entry) error {
	e.trusted = nil
	if r.cfg.Pins == nil || slices.Contains(r.cfg.Trusted, e.Source) {
		return nil
	}
	pin, known := r.cfg.Pins.Pinned(e.Source, e.own.ID)
	if known && pin.Digest != e.claim {
		e.trusted = &pin
	}
	if known {
		return nil
	}
	return r.pin(e)
}

func (r *Registry) pin(e *Entry) error {
	text, err := json.Marshal(e.own)
	if err == nil {
		err = r.cfg.Pins.Pin(e.Source, e.own.ID, Pin{e.claim, text})
	}
	if err != nil {
		return fmt.Errorf("pin the definition of %q: %w", e.own.ID, err)
	}
	return nil
}

// Quarantined returns the tools whose definitions wait to be accepted, by id.
func (r *Registry) Quarantined() []tool.QuarantinedTool {
	var out []tool.QuarantinedTool
	for _, e := range r.current.Load().entries {
		if e.trusted == nil {
			continue
		}
		q := tool.QuarantinedTool{
			Source: e.Source, Namespace: e.namespace,
			Trusted: tool.Definition{Digest: e.trusted.Digest}, Waiting: tool.Definition{Descriptor: e.own, Digest: e.claim},
		}
		_ = json.Unmarshal(e.trusted.Descriptor, &q.Trusted.Descriptor) // else its digest is all that is known of it
		out = append(out, q)
	}
	return out
}

// WhyAbsent says why a tool that its source has cannot be found in a namespace; "" when it can, or when there is none.
func (r *Registry) WhyAbsent(namespace, name string, hidden func(*tool.Descriptor) bool) string {
	e := r.current.Load().find(namespace, name)
	if e == nil || e.trusted == nil || hidden != nil && hidden(&e.Descriptor) {
		return ""
	}
	return fmt.Sprintf("the definition of %s from %s is not the one that was trusted; an operator looks at it with: toold tools diff %s",
		e.own.ID, e.Source, e.own.ID)
}

// Accept trusts the definition of a source that waits, when it has this digest.
func (r *Registry) Accept(source, id, digest string) (*Entry, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.current.Load()
	i := slices.IndexFunc(old.entries, func(e *Entry) bool { return e.Source == source && e.own.ID == id && e.trusted != nil })
	if i < 0 {
		return nil, ErrNotQuarantined
	}
	accepted := *old.entries[i]
	if accepted.claim != digest {
		return nil, &DigestError{digest, accepted.claim}
	}
	if err := r.pin(&accepted); err != nil {
		return nil, err
	}
	accepted.trusted = nil
	entries := slices.Clone(old.entries)
	entries[i] = &accepted
	return &accepted, r.applyLocked(entries, nil)
}

// Describe puts descriptions in the place of the tools' own, by id, and takes back earlier ones. What is trusted is the
// tool's own; the digest in force says what models read.
func (r *Registry) Describe(descriptions map[string]string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	entries := slices.Clone(r.current.Load().entries)
	for i, e := range entries {
		next := *e
		if err := next.describe(descriptions); err != nil {
			return err
		}
		entries[i] = &next
	}
	r.descriptions = descriptions
	return r.applyLocked(entries, nil)
}

// describe makes the descriptor in force of the source's own.
func (e *Entry) describe(descriptions map[string]string) error {
	e.Descriptor, e.Digest = e.own, e.ownDigest
	text, ok := descriptions[e.own.ID]
	if !ok {
		return nil
	}
	e.Descriptor.Description = text
	if err := checkTexts(&e.Descriptor); err != nil {
		return fmt.Errorf("description of %q: %w", e.own.ID, err)
	}
	var err error
	e.Digest, err = e.Descriptor.Digest()
	return err
}

// Undescribed returns the ids that a description is for and no tool has.
func (r *Registry) Undescribed() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []string
	for id := range r.descriptions {
		if !slices.ContainsFunc(r.current.Load().entries, func(e *Entry) bool { return e.own.ID == id }) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, strings.Compare)
	return ids
}
