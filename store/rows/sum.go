package rows

import (
	"encoding/binary"
	"hash/crc32"
	"strconv"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum returns the checksum of a row. It covers each word of the key with its length, and then the bytes.
func Sum(b []byte, key ...string) uint32 {
	var memory [256]byte
	words := memory[:0]
	for _, k := range key {
		words = AppendWord(words, k)
	}
	return SumParts(words, b)
}

// SumParts returns the checksum of the concatenated parts.
func SumParts(parts ...[]byte) (crc uint32) {
	for _, p := range parts {
		crc = crc32.Update(crc, castagnoli, p)
	}
	return crc
}

// AppendWord appends the length of a word, and then the word.
func AppendWord(b []byte, word string) []byte { return append(AppendLength(b, len(word)), word...) }

// AppendNumber appends a number like AppendWord, as decimal digits.
func AppendNumber(b []byte, n int64) []byte {
	var memory [20]byte
	digits := strconv.AppendInt(memory[:0], n, 10)
	return append(AppendLength(b, len(digits)), digits...)
}

// AppendLength appends a length as four bytes, big-endian.
func AppendLength(b []byte, n int) []byte { return binary.BigEndian.AppendUint32(b, uint32(n)) }

// SumCall returns the checksum of a call's record.
func SumCall(key call.Key, status call.Status, revision int64, record []byte) uint32 {
	var memory [256]byte
	words := AppendWord(AppendWord(AppendWord(memory[:0], key.Namespace), key.ID), string(status))
	return SumParts(AppendNumber(words, revision), record)
}

// SumEvents returns the checksum of the events first to last of the call at a position.
func SumEvents(b []byte, position, first, last int64) uint32 {
	var key [24]byte
	binary.BigEndian.PutUint64(key[:], uint64(position))
	binary.BigEndian.PutUint64(key[8:], uint64(first))
	binary.BigEndian.PutUint64(key[16:], uint64(last))
	return SumParts(key[:], b)
}

// SumDocument returns the checksum of a document.
func SumDocument(namespace string, k store.DocumentKey, revision int64, value string) uint32 {
	return Sum([]byte(value), namespace, string(k.Scope), k.ScopeID, k.Key, strconv.FormatInt(revision, 10))
}

// SumPolicy returns the checksum of a policy.
func SumPolicy(p *store.Policy) uint32 {
	return Sum(p.Value, p.Namespace, p.Kind, p.Key, string(p.Scope), p.ScopeID)
}
