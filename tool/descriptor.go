package tool

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// A Descriptor describes a tool. Each call stores the digest of the descriptor, so that an approval is valid for this description only.
type Descriptor struct {
	ID          string `json:"id"`
	DisplayName string `json:"display_name,omitempty"` // empty means the id
	Description string `json:"description,omitempty"`  // text for the model
	Category    string `json:"category,omitempty"`

	// Parameters is a JSON Schema, of version 2020-12 unless its $schema names another one. Empty means that the tool has no arguments.
	Parameters json.RawMessage `json:"parameters,omitempty"`
	// ResultSchema, if set, is the schema for the data of a SUCCESS result.
	ResultSchema json.RawMessage `json:"result_schema,omitempty"`

	// Effects apply while the arguments are unknown. The zero value means MUTATING, CONFIRM and not concurrency-safe. These are the
	// strictest values, except that the tier ESCALATE is stricter.
	Effects Effects `json:"effects"`
	// Mildest is the lower bound of the effects that Assess may return. Nil means that Effects is the lower bound.
	Mildest *Effects `json:"mildest,omitempty"`

	Idempotent bool    `json:"idempotent,omitempty"` // After a crash interrupted an attempt, the engine may run the tool again with the same idempotency key.
	OnDoubt    OnDoubt `json:"on_doubt,omitempty"`

	Timeouts     Timeouts `json:"timeouts,omitzero"`
	MaxArguments int      `json:"max_arguments,omitempty"` // bytes; 0 means 256 KiB
	OutputBudget int      `json:"output_budget,omitempty"` // bytes of data and text kept inline; 0 means 48 KiB

	RequiredIsolation Isolation `json:"required_isolation,omitempty"` // empty means none
	RequiredNetwork   string    `json:"required_network,omitempty"`   // none | proxy | open; empty means none
	RequiredSecrets   []string  `json:"required_secrets,omitempty"`

	Guidance    string            `json:"guidance,omitempty"` // how a model should use the tool; part of tool lists
	Annotations map[string]string `json:"annotations,omitempty"`
	Aliases     []string          `json:"aliases,omitempty"`
	Source      string            `json:"source,omitempty"` // set by the registry
	Version     string            `json:"version,omitempty"`

	// SourceID is the id that the source gave a tool whose id the operator replaced. Empty means ID. The digest does not include it.
	SourceID string `json:"-"`

	// Metadata is for operators and programs. Models never see it, and the digest does not include it.
	Metadata map[string]string `json:"-"`
}

// Timeouts limit one call. A zero field means the daemon's default: 30 s in the queue, 10 min for an attempt.
type Timeouts struct {
	Queue   time.Duration `json:"queue,omitempty"`
	Attempt time.Duration `json:"attempt,omitempty"`
}

// Isolation is the isolation of a tool's processes.
type Isolation string

// The isolation levels that a descriptor may require. IsolationNone says explicitly that the tool runs without isolation, and the records
// of its calls say so too.
const (
	IsolationNone Isolation = "none"
	IsolationFull Isolation = "full" // isolates files, network and processes
)

// OnDoubt says what happens to a call when the outcome of its attempt is unknown.
type OnDoubt string

// Empty means OnDoubtFail.
const (
	OnDoubtFail OnDoubt = "fail" // the call becomes FAILED with IN_DOUBT
	OnDoubtAsk  OnDoubt = "ask"  // the call becomes SUSPENDED with the action in_doubt
)

// Name returns the display name, or the id.
func (d *Descriptor) Name() string {
	if d.DisplayName != "" {
		return d.DisplayName
	}
	return d.ID
}

// MildestEffects returns the bound of the effects that Assess may return.
func (d *Descriptor) MildestEffects() Effects {
	if d.Mildest != nil {
		return d.Mildest.Normal()
	}
	return d.Effects.Normal()
}

// OwnID returns the id that the source gave the tool.
func (d *Descriptor) OwnID() string { return cmp.Or(d.SourceID, d.ID) }

// Digest returns the SHA-256, in hex, of the descriptor's JSON form with sorted schema members. The order of members in schemas does not
// affect it.
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
		sorted, err := json.Marshal(v) // encoding/json sorts the members of maps.
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
