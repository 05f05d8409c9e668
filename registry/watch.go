package registry

import (
	"context"
	"maps"
)

// A Watcher follows a view. It has no goroutine and no queue: a slow caller gets all changes as one change. Only one goroutine may use it.
type Watcher struct {
	registry *Registry
	offer    Offer
	at       *snapshot
	seen     map[string]string // digest by id
}

// Watch returns a watcher of the changes from now on.
func (r *Registry) Watch(o Offer) *Watcher {
	at := r.current.Load()
	return &Watcher{registry: r, offer: o, at: at, seen: visible(at, &o)}
}

// Next waits until the tools of the offer change, or until ctx is done. A change of other tools does not wake the watcher: a caller must
// not be able to distinguish a hidden tool from a tool that does not exist.
func (w *Watcher) Next(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.at.replaced:
		}
		w.at = w.registry.current.Load()
		now := visible(w.at, &w.offer)
		changed := !maps.Equal(w.seen, now)
		w.seen = now
		if changed {
			return nil
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
