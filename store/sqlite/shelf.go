package sqlite

import (
	"sync/atomic"

	"github.com/toold-dev/toold/call"
)

// A shelf keeps suspended calls decoded that a list showed last: those who look after an inbox read the same page again
// and again. A call is taken from it only when the row at hand has the revision, the last event and the checksum of the
// row that was decoded, so what is on it need not be told of changes. It holds at most 512 calls of shelfRecord bytes.
// Its calls are shared: nobody changes them.
type shelf struct {
	sets [128][4]atomic.Pointer[shelved]
	turn atomic.Uint32
}

type shelved struct {
	position, revision, last int64
	crc                      uint32
	call                     *call.Call
}

// shelfRecord bounds the stored form of a call that is kept.
const shelfRecord = 8 << 10

// set is where a position may stand. Calls that wait often lie at even distances.
func (s *shelf) set(position int64) *[4]atomic.Pointer[shelved] {
	return &s.sets[uint64(position)*0x9e3779b97f4a7c15>>57]
}

// find returns the call of a row, or nil.
func (s *shelf) find(position, revision, last int64, crc uint32) *call.Call {
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
func (s *shelf) put(e *shelved) {
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
