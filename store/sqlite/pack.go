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
	"github.com/toold-dev/toold/store/group"
	"github.com/toold-dev/toold/store/rows"
)

// What a pack holds at most: enough that a call costs no row, little enough that to read one call is not to read many.
const (
	packCalls = 8
	packBytes = 32 << 10
)

// packs reports whether a new call may go into a pack: it is what most calls are, and the table calls has it in no index but
// that of ids.
func packs(r *group.Row, now time.Time) bool {
	o, c := r.Created, r.Call
	return c == o.Change.Call && c.Status == call.Succeeded && r.Last > 0 && c.Run.ParentCall == "" && c.BatchID == "" &&
		utf8.ValidString(c.ID) && !strings.Contains(c.ID, "\x00") && now.Sub(group.EndOf(c, now)).Abs() <= time.Minute && o.Size() <= packBytes
}

// A gathering is the pack that the writer will write next.
type gathering struct {
	rows  []*group.Row
	size  int
	now   time.Time
	room  []byte
	small []byte
}

func (g *gathering) clear() {
	clear(g.rows)
	g.rows, g.size = g.rows[:0], 0
}

// gather puts a new call into the next pack.
func (w *writer) gather(r *group.Row, now time.Time) error {
	g := &w.gathered
	if n := len(g.rows); n == packCalls || g.size+r.Created.Size() > packBytes ||
		n > 0 && (r.Position != g.rows[0].Position+int64(n) || r.Call.Namespace != g.rows[0].Call.Namespace) {
		if err := w.writePack(); err != nil {
			return err
		}
	}
	g.rows, g.size, g.now = append(g.rows, r), g.size+r.Created.Size(), now
	return nil
}

// writePack writes what was gathered.
func (w *writer) writePack() error {
	g := &w.gathered
	if len(g.rows) == 0 {
		return nil
	}
	defer g.clear()
	n, first := int64(len(g.rows)), g.rows[0].Position
	namespace := g.rows[0].Call.Namespace
	names := append(make([]any, 0, 2+packCalls), namespace, first)
	b := slices.Grow(g.room[:0], 4*len(g.rows))[:4*len(g.rows)]
	for i, r := range g.rows {
		names = append(names, r.Call.ID)
		b = appendMember(b, r)
		binary.BigEndian.PutUint32(b[4*i:], uint32(len(b)))
	}
	g.room = b
	b = g.squeeze(b)
	err := exec(w.conn, "INSERT INTO packs (position, last, namespace, updated, epoch, members) VALUES (?, ?, ?, ?, ?, zeroblob(?))",
		first, first+n-1, namespace, nanos(g.now), w.s.Identity().Epoch, len(b))
	if err == nil {
		err = w.fill(first, b)
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
// and its events. In front of the members is where each of them ends.
func appendMember(b []byte, r *group.Row) []byte {
	b = binary.BigEndian.AppendUint32(b, sumCall(r.Call, r.Record))
	b = binary.BigEndian.AppendUint32(b, rows.SumEvents(r.Created.Events, r.Position, 1, r.Last))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Last))
	b = append(rows.AppendWord(b, r.Call.ID), rows.AppendLength(nil, len(r.Record))...)
	return append(append(b, r.Record...), r.Created.Events...)
}
