package lifecycle

import (
	"context"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle/batch"
	"github.com/toold-dev/toold/lifecycle/decision"
	"github.com/toold-dev/toold/lifecycle/documents"
	"github.com/toold-dev/toold/lifecycle/hooks"
	"github.com/toold-dev/toold/lifecycle/outbox"
	"github.com/toold-dev/toold/lifecycle/policy"
	"github.com/toold-dev/toold/lifecycle/purge"
	"github.com/toold-dev/toold/lifecycle/refusal"
	"github.com/toold-dev/toold/lifecycle/requests"
	"github.com/toold-dev/toold/lifecycle/view"
	"github.com/toold-dev/toold/lifecycle/watch"
	"github.com/toold-dev/toold/tool"
)

// The functions below connect the engine with the packages below it.

func newRecords(e *Engine) *view.Records {
	return view.NewRecords(view.Config{
		Store: e.cfg.Store, Owners: e.owners, Modes: e.cfg.Policies, Call: e.current, Settle: e.behind.Settle,
	})
}

func newPurger(e *Engine) *purge.Purger {
	return purge.New(purge.Config{
		Store: e.cfg.Store, Owners: e.owners, Log: e.cfg.Log, PolicyKind: policy.KindRule, Settle: e.behind.Settle, Erase: e.erase, Shredded: e.policies.Load, Refused: e.refused, FailPoint: e.cfg.FailPoint,
		Admit: func() error {
			if e.drain.Refusing() {
				return refusal.Draining()
			}
			return nil
		},
		DataOwners: func() []hook.CallDataOwner {
			return append(hooks.Implementers[hook.CallDataOwner](&e.hooks.Load().Set), hooks.OfType[hook.CallDataOwner](e.cfg.DataOwners)...)
		},
	})
}

func newDecisions(e *Engine) decisions {
	check := decision.Checker{Scopes: e.cfg.Policies.Scopes, Answers: e.cfg.Answers, Now: e.cfg.Store.Now, Tool: e.catalog.ToolOf, Refusal: func(c *call.Call) error {
		if e.held.Holds(c) {
			return refusal.Held
		}
		return nil
	}}
	return decisions{e: e, check: check}
}

func newBatches(e *Engine) *batch.Service {
	return batch.New(batch.Config{
		Store: e.cfg.Store, Log: e.cfg.Log, Drain: e.drain, Held: e.held.Holds, Fatal: e.fatal, FailPoint: e.cfg.FailPoint,
		Idle: func(key call.Key) { e.watches.WakeBatch(key) },
		End:  func(ctx context.Context, namespace, id string) error { return e.outbox.EndBatch(ctx, namespace, id) },
		Acquire: func(ctx context.Context, key call.Key) (batch.Member, error) {
			l, err := e.acquire(ctx, key)
			return member{l}, err
		},
	})
}

func newWatches(e *Engine) *watch.Service {
	return watch.New(watch.Config{
		Store: e.cfg.Store, Spool: e.cfg.Store.Spool(), Drain: e.drain, Heartbeat: e.cfg.Heartbeat, Settle: e.behind.Settle, Moves: e.batches.Moves, Held: e.held.Holds,
		Epoch: e.epoch, Rights: e.decisions.check.Rights,
	})
}

func newOutbox(e *Engine) *outbox.Outbox {
	return outbox.New(outbox.Config{
		Store: e.cfg.Store, Log: e.cfg.Log, Limits: e.cfg.Documents.Limits(), Fatal: e.fatal, Own: e.Own, FailPoint: e.cfg.FailPoint,
		Hooks:  func() *hook.Set { return &e.hooks.Load().Set },
		Held:   e.held.Any,
		Failed: func() { e.stats.hookFailures.Add(1) },
		Documents: func(namespace, run, thread string) tool.Documents {
			return &documents.Snapshot{Store: e.store, Namespace: namespace, Run: run, Thread: thread}
		},
	})
}

func newRequestLimits(cfg *Config) requests.Limits {
	r := requests.Limits{MaxArguments: cfg.MaxArguments}
	if cfg.Frontend != nil {
		r.Frontend = func(f *tool.FrontendTool) error {
			_, err := cfg.Frontend(f)
			return err
		}
	}
	return r
}
