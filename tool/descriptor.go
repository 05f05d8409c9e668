package tool

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// A Descriptor says what a tool is. It is part of what an approver agrees to: its digest is pinned in every call.
type Descriptor struct {
	ID          string `json:"id"`
	DisplayName string `json:"display_name,omitempty"` // empty shows the id
	Description string `json:"description,omitempty"`  // what the model reads
	Category    string `json:"category,omitempty"`

	// Parameters is a JSON Schema, 2020-12 unless its $schema says otherwise. Empty means: no arguments.
	Parameters json.RawMessage `json:"parameters,omitempty"`
	// ResultSchema, when set, is what the data of a SUCCESS result must meet.
	ResultSchema json.RawMessage `json:"result_schema,omitempty"`

	// Effects hold while the arguments are unknown. The zero value is the strictest reading that is not an escalation:
	// MUTATING, CONFIRM, not concurrency-safe.
	Effects Effects `json:"effects"`
	// Mildest is the mildest answer that Assess may give; nil means that Assess cannot answer milder than Effects.
	Mildest *Effects `json:"mildest,omitempty"`

	Idempotent bool    `json:"idempotent,omitempty"` // started and unfinished after a crash, it may run again with the same key
	OnDoubt    OnDoubt `json:"on_doubt,omitempty"`

	Timeouts     Timeouts `json:"timeouts,omitzero"`
	MaxArguments int      `json:"max_arguments,omitempty"` // bytes; 0 means 256 KiB
	OutputBudget int      `json:"output_budget,omitempty"` // bytes of data and text kept inline; 0 means 48 KiB

	RequiredIsolation Isolation `json:"required_isolation,omitempty"` // empty means none
	RequiredNetwork   string    `json:"required_network,omitempty"`   // none | proxy | open; empty means none
	RequiredSecrets   []string  `json:"required_secrets,omitempty"`

	Guidance    string            `json:"guidance,omitempty"` // how a model should use it; part of tool lists
	Annotations map[string]string `json:"annotations,omitempty"`
	Aliases     []string          `json:"aliases,omitempty"`
	Source      string            `json:"source,omitempty"` // set by the registry
	Version     string            `json:"version,omitempty"`

	// Metadata is for operators and programs; models never see it, and it is no part of the digest.
	Metadata map[string]string `json:"-"`
}

// Timeouts bound one call; zero fields mean the daemon's defaults (queue 30 s, attempt 10 min).
type Timeouts struct {
	Queue   time.Duration `json:"queue,omitempty"`
	Attempt time.Duration `json:"attempt,omitempty"`
}

// Isolation names what must hold around a tool's processes.
type Isolation string

// The levels that a descriptor may ask for. IsolationNone is a statement that records repeat, not an oversight.
const (
	IsolationNone Isolation = "none"
	IsolationFull Isolation = "full" // files, network and processes
)

// OnDoubt says what happens to an attempt whose end is not known.
type OnDoubt string

// Empty means OnDoubtFail.
const (
	OnDoubtFail OnDoubt = "fail" // FAILED IN_DOUBT
	OnDoubtAsk  OnDoubt = "ask"  // SUSPENDED with the action in_doubt
)

// Name returns the display name, or the id.
func (d *Descriptor) Name() string {
	if d.DisplayName != "" {
		return d.DisplayName
	}
	return d.ID
}

// MildestEffects returns the bound of what Assess may answer.
func (d *Descriptor) MildestEffects() Effects {
	if d.Mildest != nil {
		return d.Mildest.Normal()
	}
	return d.Effects.Normal()
}

// Digest returns the SHA-256, in hex, of the descriptor's JSON form with sorted schema members. Equal descriptors have
// equal digests, whatever the order of members in their schemas.
func (d Descriptor) Digest() (string, error) {
	for _, schema := range []*json.RawMessage{&d.Parameters, &d.ResultSchema} {
		if len(*schema) == 0 {
			continue
		}
		var v any
		dec := json.NewDecoder(bytes.NewReader(*schema))
		dec.UseNumber()
		if err := dec.Decode(&v); err != nil {
			return "", err
		}
		sorted, err := json.Marshal(v) // encoding/json sorts the members of maps
		if err != nil {
			return "", err
		}
		*schema = sorted
	}
	b, err := json.Marshal(d)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}
