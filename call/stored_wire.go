package call

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"time"
)

// A wire writes or reads a record. For each kind of record there is one function for both: it lists the fields in the order of their
// numbers, so writing and reading cannot differ. err holds the first error; after an error all values that are read are zero.
type wire struct {
	out []byte // written bytes

	in   []byte // bytes to read; nil when writing
	text string // one copy of in; the strings of the record share it
	at   int    // position in the record
	end  int    // end of the record
	next uint64 // the next key, or noKey at the end

	err error
}

const (
	asVarint = 0
	asBytes  = 1

	firstSkippable = 64
	noKey          = math.MaxUint64
)

// newReader copies body once, because a driver may reuse it.
func newReader(body []byte) *wire {
	return &wire{in: body, text: string(body), end: len(body)}
}

func (w *wire) reading() bool { return w.out == nil }

// written returns the written bytes, or b after an error.
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

func (w *wire) key(key uint64) { w.putVarint(key) }

func (w *wire) putVarint(v uint64) {
	if v < 0x80 {
		w.out = append(w.out, byte(v))
		return
	}
	w.out = binary.AppendUvarint(w.out, v)
}

// open begins a value of unknown length and returns its start; close ends it.
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
	more := (bits.Len64(length)+6)/7 - 1 // bytes of the length beyond the one that open reserved
	w.out = append(w.out, make([]byte, more)...)
	copy(w.out[start+more:], w.out[start:])
	binary.PutUvarint(w.out[start-1:], length)
}

// wants skips the fields with smaller keys, and reports whether the field that follows has this key.
func (w *wire) wants(key uint64) bool { return w.next <= key && w.reach(key) }

func (w *wire) reach(key uint64) bool {
	for w.next < key {
		w.skip()
	}
	return w.next == key
}

// skip skips a field that this build does not know, or fails when the field must not be skipped.
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

// finish ends the reading of a record. It skips the remaining fields, which are unknown here.
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

// length reads a length and returns the position where its bytes end.
func (w *wire) length() int {
	length := w.varint()
	if length > uint64(w.end-w.at) {
		w.fail("length beyond the end")
		return w.end
	}
	return w.at + int(length)
}

// sequenceAt returns the sequence of the event between two positions. It is the first field of the event.
func (w *wire) sequenceAt(at, end int) int64 {
	if at == end || w.in[at] != eventSequence<<1|asVarint {
		return 0
	}
	v, _ := binary.Uvarint(w.in[at+1 : end])
	return fromZigzag(v)
}

// nanoseconds returns t in nanoseconds since 1970. It fails for a time that does not fit into 64 bits.
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
