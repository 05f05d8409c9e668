package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/store"
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

	mu     sync.Mutex
	known  map[pinKey]registry.Pin
	broken bool // some definitions could not be read
}

type pinKey struct {
	Source string `json:"source"`
	ID     string `json:"id"`
}

type pinRecord struct {
	pinKey
	registry.Pin
}

// OpenPins reads the trusted definitions. When some cannot be read, it returns an error and usable Pins, which then do not trust any
// unknown definition.
func OpenPins(ctx context.Context, s PinStore) (*Pins, error) {
	p := &Pins{store: s, known: map[pinKey]registry.Pin{}}
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
			p.known[pin.pinKey] = pin.Pin // the newest record is the last one
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
	key := pinKey{source, id}
	text, err := json.Marshal(pinRecord{key, pin})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := p.store.PutRecord(ctx, "", store.Record{Kind: pinKind, Key: source + "/" + id, Bytes: text}); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known[key] = pin
	return nil
}
