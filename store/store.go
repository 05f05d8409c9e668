// Package store defines the contract of the journal: the durable record of calls, their logs and their decisions.
//
// There is one writer. A [Change] is one step of one call, and is applied completely or not at all. A change that [Store.Commit] has
// acknowledged survives kill -9. If it asked for [Full], it also survives power loss. Each change names the revision that it was made from.
// When two changes are made from the same revision of a call, the second fails with [ErrConflict]. The first committed decision therefore
// wins.
//
// Package storetest tests every promise; each store runs these tests.
package store

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/metric"
	"github.com/toold-dev/toold/tool"
)

// The errors of a store. The engine decides what each means for a caller. A database error is always one of ErrFull, ErrBusy, ErrRefused,
// ErrCorrupt and ErrFatal.
var (
	ErrNotFound = errors.New("not in the journal")
	// ErrTrimmed means that only a tombstone remains of the call or batch.
	ErrTrimmed = errors.New("call trimmed to a tombstone")
	// ErrExists means that a call or batch with this id exists already.
	ErrExists = errors.New("call exists")
	// ErrConflict means that the call has changed since it was read.
	ErrConflict = errors.New("call changed meanwhile")
	// ErrTransition means that the stored status does not allow this step, or that the call has ended. It is a bug of the caller: the
	// change names the stored revision, so the caller knew the status.
	ErrTransition = errors.New("illegal step of a call")
	// ErrDecisionExists means that a decision with this id exists already.
	ErrDecisionExists = errors.New("decision exists")
	// ErrExpired means that the store's clock has reached Change.NotAfter.
	ErrExpired = errors.New("too late")
	// ErrTooEarly means that the store's clock has not reached Change.NotBefore.
	ErrTooEarly = errors.New("too early")
	// ErrCorrupt means that a row has a wrong checksum or form. Other rows are not affected.
	ErrCorrupt = errors.New("stored row is corrupt")
	// ErrFull means that the disk is full. The change is not stored and may be tried again.
	ErrFull = errors.New("no space for the journal")
	// ErrRefused means that the database refused the content of the change. The same change would be refused again.
	ErrRefused = errors.New("refused by the journal")
	// ErrBusy means that the database refused the change for a reason other than its content, such as a lock or a time limit. The change is
	// not stored and may be tried again.
	ErrBusy = errors.New("journal not ready")
	// ErrFatal means that the state of the disk is unknown, after a failed fsync or a COMMIT with unknown outcome. The daemon must stop,
	// and the next daemon recovers the calls. A store that has returned ErrFatal refuses all later requests. Clients then connect to the
	// next daemon.
	ErrFatal error = call.Refuse(call.Unavailable, "JOURNAL_FAILED", "the journal is not available; the daemon is stopping")
	// ErrClosed means that the store was closed.
	ErrClosed error = call.Refuse(call.Unavailable, "JOURNAL_FAILED", "the journal is closed; the daemon is stopping")
)

// MaxSeeks is the maximum number of calls that [Store.Children] looks at.
const MaxSeeks = 10_000

// Durability says what a change must survive before it is acknowledged.
type Durability uint8

const (
	// Full survives power loss, because the commit waits for an fsync. It is for intents, results, suspensions, decisions and cancel
	// requests.
	Full Durability = iota
	// Normal survives kill -9. It is for changes with only progress and output, and for read-only calls.
	Normal
)

// A Change is one step of one call.
type Change struct {
	// Key names the call of a change that only appends events. Such a change has no Call.
	Key call.Key
	// Call is the record after the change. Its Revision must be the stored revision plus 1, or 1 if Create is set. Its LastSequence must be
	// the sequence of the last event. The store does not use the pointer after it has called done.
	Call   *call.Call
	Create bool // The call is new. The change fails with ErrExists when the id exists, and with ErrTrimmed when the id has a tombstone.
	// Events continue the call's log.
	Events     []call.Event
	Durability Durability

	// NotAfter refuses the change with ErrExpired when the store's clock has reached it. NotBefore refuses the change with ErrTooEarly when
	// the clock has not reached it. The clock is read inside the transaction. Zero means no bound.
	NotAfter, NotBefore call.Stamp
	// Decision is stored with a hash of its content. Its id is unique in the namespace forever.
	Decision *Decision
	// Documents are applied in order. A command with a conflict is left out. If there are Documents, the store calls OnDocuments once, with
	// the outcome of each command. It does so inside the transaction, before it writes Call and Events. OnDocuments may modify Call and
	// Events and must not block. When a deleted document is created again, its revision continues to count.
	Documents   []DocumentChange
	OnDocuments func([]call.DocumentNotice)
	// Group names the calls that run in parallel with this one. If several calls of the group set, merge or delete the same document, only
	// the first call that commits can do so. With an empty Group there is no such check.
	Group string
	// Limits are the limits of the documents. Zeros mean no limit.
	Limits DocumentLimits
	// Run is the new state of the run, or nil when it does not change. The state OPEN reopens a run that has ended, but not a blocked run.
	Run     *Run
	Records []Record
	// Policies are stored or removed, in order.
	Policies []Policy
	// Actions are executed after the change has committed.
	Actions []Action
}

// A Policy is a setting that people change while the daemon runs and that gates read, such as a remembered rule or a permission mode. A
// later policy with the same kind and key replaces the earlier one.
type Policy struct {
	Namespace, Kind, Key string
	// Scope and ScopeID name a run or thread. The policy is removed when that run or thread ends. With any other scope, the policy does not
	// depend on a run or thread.
	Scope   tool.Scope
	ScopeID string
	Expires call.Stamp // The store may remove the policy after this time. Zero means never.
	Value   []byte     // nil removes the policy
}

// A Decision is the stored answer to a suspension.
type Decision struct {
	Namespace    string
	ID           string
	CallID       string
	SuspensionID string
	Content      string // digest of the client's request; it tells whether a repeated id is the same request or a different one
	Decision     tool.Decision
}

// A Record is data that a plugin stores for a call.
type Record struct {
	Kind, Key string
	Bytes     []byte
	// Chained links the record to the previous record of its kind in its namespace ([Linked]). A chained record stays when its call is
	// purged. Either all records of a kind are chained, or none.
	Chained bool
}

// A StoredRecord is a record with the fields that the store sets. Of several records with the same key, the newest is valid; the older ones
// stay stored.
type StoredRecord struct {
	Record
	Position int64
	CallID   string // empty when the record belongs to no call
	Time     call.Stamp
}

// A RecordReader reads records. Every store of this module implements it. Records returns at most limit records of a kind with positions
// above after, in the order in which they were stored. RecordsBefore returns at most limit records with positions below before, the newest
// first.
type RecordReader interface {
	Records(ctx context.Context, namespace, kind string, after int64, limit int) ([]StoredRecord, error)
	RecordsBefore(ctx context.Context, namespace, kind string, before int64, limit int) ([]StoredRecord, error)
}

// A Run is the stored state of a run. Only runs that were blocked or ended at some time have one.
type Run struct {
	Namespace string
	ID        string
	Owner     string // Subject of the caller that began the run. It is stored here because the calls of the run may have been removed.
	State     call.RunState
	Reason    string
	CallID    string     // the call that blocked the run
	Changed   call.Stamp // when the state was stored; set by the store
}

// A Shredding names the purged calls, runs and threads of one namespace.
type Shredding struct {
	Namespace string
	// Calls may include calls that have only a tombstone. The decisions of the Calls are reduced to [call.PurgedDecision]. Their records
	// and actions are removed. Records that belong to no call, but have the id of one of the Calls as their key, are also removed. Chained
	// records stay.
	Calls []string
	// Runs and Threads lose their documents and their policies of the kind PolicyKind. Runs also lose the stored reason of their state.
	Runs, Threads []string
	PolicyKind    string
}

// A Feed selects the events of many calls: of a run, a thread or a batch, or of a namespace when all three are empty.
type Feed struct {
	Namespace   string
	Run, Thread string
	Batch       string
	Caller      string // subject; empty means all callers
}

// A FeedEntry holds consecutive events of one call, and the position of their commit.
type FeedEntry struct {
	Position int64
	Key      call.Key // The ID is empty when the row is corrupt and the id cannot be read.
	Epoch    int64
	Events   []call.Event
	// Corrupt means that the events cannot be read. Last is then the sequence of their last event, or 0 when that cannot be read either.
	Corrupt bool
	Last    int64
}

// Identity identifies a store and the current start of a daemon on it.
type Identity struct {
	StoreID string
	// Epoch counts the daemon starts on this store, from 1.
	Epoch int64
	// Moved means that the store's file or database is not the one that the store has recorded: the store is a copy or a restored backup.
	Moved bool
	// Clean means that the last daemon closed the store cleanly.
	Clean bool
}

// SchemaVersions are the schema version of a journal, and the latest version that this release knows. Opening a journal migrates it to the
// latest version. Zero means a new journal.
type SchemaVersions struct{ Found, Latest int }

// Stats has the counters of a store since it was opened. A store may leave out some.
type Stats struct {
	Groups  metric.Snapshot // changes in a transaction
	Syncs   metric.Snapshot // nanoseconds of commits that wait for the disk
	Waiting [2]int          // number of waiting changes: Full ones, then Normal ones
	// Output is the bytes of each namespace in the spool. It is nil when there are no limits.
	Output map[string]int64
}

// A Store is the journal. Its methods may be called concurrently.
type Store interface {
	Batches

	// Submit queues a change. The store invokes done exactly once, from any goroutine, possibly before Submit returns. The argument of done
	// is nil when the change is as durable as it asked for. If a caller submits several changes without waiting, only changes of the same
	// durability keep their order.
	Submit(c *Change, done func(error))
	// Commit submits a change and waits. When ctx ends first, the change may still be applied.
	Commit(ctx context.Context, c *Change) error

	// Call returns a call. Errors: ErrNotFound, ErrTrimmed, ErrCorrupt.
	Call(ctx context.Context, key call.Key) (*call.Call, error)
	// CallBySuspension returns the call with this suspension, open or closed.
	CallBySuspension(ctx context.Context, namespace, suspensionID string) (*call.Call, error)
	// Decision returns a decision by its id. Error: ErrNotFound.
	Decision(ctx context.Context, namespace, id string) (*Decision, error)
	// Events returns at most limit events with sequences above after. first is the lowest sequence that is still stored; it is above 1 when
	// the beginning was removed.
	Events(ctx context.Context, key call.Key, after int64, limit int) (events []call.Event, first int64, err error)
	Calls(ctx context.Context, q call.Query) (call.Page, error)
	// Children returns one call of each run that the named calls started, in the order of creation. It looks at the newest
	// [call.MaxChildren] calls of each parent, and at no more than [MaxSeeks] calls in all. For each run it returns the oldest of these
	// calls. It leaves out corrupt rows.
	Children(ctx context.Context, namespace string, parents []string) ([]*call.Call, error)
	// Unfinished invokes visit with each call that is NEW, RUNNING or RESUMING, in all namespaces, oldest first. For a corrupt row it passes
	// the key and an error.
	Unfinished(ctx context.Context, visit func(key call.Key, c *call.Call, err error) error) error
	// Due returns at most limit suspended calls of a namespace whose open suspension has expired by the store's clock. DueNamespaces
	// returns the namespaces with such calls.
	Due(ctx context.Context, namespace string, limit int) ([]*call.Call, error)
	DueNamespaces(ctx context.Context) ([]string, error)
	// NextExpiry returns when the next open suspension expires, or zero when there is none.
	NextExpiry(ctx context.Context) (call.Stamp, error)
	// Feed returns at most limit entries with positions above after, in order, and the newest position of the journal. A row that cannot be
	// read gives an entry with Corrupt set.
	Feed(ctx context.Context, f Feed, after int64, limit int) (entries []FeedEntry, newest int64, err error)
	// Documents returns all documents of these scopes, as of one moment, sorted by key in each scope.
	Documents(ctx context.Context, namespace string, scopes ...DocumentScope) ([]tool.Document, error)
	// Run returns the stored state of a run. The error is ErrNotFound when the run was never blocked or ended.
	Run(ctx context.Context, namespace, id string) (*Run, error)
	// RunCounts returns how many calls of a run have each status.
	RunCounts(ctx context.Context, namespace, id string) (map[call.Status]int, error)
	// BlockedRuns invokes visit with each blocked run.
	BlockedRuns(ctx context.Context, visit func(Run) error) error
	// Expiring returns suspended calls of a namespace, in the order in which their open questions expire. It uses the fields Namespace,
	// After, AfterExpiry and Limit of the query. It reads an index of the open questions of all namespaces.
	Expiring(ctx context.Context, q call.Query) (call.Page, error)
	// Counts returns how many calls have each status that is not terminal.
	Counts(ctx context.Context) (map[call.Status]int, error)
	// CountsOf returns how many calls of a namespace have each status that is not terminal, and how many open questions have each action.
	CountsOf(ctx context.Context, namespace string) (statuses map[call.Status]int, actions map[string]int, err error)

	// Trim removes old data:
	//
	//   - At most limit terminal calls whose end was stored before callsBefore become tombstones.
	//   - Tombstones older than tombstonesBefore are removed.
	//   - RUN documents are removed when their run has no event since documentsBefore.
	//   - All documents of a run or thread are removed with its last call.
	//   - Policies that expired before callsBefore are removed.
	//   - Policies that were set before callsBefore for a run or thread without calls are removed.
	//   - Blocked runs without calls are removed when they were blocked before tombstonesBefore.
	//   - Dead actions stored before callsBefore are removed.
	//   - Records stored before tombstonesBefore are removed. The newest of these records in each chain stays, because the next record links to it.
	//
	// It returns the removed calls, so that the caller can remove their spools.
	Trim(ctx context.Context, callsBefore, tombstonesBefore, documentsBefore call.Stamp, limit int) ([]call.Key, error)
	// Purge erases the content of a finished call, durably. Its record becomes the result of [call.Call.Purged], at the next revision, and
	// its events are removed; [Store.Events] begins after them. After a crash the call is either unchanged or purged. Purging again changes
	// nothing. Errors: ErrNotFound, ErrTrimmed, ErrCorrupt, and ErrTransition when the call has not ended.
	Purge(ctx context.Context, key call.Key, by call.Purge) error
	// Shred durably erases the remaining data of the named calls, runs and threads. When it returns nil, no file of the journal contains
	// data that was purged, trimmed or replaced before. It takes about as long as writing the whole journal anew, and writers wait during a
	// large part of that time. It may be repeated at any time.
	Shred(ctx context.Context, s Shredding) error
	// Amend applies an amendment and returns a notice for each of its commands. Error: ErrNotFound.
	Amend(ctx context.Context, a *Amendment) ([]call.DocumentNotice, error)
	// Actions returns actions that were not executed yet, including dead ones.
	Actions(ctx context.Context, q ActionQuery) ([]Action, error)
	// PutPolicy durably stores or removes a policy without a call.
	PutPolicy(ctx context.Context, p Policy) error
	// Policies invokes visit with every policy, in all namespaces. For a broken policy it passes an error.
	Policies(ctx context.Context, visit func(Policy, error) error) error
	// EndRun stores the state of a run and removes its documents and policies. The run need not have calls.
	EndRun(ctx context.Context, r Run) error
	// PutRecord stores a record without a call, such as an audit row of DescribeCall.
	PutRecord(ctx context.Context, namespace string, r Record) error

	// Now returns the time of the store's clock. It never runs backwards, even over restarts.
	Now() call.Stamp
	Identity() Identity
	Spool() Spool
	// Close waits for submitted changes, writes the mark of a clean end and closes the store.
	Close() error
}

// An Owned store can be taken over by a daemon on another machine, even while its previous owner still acts. A store that only one process
// of one machine can open does not implement Owned.
type Owned interface {
	// Own returns nil when a recent proof shows that this daemon owns the store. Otherwise it waits for a new proof. The engine calls it
	// right before an effect starts. If Own returns an error, the effect must not start. The error is that of ctx or [ErrFatal].
	Own(ctx context.Context) error
	// StartBy does what Own does, and returns the latest time at which the effect may start, as a reading of CLOCK_BOOTTIME. After that
	// time another daemon may own the store.
	StartBy(ctx context.Context) (time.Duration, error)
	// Hold returns for how long the attempts of earlier epochs must still be ignored, because the previous owner may still be ending them.
	Hold() time.Duration
}

// A SpoolSizer is a [Spool] that reports its contents. Every spool of this module implements it.
type SpoolSizer interface {
	// Sizes invokes visit with each call that has streams, and their total size in bytes.
	Sizes(ctx context.Context, visit func(key call.Key, bytes int64)) error
}

// A Spool stores the output of calls: what they print and save. Each pair of call and name has one append-only stream.
type Spool interface {
	// Append adds b to a stream of a call and returns the offset at which b begins. thread is the call's thread, or empty. Appended bytes
	// survive kill -9. After a [*QuotaError] nothing was appended.
	Append(key call.Key, thread, name string, b []byte) (offset int64, err error)
	// ReadAt reads like [io.ReaderAt]. The error is ErrNotFound when the stream does not exist.
	ReadAt(key call.Key, name string, p []byte, off int64) (int, error)
	// Size returns how many bytes a stream has. Error: ErrNotFound.
	Size(key call.Key, name string) (int64, error)
	// Release closes the open files of a call. Its streams stay.
	Release(key call.Key)
	// Remove deletes all streams of a call.
	Remove(key call.Key) error
	io.Closer
}
