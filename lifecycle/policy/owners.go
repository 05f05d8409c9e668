package policy

import (
	"context"
	"errors"
	"maps"
	"sync"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/view"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// knownOwners is the number of runs and threads whose owners are kept in memory. Other owners are read from the journal.
const knownOwners = 1 << 16

// A RunOrThread identifies a run or a thread of a namespace. Exactly one of the two ids is set.
type RunOrThread struct{ Namespace, Run, Thread string }

// Run returns the RunOrThread of a run.
func Run(namespace, id string) RunOrThread { return RunOrThread{Namespace: namespace, Run: id} }

// Thread returns the RunOrThread of a thread.
func Thread(namespace, id string) RunOrThread { return RunOrThread{Namespace: namespace, Thread: id} }

func named(namespace string, scope tool.Scope, id string) RunOrThread {
	if scope == tool.ThreadScope {
		return Thread(namespace, id)
	}
	return Run(namespace, id)
}

// unknown returns the refusal "not found". It is the same for a run or thread that does not exist and for one that the principal may not
// see.
func (b RunOrThread) unknown() error {
	if b.Run != "" {
		return call.Refuse(call.NotFound, "RUN_NOT_FOUND", "no run %q here", b.Run)
	}
	return call.Refuse(call.NotFound, "THREAD_NOT_FOUND", "no thread %q here", b.Thread)
}

// RunStore reads runs from the journal.
type RunStore interface {
	Calls(ctx context.Context, q call.Query) (call.Page, error)
	Run(ctx context.Context, namespace, id string) (*store.Run, error)
	// BlockedRuns invokes visit with each blocked run.
	BlockedRuns(ctx context.Context, visit func(store.Run) error) error
}

// Owners finds the owner of a run or thread: the caller of its first call. Other callers may not use its documents, end it or add calls to
// it. Owners also records which runs are blocked.
type Owners struct {
	store    RunStore
	policies *Policies
	claimed  func(visit func(RunOrThread))

	mu      sync.Mutex
	of      map[RunOrThread]owned
	kept    int // number of owners that the last forgetLocked could not remove
	blocked map[RunOrThread]blockedRun
}

// owned holds the owner of a run or thread, and whether the run has ended.
type owned struct {
	subject string
	ended   bool
}

// blockedRun is the entry of a blocked run in memory.
type blockedRun struct {
	owner string
	since call.Stamp // when the block began; distinguishes two blocks of the same run
}

// NewOwners returns the owners of a store's runs and threads. claimed visits the runs and threads that active calls may have begun, because
// the journal may not contain these calls yet. claimed is called with the lock of Owners held.
func NewOwners(s RunStore, p *Policies, claimed func(visit func(RunOrThread))) *Owners {
	return &Owners{store: s, policies: p, claimed: claimed, of: map[RunOrThread]owned{}, blocked: map[RunOrThread]blockedRun{}}
}

// Claim returns an error when r names another caller's run or thread. If a run or thread has no owner, the claimant becomes its owner. With
// an empty claimant, Claim only checks.
func (o *Owners) Claim(ctx context.Context, p tool.Principal, r *tool.Run, claimant string) error {
	for _, b := range [...]RunOrThread{Run(p.Namespace, r.ID), Thread(p.Namespace, r.Thread)} {
		if b.Run == "" && b.Thread == "" {
			continue
		}
		owner, err := o.Owner(ctx, b, claimant)
		switch {
		case err != nil:
			return err
		case owner == p.Subject || owner == "":
		case b.Run != "":
			return call.Refuse(call.PermissionDenied, "NOT_YOUR_RUN", "run %q belongs to another caller; use a run_id of your own", b.Run)
		default:
			return call.Refuse(call.PermissionDenied, "NOT_YOUR_THREAD", "thread %q belongs to another caller; use a thread_id of your own", b.Thread)
		}
	}
	return nil
}

// Find returns the owner of a run or thread, or an error when there is none.
func (o *Owners) Find(ctx context.Context, namespace string, scope tool.Scope, id string) (owner string, err error) {
	b := named(namespace, scope, id)
	if owner, err = o.Owner(ctx, b, ""); err == nil && owner == "" {
		err = b.unknown()
	}
	return owner, err
}

// See returns the owner of a run or thread. It returns the error "not found" when there is no owner, and also when the principal may not
// see the run or thread.
func (o *Owners) See(ctx context.Context, p tool.Principal, scope tool.Scope, id string) (owner string, err error) {
	if owner, err = o.Find(ctx, p.Namespace, scope, id); err == nil && owner != p.Subject && !view.SeesAll(p) {
		err = named(p.Namespace, scope, id).unknown()
	}
	return owner, err
}

// Owner returns the owner of a run or thread. If there is none, the claimant becomes the owner. With an empty claimant, Owner only reads.
func (o *Owners) Owner(ctx context.Context, b RunOrThread, claimant string) (string, error) {
	o.mu.Lock()
	known, ok := o.of[b]
	o.mu.Unlock()
	if ok {
		return known.subject, nil
	}
	found, err := o.read(ctx, b)
	if err != nil {
		return "", err
	}
	if found.subject == "" {
		found.subject = claimant
	}
	if found.subject == "" {
		return "", nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if known, ok := o.of[b]; ok { // Another goroutine has stored the owner meanwhile.
		return known.subject, nil
	}
	if len(o.of) >= max(knownOwners, 2*o.kept) {
		o.forgetLocked()
	}
	o.of[b] = found
	return found.subject, nil
}

// forgetLocked removes the owners that can be read from the journal again. It keeps the runs and threads that active calls claim, because
// the journal may not contain these calls yet. If it removed them, another caller could become the owner.
func (o *Owners) forgetLocked() {
	kept := map[RunOrThread]owned{}
	o.claimed(func(b RunOrThread) {
		if known, ok := o.of[b]; ok {
			kept[b] = known
		}
	})
	o.of, o.kept = kept, len(kept)
}

// read reads the owner from the journal. The owner is the caller of the oldest call of the run or thread. Without calls, the stored block
// or the stored mode names the owner.
func (o *Owners) read(ctx context.Context, b RunOrThread) (owned, error) {
	page, err := o.store.Calls(ctx, call.Query{Namespace: b.Namespace, Run: b.Run, Thread: b.Thread, OldestFirst: true, Limit: 1})
	if err != nil {
		return owned{}, err
	}
	if len(page.Calls) == 0 {
		o.mu.Lock()
		subject := o.blocked[b].owner
		o.mu.Unlock()
		if m := o.policies.mode(b); subject == "" && m != nil {
			subject = m.Owner
		}
		return owned{subject: subject}, nil
	}
	found := owned{subject: page.Calls[0].Caller.Subject}
	if b.Run != "" {
		run, err := o.store.Run(ctx, b.Namespace, b.Run)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return owned{}, err
		}
		found.ended = err == nil && run.State == call.RunEnded
	}
	return found, nil
}

// Note copies the run state that was just stored to memory.
func (o *Owners) Note(r *store.Run) {
	o.mu.Lock()
	defer o.mu.Unlock()
	b := Run(r.Namespace, r.ID)
	if r.State == call.RunBlocked {
		o.blocked[b] = blockedRun{r.Owner, r.Changed}
	} else {
		delete(o.blocked, b)
	}
	if r.State == call.RunEnded {
		o.endLocked(b)
	}
}

// LoadBlocked loads the blocked runs from the journal.
func (o *Owners) LoadBlocked(ctx context.Context) error {
	return o.store.BlockedRuns(ctx, func(r store.Run) error {
		o.Note(&r)
		return nil
	})
}

// DropTrimmed removes the blocked runs from memory that the journal has trimmed.
func (o *Owners) DropTrimmed(ctx context.Context) error {
	o.mu.Lock()
	trimmed := maps.Clone(o.blocked)
	o.mu.Unlock()
	err := o.store.BlockedRuns(ctx, func(r store.Run) error {
		delete(trimmed, Run(r.Namespace, r.ID))
		return nil
	})
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for b, run := range trimmed {
		if o.blocked[b] == run {
			delete(o.blocked, b)
		}
	}
	return nil
}

// Blocked reports whether a run is blocked.
func (o *Owners) Blocked(namespace, run string) bool {
	if run == "" {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	_, blocked := o.blocked[Run(namespace, run)]
	return blocked
}

// HasEnded reports whether a run is known to have ended.
func (o *Owners) HasEnded(namespace, run string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.of[Run(namespace, run)].ended
}

// Reopen reopens the run of a call if the run had ended. It returns the run state to store with the call, or nil when the run had not
// ended. If several calls reopen the run, only the first gets the state.
func (o *Owners) Reopen(c *call.Call) *store.Run {
	if c.Run.ID == "" {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	b := Run(c.Namespace, c.Run.ID)
	known := o.of[b]
	if !known.ended {
		return nil
	}
	known.ended = false
	o.of[b] = known
	return &store.Run{Namespace: c.Namespace, ID: c.Run.ID, Owner: c.Caller.Subject, State: call.RunOpen}
}

// Unopened reverts Reopen when the call was not stored. It does nothing when r is nil.
func (o *Owners) Unopened(r *store.Run) {
	if r == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.endLocked(Run(r.Namespace, r.ID))
}

// endLocked marks a run as ended. It does nothing when the run is not in memory, because the state can be read from the journal.
func (o *Owners) endLocked(b RunOrThread) {
	if known, ok := o.of[b]; ok {
		known.ended = true
		o.of[b] = known
	}
}
