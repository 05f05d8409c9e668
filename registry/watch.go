package registry

import (
	"context"
	"maps"
	"slices"
)

// A Change is what happened to a view since a watcher looked last: ids, sorted.
type Change struct {
	Revision                int64
	Added, Removed, Changed []string
}

// A Watcher follows a view. It holds no goroutine and no queue: one that is slow gets everything that happened meanwhile
// as one change. It is for one goroutine.
type Watcher struct {
	registry *Registry
	offer    Offer
	at       *snapshot
	seen     map[string]string // id to digest
}

// Watch returns a watcher that tells what happens after now.
func (r *Registry) Watch(o Offer) *Watcher {
	at := r.current.Load()
	return &Watcher{registry: r, offer: o, at: at, seen: visible(at, &o)}
}

// Revision returns the revision that the watcher saw last.
func (w *Watcher) Revision() int64 { return w.at.revision }

// Next waits for a change of what the offer shows, or for ctx. What happens to other tools wakes nobody: a tool that is
// hidden is not to be told from one that does not exist.
func (w *Watcher) Next(ctx context.Context) (Change, error) {
	for {
		select {
		case <-ctx.Done():
			return Change{}, ctx.Err()
		case <-w.at.replaced:
		}
		w.at = w.registry.current.Load()
		now := visible(w.at, &w.offer)
		change := compare(w.seen, now)
		w.seen = now
		if len(change.Added)+len(change.Removed)+len(change.Changed) > 0 {
			change.Revision = w.at.revision
			return change, nil
		}
	}
}

func visible(at *snapshot, o *Offer) map[string]string {
	digests := map[string]string{}
	for _, e := range (View{at, *o}).List() {
		digests[e.Descriptor.ID] = e.Digest
	}
	return digests
}

func compare(before, after map[string]string) (c Change) {
	for _, id := range slices.Sorted(maps.Keys(after)) {
		digest, there := before[id]
		switch {
		case !there:
			c.Added = append(c.Added, id)
		case digest != after[id]:
			c.Changed = append(c.Changed, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(before)) {
		if _, there := after[id]; !there {
			c.Removed = append(c.Removed, id)
		}
	}
	return c
}
