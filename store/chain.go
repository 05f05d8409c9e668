package store

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// Chained is the kind of the records that are linked, each to the one before it in its namespace: what a store keeps of
// one is its link, [LinkSize] bytes, and then its bytes. They stay when their call is purged.
const Chained = "audit"

// LinkSize is the length of a link in bytes.
const LinkSize = sha256.Size

// Link is what ties a chained record to the one before it: SHA-256("toold.chain.v1" ‖ link before ‖ namespace, key and call
// id, each behind its length in four bytes ‖ time in nanoseconds since 1970, eight bytes ‖ bytes). before is nil for the first.
func Link(before []byte, namespace, callID string, at time.Time, r *Record) []byte {
	b := append(make([]byte, 0, 256+len(r.Bytes)), "toold.chain.v1"...)
	b = append(b, before...)
	for _, word := range [...]string{namespace, r.Key, callID} {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(word))), word...)
	}
	b = binary.BigEndian.AppendUint64(b, uint64(at.UnixNano()))
	sum := sha256.Sum256(append(b, r.Bytes...))
	return sum[:]
}

// Linked returns what is kept of a chained record behind the one of which kept is kept; nil when it is the first.
func Linked(kept []byte, namespace, callID string, at time.Time, r *Record) []byte {
	var before []byte
	if len(kept) >= LinkSize {
		before = kept[:LinkSize]
	}
	return append(Link(before, namespace, callID, at, r), r.Bytes...)
}
