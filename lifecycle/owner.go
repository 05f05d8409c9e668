package lifecycle

import (
	"context"
	"sync"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// knownOwners bounds what is remembered of who began which run and thread; the journal knows the rest.
const knownOwners = 1 << 16

// owners remembers who began a run or a thread: the caller of its first call. Its documents, its blocks and its end are
// that caller's alone, so nobody else may add calls to it.
type owners struct {
	mu sync.Mutex
	of map[belonging]string
}

// belonging names a run or a thread.
type belonging struct{ namespace, run, thread string }

// claim refuses a new call that names a run or a thread of somebody else, and takes those that nobody has.
func (e *Engine) claim(ctx context.Context, p tool.Principal, r *tool.Run) error {
	if r.ID != "" {
		owner, err := e.ownerOf(ctx, belonging{namespace: p.Namespace, run: r.ID}, p.Subject)
		if err != nil {
			return err
		}
		if owner != p.Subject {
			return call.Refuse(call.PermissionDenied, "NOT_YOUR_RUN", "run %q belongs to another caller; use a run_id of your own", r.ID)
		}
	}
	if r.Thread != "" {
		owner, err := e.ownerOf(ctx, belonging{namespace: p.Namespace, thread: r.Thread}, p.Subject)
		if err != nil {
			return err
		}
		if owner != p.Subject {
			return call.Refuse(call.PermissionDenied, "NOT_YOUR_THREAD", "thread %q belongs to another caller; use a thread_id of your own", r.Thread)
		}
	}
	return nil
}

// ownerOf returns who began a run or thread. When nobody has, it is the claimant from now on; "" claims nothing.
func (e *Engine) ownerOf(ctx context.Context, b belonging, claimant string) (string, error) {
	e.owners.mu.Lock()
	owner, known := e.owners.of[b]
	e.owners.mu.Unlock()
	if known {
		return owner, nil
	}
	page, err := e.store.Calls(ctx, store.Query{Namespace: b.namespace, Run: b.run, Thread: b.thread, OldestFirst: true, Limit: 1})
	if err != nil {
		return "", err
	}
	if len(page.Calls) > 0 {
		claimant = page.Calls[0].Caller.Subject
	}
	if claimant == "" {
		return "", nil
	}
	e.owners.mu.Lock()
	defer e.owners.mu.Unlock()
	if owner, known := e.owners.of[b]; known { // somebody was faster
		return owner, nil
	}
	if e.owners.of == nil || len(e.owners.of) >= knownOwners {
		e.owners.of = map[belonging]string{}
	}
	e.owners.of[b] = claimant
	return claimant, nil
}
