package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/toold-dev/toold/tool"
)

// A Pin is the trusted definition of a tool.
type Pin struct {
	Digest     string          `json:"digest"`       // digest of the source's definition
	Descriptor json.RawMessage `json:"descriptor"`   // the definition, to show differences
	By         string          `json:"by,omitempty"` // subject of the operator that accepted it; empty for the first definition of a tool
}

// A Refusal is an operator's answer that a definition is not to be trusted.
type Refusal struct {
	Digest     string          `json:"digest"`
	Descriptor json.RawMessage `json:"descriptor"`
	By         string          `json:"by"` // subject of the operator
	Time       time.Time       `json:"time"`
}

// Pins stores trusted definitions across restarts. The registry calls its methods with a lock held.
type Pins interface {
	Pinned(source, id string) (Pin, bool)
	// Pin returns when the pin is durable. It removes the refusal of this definition.
	Pin(source, id string, p Pin) error
	// Refused returns the refusal of the definition with this digest, or nil.
	Refused(source, id, digest string) *Refusal
	// Refuse returns when the refusal is durable.
	Refuse(source, id string, r Refusal) error
}

// ErrNotQuarantined means that the tool has no definition that waits for acceptance.
var ErrNotQuarantined = errors.New("no definition of this tool is in quarantine")

// A DigestError means that the operator reviewed another definition than the one that waits.
type DigestError struct{ Want, Have string }

func (e *DigestError) Error() string {
	return fmt.Sprintf("the definition in quarantine has the digest %s, not %s", e.Have, e.Want)
}

// judge pins the first definition of a tool, and quarantines a definition that differs from the pin.
func (r *Registry) judge(e *Entry) error {
	e.trusted, e.refused = nil, nil
	if r.cfg.Pins == nil || slices.Contains(r.cfg.Trusted, e.Source) {
		return nil
	}
	pin, known := r.cfg.Pins.Pinned(e.Source, e.own.ID)
	if known && pin.Digest != e.claim {
		e.trusted, e.since, e.refused = &pin, r.since(e), r.cfg.Pins.Refused(e.Source, e.own.ID, e.claim)
	}
	if known {
		return nil
	}
	return r.pin(e, "")
}

// since returns when the registry first received the definition of e. A source may have sent the same definition before.
func (r *Registry) since(e *Entry) time.Time {
	for _, old := range r.current.Load().entries {
		if old.Source == e.Source && old.own.ID == e.own.ID && old.claim == e.claim && old.trusted != nil {
			return old.since
		}
	}
	return time.Now()
}

func (r *Registry) pin(e *Entry, by string) error {
	text, err := json.Marshal(e.own)
	if err == nil {
		err = r.cfg.Pins.Pin(e.Source, e.own.ID, Pin{e.claim, text, by})
	}
	if err != nil {
		return fmt.Errorf("pin the definition of %q: %w", e.own.ID, err)
	}
	return nil
}

// Quarantined returns the tools whose definitions are not the trusted ones, sorted by id.
func (r *Registry) Quarantined() []tool.QuarantinedTool {
	var out []tool.QuarantinedTool
	for _, e := range r.current.Load().entries {
		if e.trusted == nil {
			continue
		}
		q := tool.QuarantinedTool{
			Source: e.Source, Namespace: e.namespace,
			Trusted: tool.Definition{Digest: e.trusted.Digest}, Waiting: tool.Definition{Descriptor: e.own, Digest: e.claim}, Since: e.since,
		}
		if e.refused != nil {
			q.RefusedBy, q.RefusedAt = e.refused.By, e.refused.Time
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
	if e.refused != nil {
		return fmt.Sprintf("the definition of %s from %s is not the trusted one, and %s refused it; compare the two with: toold tools diff %s",
			e.Descriptor.ID, e.Source, e.refused.By, e.own.ID)
	}
	return fmt.Sprintf("the definition of %s from %s is not the trusted one; an operator can compare the two with: toold tools diff %s",
		e.Descriptor.ID, e.Source, e.own.ID)
}

// Accept trusts the waiting definition of a tool if it has this digest, even when an operator refused it before. The parameter by is the
// subject of the operator.
func (r *Registry) Accept(source, id, digest, by string) (*Entry, error) {
	return r.answer(source, id, digest, func(e *Entry) error {
		e.trusted, e.refused = nil, nil
		return r.pin(e, by)
	})
}

// Refuse answers that the waiting definition of a tool is not to be trusted, if it has this digest. The tool stays in quarantine. A
// repeated refusal changes nothing.
func (r *Registry) Refuse(source, id, digest, by string) error {
	_, err := r.answer(source, id, digest, func(e *Entry) error {
		if e.refused != nil {
			return nil
		}
		text, err := json.Marshal(e.own)
		if err != nil {
			return fmt.Errorf("refuse the definition of %q: %w", id, err)
		}
		e.refused = &Refusal{digest, text, by, time.Now()}
		if err := r.cfg.Pins.Refuse(source, id, *e.refused); err != nil {
			return fmt.Errorf("refuse the definition of %q: %w", id, err)
		}
		return nil
	})
	return err
}

// answer changes a copy of the entry of a waiting definition, and publishes it.
func (r *Registry) answer(source, id, digest string, change func(*Entry) error) (*Entry, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.current.Load()
	i := slices.IndexFunc(old.entries, func(e *Entry) bool { return e.Source == source && e.own.ID == id && e.trusted != nil })
	if i < 0 {
		return nil, ErrNotQuarantined
	}
	answered := *old.entries[i]
	if answered.claim != digest {
		return nil, &DigestError{digest, answered.claim}
	}
	if err := change(&answered); err != nil {
		return nil, err
	}
	entries := slices.Clone(old.entries)
	entries[i] = &answered
	return &answered, r.applyLocked(entries, nil)
}
