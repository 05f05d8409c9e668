package sqlite

import (
	"sync/atomic"

	"github.com/toold-dev/toold/call"
)

// A listCache keeps the suspended calls that a list returned last, decoded: people with an inbox read the same page again
// and again. A call is taken from it only when the row at hand has the revision, the last event and the checksum of the
// row that was decoded, so changes need not be reported to it. It holds at most 512 calls of cachedRecord bytes.
// Its calls are shared: nobody changes them.
type listCache struct {
	sets [128][4]atomic.Pointer[cachedCall]
	turn atomic.Uint32
}

type cachedCall struct {
	position, revision, last int64
	crc                      uint32
	call                     *call.Call
}

// cachedRecord bounds the stored form of a call that is kept.
const cachedRecord = 8 << 10

// set is where a position may stand. Calls that wait often lie at even distances.
func (s *listCache) set(position int64) *[4]atomic.Pointer[cachedCall] {
	return &s.sets[uint64(position)*0x9e3779b97f4a7c15>>57]
}

// find returns the call of a row, or nil.
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

// put takes the place of an older form of the call, or a free one, or any.
func (s *listCache) put(e *cachedCall) {
	set := s.set(e.position)
	place := int(s.turn.Add(1) % 4)
	for i := range set {
		if old := set[i].Load(); old == nil || old.position == e.position {
			place = i
			break
		}
	}
	set[place].Store(e)
}
