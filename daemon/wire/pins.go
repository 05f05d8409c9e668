package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// pinKind is the kind of the records of trusted definitions. The records belong to no namespace, because tools belong to the daemon.
const pinKind = "tool_pin"

// A PinStore stores trusted definitions and other records of the daemon.
type PinStore interface {
	store.RecordReader
	PutRecord(ctx context.Context, namespace string, r store.Record) error
}

// Pins holds the trusted definitions of a store.
type Pins struct {
	store PinStore

	mu      sync.Mutex
	known   map[pinKey]registry.Pin
	refused map[pinKey]map[string]registry.Refusal // by digest
	broken  bool                                   // some definitions could not be read
}

type pinKey struct {
	Source string `json:"source"`
	ID     string `json:"id"`
}

// A pinRecord says which definition of a tool is trusted from then on. A record with a refusal repeats the trusted definition.
type pinRecord struct {
	pinKey
	registry.Pin
	Refused *registry.Refusal `json:"refused,omitempty"`
}

// OpenPins reads the trusted definitions. When some cannot be read, it returns an error and usable Pins, which then do not trust any
// unknown definition.
func OpenPins(ctx context.Context, s PinStore) (*Pins, error) {
	p := &Pins{store: s, known: map[pinKey]registry.Pin{}, refused: map[pinKey]map[string]registry.Refusal{}}
	for after := int64(0); ; {
		records, err := s.Records(ctx, "", pinKind, after, 500)
		if err != nil {
			p.broken = true
			return p, fmt.Errorf("trusted definitions: %w", err)
		}
		if len(records) == 0 {
			return p, nil
		}
		for _, r := range records {
			var pin pinRecord
			if err := json.Unmarshal(r.Bytes, &pin); err != nil {
				p.broken = true
				return p, fmt.Errorf("trusted definition %q: %w", r.Key, err)
			}
			p.applyLocked(&pin) // The newest record is the last one, and no other goroutine has p.
			after = r.Position
		}
	}
}

// Pinned implements [registry.Pins].
func (p *Pins) Pinned(source, id string) (registry.Pin, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pin, ok := p.known[pinKey{source, id}]
	return pin, ok || p.broken
}

// Pin implements [registry.Pins].
func (p *Pins) Pin(source, id string, pin registry.Pin) error {
	return p.put(&pinRecord{pinKey: pinKey{source, id}, Pin: pin})
}

// Refused implements [registry.Pins].
func (p *Pins) Refused(source, id, digest string) *registry.Refusal {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.refused[pinKey{source, id}][digest]
	if !ok {
		return nil
	}
	return &r
}

// Refuse implements [registry.Pins].
func (p *Pins) Refuse(source, id string, r registry.Refusal) error {
	trusted, _ := p.Pinned(source, id)
	return p.put(&pinRecord{pinKey{source, id}, trusted, &r})
}

func (p *Pins) put(r *pinRecord) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := p.store.PutRecord(ctx, "", store.Record{Kind: pinKind, Key: r.Source + "/" + r.ID, Bytes: text}); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.applyLocked(r)
	return nil
}

func (p *Pins) applyLocked(r *pinRecord) {
	p.known[r.pinKey] = r.Pin
	refused := p.refused[r.pinKey]
	switch {
	case r.Refused == nil:
		delete(refused, r.Digest)
	case refused == nil:
		p.refused[r.pinKey] = map[string]registry.Refusal{r.Refused.Digest: *r.Refused}
	default:
		refused[r.Refused.Digest] = *r.Refused
	}
}

// The maximum numbers of records that are read for one page of a history, and by one query. They are bounded because no index covers the
// tool of a record.
const (
	maxPinScan = 2000
	pinScan    = 250
)

// History returns at most limit judgements on definitions of a tool with positions below before, the newest first. next is the position
// before which the search continues, or 0.
func (p *Pins) History(ctx context.Context, source, id string, before int64, limit int) (all []tool.JudgedDefinition, next int64, err error) {
	key := source + "/" + id
	for range maxPinScan / pinScan {
		records, err := p.store.RecordsBefore(ctx, "", pinKind, before, pinScan)
		if err != nil {
			return nil, 0, fmt.Errorf("history of %q: %w", id, err)
		}
		for _, r := range records {
			if before = r.Position; r.Key != key {
				continue
			}
			var d pinRecord
			if err := json.Unmarshal(r.Bytes, &d); err != nil {
				return nil, 0, fmt.Errorf("history of %q: %w", id, err)
			}
			if all = append(all, d.judged(&r)); len(all) == limit {
				return all, before, nil
			}
		}
		if len(records) < pinScan {
			return all, 0, nil
		}
	}
	return all, before, nil
}

func (p *pinRecord) judged(r *store.StoredRecord) tool.JudgedDefinition {
	d := tool.JudgedDefinition{Position: r.Position, Time: r.Time.Time(), By: p.By}
	d.Digest = p.Digest
	text := p.Descriptor
	if p.Refused != nil {
		d.Digest, text, d.By, d.Refused = p.Refused.Digest, p.Refused.Descriptor, p.Refused.By, true
	}
	_ = json.Unmarshal(text, &d.Descriptor) // After an error, only the digest is known.
	return d
}
