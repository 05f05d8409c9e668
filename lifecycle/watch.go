package lifecycle

import (
	"context"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/refusal"
	"github.com/toold-dev/toold/lifecycle/view"
	"github.com/toold-dev/toold/lifecycle/watch"
	"github.com/toold-dev/toold/tool"
)

// A watched implements [watch.Watched]. It holds a reference to the call. Left releases the reference.
type watched struct{ l *activeCall }

func (w watched) Key() call.Key { return w.l.key }

func (w watched) Record() *call.Call { return w.l.record() }

func (w watched) EpochOf(sequence int64) int64 { return w.l.epochOf(sequence) }

func (w watched) Shared() *watch.SharedFrame { return w.l.shared.Load() }

func (w watched) Snapshot() (c *call.Call, published int64) {
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	return w.l.snapshotLocked(), w.l.log.Published()
}

func (w watched) Published() int64 {
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	return w.l.log.Published()
}

func (w watched) Look(after int64) (look watch.Look, err error) {
	l := w.l
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.settlement.is != committed:
		return look, l.settlement.err
	case l.log.Published() > after:
		look.More = true
		if l.watchers > 1 {
			look.Shared = watch.Share(&l.shared, &l.log, l.c, after)
		}
		if look.Shared == nil {
			look.Events = l.log.After(after)
		}
		return look, nil
	}
	if look.Status = l.c.Status; !look.Status.Terminal() {
		look.Change = l.log.Changed()
	}
	return look, nil
}

func (w watched) Idle() (c *call.Call, changed <-chan struct{}, err error) {
	l := w.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.settlement.is != committed {
		return nil, nil, l.settlement.err
	}
	if s := l.c.Status; s.Terminal() || s == call.Suspended {
		return l.snapshotLocked(), nil, nil
	}
	return nil, l.log.Changed(), nil
}

func (w watched) Left() {
	w.l.left()
	w.l.release()
}

// freshWatcher returns the watcher of a new call. The watcher takes over the caller's reference to the call.
func freshWatcher(l *activeCall, o call.ExecuteOptions, gap *call.Gap) *watch.CallWatcher {
	l.watchers++ // No lock is needed: no other goroutine has the call yet.
	return l.e.watches.Call(watched{l}, watch.Options{
		Position: watch.Position{Epoch: l.e.epoch, Gap: gap}, Through: o.WaitForDecision, Follow: true, Fresh: true,
	})
}

// newWatcher returns a watcher of an existing call. It starts at the cursor in o; without a cursor it starts with a snapshot. as is the
// client; nil means the caller of the call. Unless newWatcher fails, the watcher takes over the caller's reference to the call.
func newWatcher(l *activeCall, as *tool.Principal, o call.ExecuteOptions, follow bool) (*watch.CallWatcher, error) {
	options := watch.Options{Snapshot: o.Cursor == "", Through: o.WaitForDecision, Follow: follow, As: as}
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	if options.Position, err = l.positionLocked(o.Cursor); err != nil {
		return nil, err
	}
	l.watchers++
	if l.linger != nil {
		l.linger.Stop()
		l.linger = nil
	}
	return l.e.watches.Call(watched{l}, options), nil
}

// checkCursor returns the error that newWatcher would return for this cursor.
func (l *activeCall) checkCursor(text string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.positionLocked(text)
	return err
}

// positionLocked returns the position of a cursor. Without a cursor it returns the position of the newest event.
func (l *activeCall) positionLocked(cursor string) (watch.Position, error) {
	if cursor == "" {
		return watch.Position{After: l.log.Published()}, nil
	}
	cur, err := watch.ParseCursor(cursor)
	if err != nil {
		return watch.Position{}, err
	}
	return watch.PositionOf(l.c, l.log.Published(), l.e.epoch, cur)
}

func (l *activeCall) epochOf(sequence int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.c.EpochOf(sequence)
}

// Watch returns a watcher of a call. If follow is true, the watch ends when the call ends. Otherwise it ends after the events that exist
// now.
func (e *Engine) Watch(ctx context.Context, p tool.Principal, id, cursor string, follow bool) (call.Watcher, error) {
	l, err := e.acquireVisible(ctx, p, id)
	if err != nil {
		return nil, err
	}
	w, err := newWatcher(l, &p, call.ExecuteOptions{Cursor: cursor, WaitForDecision: true}, follow)
	if err != nil {
		l.release()
		return nil, err
	}
	return w, nil
}

// acquireVisible returns a call if the principal may see it.
func (e *Engine) acquireVisible(ctx context.Context, p tool.Principal, id string) (*activeCall, error) {
	l, err := e.acquire(ctx, call.Key{Namespace: p.Namespace, ID: id})
	if err != nil {
		return nil, refusal.OfCall(err, id)
	}
	if !view.Sees(p, l.record()) {
		l.release()
		return nil, refusal.UnknownCall(id)
	}
	return l, nil
}

// Watches returns the service that watches feeds and batches.
func (e *Engine) Watches() *watch.Service { return e.watches }
