package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle/batch"
	"github.com/toold-dev/toold/lifecycle/calllog"
	"github.com/toold-dev/toold/lifecycle/catalog"
	"github.com/toold-dev/toold/lifecycle/custody"
	"github.com/toold-dev/toold/lifecycle/decision"
	"github.com/toold-dev/toold/lifecycle/documents"
	"github.com/toold-dev/toold/lifecycle/drain"
	"github.com/toold-dev/toold/lifecycle/expiry"
	"github.com/toold-dev/toold/lifecycle/gating"
	"github.com/toold-dev/toold/lifecycle/hooks"
	"github.com/toold-dev/toold/lifecycle/limit"
	"github.com/toold-dev/toold/lifecycle/meter"
	"github.com/toold-dev/toold/lifecycle/outbox"
	"github.com/toold-dev/toold/lifecycle/policy"
	"github.com/toold-dev/toold/lifecycle/purge"
	"github.com/toold-dev/toold/lifecycle/refusal"
	"github.com/toold-dev/toold/lifecycle/requests"
	"github.com/toold-dev/toold/lifecycle/trace"
	"github.com/toold-dev/toold/lifecycle/turns"
	"github.com/toold-dev/toold/lifecycle/view"
	"github.com/toold-dev/toold/lifecycle/watch"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

type (
	// Definition is a tool as the engine uses it.
	Definition = catalog.Definition
	// Schema is a compiled JSON Schema.
	Schema = catalog.Schema
	// Tools finds tools by id.
	Tools = catalog.Tools
)

// Answers validates answers against the response schemas of tickets.
type Answers = decision.Answers

// DefaultApprovers completes the approvers of tickets.
type DefaultApprovers = gating.DefaultApprovers

// People finds the principals that could answer a ticket.
type People = gating.People

// A Config holds the settings and dependencies of an engine.
type Config struct {
	Store   store.Store // required
	Tools   Tools       // required
	Answers Answers     // required
	Hooks   hook.Set    // initial hooks; [Engine.SetHooks] replaces them
	// DataOwners are objects that keep data of calls but are not hooks. An object that implements hook.RunDataOwner is notified of ended runs.
	// An object that implements hook.CallDataOwner is notified of purged calls.
	DataOwners []any
	People     People       // nil: the engine assumes that an approver exists
	Modes      policy.Modes // nil: there are no permission modes
	// Policies holds the remembered rules and modes. The gates may share it. If it is nil, the engine creates one.
	Policies *policy.Policies
	Log      *zap.Logger // nil disables logging
	// Hide reports whether a tool is hidden from a principal. A nil Hide hides no tool.
	Hide func(tool.Principal, *tool.Descriptor) bool
	// Frontend creates a tool from a caller's declaration. It is nil when there are no frontend tools.
	Frontend func(*tool.FrontendTool) (*Definition, error)
	// Absent returns a text for the operator that explains why a configured tool is missing, or "" when it knows no reason. It may be nil.
	Absent func(p tool.Principal, name string) string
	// Isolation returns the isolation facts of a tool's processes. The engine stores them in the records of the tool's calls. It returns no
	// facts for a tool that starts no process. It may be nil.
	Isolation func(*tool.Descriptor) []call.Fact
	// Secret returns an error for the operator when a required secret is not available to a tool. It does not read the secret. If Secret is
	// nil, all secrets count as available.
	Secret func(namespace, tool, name string) error
	// Full reports whether the disk has no space for new calls. The remaining space is then reserved for running calls. If Full is nil, the
	// disk is never full.
	Full      func() bool
	Approvers DefaultApprovers // approvers of tickets that name none
	// UnattendedWaits reports whether questions of UNATTENDED runs wait for an answer. If it is nil or returns false, they become DENIED
	// results.
	UnattendedWaits func() bool
	// RemoveNulls removes from the text of arguments the nulls that strict mode added for optional parameters, and reports whether it
	// changed the text. nil removes none.
	RemoveNulls func(parameters json.RawMessage, arguments string) (string, bool)
	// MachineActions lists the actions of questions that no person answers. If it is nil, there are none.
	MachineActions gating.MachineActions

	call.Limits                // limits of running and waiting calls, questions, failing sources and storage
	QueueTimeout time.Duration // time that a call may wait for its turn; 0 means 30 s
	Attempt      time.Duration // timeout of an attempt; 0 means 10 min
	Linger       time.Duration // time that a call runs without watchers; 0 means 30 s, a negative value means no limit
	Grace        time.Duration // time for a tool to return after its cancellation; 0 means 5 s
	Heartbeat    time.Duration // interval between heartbeats of a waiting watcher; 0 disables them
	Expiry       time.Duration // longest and default expiry of tickets; 0 means 30 days
	OutputBudget int           // maximum size of a result in bytes; 0 means 48 KiB
	OutputQuota  int64         // maximum bytes that one call may print and save; 0 means 256 MiB
	MaxArguments int           // maximum size of the arguments in bytes; 0 means 1 MiB
	Documents    documents.Settings

	// Compact shortens the message of a tool's result for the model. did describes what it removed. ok is false when it changes nothing.
	// The original message stays readable as an artifact. Compact is not called for errors. If it is nil, no message is shortened.
	Compact func(tool, message string) (short, did string, ok bool)

	// Tracer traces the pipeline runs of calls. A nil Tracer has no cost.
	Tracer trace.Tracer
	// Released is called when no call of a copied or restored store is held any more, and records this. If it is nil, every start holds the
	// calls of the store again.
	Released func() error
	// OnFatal is called once, when the journal has failed and the daemon must end. Running calls are already cancelled.
	OnFatal func(error)
	// FailPoint is called at named points for crash tests. It is nil in production.
	FailPoint func(name string)
}

// An Engine processes calls from acceptance to outcome. All methods may be called concurrently.
type Engine struct {
	parts

	cfg    Config
	store  store.Store
	output calllog.OutputConfig // Kept here because every use of store.Spool would allocate a new value.
	log    *zap.Logger
	epoch  int64
	hooks  atomic.Pointer[hooks.Set] // hooks for new pipeline runs

	catalog   catalog.Catalog
	requests  requests.Limits
	trace     trace.Pipelines
	path      []stage // stages of a call; groupPath has those after the gates, for calls that run together
	groupPath []stage
	workers   turns.Workers

	mu          sync.Mutex
	activeCalls map[call.Key]*activeCall

	behind    behind
	hold      hold
	decisions decisions
	stats     counters
}

// parts holds the components from the packages below the engine.
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

// counters counts events that should be rare. Only events and outputBytes are not rare.
type counters struct {
	illegal, late, abandoned, conflicts, hookFailures, queueRefused atomic.Int64
	unowned                                                         atomic.Int64
	events, outputBytes                                             atomic.Int64
}

// Stats holds the counts of an engine since its start.
type Stats struct {
	IllegalTransitions, LateReports, Abandoned, GateConflicts, HookFailures int64
	Active, Running, Queued                                                 int
	Events, OutputBytes                                                     int64            // published events; bytes that tools printed
	Unowned                                                                 int64            // calls that [Engine.CheckOwners] found without an owner and adopted
	Watchers                                                                int64            // current watchers of calls and feeds
	Unwritten                                                               int              // read-only calls with events that are not in the journal yet
	QueueRefused                                                            int64            // calls that were refused because too many wait
	OpenCircuits                                                            []limit.Upstream // sources with an open circuit, sorted
}

// New returns an engine. Call [Engine.Recover] before the first request.
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
	e.catalog = catalog.Catalog{Tools: cfg.Tools, Hide: cfg.Hide, Frontend: cfg.Frontend, Isolation: cfg.Isolation, RemoveNulls: cfg.RemoveNulls}
	e.requests = newRequestLimits(&cfg)
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

// Policies returns the service that lists and changes policies for principals.
func (e *Engine) Policies() *policy.Service { return e.policies }

// Records returns the reader of calls, runs and documents for principals.
func (e *Engine) Records() *view.Records { return e.records }

// Purger returns the purger, which erases the content of calls.
func (e *Engine) Purger() *purge.Purger { return e.purger }

// Custody returns the calls that wait for [Engine.Release].
func (e *Engine) Custody() *custody.Custody { return e.held }

// Artifacts returns the reader of the output and the artifacts of calls.
func (e *Engine) Artifacts() *view.Artifacts {
	return &view.Artifacts{Records: e.records, Spool: e.output.Spool}
}

// Editor returns the editor of documents for principals.
func (e *Engine) Editor() *documents.Editor {
	return &documents.Editor{Store: e.store, Owners: e.owners, Settings: &e.cfg.Documents, Refused: e.refused}
}

// Owners returns the owners of the runs and threads of the store.
func (e *Engine) Owners() *policy.Owners { return e.owners }

// claimed visits the runs and threads that active calls claim. These calls may not be in the journal yet.
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

// Operations returns the schedule of the operations that continue outside the daemon.
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

// Stats returns the counts since the start and the current numbers.
func (e *Engine) Stats() Stats {
	running, queued := e.limits.Slots.Count()
	unwritten := e.behind.Count()
	e.mu.Lock()
	defer e.mu.Unlock()
	return Stats{
		IllegalTransitions: e.stats.illegal.Load(), LateReports: e.stats.late.Load(), Abandoned: e.stats.abandoned.Load(),
		GateConflicts: e.stats.conflicts.Load(), HookFailures: e.stats.hookFailures.Load(),
		OpenCircuits: e.limits.Circuits.Open(), QueueRefused: e.stats.queueRefused.Load(),
		Active: len(e.activeCalls), Running: running, Queued: queued + e.limits.Threads.Waiting(), Unwritten: unwritten,
		Events: e.stats.events.Load(), OutputBytes: e.stats.outputBytes.Load(), Watchers: e.watches.Count(), Unowned: e.stats.unowned.Load(),
	}
}

// Meters returns the counts of each tool.
func (e *Engine) Meters() *meter.Meters { return e.meters }

// StorageUsage returns the estimated bytes of each namespace, or nil without a limit.
func (e *Engine) StorageUsage() map[string]int64 { return e.limits.Storage.Usage() }

// MeasureStorage measures how many bytes each namespace stores, if that is limited. It reads every record. Call it at start, and after
// calls were trimmed or purged.
func (e *Engine) MeasureStorage(ctx context.Context) error {
	return e.limits.Storage.Measure(ctx, e.store, e.output.Spool)
}

// refused converts an error of the store into the error for the client. id is the id of the record. A fatal error stops the daemon.
func (e *Engine) refused(err error, id string) error {
	if errors.Is(err, store.ErrFatal) {
		e.fatal(err)
	}
	return refusal.OfCall(err, id)
}

// fatal stops all work after the journal failed, because the state on disk is unknown.
func (e *Engine) fatal(err error) {
	if !e.drain.Fail(err) {
		return
	}
	e.log.Error("journal failed; stopping", zap.Error(err))
	e.stopAll(errJournal)
	e.drain.Close() // No more events will be published.
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
