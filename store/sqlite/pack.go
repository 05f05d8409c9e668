package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/golang/snappy"

	"github.com/toold-dev/toold/call"
)

// What a pack holds at most: enough that a call costs no row, little enough that to read one call is not to read many.
const (
	packCalls = 8
	packBytes = 32 << 10
)

// packs reports whether the call of a change may go into a pack: it is what most calls are, and the table calls has it in
// no index but that of ids.
func (o *op) packs(now time.Time) bool {
	return o.mayPack() && now.Sub(endOf(o.change.Call, now)).Abs() <= time.Minute && o.size() <= packBytes
}

// mayPack is the part of packs that is known before the change is written.
func (o *op) mayPack() bool {
	c := o.change.Call
	return o.change.Create && c.Status == call.Succeeded && len(o.change.Events) > 0 && c.Run.ParentCall == "" && c.BatchID == "" &&
		utf8.ValidString(c.ID) && !strings.Contains(c.ID, "\x00")
}

// A gathering is the pack that the writer will write next.
type gathering struct {
	ops   []*op
	first int64 // position
	size  int
	now   time.Time
	room  []byte
	small []byte
}

func (g *gathering) clear() {
	clear(g.ops)
	g.ops, g.size = g.ops[:0], 0
}

func (g *gathering) has(key call.Key) bool {
	return slices.ContainsFunc(g.ops, func(o *op) bool { return o.change.Call.Key() == key })
}

// gather puts a new call into the next pack.
func (w *writer) gather(o *op, position int64, now time.Time) error {
	g := &w.gathered
	if n := len(g.ops); n == packCalls || g.size+o.size() > packBytes ||
		n > 0 && (position != g.first+int64(n) || o.change.Call.Namespace != g.ops[0].change.Call.Namespace) {
		if err := w.writePack(); err != nil {
			return err
		}
	}
	if len(g.ops) == 0 {
		g.first = position
	}
	g.ops, g.size, g.now = append(g.ops, o), g.size+o.size(), now
	w.s.ids.add(ofCall(o.change.Call.Key()))
	return nil
}

// writePack writes what was gathered.
func (w *writer) writePack() error {
	g := &w.gathered
	if len(g.ops) == 0 {
		return nil
	}
	defer g.clear()
	n := int64(len(g.ops))
	namespace := g.ops[0].change.Call.Namespace
	names := append(make([]any, 0, 2+packCalls), namespace, g.first)
	b := slices.Grow(g.room[:0], 4*len(g.ops))[:4*len(g.ops)]
	for i, o := range g.ops {
		c := o.change.Call
		names = append(names, c.ID)
		b = appendMember(b, c, o, g.first+int64(i))
		binary.BigEndian.PutUint32(b[4*i:], uint32(len(b)))
	}
	g.room = b
	b = g.squeeze(b)
	err := exec(w.conn, "INSERT INTO packs (position, last, namespace, updated, epoch, members) VALUES (?, ?, ?, ?, ?, zeroblob(?))",
		g.first, g.first+n-1, namespace, nanos(g.now), w.s.Identity().Epoch, len(b))
	if err == nil {
		err = w.fill(g.first, b)
	}
	if err != nil {
		return err
	}
	return exec(w.conn, w.insertPacked[n-1], names...)
}

// squeeze returns the members as they are stored: compressed, when that makes them smaller. Calls of one tool have most of their
// bytes in common, and each byte is written twice.
func (g *gathering) squeeze(b []byte) []byte {
	g.small = slices.Grow(g.small[:0], snappy.MaxEncodedLen(len(b)))
	if small := snappy.Encode(g.small[:cap(g.small)], b); len(small) < len(b) {
		return small
	}
	return b
}

// expand is the reverse of squeeze; what it cannot make out is empty. Members that are not compressed begin with where the first
// of them ends, in four bytes of which the first is 0; compressed ones with their length, which never does.
func expand(room, b []byte) []byte {
	if len(b) == 0 || b[0] == 0 {
		return append(room, b...)
	}
	n, err := snappy.DecodedLen(b)
	if err != nil || n > 2*packBytes {
		return room[:0]
	}
	if room, err = snappy.Decode(slices.Grow(room, n)[:n], b); err != nil {
		return room[:0]
	}
	return room
}

// insertPacked returns the statements that note the ids of 1 to [packCalls] calls: ?1 is their namespace, ?2 the position of
// the first. What fails ends the group, so that no statement needs a journal of its own.
func insertPacked() (statements [packCalls]string) {
	s := "INSERT OR FAIL INTO packed (namespace, position, call_id) VALUES (?1, ?2, ?3)"
	for i := range statements {
		if i > 0 {
			s += fmt.Sprintf(", (?1, ?2 + %d, ?%d)", i, i+3)
		}
		statements[i] = s
	}
	return statements
}

// fill writes the members of a pack in pieces: bound to a statement, each byte would be copied by itself.
func (w *writer) fill(position int64, b []byte) error {
	blob, err := w.conn.OpenBlob("main", "packs", "members", position, true)
	if err != nil {
		return &failure{err}
	}
	_, err = blob.Write(b)
	if err = errors.Join(err, blob.Close()); err != nil {
		return &failure{err}
	}
	return nil
}

// appendMember appends a call as it is in a pack: its checksums, its last sequence, its id and record with their lengths,
// and its events, none when the record implies them. In front of the members is where each of them ends.
func appendMember(b []byte, c *call.Call, o *op, position int64) []byte {
	b = binary.BigEndian.AppendUint32(b, sumCall(b, c, o.record))
	b = binary.BigEndian.AppendUint32(b, sumEvents(b, o.events, position, 1, c.LastSequence))
	b = binary.BigEndian.AppendUint64(b, uint64(c.LastSequence))
	b = append(appendKey(b, c.ID), appendLength(nil, len(o.record))...)
	return append(append(b, o.record...), o.events...)
}
