package lifecycle

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle/batch"
	"github.com/toold-dev/toold/lifecycle/calllog"
	"github.com/toold-dev/toold/lifecycle/custody"
	"github.com/toold-dev/toold/lifecycle/decision"
	"github.com/toold-dev/toold/lifecycle/documents"
	"github.com/toold-dev/toold/lifecycle/drain"
	"github.com/toold-dev/toold/lifecycle/expiry"
	"github.com/toold-dev/toold/lifecycle/hooks"
	"github.com/toold-dev/toold/lifecycle/limit"
	"github.com/toold-dev/toold/lifecycle/meter"
	"github.com/toold-dev/toold/lifecycle/outbox"
	"github.com/toold-dev/toold/lifecycle/policy"
	"github.com/toold-dev/toold/lifecycle/purge"
	"github.com/toold-dev/toold/lifecycle/refusal"
	"github.com/toold-dev/toold/lifecycle/trace"
	"github.com/toold-dev/toold/lifecycle/turns"
	"github.com/toold-dev/toold/lifecycle/view"
	"github.com/toold-dev/toold/lifecycle/watch"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// A Definition is a tool as the engine needs it.
type Definition struct {
	Tool       tool.Tool
	Descriptor *tool.Descriptor // effects with their defaults written out
	Digest     string
	Schema     Schema
}

// A Schema is the compiled schemas of one tool.
type Schema interface {
	// ValidateArguments returns an [*tool.Error] of the kind InvalidArguments.
	ValidateArguments(args tool.Arguments) error
	// ValidateResult checks a result's data; nil when the tool has no result schema.
	ValidateResult(data string) error
}

// Tools finds tools by id or alias.
type Tools interface {
	// Lookup finds what callers of a namespace call by an id or alias.
	Lookup(namespace, id string) (*Definition, bool)
}

// Answers checks answers against the response schemas of tickets.
type Answers = decision.Answers

// People knows the principals that could answer a ticket.
type People interface {
	// CanApprove reports whether so many different people with one of these roles exist in the namespace who are none of
	// these subjects.
	CanApprove(namespace string, roles []string, count int, not ...string) bool
}

// A Config is what an engine is made of.
type Config struct {
	Store   store.Store // required
	Tools   Tools       // required
	Answers Answers     // required
	Hooks   hook.Set    // [Engine.SetHooks] replaces them
	// Keepers are told about ended runs and purged calls when they are a hook.RunKeeper or hook.CallKeeper: what keeps
	// something of calls and is no hook.
	Keepers []any
	People  People       // nil: an approver always exists
	Modes   policy.Modes // nil: there are no permission modes
	// Policies are what gates may have been given already; nil makes some.
	Policies *policy.Policies
	Log      *zap.Logger // nil drops
	// Hide reports whether a tool does not exist for a principal. nil hides nothing.
	Hide func(tool.Principal, *tool.Descriptor) bool
	// Frontend makes a tool of a caller's declaration. nil: there are no frontend tools.
	Frontend func(*tool.FrontendTool) (*Definition, error)
	// Absent says to the operator why a tool that there could be is not there; "" is nothing to say. nil says nothing.
	Absent func(p tool.Principal, name string) string
	// Isolation returns the facts that hold around the processes of a tool, for the records of its calls; none for a tool
	// that starts no process. nil: none.
	Isolation func(*tool.Descriptor) []call.Fact
	// Secret returns why a tool cannot have a secret that it requires, for the operator. It reads none. nil: tools have them all.
	Secret func(namespace, tool, name string) error
	// Full reports that the disk has no space for new calls; the rest is for running ones. nil reports never.
	Full func() bool
	// SingleUser replaces four eyes by a confirmation that the one person types.
	SingleUser bool
	// UnattendedWaits reports whether questions of UNATTENDED runs wait for an answer. nil, and false: they become DENIED
	// results.
	UnattendedWaits func() bool

	call.Limits                // of running and waiting calls, questions, failing sources and storage
	QueueTimeout time.Duration // 0 means 30 s
	Attempt      time.Duration // 0 means 10 min
	Linger       time.Duration // 0 means 30 s; negative is never
	Grace        time.Duration // for a tool to heed its cancellation; 0 means 5 s
	Heartbeat    time.Duration // between the heartbeats of a watcher that waits; 0 sends none
	Expiry       time.Duration // of tickets; 0 means 30 days
	OutputBudget int           // bytes; 0 means 48 KiB
	OutputQuota  int64         // bytes that a call may print and save in all; 0 means 256 MiB
	MaxArguments int           // bytes of a request; 0 means 1 MiB
	Documents    documents.Settings

	// Compact makes the message of a tool's result shorter for the model and says what it did; ok is false when it stays. What
	// it was stays readable as an artifact. Errors are not given to it. nil: none is made shorter.
	Compact func(tool, message string) (short, did string, ok bool)

	// Tracer follows calls; nil: none are, and it costs nothing.
	Tracer trace.Tracer
	// Released remembers that no call of a copied or restored store is held any more. nil: every start holds them anew.
	Released func() error
	// OnFatal is called once, when the journal failed and the daemon must end. Running calls have been cancelled.
	OnFatal func(error)
	// FailPoint is called at named points, for crash tests; nil in production.
	FailPoint func(name string)
}

// An Engine carries calls through their life. All methods are called concurrently.
type Engine struct {
	parts

	cfg    Config
	store  store.Store
	output calllog.OutputConfig // its spool is that of store, which makes one each time that it is asked
	log    *zap.Logger
	epoch  int64
	hooks  atomic.Pointer[hooks.Set] // of new pipelines

	catalog   catalog
	trace     trace.Pipelines
	path      []stage // of a call, and behind the gates of calls that run together
	groupPath []stage
	workers   turns.Workers

	mu          sync.Mutex
	activeCalls map[call.Key]*activeCall

	behind    behind
	hold      hold
	decisions decisions
	stats     counters
}

// parts are what the packages below the engine do for it.
type parts struct {
	policies   *policy.Service
	owners     *policy.Owners
	records    *view.Records
	purger     *purge.Purger
	held       *custody.Custody
	limits     *limit.Limits
	meters     *meter.Meters
	batches    *batch.Service
	watches    *watch.Service
	operations *outbox.Operations
	outbox     *outbox.Outbox
	drain      *drain.Drain
	expiry     *expiry.Sweeper
	unowned    *custody.Checker
}

// counters count what should be rare.
type counters struct {
	illegal, late, abandoned, conflicts, hookFailures, queueRefused atomic.Int64
	unowned                                                         atomic.Int64
	events, outputBytes                                             atomic.Int64 // these are not rare
}

// Stats is what an engine has counted since its start.
type Stats struct {
	IllegalTransitions, LateReports, Abandoned, GateConflicts, HookFailures int64
	Live, Running, Queued                                                   int
	Events, OutputBytes                                                     int64    // published; printed by tools
	Unowned                                                                 int64    // calls that nothing carried on, and that [Engine.CheckOwners] took up
	Watchers                                                                int64    // of calls and feeds, now
	Unwritten                                                               int      // read-only calls that the journal does not have yet
	QueueRefused                                                            int64    // calls, because too many wait
	OpenCircuits                                                            []string // of sources, sorted
}

// New returns an engine on a store. Call [Engine.Recover] before the first request.
func New(cfg Config) (*Engine, error) {
	if cfg.Store == nil || cfg.Tools == nil || cfg.Answers == nil {
		return nil, errors.New("lifecycle: store, tools and answers are required")
	}
	set, err := hooks.New(cfg.Hooks)
	if err != nil {
		return nil, err
	}
	cfg.fill()
	if err := cfg.Documents.Fill(); err != nil {
		return nil, err
	}
	id := cfg.Store.Identity()
	e := &Engine{
		parts: parts{limits: limit.New(cfg.Limits), meters: meter.New(), drain: drain.New()},
		cfg:   cfg, store: cfg.Store, log: cfg.Log, epoch: id.Epoch,
		path: newPath(), groupPath: newGroupPath(),
		activeCalls: map[call.Key]*activeCall{},
		behind:      newBehind(),
	}
	e.output = calllog.OutputConfig{Spool: cfg.Store.Spool(), Events: cfg.Store.Events, Quota: cfg.OutputQuota, Full: cfg.Full, Namespaces: &e.limits.Storage}
	e.trace = trace.Pipelines{Tracer: cfg.Tracer}
	e.catalog = newCatalog(&e.cfg)
	e.hooks.Store(set)
	e.held = custody.New(cfg.Store, id.Epoch, id.Moved)
	e.hold.begin(cfg.Store)
	e.owners = policy.NewOwners(cfg.Store, cfg.Policies, e.claimed)
	e.policies = policy.NewService(policy.Config{Policies: cfg.Policies, Owners: e.owners, Modes: cfg.Modes, Log: cfg.Log, Refused: e.refused})
	e.records = newRecords(e)
	e.purger = newPurger(e)
	e.decisions = newDecisions(e)
	e.batches = newBatches(e)
	e.watches = newWatches(e)
	e.expiry = newExpiry(e)
	e.unowned = newChecker(e)
	e.operations = outbox.NewOperations(cfg.Log, cfg.Store.Now, e.pollOperation)
	e.outbox = newOutbox(e)
	return e, nil
}

// Policies returns what lists and changes policies for principals.
func (e *Engine) Policies() *policy.Service { return e.policies }

// Records returns what reads calls, runs and documents for principals.
func (e *Engine) Records() *view.Records { return e.records }

// Purger returns what erases the content of calls.
func (e *Engine) Purger() *purge.Purger { return e.purger }

// Custody returns the calls that wait for [Engine.Release].
func (e *Engine) Custody() *custody.Custody { return e.held }

// Artifacts returns what reads the output and the artifacts of calls.
func (e *Engine) Artifacts() *view.Artifacts {
	return &view.Artifacts{Records: e.records, Spool: e.output.Spool}
}

// Editor returns what changes documents for principals.
func (e *Engine) Editor() *documents.Editor {
	return &documents.Editor{Store: e.store, Owners: e.owners, Settings: &e.cfg.Documents, Refused: e.refused}
}

// Owners returns the owners of the runs and threads of the store.
func (e *Engine) Owners() *policy.Owners { return e.owners }

// claimed visits the runs and threads that active calls may have begun; the journal may not know these calls yet.
func (e *Engine) claimed(visit func(policy.RunOrThread)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for key, l := range e.activeCalls {
		if l.claims != (claims{}) {
			visit(policy.Run(key.Namespace, l.claims.run))
			visit(policy.Thread(key.Namespace, l.claims.thread))
		}
	}
}

// Operations returns the schedule of operations.
func (e *Engine) Operations() *outbox.Operations { return e.operations }

// Outbox returns the outbox.
func (e *Engine) Outbox() *outbox.Outbox { return e.outbox }

func (c *Config) fill() {
	c.QueueTimeout = or(c.QueueTimeout, 30*time.Second)
	c.Attempt = or(c.Attempt, 10*time.Minute)
	c.Linger = or(c.Linger, 30*time.Second)
	c.Grace = or(c.Grace, 5*time.Second)
	c.Expiry = or(c.Expiry, 30*24*time.Hour)
	c.OutputBudget = or(c.OutputBudget, 48<<10)
	c.OutputQuota = or(c.OutputQuota, 256<<20)
	c.MaxArguments = or(c.MaxArguments, 1<<20)
	if c.Policies == nil {
		c.Policies = policy.New(c.Store)
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.Full == nil {
		c.Full = func() bool { return false }
	}
	if c.FailPoint == nil {
		c.FailPoint = func(string) {}
	}
}

func or[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}

// Stats returns what was counted.
func (e *Engine) Stats() Stats {
	running, queued := e.limits.Slots.Count()
	unwritten := e.behind.Count()
	e.mu.Lock()
	defer e.mu.Unlock()
	return Stats{
		IllegalTransitions: e.stats.illegal.Load(), LateReports: e.stats.late.Load(), Abandoned: e.stats.abandoned.Load(),
		GateConflicts: e.stats.conflicts.Load(), HookFailures: e.stats.hookFailures.Load(),
		OpenCircuits: e.limits.Circuits.Open(), QueueRefused: e.stats.queueRefused.Load(),
		Live: len(e.activeCalls), Running: running, Queued: queued + e.limits.Threads.Waiting(), Unwritten: unwritten,
		Events: e.stats.events.Load(), OutputBytes: e.stats.outputBytes.Load(), Watchers: e.watches.Count(), Unowned: e.stats.unowned.Load(),
	}
}

// ToolStats returns what was counted of each tool.
func (e *Engine) ToolStats() map[string]meter.Stats { return e.meters.Stats() }

// StorageUsage returns about how many bytes each namespace has; nil when that is not limited.
func (e *Engine) StorageUsage() map[string]int64 { return e.limits.Storage.Usage() }

// MeasureStorage measures the storage usage of each namespace, when it is limited: after the start, and after calls were trimmed or purged.
// It reads every record.
func (e *Engine) MeasureStorage(ctx context.Context) error {
	return e.limits.Storage.Measure(ctx, e.store, e.output.Spool)
}

// refused returns what a client learns of an error of the store. A fatal one stops the daemon.
func (e *Engine) refused(err error, id string) error {
	if errors.Is(err, store.ErrFatal) {
		e.fatal(err)
	}
	return refusal.OfCall(err, id)
}

// fatal stops everything: the state on the disk is unknown.
func (e *Engine) fatal(err error) {
	if !e.drain.Fail(err) {
		return
	}
	e.log.Error("journal failed; stopping", zap.Error(err))
	e.stopAll(errJournal)
	e.drain.Close() // no more events will be published
	if e.cfg.OnFatal != nil {
		e.cfg.OnFatal(err)
	}
}

func (e *Engine) activeCallsLocked() []*activeCall {
	calls := make([]*activeCall, 0, len(e.activeCalls))
	for _, l := range e.activeCalls {
		calls = append(calls, l)
	}
	return calls
}
