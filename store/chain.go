package store

import "github.com/toold-dev/toold/call"

// Linked returns the bytes to store for a chained record: its link ([call.Link]), followed by the bytes of the record. kept is the stored
// form of the previous record in the chain, or nil for the first record.
func Linked(kept []byte, namespace, callID string, at call.Stamp, r *Record) []byte {
	var before []byte
	if len(kept) >= call.LinkSize {
		before = kept[:call.LinkSize]
	}
	return append(call.Link(before, namespace, r.Key, callID, at.Time(), r.Bytes), r.Bytes...)
}
