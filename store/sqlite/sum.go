package sqlite

import (
	"encoding/binary"
	"hash/crc32"
	"strconv"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum is the checksum of a row: over the words of its key, each with its length, and its bytes.
func sum(b []byte, key ...string) uint32 {
	var room [256]byte
	words := room[:0]
	for _, k := range key {
		words = appendKey(words, k)
	}
	return sumParts(words, b)
}

func sumParts(parts ...[]byte) (crc uint32) {
	for _, p := range parts {
		crc = crc32.Update(crc, castagnoli, p)
	}
	return crc
}

// appendKey appends a word of a key as a checksum sees it.
func appendKey(b []byte, word string) []byte { return append(appendLength(b, len(word)), word...) }

// appendNumberKey appends the digits of a number as a word.
func appendNumberKey(b []byte, n int64) []byte {
	var room [20]byte
	digits := strconv.AppendInt(room[:0], n, 10)
	return append(appendLength(b, len(digits)), digits...)
}

func appendLength(b []byte, n int) []byte { return binary.BigEndian.AppendUint32(b, uint32(n)) }

// sumEvents is the checksum of a chunk of events. It may use the memory behind room.
func sumEvents(room, b []byte, callPosition, first, last int64) uint32 {
	key := binary.BigEndian.AppendUint64(room[len(room):], uint64(callPosition))
	key = binary.BigEndian.AppendUint64(key, uint64(first))
	key = binary.BigEndian.AppendUint64(key, uint64(last))
	return sumParts(key, b)
}
