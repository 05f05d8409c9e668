package call

import (
	"strconv"

	"github.com/toold-dev/toold/tool"
)

// Strategy says which calls of a batch may run at the same time.
type Strategy string

// The strategies.
const (
	Sequential Strategy = "SEQUENTIAL" // one call after the other
	Auto       Strategy = "AUTO"       // Adjacent calls together if all are read-only and concurrency-safe, or if their resources do not overlap. All other calls alone.
	Parallel   Strategy = "PARALLEL"   // all calls together
)

// Replay says when decided calls of a batch resume.
type Replay string

// The values of Replay.
const (
	Immediate  Replay = "IMMEDIATE"   // each decision resumes its call
	AllDecided Replay = "ALL_DECIDED" // The decided calls wait until the batch has no open suspension.
)

// ReasonBatch is the error reason of a call that did not run because of another call of its batch.
const ReasonBatch = "BATCH"

// BatchOptions say how the calls of a batch run.
type BatchOptions struct {
	Strategy    Strategy
	MaxParallel int // maximum running calls; 0 means no limit
	// FailFast means that, when one call does not succeed, the calls that have not started are ended.
	FailFast bool
	Replay   Replay
}

// A BatchSpec is an orchestrator's request: the calls of one model turn, in model order.
type BatchSpec struct {
	ID string // If it is empty, the daemon generates a UUIDv7.
	BatchOptions

	Calls []Spec
	// Identity tells a repeated request from a different request with the same id. When it is empty, [BatchDigest] takes its place.
	Identity string
	// Turn is stored with the batch and returned unchanged. Package turn makes it.
	Turn []byte
}

// A Batch is the record of the calls of one model turn. The results are in the records of the calls.
type Batch struct {
	Namespace string
	ID        string
	Caller    string // subject of the caller
	// Digest identifies the request. With it, a repeated request can be told from a different request with the same id.
	Digest string
	BatchOptions

	Calls   []string // ids, in model order
	Created Stamp
	Ended   Stamp  // zero while the batch is open
	Turn    []byte // the Turn of [BatchSpec]
}

// Key returns the namespace and id of the batch.
func (b *Batch) Key() Key { return Key{b.Namespace, b.ID} }

const batchDomain = "toold.batch.v1"

// BatchDigest returns the digest, in hex, of a request for a batch. A repeated request has the same digest. It covers the options and, for
// each call in order, its id as sent and its request digest.
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
