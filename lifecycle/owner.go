package lifecycle

import (
	"context"
	"errors"
	"strings"
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
	mu   sync.Mutex // taken before Engine.mu
	of   map[belonging]owned
	kept int // of them when the others were forgotten
}

// owned is who began a run or thread, and whether the run has ended since.
type owned struct {
	subject string
	ended   bool
}

// belonging names a run or a thread.
type belonging struct{ namespace, run, thread string }

// claim refuses a call that names a run or a thread of somebody else. Those that nobody has are the claimant's from then on;
// "" claims nothing.
func (e *Engine) claim(ctx context.Context, p tool.Principal, r *tool.Run, claimant string) error {
	for _, of := range [...]struct {
		belonging
		what, id string
	}{
		{belonging{namespace: p.Namespace, run: r.ID}, "run", r.ID},
		{belonging{namespace: p.Namespace, thread: r.Thread}, "thread", r.Thread},
	} {
		if of.id == "" {
			continue
		}
		owner, err := e.ownerOf(ctx, of.belonging, claimant)
		if err != nil {
			return err
		}
		if owner != p.Subject && owner != "" {
			return call.Refuse(call.PermissionDenied, "NOT_YOUR_"+strings.ToUpper(of.what), "%s %q belongs to another caller; use a %[1]s_id of your own", of.what, of.id)
		}
	}
	return nil
}

// ownerOf returns who began a run or thread. When nobody has, it is the claimant from now on; "" claims nothing.
func (e *Engine) ownerOf(ctx context.Context, b belonging, claimant string) (string, error) {
	e.owners.mu.Lock()
	known, ok := e.owners.of[b]
	e.owners.mu.Unlock()
	if ok {
		return known.subject, nil
	}
	found, err := e.findOwner(ctx, b)
	if err != nil {
		return "", err
	}
	if found.subject == "" {
		found.subject = claimant
	}
	if found.subject == "" {
		return "", nil
	}
	e.owners.mu.Lock()
	defer e.owners.mu.Unlock()
	if known, ok := e.owners.of[b]; ok { // somebody was faster
		return known.subject, nil
	}
	if e.owners.of == nil || len(e.owners.of) >= max(knownOwners, 2*e.owners.kept) {
		e.forgetOwnersLocked()
	}
	e.owners.of[b] = found
	return found.subject, nil
}

// claims are the run and the thread that a call may be the first of.
type claims struct{ run, thread string }

// forgetOwnersLocked makes room. What calls in memory claim stays: the journal may not know of it yet, and it would be the
// next caller's.
func (e *Engine) forgetOwnersLocked() {
	kept := map[belonging]owned{}
	e.mu.Lock()
	defer e.mu.Unlock()
	for key, l := range e.lives {
		if l.claims == (claims{}) {
			continue
		}
		for _, b := range [...]belonging{{namespace: key.Namespace, run: l.claims.run}, {namespace: key.Namespace, thread: l.claims.thread}} {
			if known, ok := e.owners.of[b]; ok {
				kept[b] = known
			}
		}
	}
	e.owners.of, e.owners.kept = kept, len(kept)
}

// findOwner asks the journal: the oldest call says whose a run or thread is, a blocked run says it itself, and
// so does a mode that was set before the first call.
func (e *Engine) findOwner(ctx context.Context, b belonging) (owned, error) {
	page, err := e.store.Calls(ctx, call.Query{Namespace: b.namespace, Run: b.run, Thread: b.thread, OldestFirst: true, Limit: 1})
	if err != nil {
		return owned{}, err
	}
	if len(page.Calls) == 0 {
		e.mu.Lock()
		subject := e.blocked[call.Key{Namespace: b.namespace, ID: b.run}].owner
		e.mu.Unlock()
		if m := e.policies.mode(b); subject == "" && m != nil {
			subject = m.Owner
		}
		return owned{subject: subject}, nil
	}
	found := owned{subject: page.Calls[0].Caller.Subject}
	if b.run != "" {
		run, err := e.store.Run(ctx, b.namespace, b.run)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return owned{}, err
		}
		found.ended = err == nil && run.State == call.RunEnded
	}
	return found, nil
}

// ended notes that a run has ended. Of one that is not remembered the journal says so.
func (o *owners) ended(b belonging) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if known, ok := o.of[b]; ok {
		known.ended = true
		o.of[b] = known
	}
}

// hasEnded reports whether a run is known to have ended.
func (o *owners) hasEnded(b belonging) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.of[b].ended
}

// reopen reports whether a run had ended, once.
func (o *owners) reopen(b belonging) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := o.of[b]
	if !known.ended {
		return false
	}
	known.ended = false
	o.of[b] = known
	return true
}
