package server

import (
	"context"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// An Engine carries calls through their life. All methods are called concurrently. What it cannot accept it answers with
// a [*call.Refusal].
type Engine interface {
	// Execute starts a call, or attaches to the one that has its id.
	Execute(ctx context.Context, p tool.Principal, spec call.Spec, o ExecuteOptions) (Watcher, error)
	// ExecuteBatch starts the calls of a model turn, or attaches to the batch that has its id, and follows them all.
	ExecuteBatch(ctx context.Context, p tool.Principal, spec *call.BatchSpec, o ExecuteOptions) (Watcher, error)
	// Resume applies a decision and follows the call from there.
	Resume(ctx context.Context, p tool.Principal, r *ResumeRequest) (Watcher, error)
	// Watch follows a call by id.
	Watch(ctx context.Context, p tool.Principal, id, cursor string, follow bool) (Watcher, error)
	// WatchFeed follows the calls of a run or a thread, or of the whole namespace when both are empty.
	WatchFeed(ctx context.Context, p tool.Principal, run, thread, cursor string, follow bool) (Watcher, error)
	// WatchBatch follows the calls of a batch to the end of the last.
	WatchBatch(ctx context.Context, p tool.Principal, id, cursor string, follow bool) (Watcher, error)
	// CursorAfter returns the cursor behind an event that the current daemon told.
	CursorAfter(sequence int64) string

	Get(ctx context.Context, p tool.Principal, id string) (*call.Call, error)
	List(ctx context.Context, p tool.Principal, q *Query) (Page, error)
	// Cancel asks a call to end and waits until it has, at most for wait.
	Cancel(ctx context.Context, p tool.Principal, id, reason string, wait time.Duration) (*call.Call, error)
	// CancelAll does so for the calls of a run or thread, and returns the ids of those it asked. supersededBy is the run that
	// takes their place; "" is none.
	CancelAll(ctx context.Context, p tool.Principal, run, thread, reason, supersededBy string) ([]string, error)
	// CancelBatch does so for the calls of a batch.
	CancelBatch(ctx context.Context, p tool.Principal, batch, reason, supersededBy string) ([]string, error)
	// Describe says what would happen.
	Describe(ctx context.Context, p tool.Principal, spec *call.Spec) (*Preview, error)
	ReadArtifact(ctx context.Context, p tool.Principal, id, name string, offset int64, limit int) (Part, error)
	// ReadLines returns count lines from the first, at most limit bytes of them.
	ReadLines(ctx context.Context, p tool.Principal, id, name string, first, count int64, limit int) (Part, error)
	SearchArtifact(ctx context.Context, p tool.Principal, id, name string, q Search) (Found, error)
	// SendInput types into a running call of the principal's own.
	SendInput(ctx context.Context, p tool.Principal, id string, in Input) (InputState, error)
	Run(ctx context.Context, p tool.Principal, id string) (*Run, error)
	// EndRun returns the ids of the calls that it cancelled.
	EndRun(ctx context.Context, p tool.Principal, id, reason, supersededBy string) ([]string, error)

	// Release carries on held calls of the principal's namespace, or ends them; it returns how many, and how many are held
	// still.
	Release(ctx context.Context, p tool.Principal, which HeldSelector, end bool, reason string) (released, left int, err error)

	// Purge erases the content of calls of the principal's namespace that have ended; it returns how many had some, and how
	// many had none any more.
	Purge(ctx context.Context, p tool.Principal, which PurgeSelector) (purged, before int, err error)
	// Held counts the calls of a namespace that wait for Release.
	Held(ctx context.Context, namespace string) (int, error)
	// Rules returns the remembered answers in force that the principal may see, oldest first. Read them only.
	Rules(p tool.Principal) []*call.Rule
	// RevokeRule ends one; it returns when no gate finds it any more.
	RevokeRule(ctx context.Context, p tool.Principal, id string) (*call.Rule, error)
	Documents
	// SetMode chooses the permission mode of a run or a thread and returns the one before.
	SetMode(ctx context.Context, p tool.Principal, run, thread, mode string) (previous string, err error)
}

// A Watcher follows one call or the calls of a feed. It belongs to one goroutine.
type Watcher interface {
	// Next returns the next frame, and io.EOF when the watch has come to its end. It waits no longer than ctx.
	Next(ctx context.Context) (Frame, error)
	// Wait returns the call when it is terminal or suspended, or as it is when d is over. It closes the watcher.
	Wait(ctx context.Context, d time.Duration) (*call.Call, error)
	// Call returns the watched call as it stands.
	Call() *call.Call
	Cursor() string
	// Close ends the watch. Closing twice is no error.
	Close()
}

// ExecuteOptions say how a caller follows its call.
type ExecuteOptions struct {
	Cursor          string // where the caller stands in the log of a call that it started earlier
	WaitForDecision bool   // goes on over suspensions
	Attended        bool   // the call ends when nobody watches it for the linger time
}

// A ResumeRequest answers a suspension.
type ResumeRequest struct {
	SuspensionID    string
	CallID          string // cross-checked when it is set
	Decision        tool.Decision
	WaitForDecision bool
	Cursor          string
}

// A HeldSelector says which held calls are meant; one of its fields is set.
type HeldSelector struct {
	All         bool
	Run, Thread string
	IDs         []string
}

// A PurgeSelector says which calls are purged; one of its fields is set.
type PurgeSelector struct {
	IDs         []string
	Run, Thread string
}

// A Frame is what a watcher gets at once: events of one call, or one control.
type Frame struct {
	CallID string // of the events and the gap
	Events []call.Event
	Cursor string

	Snapshot  *call.Call
	Gap       *Gap
	CaughtUp  bool
	Heartbeat bool
	Closing   bool // the daemon stops

	// Shared is set when other watchers get the same frame: what one makes of it is there for all.
	Shared interface {
		Form(make func() any) any
		Made() any // nil as long as it was not made
	}

	BatchFinished *BatchFinished // of a batch: the watch ends
}

// A Gap says that events are missing.
type Gap struct {
	LostTail  bool  // a crash took them; else retention trimmed them
	Corrupt   bool  // their row is damaged
	FirstKept int64 // the next event that there is; 0 when nobody knows
	Epoch     int64 // of what follows
}

// A Query selects calls; empty fields select all.
type Query struct {
	Statuses      []call.Status
	Run, Thread   string
	Batch         string
	Tool, Action  string
	CreatedAfter  time.Time // inclusive
	CreatedBefore time.Time // exclusive
	OldestFirst   bool
	After         int64 // the position at which the page before ended; 0 begins
	Limit         int
}

// A Page is a part of a list.
type Page struct {
	Calls  []*call.Call
	Next   int64    // 0: this was the last page
	Broken []string // ids of calls whose record cannot be read
}

// A Preview is what would happen to a call.
type Preview struct {
	Valid       bool
	Error       *tool.Error
	Effective   string
	ToolDigest  string
	Assessment  tool.Effects
	Description tool.Description
	Verdicts    []call.GateVerdict
	Outcome     string // of the gates together, as in [call.GateVerdict.Kind]
	Isolation   call.Isolation
}

// A Part is a range of an artifact.
type Part struct {
	Bytes            []byte
	Size             int64 // of the whole, by now
	EOF              bool
	Offset           int64 // where Bytes begins
	MIMEType         string
	FirstLine, Lines int64 // of lines; 0 for a range of bytes
}

// A Search is what to look for in an artifact, line by line.
type Search struct {
	Pattern    string
	Regexp     bool // RE2; else the text itself
	IgnoreCase bool
	After      int64 // the offset to begin at
	Limit      int   // matches; 0 is the engine's choice
}

// Found is what a search found.
type Found struct {
	Matches []Match
	Size    int64 // of the artifact, by now
	Next    int64 // where to go on
	EOF     bool
}

// A Match is one matching line.
type Match struct {
	Line, Offset int64
	Text         string
	Cut          bool
}

// An Input is what happens at the keyboard of a running call, in the order of its fields.
type Input struct {
	Data          []byte
	Position      *int64 // of Data in all that is sent to the attempt; nil is behind what was taken
	Attempt       int    // that it is for; 0 is the running one
	Rows, Columns int    // of the terminal; 0 leaves them
	Signal        string // such as SIGINT
	End           bool
}

// An InputState says how far the input of a call has come.
type InputState struct {
	Position int64
	Attempt  int
	Unread   int
}

// A Run says where a run stands.
type Run struct {
	ID        string
	State     string // OPEN, WAITING, BLOCKED or ENDED
	Reason    string
	BlockedBy string
	Changed   time.Time // when it was blocked or ended
	Mode      string    // that was chosen; empty when none was
	Counts    map[call.Status]int
}

// Tools are what can be called.
type Tools interface {
	// List returns the tools that a principal sees, sorted by id.
	List(p tool.Principal, f ToolFilter) []Tool
	// Lookup finds a tool that a principal sees by id or alias.
	Lookup(p tool.Principal, name string) (Tool, bool)
	// Export returns tools in the words of a format, such as openai-strict.
	Export(format string, tools []Tool) (*Export, error)
	// Watch returns a function that waits until what the principal sees may have changed since the call before, the
	// first time since Watch. It ends with ctx's error.
	Watch(p tool.Principal) func(context.Context) error
}

// A ToolFilter narrows a list; empty fields narrow nothing.
type ToolFilter struct {
	Allow, Exclude   []string // globs
	Source, Category string
}

// A Tool is a descriptor with its digest. It is shared: read it only.
type Tool struct {
	Descriptor *tool.Descriptor
	Digest     string
}

// An Export is a list of tools in the words of a provider.
type Export struct {
	Tools    []ExportedTool // in the order in which they were given, without those left out
	Omitted  []OmittedTool
	Notes    []string
	Revision string // of the content
	// Page returns the list of a range of Tools, as the provider takes it, and the guidance beside it.
	Page func(from, to int) (list, guidance string)
}

// An ExportedTool is what is told about one tool of an export.
type ExportedTool struct {
	Name, ID, Digest string
	Size             int // bytes of its definition and guidance
	Notes, Nulls     []string
}

// An OmittedTool is one that the provider would refuse.
type OmittedTool struct{ ID, Reason string }

// An Admin is what operators do with the daemon.
type Admin interface {
	// Info describes the daemon as it is now; the server adds what it knows itself.
	Info(ctx context.Context) Info
	// Reload reads rules and configuration again.
	Reload(ctx context.Context) (Reloaded, error)
	// Drain begins to stop. A nil period is the configured one. A second one only reports.
	Drain(period *time.Duration) (deadline time.Time, running int)
	// Quarantined lists tools whose definitions are not those that are trusted, by id, for all namespaces.
	Quarantined() []QuarantinedTool
	// AcceptTool trusts a definition that Quarantined listed.
	AcceptTool(p tool.Principal, q QuarantinedTool) (Tool, error)
	// Sources lists where tools come from, by name, for all namespaces.
	Sources() []Source
	// Secrets lists what references stand for, by name, for all namespaces, and has each read before when check is set.
	Secrets(ctx context.Context, check bool) []Secret
	// Backup writes a copy of the store into a new directory.
	Backup(ctx context.Context, p tool.Principal, directory string) (Backup, error)
	// Audit returns at most limit audit records of a namespace behind a position, and since when nothing was trimmed.
	Audit(ctx context.Context, namespace string, after int64, limit int) ([]AuditRecord, time.Time, error)
	// SetLogLevel returns the level before. Levels are debug, info, warn and error.
	SetLogLevel(level string) (previous string)
}

// An AuditRecord is a link of the chain of a namespace.
type AuditRecord struct {
	Position     int64
	Time         time.Time
	Key, CallID  string
	Link, Record []byte
}

// A Backup is what a copy of a store holds.
type Backup struct{ Calls, Files, Bytes int64 }

// A QuarantinedTool has another definition than the one that is trusted.
type QuarantinedTool struct {
	Namespace        string // of its source; "": every namespace calls it
	Source           string
	Trusted, Waiting Tool
}

// Reloaded says what a reload did.
type Reloaded struct {
	Changed      []string // parts that have something new
	NeedsRestart []string // settings that hold only after a restart
}

// Info describes a daemon.
type Info struct {
	Version, Commit string
	Store           string // sqlite, memory …
	StoreID         string
	Epoch           int64
	Started         time.Time
	Addresses       []Address
	Limits          Limits
	Features        []string
	Hooks           []HookState // outside the daemon
	Isolation       []IsolationFact
	Draining        bool
}

// A HookState is how a hook outside the daemon fares.
type HookState struct {
	Name, Place, LastError string
	Kinds                  []string
	Failing                bool
	Changed                time.Time
	Asked, Failed          int64
	Running, Waiting       int
}

// An Address is where a daemon listens.
type Address struct {
	Network, Address string
	TLS              bool
}

// Limits are what a daemon refuses or cuts; sizes are in bytes.
type Limits struct {
	Arguments, Result, Ticket, Frame, Content, Message int64
	RunningCalls, QueuedCalls                          int
	Suspension, Retention                              time.Duration

	RunningNamespace, RunningPrincipal         int // 0: as many as there are places
	RunningTools                               []ToolLimit
	QueuedNamespace, QueuedPrincipal           int
	SuspensionsNamespace, SuspensionsPrincipal int // 0: any number
	CircuitFailures                            int // 0: never
	CircuitOpen                                time.Duration
	StoredNamespace                            int64 // bytes; 0: any number
	OutputThread, OutputNamespace              int64 // bytes; 0: any number
}

// A ToolLimit bounds how many calls of the tools run at once that a pattern matches, of each.
type ToolLimit struct {
	Tools string
	Calls int
}

// An IsolationFact is one thing that holds, or does not hold, around processes.
type IsolationFact struct {
	Name              string
	Held              bool
	Mechanism, Detail string
}
