package call

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// LinkSize is the length of a link in bytes.
const LinkSize = sha256.Size

// Link returns the link of a chained record. It is SHA-256 over these bytes, in this order:
//
//   - "toold.chain.v1"
//   - the link of the record before
//   - namespace, key and call id, each after its length in four bytes
//   - the time in nanoseconds since 1970, in eight bytes
//   - the bytes of the record
//
// before is nil for the first record.
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

// A ChainRecord is a record with its position in the chain of its namespace. An export has one on each line, as JSON.
type ChainRecord struct {
	Namespace string          `json:"namespace"`
	Position  int64           `json:"position"` // increases along the chain, with gaps
	Time      time.Time       `json:"time"`
	Key       string          `json:"key"`
	CallID    string          `json:"call_id,omitempty"`
	Link      Hex             `json:"link"`
	Record    json.RawMessage `json:"record"`
}

// Hex is a byte slice that JSON shows in hex.
type Hex []byte

// MarshalText implements [encoding.TextMarshaler].
func (h Hex) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (h *Hex) UnmarshalText(text []byte) (err error) {
	*h, err = hex.AppendDecode(nil, text)
	return err
}

// NewChainRecord splits the stored form of a record into its link and its bytes.
func NewChainRecord(namespace string, position int64, at time.Time, key, callID string, stored []byte) (ChainRecord, error) {
	if len(stored) < LinkSize {
		return ChainRecord{}, fmt.Errorf("record %d has %d bytes and no link", position, len(stored))
	}
	return ChainRecord{namespace, position, at, key, callID, stored[:LinkSize:LinkSize], stored[LinkSize:]}, nil
}

// Follows reports whether the record's link matches its content and the link of the record before.
func (r *ChainRecord) Follows(before []byte) bool {
	return bytes.Equal(r.Link, Link(before, r.Namespace, r.Key, r.CallID, r.Time, r.Record))
}
