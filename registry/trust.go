package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/toold-dev/toold/tool"
)

// A Pin is the trusted definition of a tool.
type Pin struct {
	Digest     string          `json:"digest"`     // digest of the source's definition
	Descriptor json.RawMessage `json:"descriptor"` // the definition, to show differences
}

// Pins stores trusted definitions across restarts. The registry calls its methods with a lock held.
type Pins interface {
	Pinned(source, id string) (Pin, bool)
	// Pin returns when the pin is durable.
	Pin(source, id string, p Pin) error
}

// ErrNotQuarantined means that the tool has no definition that waits for acceptance.
var ErrNotQuarantined = errors.New("no definition of this tool is in quarantine")

// A DigestError means that the waiting definition is not the one that the operator reviewed.
type DigestError struct{ Want, Have string }

func (e *DigestError) Error() string {
	return fmt.Sprintf("the definition in quarantine has the digest %s, not %s", e.Have, e.Want)
}

// judge pins the first definition of a tool, and quarantines one that differs from its pin.
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

// Quarantined returns the tools whose definitions wait for acceptance, sorted by id.
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
		_ = json.Unmarshal(e.trusted.Descriptor, &q.Trusted.Descriptor) // After an error, only the digest is known.
		out = append(out, q)
	}
	return out
}

// WhyAbsent returns why a namespace does not have a tool that is in quarantine. It returns "" for other tools.
func (r *Registry) WhyAbsent(namespace, name string, hidden func(*tool.Descriptor) bool) string {
	e := r.current.Load().find(namespace, name)
	if e == nil || e.trusted == nil || hidden != nil && hidden(&e.Descriptor) {
		return ""
	}
	return fmt.Sprintf("the definition of %s from %s is not the trusted one; an operator can compare the two with: toold tools diff %s",
		e.Descriptor.ID, e.Source, e.own.ID)
}

// Accept trusts the waiting definition of a tool if it has this digest.
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
