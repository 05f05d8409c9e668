package call

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// LinkSize is the length of a link in bytes.
const LinkSize = sha256.Size

// Link ties a record of a chain to the one before it: SHA-256("toold.chain.v1" ‖ link before ‖ namespace, key and call id, each
// behind its length in four bytes ‖ time in nanoseconds since 1970, eight bytes ‖ bytes). before is nil for the first.
func Link(before []byte, namespace, key, callID string, at time.Time, b []byte) []byte {
	text := append(make([]byte, 0, 256+len(b)), "toold.chain.v1"...)
	text = append(text, before...)
	for _, word := range [...]string{namespace, key, callID} {
		text = append(binary.BigEndian.AppendUint32(text, uint32(len(word))), word...)
	}
	text = binary.BigEndian.AppendUint64(text, uint64(at.UnixNano()))
	sum := sha256.Sum256(append(text, b...))
	return sum[:]
}
