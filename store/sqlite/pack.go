package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/golang/snappy"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store/group"
	"github.com/toold-dev/toold/store/rows"
)

// The limits of a pack. A pack is so large that storing a call in it costs much less than storing the call as a separate row. A pack is so
// small that reading one call does not read many others.
const (
	packCalls = 8
	packBytes = 32 << 10
)

// packs reports whether a new call may go into a pack. It may if it would be in no index of the table calls except the index of ids. Most
// calls are like this.
func packs(r *group.Row) bool {
	o, c := r.Created, r.Call
	return c == o.Change.Call && c.Status == call.Succeeded && r.Last > 0 && c.Run.ParentCall == "" && c.BatchID == "" &&
		utf8.ValidString(c.ID) && !strings.Contains(c.ID, "\x00") && o.Size() <= packBytes
}

// A packBuilder collects the calls of the next pack.
type packBuilder struct {
	rows       []*group.Row
	size       int
	now        call.Stamp
	buffer     []byte
	compressed []byte
}

func (g *packBuilder) clear() {
	clear(g.rows)
	g.rows, g.size = g.rows[:0], 0
}

// addToPack adds a new call to the next pack. It writes the pack first when the call does not fit.
func (w *writer) addToPack(r *group.Row, now call.Stamp) error {
	g := &w.nextPack
	if n := len(g.rows); n == packCalls || g.size+r.Created.Size() > packBytes ||
		n > 0 && (r.Position != g.rows[0].Position+int64(n) || r.Call.Namespace != g.rows[0].Call.Namespace) {
		if err := w.writePack(); err != nil {
			return err
		}
	}
	g.rows, g.size, g.now = append(g.rows, r), g.size+r.Created.Size(), now
	return nil
}

// writePack writes the collected calls as one pack.
func (w *writer) writePack() error {
	g := &w.nextPack
	if len(g.rows) == 0 {
		return nil
	}
	defer g.clear()
	n, first := int64(len(g.rows)), g.rows[0].Position
	namespace := g.rows[0].Call.Namespace
	names := append(make([]any, 0, 2+packCalls), namespace, first)
	b := slices.Grow(g.buffer[:0], 4*len(g.rows))[:4*len(g.rows)]
	for i, r := range g.rows {
		names = append(names, r.Call.ID)
		b = appendMember(b, r)
		binary.BigEndian.PutUint32(b[4*i:], uint32(len(b)))
	}
	g.buffer = b
	b = g.compress(b)
	err := exec(w.conn, "INSERT INTO packs (position, last, namespace, updated, epoch, members) VALUES (?, ?, ?, ?, ?, zeroblob(?))",
		first, first+n-1, namespace, int64(g.now), w.s.Identity().Epoch, len(b))
	if err == nil {
		err = w.fill(first, b)
	}
	if err != nil {
		return err
	}
	return exec(w.conn, w.insertPacked[n-1], names...)
}

// compress returns the members of a pack in their stored form. They are compressed if that makes them smaller. This pays off, because calls
// of one tool have most bytes in common, and SQLite writes each byte twice.
func (g *packBuilder) compress(b []byte) []byte {
	g.compressed = slices.Grow(g.compressed[:0], snappy.MaxEncodedLen(len(b)))
	if small := snappy.Encode(g.compressed[:cap(g.compressed)], b); len(small) < len(b) {
		return small
	}
	return b
}

// expand reverses compress. It returns an empty slice for bytes that it cannot decode. The first byte tells whether the members are
// compressed. Uncompressed members begin with the end offset of the first member in four bytes, the first of which is 0. Compressed members
// begin with their length, whose first byte is never 0.
func expand(buffer, b []byte) []byte {
	if len(b) == 0 || b[0] == 0 {
		return append(buffer, b...)
	}
	n, err := snappy.DecodedLen(b)
	if err != nil || n > 2*packBytes {
		return buffer[:0]
	}
	if buffer, err = snappy.Decode(slices.Grow(buffer, n)[:n], b); err != nil {
		return buffer[:0]
	}
	return buffer
}

// insertPacked returns the statements that insert the ids of 1 to [packCalls] calls. ?1 is their namespace, and ?2 is the position of the
// first call. OR FAIL saves SQLite a statement journal; this is safe, because a failure aborts the whole group anyway.
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

// fill writes the members of a pack through a blob handle. Binding them to a statement would copy them byte by byte.
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

// appendMember appends one call in the format of a pack: its checksums, its last sequence, its id and record (each with its length), and
// its events. The end offsets of all members come before the first member.
func appendMember(b []byte, r *group.Row) []byte {
	b = binary.BigEndian.AppendUint32(b, sumCall(r.Call, r.Record))
	b = binary.BigEndian.AppendUint32(b, rows.SumEvents(r.Created.Events, r.Position, 1, r.Last))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Last))
	b = append(rows.AppendWord(b, r.Call.ID), rows.AppendLength(nil, len(r.Record))...)
	return append(append(b, r.Record...), r.Created.Events...)
}
