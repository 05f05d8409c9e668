package call

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// The stored form of a call is a version byte, the length of the rest, and the call's fields; that of events has the
// events in their place, each with its length. A field is a key and a value. The key is twice the field's number, plus
// one when the value is a length and as many bytes; else the value is a varint. Fields are in the order of their
// numbers and one that is zero is left out, so a new field changes nothing about records that do not have it. Text is
// kept byte for byte, a time as the instant with its nanoseconds, in UTC; what is empty is read as nil.
//
// A reader refuses a field that it does not know: it would lose it when it writes the call again. The numbers from
// firstSkippable on are for fields of later versions that may be lost so: they are skipped. A number is never used
// again for something else.
//
// Memory is bounded by the input: a length beyond the remaining bytes is refused. The strings of a decoded
// record are parts of one copy of its bytes; a caller that keeps one of them for long clones it.
const storedVersion = 1

// ErrStoredForm means that stored bytes are of a version that this build does not know, or are not what they should be.
var ErrStoredForm = errors.New("stored form not understood")

// EncodeCall returns the stored form of a call. It fails when a time lies outside of the years 1678 to 2261.
func EncodeCall(c *Call) ([]byte, error) { return AppendCall(nil, c) }

// AppendCall appends to b what EncodeCall returns. When it fails b is as it was, but for what is beyond its end.
func AppendCall(b []byte, c *Call) ([]byte, error) {
	w := &wire{out: append(slices.Grow(b, roomFor(c)), storedVersion)}
	start := w.open()
	callFields(w, c)
	w.close(start)
	return w.written(b)
}

// roomFor guesses the length of a call's stored form, rather too long than too short.
func roomFor(c *Call) int {
	room := 768 + len(c.Requested) + len(c.Effective) + len(c.Checkpoint) + 1024*len(c.Rounds)
	if c.Result != nil {
		room += len(c.Result.Data) + len(c.Result.Message)
	}
	return room
}

// DecodeCall reads what EncodeCall wrote.
func DecodeCall(b []byte) (*Call, error) {
	body, err := unframe(b)
	if err != nil {
		return nil, err
	}
	w, c := newReader(body), new(Call)
	w.nextKey()
	callFields(w, c)
	w.finish()
	if w.err != nil {
		return nil, w.err
	}
	return c, nil
}

// EncodeEvents returns the stored form of consecutive events of one call. It fails as EncodeCall does.
func EncodeEvents(events []Event) ([]byte, error) { return AppendEvents(nil, events) }

// AppendEvents appends to b what EncodeEvents returns, as AppendCall does.
func AppendEvents(b []byte, events []Event) ([]byte, error) {
	w := &wire{out: append(slices.Grow(b, 64+64*len(events)), storedVersion)}
	start := w.open()
	writeItems(w, events, eventFields)
	w.close(start)
	return w.written(b)
}

// DecodeEvents reads what EncodeEvents wrote.
func DecodeEvents(b []byte) ([]Event, error) {
	body, err := unframe(b)
	if err != nil {
		return nil, err
	}
	return decodeEvents(body)
}

func decodeEvents(body []byte) ([]Event, error) {
	w := newReader(body)
	events := readItems(w, eventFields)
	if w.err != nil {
		return nil, w.err
	}
	return events, nil
}

// DecodeEventsAfter returns the events with a sequence above after, at most limit of them; a limit of 0 means all. The
// other events cost next to nothing: they are passed over, and what is wrong in them is not seen.
func DecodeEventsAfter(b []byte, after int64, limit int) ([]Event, error) {
	body, err := unframe(b)
	if err != nil {
		return nil, err
	}
	w := &wire{in: body, end: len(body)}
	from := 0
	for found := 0; w.at < w.end && (limit <= 0 || found < limit); {
		item := w.at
		end := w.length()
		if w.sequenceAt(w.at, end) > after {
			if found == 0 {
				from = item
			}
			found++
		} else {
			from = end
		}
		w.at = end
	}
	if w.err != nil {
		return nil, w.err
	}
	return decodeEvents(body[from:w.at])
}

// unframe returns what stands between the version and the end, which must be where it says.
func unframe(b []byte) ([]byte, error) {
	if len(b) == 0 || b[0] != storedVersion {
		return nil, fmt.Errorf("%w: want version %d", ErrStoredForm, storedVersion)
	}
	length, size := binary.Uvarint(b[1:])
	if size <= 0 || length != uint64(len(b)-1-size) {
		return nil, fmt.Errorf("%w: its length is not what it says", ErrStoredForm)
	}
	return b[1+size:], nil
}
