// Package store is the contract of the journal: the durable record of calls, their logs and their decisions.
//
// There is one writer. A [Change] is one call's step, applied whole or not at all, and what [Store.Commit] acknowledged
// survives kill -9, and power loss when it asked for [Full]. Each change of a call names the revision it was made from,
// so of two that race for one call one loses with [ErrConflict]: that is how the first committed decision wins.
//
// storetest holds every promise; each store only calls it.
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

// What a store finds. The engine knows what each means for a caller. What a database says is always one of five: ErrFull,
// ErrBusy, ErrRefused, ErrCorrupt or ErrFatal.
var (
	ErrNotFound = errors.New("not in the journal")
	// ErrTrimmed means that only a tombstone is left of a call.
	ErrTrimmed = errors.New("call trimmed to a tombstone")
	// ErrExists means that a call with this id is there already.
	ErrExists = errors.New("call exists")
	// ErrConflict means that the call has moved on since it was read.
	ErrConflict = errors.New("call changed meanwhile")
	// ErrTransition means that the stored status does not allow this step, or that the call has ended: a bug of the
	// caller, since a change that was made from the stored revision knew it.
	ErrTransition = errors.New("illegal step of a call")
	// ErrDecisionExists means that a decision with this id is there already.
	ErrDecisionExists = errors.New("decision exists")
	// ErrExpired means that the store's clock has reached Change.NotAfter.
	ErrExpired = errors.New("too late")
	// ErrTooEarly means that the store's clock has not reached Change.NotBefore.
	ErrTooEarly = errors.New("too early")
	// ErrCorrupt means that a row's checksum or form is wrong; that row alone is refused.
	ErrCorrupt = errors.New("stored row is corrupt")
	// ErrFull means that the disk is full; the change is not there and may be tried again.
	ErrFull = errors.New("no space for the journal")
	// ErrRefused means that the database did not take the change for its content; the same change would be refused again.
	ErrRefused = errors.New("refused by the journal")
	// ErrBusy means that the database did not take the change for a reason that has nothing to do with its content, such as
	// a lock or a limit of time. The change is not there and may be tried again.
	ErrBusy = errors.New("journal not ready")
	// ErrFatal means that nobody knows what is on the disk (a failed fsync, an unknown COMMIT): stop, and let recovery
	// decide. A store that returned it refuses everything from then on. Clients try the next daemon.
	ErrFatal error = call.Refuse(call.Unavailable, "JOURNAL_FAILED", "the journal is not available; the daemon is stopping")
	// ErrClosed means that the store was closed.
	ErrClosed error = call.Refuse(call.Unavailable, "JOURNAL_FAILED", "the journal is closed; the daemon is stopping")
)

// Durability says what a change must survive before it is acknowledged.
type Durability uint8

const (
	// Full survives power loss (an fsync lies behind it): intents, results, suspensions, decisions, cancel requests.
	Full Durability = iota
	// Normal survives kill -9: progress and output alone, and read-only calls.
	Normal
)

// A Change is one step of one call.
type Change struct {
	// Key names the call of a change without a record (Call nil), which only appends events.
	Key call.Key
	// Call is the record after the change. Its Revision must be the stored one plus 1, and 1 with Create; its
	// LastSequence that of the last event. The store does not keep the pointer after done was called.
	Call   *call.Call
	Create bool // refuse with ErrExists when the id is known, with ErrTrimmed when a tombstone has it
	// Events continue the call's log.
	Events     []call.Event
	Durability Durability

	// NotAfter refuses the change with ErrExpired when the store's clock has reached it, NotBefore with ErrTooEarly when
	// it has not. Both are read inside the transaction; zero means no bound.
	NotAfter, NotBefore time.Time
	// Decision is stored with a hash of its content; its id is unique in the namespace for ever.
	Decision *Decision
	// Documents are applied in order. One that loses is left out. OnDocuments is called once for a change that has some,
	// inside the transaction and before Call and Events are written, with what became of each. It may change Events and
	// Call and must not block. A deleted document's revision continues to count when it is created again.
	Documents   []DocumentChange
	OnDocuments func([]call.DocumentNotice)
	// Group names the calls that run together with this one: of those whose exclusive commands name one document, the first to
	// commit has it. Empty claims nothing.
	Group string
	// Limits are what the documents are held to; zeros bound nothing.
	Limits DocumentLimits
	// Run is the run's new state, when it changes. OPEN opens a run that has ended; it lifts no block.
	Run     *Run
	Records []Record
	// Policies are stored or removed, in order.
	Policies []Policy
	// Actions are carried out once the change is there.
	Actions []Action
}

// A Policy is what people set while the daemon runs and gates look at, such as a remembered rule or a permission mode. A
// later one with the same kind and key takes the place of the earlier one.
type Policy struct {
	Namespace, Kind, Key string
	// Scope and ScopeID name the run or thread with which it goes; other scopes are for ever.
	Scope   tool.Scope
	ScopeID string
	Expires time.Time // it may be forgotten then; zero is never
	Value   []byte    // nil removes it
}

// A Decision is the stored answer to a suspension.
type Decision struct {
	Namespace    string
	ID           string
	CallID       string
	SuspensionID string
	Content      string // digest of what the client sent: distinguishes a replay from a reuse of the id
	Decision     tool.Decision
}

// A Record is what a plugin keeps beside a call.
type Record struct {
	Kind, Key string
	Bytes     []byte
	// Chained links the record to the one before it of its kind in its namespace ([Linked]). It stays when its call is purged. All
	// records of a kind are chained, or none.
	Chained bool
}

// A StoredRecord is a record as it was stored: the newest of a key counts, the older ones stay.
type StoredRecord struct {
	Record
	Position int64
	CallID   string // empty when it belongs to no call
	Time     time.Time
}

// A RecordReader reads back what plugins stored; every store of this module is one. It returns at most limit records of
// a kind above the position after, in the order in which they were stored.
type RecordReader interface {
	Records(ctx context.Context, namespace, kind string, after int64, limit int) ([]StoredRecord, error)
}

// A Run is the stored state of a run that is, or was, blocked or ended.
type Run struct {
	Namespace string
	ID        string
	Owner     string // subject of the caller that began it; known here when no call of the run is left
	State     call.RunState
	Reason    string
	CallID    string // that blocked it
	Changed   time.Time
}

// A Shredding names what was purged, in one namespace.
type Shredding struct {
	Namespace string
	// Calls that have nothing but a tombstone may be among them. Of their decisions [call.PurgedDecision] stays. Records
	// and actions that belong to them go, and records that belong to no call and have the id of one as their key; what is
	// [Chained] stays.
	Calls []string
	// The documents of these runs and threads go, with their policies of the kind PolicyKind, and what was noted as the
	// reason of a run's state.
	Runs, Threads []string
	PolicyKind    string
}

// A Feed selects the events of many calls: of a run, a thread or a batch, or of a namespace when all are empty.
type Feed struct {
	Namespace   string
	Run, Thread string
	Batch       string
	Caller      string // subject; empty: everybody's
}

// A FeedEntry is consecutive events of one call, at the position at which they were committed.
type FeedEntry struct {
	Position int64
	Key      call.Key // without an ID when a corrupt row does not contain it
	Epoch    int64
	Events   []call.Event
	// Corrupt means that the events cannot be read. Last is the sequence of the last of them; 0 when it cannot be read either.
	Corrupt bool
	Last    int64
}

// Identity is what makes a store this one.
type Identity struct {
	StoreID string
	// Epoch counts the starts of a daemon on this store, from 1.
	Epoch int64
	// Moved means that the file is not the one that this store remembers: a copy or a restored backup.
	Moved bool
	// Clean says that the last daemon closed the store in order.
	Clean bool
}

// Stats is what a store may have counted since it was opened.
type Stats struct {
	Groups metric.Snapshot // changes that one transaction held
	Syncs  metric.Snapshot // nanoseconds that commits took which wait for the disk
	Lanes  [2]int          // changes that wait: those that must be durable, then the others
	// Output is what each namespace has in the spool, in bytes; nil when that is not bounded.
	Output map[string]int64
}

// A Store is the journal. All methods are called concurrently.
type Store interface {
	Batches

	// Submit queues a change; done is called exactly once, from any goroutine and possibly before Submit returns, with
	// nil once the change is as durable as it asked for. Changes of one call that are submitted one after the other
	// without waiting keep their order only within one durability.
	Submit(c *Change, done func(error))
	// Commit submits a change and waits. When ctx ends first the change may still be applied.
	Commit(ctx context.Context, c *Change) error

	// Call returns a call. ErrNotFound, ErrTrimmed, ErrCorrupt.
	Call(ctx context.Context, key call.Key) (*call.Call, error)
	// CallBySuspension returns the call that has, or had, this suspension.
	CallBySuspension(ctx context.Context, namespace, suspensionID string) (*call.Call, error)
	// Decision returns a decision by its id. ErrNotFound.
	Decision(ctx context.Context, namespace, id string) (*Decision, error)
	// Events returns at most limit events with sequences above after. first is the lowest sequence that is still kept
	// (above 1 when the beginning was trimmed).
	Events(ctx context.Context, key call.Key, after int64, limit int) (events []call.Event, first int64, err error)
	Calls(ctx context.Context, q call.Query) (call.Page, error)
	// Unfinished calls visit with each call that is NEW, RUNNING or RESUMING, all namespaces, oldest first. Corrupt rows
	// are given as their key and an error.
	Unfinished(ctx context.Context, visit func(key call.Key, c *call.Call, err error) error) error
	// Due returns at most limit suspended calls of a namespace whose open suspension's expiry the store's clock has reached, and
	// DueNamespaces the namespaces that have some.
	Due(ctx context.Context, namespace string, limit int) ([]*call.Call, error)
	DueNamespaces(ctx context.Context) ([]string, error)
	// NextExpiry returns when the next open suspension expires; zero when there is none.
	NextExpiry(ctx context.Context) (time.Time, error)
	// Feed returns at most limit entries above the position after, in order, and the newest position there is. A row that
	// cannot be read is an entry that says so.
	Feed(ctx context.Context, f Feed, after int64, limit int) (entries []FeedEntry, newest int64, err error)
	// Documents returns all documents of these scopes as they are at one moment, sorted by key in each.
	Documents(ctx context.Context, namespace string, scopes ...DocumentScope) ([]tool.Document, error)
	// Run returns the stored state of a run. ErrNotFound when it was never blocked or ended.
	Run(ctx context.Context, namespace, id string) (*Run, error)
	// RunCounts returns how many calls of a run have each status.
	RunCounts(ctx context.Context, namespace, id string) (map[call.Status]int, error)
	// BlockedRuns calls visit with each run that is blocked.
	BlockedRuns(ctx context.Context, visit func(Run) error) error
	// Counts returns how many calls have each status that is not terminal.
	Counts(ctx context.Context) (map[call.Status]int, error)

	// Trim turns terminal calls that ended before callsBefore into tombstones, at most limit, forgets tombstones older
	// than tombstonesBefore, and RUN documents of runs without an event since documentsBefore. The documents of a run or
	// thread go with its last call, policies that were set before callsBefore for one without calls too, and those that
	// ended before it. A blocked run without calls goes that was blocked before tombstonesBefore. Dead actions go that were stored before callsBefore. Records go that were stored before tombstonesBefore,
	// but of a chain the newest of them stays: what comes later is linked to it. It returns the calls that went, so that their
	// spools can go too.
	Trim(ctx context.Context, callsBefore, tombstonesBefore, documentsBefore time.Time, limit int) ([]call.Key, error)
	// Purge erases the content of a call that has ended, durably: its record becomes what [call.Call.Purged] leaves, at the
	// next revision, and its events go; [Store.Events] begins behind them. A crash leaves it as it was or as it is then. One
	// that was purged before stays as it is. ErrNotFound, ErrTrimmed, ErrCorrupt; ErrTransition when it has not ended.
	Purge(ctx context.Context, key call.Key, by call.Purge) error
	// Shred erases what is kept beside the calls, runs and threads that are named, durably, and returns when no file of the
	// journal holds anything any more of what was purged, trimmed or replaced until now. It takes about as long as to write
	// the whole journal anew, and writers wait for a large part of it. May be done again at any time.
	Shred(ctx context.Context, s Shredding) error
	// Amend makes an amendment and returns what became of each of its commands. ErrNotFound.
	Amend(ctx context.Context, a *Amendment) ([]call.DocumentNotice, error)
	// Actions returns what was not carried out yet, the dead included.
	Actions(ctx context.Context, q ActionQuery) ([]Action, error)
	// PutPolicy stores or removes a policy that belongs to no call, durably.
	PutPolicy(ctx context.Context, p Policy) error
	// Policies calls visit with every policy, all namespaces. A broken one is given with its error.
	Policies(ctx context.Context, visit func(Policy, error) error) error
	// EndRun stores the state of a run, of which no call need be left, and removes its documents and policies.
	EndRun(ctx context.Context, r Run) error
	// PutRecord stores something that belongs to no call, such as an audit row of DescribeCall.
	PutRecord(ctx context.Context, namespace string, r Record) error

	// Now is the store's clock. It never runs backwards, not over restarts either.
	Now() time.Time
	Identity() Identity
	Spool() Spool
	// Close waits for what was submitted, writes the mark of a clean end and closes.
	Close() error
}

// An Owned store can be taken over by a daemon on another machine while its earlier owner still acts. A store that a lock of
// the machine protects does not implement Owned.
type Owned interface {
	// Own returns nil when there is a recent proof that this daemon owns the store, and otherwise waits for a new one. The engine
	// calls it right before an effect starts. An error means that nothing may start: of ctx, or [ErrFatal].
	Own(ctx context.Context) error
	// StartBy is Own, and returns until when the effect may start, by CLOCK_BOOTTIME: another daemon may have the store after that.
	StartBy(ctx context.Context) (time.Duration, error)
	// Hold returns for how long the attempts of earlier epochs must still be left alone, because the owner before this one
	// may not have ended what it started.
	Hold() time.Duration
}

// A SpoolSizer is a [Spool] that says what it holds; every spool of this module is one.
type SpoolSizer interface {
	// Sizes calls visit with each call that has streams, and their bytes.
	Sizes(ctx context.Context, visit func(key call.Key, bytes int64)) error
}

// A Spool holds what calls print and save: one append-only stream for each (call, name).
type Spool interface {
	// Append adds b to a stream of a call, which belongs to a thread or to none, and returns the offset it begins at. What was
	// appended survives kill -9. With a [*QuotaError] nothing was.
	Append(key call.Key, thread, name string, b []byte) (offset int64, err error)
	// ReadAt reads as [io.ReaderAt] does. ErrNotFound when there is no such stream.
	ReadAt(key call.Key, name string, p []byte, off int64) (int, error)
	// Size returns how many bytes a stream has. ErrNotFound.
	Size(key call.Key, name string) (int64, error)
	// Release closes what is open for a call; its streams stay.
	Release(key call.Key)
	// Remove deletes all streams of a call.
	Remove(key call.Key) error
	io.Closer
}
