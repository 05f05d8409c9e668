package sqlite

import (
	"encoding/binary"
	"hash/crc32"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum is the checksum of a row: over the words of its key, each with its length, and its bytes.
func sum(b []byte, key ...string) uint32 {
	var crc uint32
	var length [4]byte
	for _, k := range key {
		binary.BigEndian.PutUint32(length[:], uint32(len(k)))
		crc = crc32.Update(crc, castagnoli, length[:])
		crc = crc32.Update(crc, castagnoli, []byte(k))
	}
	return crc32.Update(crc, castagnoli, b)
}

// sumEvents is the checksum of a chunk of events.
func sumEvents(b []byte, callPosition, first, last int64) uint32 {
	var key [24]byte
	binary.BigEndian.PutUint64(key[:], uint64(callPosition))
	binary.BigEndian.PutUint64(key[8:], uint64(first))
	binary.BigEndian.PutUint64(key[16:], uint64(last))
	return crc32.Update(crc32.Update(0, castagnoli, key[:]), castagnoli, b)
}
