package call

import (
	"strconv"
	"time"

	"github.com/toold-dev/toold/tool"
)

// Strategy says which calls of a batch may run beside each other.
type Strategy string

// The strategies.
const (
	Sequential Strategy = "SEQUENTIAL" // one after the other
	Auto       Strategy = "AUTO"       // neighbours that are read-only and concurrency-safe together, the others alone
	Parallel   Strategy = "PARALLEL"   // all together
)

// Replay says when decided calls of a batch resume.
type Replay string

// The ways to replay.
const (
	Immediate  Replay = "IMMEDIATE"   // each decision resumes its call
	AllDecided Replay = "ALL_DECIDED" // the decided calls wait until no question of the batch is open
)

// ReasonBatch is the reason of calls that were not run because of another call of their batch.
const ReasonBatch = "BATCH"

// BatchOptions say how the calls of a batch go.
type BatchOptions struct {
	Strategy    Strategy
	MaxParallel int // calls that execute at once; 0 is no bound
	// FailFast ends the calls that have not started when one did not succeed.
	FailFast bool
	Replay   Replay
}

// A BatchSpec is what an orchestrator asks for: the calls of one model turn, in model order.
type BatchSpec struct {
	ID string // empty: the daemon makes a UUIDv7
	BatchOptions

	Calls []Spec
}

// A Batch is the record of the calls of one model turn. What became of them is in their own records.
type Batch struct {
	Namespace string
	ID        string
	Caller    string // subject
	// Digest distinguishes a repeat from a reuse of the id.
	Digest string
	BatchOptions

	Calls   []string // ids, in model order
	Created time.Time
	Ended   time.Time // zero while there is something to do
}

// Key returns the batch's name.
func (b *Batch) Key() Key { return Key{b.Namespace, b.ID} }

const batchDomain = "toold.batch.v1"

// BatchDigest returns the digest, in hex, of what makes two requests with one batch id the same: the options, and of each
// call in order its id as it was sent and its request digest.
func BatchDigest(o BatchOptions, calls []Spec, requests []string) string {
	b := append([]byte(nil), batchDomain...)
	for _, v := range [...]string{string(o.Strategy), strconv.Itoa(o.MaxParallel), strconv.FormatBool(o.FailFast), string(o.Replay)} {
		b = tool.AppendQuoted(append(b, ','), v)
	}
	for i := range calls {
		b = tool.AppendQuoted(append(b, ','), calls[i].ID)
		b = tool.AppendQuoted(append(b, ','), requests[i])
	}
	return hexSum(b)
}
