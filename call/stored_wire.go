package call

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"time"
)

// A wire writes a record or reads one. Each kind of record is described once, by a function that names its fields in
// the order of their numbers and serves both ways, so that the two cannot differ. The first mistake is kept in err; all
// that is read after it is zero.
type wire struct {
	out []byte // what is written

	in   []byte // what is read; nil when writing
	text string // a copy of in, made once; the strings of the record are parts of it
	at   int    // in the record being read
	end  int    // of the record being read
	next uint64 // the key at hand, noKey after the last

	err error
}

const (
	asVarint = 0
	asBytes  = 1

	firstSkippable = 64
	noKey          = math.MaxUint64
)

// newReader copies body once, because it may belong to a driver that uses it again.
func newReader(body []byte) *wire {
	return &wire{in: body, text: string(body), end: len(body)}
}

func (w *wire) reading() bool { return w.out == nil }

// written returns what was appended to b, or b when that failed.
func (w *wire) written(b []byte) ([]byte, error) {
	if w.err != nil {
		return b, w.err
	}
	return w.out, nil
}

func (w *wire) fail(what string) {
	if w.err == nil {
		w.err = fmt.Errorf("%w: %s at byte %d of %d", ErrStoredForm, what, w.at, len(w.in))
	}
	w.at, w.next = w.end, noKey
}

// key writes the key of a field.
func (w *wire) key(key uint64) { w.putVarint(key) }

func (w *wire) putVarint(v uint64) {
	if v < 0x80 {
		w.out = append(w.out, byte(v))
		return
	}
	w.out = binary.AppendUvarint(w.out, v)
}

// open begins a value of a length that is not known yet and returns where it starts; close ends it.
func (w *wire) open() int {
	w.out = append(w.out, 0)
	return len(w.out)
}

func (w *wire) close(start int) {
	length := uint64(len(w.out) - start)
	if length < 0x80 {
		w.out[start-1] = byte(length)
		return
	}
	more := (bits.Len64(length)+6)/7 - 1 // bytes of the length beyond the one that open left room for
	w.out = append(w.out, make([]byte, more)...)
	copy(w.out[start+more:], w.out[start:])
	binary.PutUvarint(w.out[start-1:], length)
}

// wants reports whether the field with this key is the one at hand.
func (w *wire) wants(key uint64) bool { return w.next <= key && w.reach(key) }

func (w *wire) reach(key uint64) bool {
	for w.next < key {
		w.skip()
	}
	return w.next == key
}

// skip passes over a field that this build does not know.
func (w *wire) skip() {
	switch number := w.next >> 1; {
	case number < firstSkippable:
		w.fail(fmt.Sprintf("unexpected field %d", number))
	case w.next&1 == asBytes:
		w.at = w.length()
		w.nextKey()
	default:
		w.varint()
		w.nextKey()
	}
}

func (w *wire) nextKey() {
	if w.at == w.end {
		w.next = noKey
		return
	}
	if w.next = w.varint(); w.next == noKey {
		w.fail("no key")
	}
}

// finish ends the reading of a record: what was not asked for is not known here.
func (w *wire) finish() {
	for w.next != noKey {
		w.skip()
	}
}

func (w *wire) varint() uint64 {
	if w.at < w.end && w.in[w.at] < 0x80 {
		w.at++
		return uint64(w.in[w.at-1])
	}
	v, size := binary.Uvarint(w.in[w.at:w.end])
	if size <= 0 {
		w.fail("no varint")
		return 0
	}
	w.at += size
	return v
}

// length reads a length and returns where the bytes that it speaks of end.
func (w *wire) length() int {
	length := w.varint()
	if length > uint64(w.end-w.at) {
		w.fail("length beyond the end")
		return w.end
	}
	return w.at + int(length)
}

// sequenceAt returns the sequence of the event between two positions, which is its first field.
func (w *wire) sequenceAt(at, end int) int64 {
	if at == end || w.in[at] != eventSequence<<1|asVarint {
		return 0
	}
	v, _ := binary.Uvarint(w.in[at+1 : end])
	return fromZigzag(v)
}

// nanoseconds returns t in nanoseconds since 1970.
func (w *wire) nanoseconds(t time.Time) int64 {
	if s := t.Unix(); s <= math.MinInt64/int64(time.Second) || s >= math.MaxInt64/int64(time.Second) {
		w.err = fmt.Errorf("time %v cannot be stored: it is not within the years 1678 to 2261", t)
		return 0
	}
	return t.UnixNano()
}

func zigzag(v int64) uint64     { return uint64(v)<<1 ^ uint64(v>>63) }
func fromZigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

func (w *wire) writeText(s string) {
	w.putVarint(uint64(len(s)))
	w.out = append(w.out, s...)
}

func (w *wire) readText() string {
	end := w.length()
	s := w.text[w.at:end]
	w.at = end
	return s
}
