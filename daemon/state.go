package daemon

import (
	"context"
	"strings"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/daemon/status"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/server/service"
	"github.com/toold-dev/toold/tools/mcp"
)

// readTime bounds how long a sample waits for the journal.
const readTime = 2 * time.Second

// reading returns the numbers for a sample of the load.
func (d *daemon) reading(ctx context.Context) status.Reading {
	s := d.engine.Stats()
	r := status.Reading{Running: s.Running, Queued: s.Queued, Suspended: -1, DiskFree: -1}
	r.Ended, r.Failed = d.engine.Meters().Ended()
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	if counts, err := d.store.Counts(ctx); err == nil {
		r.Suspended = int64(counts[call.Suspended])
	}
	if free, err := d.store.Free(); err == nil {
		r.DiskFree = free
	}
	return r
}

// Load implements [service.State].
func (a adminOf) Load() ([]service.LoadSample, time.Duration) {
	return a.d.load.Samples(), status.Interval
}

// Retry implements [service.State].
func (a adminOf) Retry(source string) bool {
	return strings.HasPrefix(source, mcp.SourcePrefix) && a.d.mcp.Retry(source)
}

// Workers implements [service.State].
func (a adminOf) Workers() []service.WorkerState {
	all := a.d.workers.Workers()
	out := make([]service.WorkerState, len(all))
	for i, w := range all {
		out[i] = service.WorkerState{
			ID: w.ID, Source: w.Source, Namespace: w.Owner.Namespace, Pool: w.Pool, Name: w.Name, Version: w.Version, Principal: w.Owner.Subject,
			Tools: w.Tools, Labels: w.Labels, Connected: w.Since, Seen: w.Seen, MaxCalls: w.Limit, Running: w.Leases, Calls: w.Calls, Draining: w.Draining,
		}
	}
	return out
}

// Problems implements [service.State].
func (a adminOf) Problems(ctx context.Context, id *access.Identity) ([]service.Problem, error) {
	d, now := a.d, time.Now()
	f := &status.Facts{Now: now, Hooks: a.hooks(), Full: d.store.Full(), Samples: d.load.Samples(), DeadLetters: map[string]int{}, Isolation: a.isolation()}
	for _, s := range a.Sources() {
		if id.Oversees(s.Namespace) {
			f.Sources = append(f.Sources, s)
		}
	}
	for _, open := range d.engine.Stats().OpenCircuits {
		if id.Oversees(open.Namespace) {
			f.Circuits = append(f.Circuits, open.Source)
		}
	}
	for _, q := range a.Quarantined() {
		if id.Oversees(q.Namespace) {
			f.Quarantined = append(f.Quarantined, q)
		}
	}
	dead, err := d.store.DeadLetters(ctx)
	if err != nil {
		return nil, err
	}
	for namespace, n := range dead {
		if id.Oversees(namespace) {
			f.DeadLetters[namespace] = n
		}
	}
	if f.Held, err = d.engine.Custody().Held(ctx, id.Namespace); err != nil {
		return nil, err
	}
	if c := d.tls.now.Load(); c != nil && c.Certificates[0].Leaf != nil {
		f.Certificate = c.Certificates[0].Leaf.NotAfter
	}
	f.Tokens = d.auth.Expiring(id, func(created, expires time.Time) bool { return status.ExpiresSoon(created, expires, now) })
	if k := d.keeper.Load(); k != nil {
		f.Broken, f.Unsigned = k.Broken(id.Namespace), k.Failure()
	}
	return status.Problems(f), nil
}

// isolation returns the promises of isolation that do not hold for commands.
func (a adminOf) isolation() status.Isolation {
	if a.d.policy == nil {
		return status.Isolation{Off: true}
	}
	return status.Isolation{Missing: missing(a.d.policy, a.d.proof.Load().wait().facts)}
}

// hooks returns the states of the external hooks.
func (a adminOf) hooks() (out []service.HookState) {
	for _, o := range a.d.externals.Load().hooks() {
		out = append(out, service.HookState{Name: o.entry.Name, Kinds: o.entry.EffectiveKinds(), Address: o.address(), Health: o.hook.Health().Health})
	}
	return out
}
