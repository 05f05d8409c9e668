package sqlite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/rows"
)

// A pack is a row of the table packs.
type pack struct {
	position, last int64
	namespace      string
	updated, epoch int64
	members        []byte
	stored         []byte // members in their stored form
}

const (
	// selectPacks selects the columns that [pack.read] reads.
	selectPacks = "SELECT position, last, namespace, updated, epoch, members FROM packs WHERE "
	// selectPacked finds the pack of a call. A pack begins less than packCalls positions before each of its calls. The columns match
	// callColumns in number, but have the values that [pack.find] reads.
	selectPacked = "SELECT packed.position, packs.namespace, call_id, NULL, packs.position, packs.last, 0, packs.members" +
		" FROM packed CROSS JOIN packs ON packs.position > packed.position - 8 AND packs.position <= packed.position AND packs.last >= packed.position " +
		"WHERE packed.namespace = ?1 AND call_id = ?2"
)

func (p *pack) read(st *sqlite.Stmt) {
	p.position, p.last, p.namespace, p.updated, p.epoch = st.ColumnInt64(0), st.ColumnInt64(1), st.ColumnText(2), st.ColumnInt64(3), st.ColumnInt64(4)
	p.load(st, 5)
}

func (p *pack) load(st *sqlite.Stmt, col int) {
	p.stored = appendColumn(p.stored[:0], st, col)
	p.members = expand(p.members[:0], p.stored)
}

// inPack reports whether the columns are those of a call in a pack.
func inPack(st *sqlite.Stmt) bool { return st.ColumnIsNull(3) }

// find reads a call of a pack. It loads the pack unless the previous find has already loaded it.
func (p *pack) find(st *sqlite.Stmt) packed {
	if at := st.ColumnInt64(4); p.position != at {
		p.position, p.last, p.namespace, p.updated, p.epoch = at, st.ColumnInt64(5), st.ColumnText(1), 0, 0
		p.load(st, 7)
	}
	m := p.member(st.ColumnInt64(0))
	if !st.ColumnIsNull(2) && m.id != st.ColumnText(2) {
		m = packed{pack: p, position: m.position, id: st.ColumnText(2)}
	}
	return m
}

// A packed is a call in a pack. Its slices point into the pack.
type packed struct {
	pack       *pack
	position   int64
	id         string
	crc        uint32
	record     []byte
	eventsCRC  uint32
	eventsLast int64
	events     []byte
}

// member finds a call in its pack. A call that cannot be decoded has neither id nor record.
func (p *pack) member(position int64) packed {
	m := packed{pack: p, position: position}
	i, n := position-p.position, p.last-p.position+1
	if n < 1 || n > packCalls || i < 0 || i >= n || int64(len(p.members)) < 4*n {
		return m
	}
	from, to := uint32(4*n), binary.BigEndian.Uint32(p.members[4*i:])
	if i > 0 {
		from = binary.BigEndian.Uint32(p.members[4*(i-1):])
	}
	if from > to || int64(to) > int64(len(p.members)) || to-from < 24 {
		return m
	}
	b := p.members[from:to]
	id, rest, ok := cutWord(b[16:])
	record, events, ok2 := cutWord(rest)
	if !ok || !ok2 {
		return m
	}
	m.crc, m.eventsCRC, m.eventsLast = binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:]), int64(binary.BigEndian.Uint64(b[8:]))
	m.id, m.record, m.events = string(id), record, events
	return m
}

// cutWord cuts off the first length-prefixed word.
func cutWord(b []byte) (word, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	n := binary.BigEndian.Uint32(b)
	if b = b[4:]; uint64(n) > uint64(len(b)) {
		return nil, nil, false
	}
	return b[:n], b[n:], true
}

func (m *packed) key() call.Key { return call.Key{Namespace: m.pack.namespace, ID: m.id} }

// whole reports whether the record matches its checksum.
func (m *packed) whole() bool {
	c := call.Call{Namespace: m.pack.namespace, ID: m.id, Status: call.Succeeded, Revision: 1}
	return m.record != nil && sumCall(&c, m.record) == m.crc
}

func (m *packed) row() rows.Call {
	r := rows.Call{Position: m.position, Key: m.key()}
	var err error
	if !m.whole() {
		err = errors.New("checksum")
	} else {
		r.Call, err = call.DecodeCall(m.record)
	}
	if err != nil {
		r.Err = fmt.Errorf("%w: call %s: %w", store.ErrCorrupt, m.id, err)
	}
	return r
}

// mentions reports whether the record contains all these words. Callers use it to skip most calls without decoding them.
func (m *packed) mentions(words ...string) bool {
	for _, word := range words {
		if !bytes.Contains(m.record, []byte(word)) {
			return false
		}
	}
	return true
}

func (m *packed) chunk() rows.Chunk {
	return rows.Chunk{Position: m.position, Key: m.key(), Epoch: m.pack.epoch, Call: m.position, First: 1, Last: m.eventsLast, CRC: m.eventsCRC, Events: bytes.Clone(m.events)}
}

// named returns a call of the pack. When the pack cannot be read, the id comes from the table packed.
func (p *pack) named(conn *sqlite.Conn, position int64) (packed, error) {
	m := p.member(position)
	if m.id != "" {
		return m, nil
	}
	return m, query(conn, "SELECT call_id FROM packed WHERE position = ?", func(st *sqlite.Stmt) error {
		m.id = st.ColumnText(0)
		return nil
	}, position)
}

// unpack turns the calls of a pack into rows. ended is the value of the column ended. A value that is not nil puts the rows into the index
// of ended calls.
func (w *writer) unpack(position int64, ended any) error {
	var p pack
	err := query(w.conn, selectPacks+"position = ?", func(st *sqlite.Stmt) error {
		p.read(st)
		return nil
	}, position)
	for at := p.position; err == nil && at <= p.last; at++ {
		var m packed
		if m, err = p.named(w.conn, at); err == nil {
			err = w.restore(&m, ended)
		}
	}
	if err != nil {
		return err
	}
	return w.deletePack(&p)
}

func (w *writer) deletePack(p *pack) error {
	err := exec(w.conn, "DELETE FROM packs WHERE position = ?", p.position)
	for at := p.position; err == nil && at <= p.last; at++ {
		var m packed
		if m, err = p.named(w.conn, at); err == nil {
			err = exec(w.conn, "DELETE FROM packed WHERE namespace = ? AND call_id = ?", p.namespace, m.id)
		}
	}
	return err
}

// restore inserts the row of a call that was in a pack. It copies the stored bytes and checksums unchanged, so a damaged record is still
// detected as damaged.
func (w *writer) restore(m *packed, ended any) error {
	c := &call.Call{}
	if r := m.row(); r.Call != nil {
		c = r.Call
	}
	var run, thread any
	if c.Run.ID != "" {
		run = c.Run.ID
	}
	if c.Run.Thread != "" {
		thread = c.Run.Thread
	}
	return exec(w.conn, insertCall, m.position, m.pack.namespace, m.id, string(call.Succeeded), 1, m.eventsLast, rows.Nanos(c.Created), m.pack.updated, ended, m.pack.epoch,
		c.Tool, c.Caller.Subject, run, thread, nil, nil, m.crc, m.record, m.eventsLast, m.eventsCRC, m.events)
}
