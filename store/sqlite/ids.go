package sqlite

import (
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"

	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/call"
)

// An idFilter recognizes most ids of calls, runs and threads that are not in the journal, without a query. It never excludes an id that the
// journal has: the id of a call, of a tombstone, or of a run or thread with calls. Two rules ensure this. The writer adds an id before it
// commits the row. The filter excludes nothing until all ids that existed at the start are added.
//
// The idFilter is a chain of Bloom filters with two bytes for each id. Each filter is twice as large as the previous one. The chain uses at
// most 16 MiB, which is enough for eight million ids. After that, all new ids are added to the last filter. From about fifty million ids
// on, the filter excludes almost nothing, and every lookup reads the database. The hash has a secret key, so that clients cannot choose ids
// that collide.
type idFilter struct {
	seed     maphash.Seed
	complete atomic.Bool
	chain    atomic.Pointer[[]filter] // replaced when the chain grows

	mu   sync.Mutex // held by add
	left int        // number of ids that the last filter can still take before the chain grows
}

// A filter consists of cache lines. Each id sets bits in one line: one bit in each word.
type filter []line

type line [8]atomic.Uint64

const (
	firstLines  = 512 // 32 KiB
	mostFilters = 9   // 16 MiB in all
	idsPerLine  = 32
)

func newIDFilter() *idFilter {
	k := &idFilter{seed: maphash.MakeSeed()}
	k.growLocked()
	return k
}

func (k *idFilter) growLocked() {
	var chain []filter
	if old := k.chain.Load(); old != nil {
		chain = append(chain, *old...)
	}
	lines := firstLines << len(chain)
	chain = append(chain, make(filter, lines))
	k.left = lines * idsPerLine
	k.chain.Store(&chain)
}

func (k *idFilter) hash(m member) uint64 {
	return maphash.String(k.seed, m.name) + 31*maphash.String(k.seed, m.namespace) + 961*maphash.String(k.seed, m.kind)
}

// ofCall returns the entry of a call in the filter.
func ofCall(key call.Key) member { return member{namespace: key.Namespace, name: key.ID} }

// excludes reports whether the journal certainly does not have the id. False means that the journal may have it.
func (k *idFilter) excludes(m member) bool { return k.complete.Load() && !k.has(k.hash(m)) }

func (k *idFilter) has(hash uint64) bool {
	for _, f := range *k.chain.Load() {
		if f.has(hash) {
			return true
		}
	}
	return false
}

func (k *idFilter) add(m member) {
	hash := k.hash(m)
	if k.has(hash) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	chain := *k.chain.Load()
	if k.left == 0 && len(chain) < mostFilters {
		k.growLocked()
		chain = *k.chain.Load()
	}
	k.left = max(0, k.left-1)
	chain[len(chain)-1].add(hash)
}

// locate returns the line for a hash, and the bit numbers: six bits for each word of the line.
func (f filter) locate(hash uint64) (*line, uint64) {
	at, _ := bits.Mul64(hash, uint64(len(f)))
	return &f[at], hash * 0x9e3779b97f4a7c15 >> 16
}

func (f filter) has(hash uint64) bool {
	l, which := f.locate(hash)
	for i := range l {
		if l[i].Load()&(1<<(which&63)) == 0 {
			return false
		}
		which >>= 6
	}
	return true
}

func (f filter) add(hash uint64) {
	l, which := f.locate(hash)
	for i := range l {
		l[i].Or(1 << (which & 63))
		which >>= 6
	}
}

// These statements select the ids in the journal, in key order, one page at a time.
const (
	selectCallIDs      = "SELECT namespace, '', call_id FROM calls INDEXED BY calls_id WHERE (namespace, call_id) > (?1, ?3) AND ?2 = '' ORDER BY namespace, call_id LIMIT ?4"
	selectPackedIDs    = "SELECT namespace, '', call_id FROM packed WHERE (namespace, call_id) > (?1, ?3) AND ?2 = '' ORDER BY namespace, call_id LIMIT ?4"
	selectTombstoneIDs = "SELECT namespace, '', call_id FROM tombstones WHERE (namespace, call_id) > (?1, ?3) AND ?2 = '' ORDER BY namespace, call_id LIMIT ?4"
	selectMembers      = "SELECT DISTINCT namespace, kind, name FROM members WHERE (namespace, kind, name) > (?, ?, ?) ORDER BY namespace, kind, name LIMIT ?"
)

// learn adds the ids that the journal had when it was opened. A call may move from a pack to a row, or from a row to a tombstone, while
// learn reads. learn therefore reads packs first, then calls, then tombstones. If it cannot read all ids, the filter is not used.
func (s *Store) learn() {
	defer close(s.learned)
	conn, err := openReader(s.files.database, 256)
	if err != nil {
		return
	}
	defer conn.Close()
	for _, text := range []string{selectPackedIDs, selectCallIDs, selectTombstoneIDs, selectMembers} {
		if err := s.learnFrom(conn, text); err != nil {
			return
		}
	}
	s.ids.complete.Store(true)
}

func (s *Store) learnFrom(conn *sqlite.Conn, text string) error {
	const page = 1000
	var last member
	for n := page; n == page; {
		if err := s.Refusal(); err != nil {
			return err
		}
		n = 0
		err := query(conn, text, func(st *sqlite.Stmt) error {
			n++
			last = member{st.ColumnText(0), st.ColumnText(1), st.ColumnText(2)}
			s.ids.add(last)
			return nil
		}, last.namespace, last.kind, last.name, page)
		if err != nil {
			return err
		}
	}
	return nil
}
