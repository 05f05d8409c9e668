package permission

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// inForce are active rules with their hits.
type inForce struct {
	*Rules
	since time.Time

	tallies sync.Map     // maps a namespace to its *tally
	size    atomic.Int64 // number of tallies
}

// maxHits limits the memory of the hits of all namespaces to 4 MiB. Further namespaces are not counted.
const maxHits = 1 << 18

// A tally has the hits of one namespace, by slot.
type tally []hit

type hit struct {
	count atomic.Int64
	last  atomic.Int64 // nanoseconds after the rules became active; zero when there was no hit
}

// count counts a decision for the rule or the tier that made it. When a mode or a remembered answer replaces an approval, count still
// counts the rule that asked.
func (f *inForce) count(namespace string, d *decision) {
	if d.layer == nil { // no rule and no tier decided: a mode refused
		return
	}
	t := f.tally(namespace)
	if t == nil {
		return
	}
	slot := d.layer.slot
	if d.rule != nil {
		slot = d.rule.slot
	} else {
		slot += slices.Index(tiers, d.tier)
	}
	t[slot].count.Add(1)
	t[slot].last.Store(int64(time.Since(f.since)) | 1)
}

// tally returns the hits of a namespace, or nil when there are too many namespaces to count.
func (f *inForce) tally(namespace string) tally {
	if known, ok := f.tallies.Load(namespace); ok {
		return known.(tally)
	}
	if f.size.Add(1)*int64(f.slots) > maxHits {
		f.size.Add(-1)
		return nil
	}
	known, loaded := f.tallies.LoadOrStore(namespace, make(tally, f.slots))
	if loaded {
		f.size.Add(-1)
	}
	return known.(tally)
}
