package store

import (
	"time"

	"github.com/toold-dev/toold/call"
)

// Linked returns the bytes that a store keeps of a chained record: its link ([call.Link]), then its own bytes. The argument kept has the
// stored bytes of the record before it, nil for the first.
func Linked(kept []byte, namespace, callID string, at time.Time, r *Record) []byte {
	var before []byte
	if len(kept) >= call.LinkSize {
		before = kept[:call.LinkSize]
	}
	return append(call.Link(before, namespace, r.Key, callID, at, r.Bytes), r.Bytes...)
}
