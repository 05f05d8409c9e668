package store

import (
	"time"

	"github.com/toold-dev/toold/call"
)

// Chained is the kind of the records that are linked, each to the one before it in its namespace ([call.Link]): what a store
// keeps of one is its link and then its bytes. They stay when their call is purged.
const Chained = "audit"

// Linked returns what is kept of a chained record behind the one of which kept is kept; nil when it is the first.
func Linked(kept []byte, namespace, callID string, at time.Time, r *Record) []byte {
	var before []byte
	if len(kept) >= call.LinkSize {
		before = kept[:call.LinkSize]
	}
	return append(call.Link(before, namespace, r.Key, callID, at, r.Bytes), r.Bytes...)
}
