package service

import (
	"context"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/sandbox/isolation"
	"github.com/toold-dev/toold/secret"
	"github.com/toold-dev/toold/tool"
)

// An Engine runs calls. All methods are safe for concurrent use. When the engine does not accept a request, it returns a [*call.Refusal].
type Engine interface {
	Calls
	Streams
	Artifacts
	Runs
	Rules
	Documents
	Stored
}

// Calls starts, reads and cancels calls.
type Calls interface {
	// Execute starts a call, or attaches to the existing call with the same id.
	Execute(ctx context.Context, p tool.Principal, spec call.Spec, o call.ExecuteOptions) (call.Watcher, error)
	// ExecuteBatch starts the calls of a model turn, or attaches to the existing batch with the same id. The stream has the events of all
	// calls.
	ExecuteBatch(ctx context.Context, p tool.Principal, spec call.BatchSpec, o call.ExecuteOptions) (call.Stream, error)
	// Resume applies a decision. The watcher returns the events that follow the decision.
	Resume(ctx context.Context, p tool.Principal, r call.ResumeRequest) (call.Watcher, error)
	// Rights returns what a principal may do with a suspension now.
	Rights(ctx context.Context, p tool.Principal, suspensionID string) (call.TicketRights, error)
	// Claim claims a suspension, or releases the claim, and returns the current claim.
	Claim(ctx context.Context, p tool.Principal, r call.ClaimRequest) (*call.Claim, error)
	// Describe returns a preview of what a call would do, without starting it.
	Describe(ctx context.Context, p tool.Principal, spec call.Spec) (*call.Preview, error)
	DescribeEdit(ctx context.Context, p tool.Principal, suspensionID, arguments string) (*call.Preview, error)
	Get(ctx context.Context, p tool.Principal, id string) (*call.Call, error)
	// List returns calls of the principal's namespace.
	List(ctx context.Context, p tool.Principal, q call.Query) (call.Page, error)
	// Count counts the calls that are not terminal and that List shows to the principal.
	Count(ctx context.Context, p tool.Principal) (call.Counts, error)
	// Cancel asks a call to end. It returns when the call has ended, or after the time wait.
	Cancel(ctx context.Context, p tool.Principal, id, reason string, wait time.Duration) (*call.Call, error)
	// CancelAll cancels the calls of a run or thread and returns their ids. supersededBy is the run that replaces them, or "".
	CancelAll(ctx context.Context, p tool.Principal, run, thread, reason, supersededBy string) ([]string, error)
	// CancelBatch cancels the calls of a batch and returns their ids. supersededBy is as for CancelAll.
	CancelBatch(ctx context.Context, p tool.Principal, batch, reason, supersededBy string) ([]string, error)
	// SendInput writes to the terminal of a running call that the principal started.
	SendInput(ctx context.Context, p tool.Principal, id string, in call.Input) (call.InputState, error)
}

// Streams follows existing calls.
type Streams interface {
	Watch(ctx context.Context, p tool.Principal, id, cursor string, follow bool) (call.Watcher, error)
	// WatchFeed follows the calls of a run or a thread, or of the whole namespace when both are empty.
	WatchFeed(ctx context.Context, p tool.Principal, run, thread, cursor string, follow bool) (call.Stream, error)
	// WatchInbox streams the questions that the principal may see. Each frame has the field Inbox or is a control frame.
	WatchInbox(p tool.Principal) call.Stream
	WatchBatch(ctx context.Context, p tool.Principal, id, cursor string, follow bool) (call.Stream, error)
	// BatchState returns the record of a batch and the current records of its calls.
	BatchState(ctx context.Context, p tool.Principal, id string) (*call.Batch, *call.BatchFinished, error)
	// CursorAfter returns the cursor after an event that this daemon published.
	CursorAfter(sequence int64) string
}

// Artifacts reads the output of calls.
type Artifacts interface {
	ReadArtifact(ctx context.Context, p tool.Principal, id, name string, offset int64, limit int) (call.Part, error)
	// ReadLines returns count lines, beginning with line first. It returns at most limit bytes.
	ReadLines(ctx context.Context, p tool.Principal, id, name string, first, count int64, limit int) (call.Part, error)
	SearchArtifact(ctx context.Context, p tool.Principal, id, name string, q call.Search) (call.Found, error)
}

// Runs reads and ends runs.
type Runs interface {
	Run(ctx context.Context, p tool.Principal, id string) (*call.RunSummary, error)
	// Runs and Threads return a page and the position of the next page. Zero means that there is no next page.
	Runs(ctx context.Context, p tool.Principal, q *call.RunQuery) (runs []*call.RunSummary, next int64, err error)
	Threads(ctx context.Context, p tool.Principal, q *call.RunQuery) (threads []*call.ThreadSummary, next int64, err error)
	Thread(ctx context.Context, p tool.Principal, id string) (*call.ThreadSummary, error)
	// ModeChoices returns the permission modes that a principal may choose now for a run or a thread.
	ModeChoices(ctx context.Context, p tool.Principal, run, thread string) ([]string, error)
	// EndRun returns the ids of the calls that it cancelled.
	EndRun(ctx context.Context, p tool.Principal, id, reason, supersededBy string) ([]string, error)
	// SetMode sets the permission mode of a run or a thread and returns the previous one.
	SetMode(ctx context.Context, p tool.Principal, run, thread, mode string) (previous string, err error)
}

// Rules reads and revokes remembered answers.
type Rules interface {
	// Rules returns the rules in force that the principal may see, oldest first. Callers must not change them.
	Rules(p tool.Principal) []*call.Rule
	// RevokeRule ends a rule. When it returns, no gate uses the rule any more.
	RevokeRule(ctx context.Context, p tool.Principal, id string) (*call.Rule, error)
}

// Stored releases and purges stored calls for operators.
type Stored interface {
	// Release continues held calls of the principal's namespace, or cancels them if end is set. It returns how many it released and how
	// many are still held.
	Release(ctx context.Context, p tool.Principal, which call.HeldSelector, end bool, reason string) (released, left int, err error)
	// Held returns how many calls of a namespace wait for Release.
	Held(ctx context.Context, namespace string) (int, error)
	// Purge erases the content of ended calls of the principal's namespace. It returns the number of calls that it purged, and the number
	// of calls that were already purged.
	Purge(ctx context.Context, p tool.Principal, which call.PurgeSelector) (purged, before int, err error)
}

// DeadLetters lists and retries actions that failed in all their attempts.
type DeadLetters interface {
	// DeadLetters returns the dead letters after a position, oldest first.
	DeadLetters(ctx context.Context, p tool.Principal, after int64, limit int) ([]call.DeadLetter, error)
	RetryDeadLetter(ctx context.Context, p tool.Principal, id string) (*call.DeadLetter, error)
}

// Tools finds tools.
type Tools interface {
	// List returns the tools that a principal sees, sorted by id.
	List(p tool.Principal) []*tool.Definition
	// Select returns at most limit tools for which in returns true, sorted by id. It prefers the tools with an id in include, and then the
	// tools that match the query best.
	Select(p tool.Principal, in func(*tool.Descriptor) bool, query string, include []string, limit int) []*tool.Definition
	// Lookup finds a tool by id or alias, if the principal sees it. It also finds [tool.SearchID], which is in no list.
	Lookup(p tool.Principal, name string) (*tool.Definition, bool)
	// Watch returns a function that waits until the principal's list of tools may have changed. The first call of this function reports
	// changes since the call of Watch. Each later call reports changes since the previous call. When its context ends, the function returns
	// the error of the context.
	Watch(p tool.Principal) func(context.Context) error
}

// An Admin administers the daemon.
type Admin interface {
	// Info describes the daemon. The server adds its own limits to the result.
	Info(ctx context.Context) Info
	// Reload reads the rules and the configuration again.
	Reload(ctx context.Context) (Reloaded, error)
	// Drain starts the shutdown of the daemon. A nil period means the configured one. When a shutdown is already in progress, Drain only
	// reports its state.
	Drain(period *time.Duration) (deadline time.Time, running int)
	// Quarantined lists the quarantined tools of all namespaces, by id.
	Quarantined() []tool.QuarantinedTool
	// AcceptTool trusts a definition that Quarantined listed.
	AcceptTool(p tool.Principal, q *tool.QuarantinedTool) (*tool.Definition, error)
	// RefuseTool refuses a definition that Quarantined listed.
	RefuseTool(p tool.Principal, q *tool.QuarantinedTool) error
	// Judged returns the judgements on definitions of a tool with positions below before, newest first, at most limit of them. id is the id
	// that the source gave the tool. next is the value of before for the next page, or 0 after the last page.
	Judged(ctx context.Context, source, id string, before int64, limit int) (all []tool.JudgedDefinition, next int64, err error)
	// Sources lists the sources of tools of all namespaces, by name.
	Sources() []tool.SourceStatus
	// Secrets lists the secrets of all namespaces by name. With check, it first reads the value of each secret.
	Secrets(ctx context.Context, check bool) []secret.State
	// Backup writes a copy of the store into a new directory.
	Backup(ctx context.Context, p tool.Principal, directory string) (*call.Backup, error)
	Audit
	State
	// SetLogLevel sets the level to debug, info, warn or error, and returns the previous level.
	SetLogLevel(level string) (previous string)
}

// Reloaded is the result of a reload.
type Reloaded struct {
	Changed      []string // parts that changed
	NeedsRestart []string // changed settings that need a restart to take effect
}

// Info describes a daemon.
type Info struct {
	Version, Commit string
	Store           string // kind of the store, such as sqlite or memory
	StoreID         string
	Epoch           int64
	Started         time.Time
	Addresses       []Address
	Limits          Limits
	Features        []string
	Hooks           []HookState
	Isolation       []isolation.NamedFact
	Draining        bool
}

// A HookState is the health of an external hook.
type HookState struct {
	Name, Address string
	Kinds         []string
	hook.Health
}

// An Address is an address where a daemon listens.
type Address struct {
	Network, Address string
	TLS              bool
	// Browser is the base URL for browsers when it is not [Address.URL].
	Browser string
}

// URL returns the base URL of an address of the network "http".
func (a *Address) URL() string {
	if a.TLS {
		return "https://" + a.Address
	}
	return "http://" + a.Address
}

// Limits are the limits of a daemon. Sizes are in bytes.
type Limits struct {
	call.Limits
	Arguments, Result, Ticket     int64
	Suspension, Retention         time.Duration
	OutputThread, OutputNamespace int64 // zero means no limit
}
