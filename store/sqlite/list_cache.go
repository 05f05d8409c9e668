package sqlite

import (
	"sync/atomic"

	"github.com/toold-dev/toold/call"
)

// A listCache caches decoded suspended calls of recent lists, because people read the same page of an inbox repeatedly. It returns a call
// only when its position, revision, last event and checksum match the row that was read. Changes therefore need not invalidate it. It holds
// at most 512 calls of up to cachedRecord bytes. Readers share its calls, so no reader may change them.
type listCache struct {
	sets [128][4]atomic.Pointer[cachedCall]
	turn atomic.Uint32
}

type cachedCall struct {
	position, revision, last int64
	crc                      uint32
	call                     *call.Call
}

// cachedRecord is the maximum size of the stored record of a cached call, in bytes.
const cachedRecord = 8 << 10

// set returns the entries in which a position may be cached. It hashes the position, because the positions of suspended calls are often
// evenly spaced.
func (s *listCache) set(position int64) *[4]atomic.Pointer[cachedCall] {
	return &s.sets[uint64(position)*0x9e3779b97f4a7c15>>57]
}

// find returns the cached call of a row, or nil.
func (s *listCache) find(position, revision, last int64, crc uint32) *call.Call {
	for i := range s.set(position) {
		e := s.set(position)[i].Load()
		if e != nil && e.position == position {
			if e.revision != revision || e.last != last || e.crc != crc {
				return nil
			}
			return e.call
		}
	}
	return nil
}

// put replaces an older version of the same call. If there is none, it uses a free entry or replaces any entry of the set.
func (s *listCache) put(e *cachedCall) {
	set := s.set(e.position)
	slot := int(s.turn.Add(1) % 4)
	for i := range set {
		if old := set[i].Load(); old == nil || old.position == e.position {
			slot = i
			break
		}
	}
	set[slot].Store(e)
}
