package call

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// The stored form of a call consists of a version byte, the length of the rest, and the call's fields. The stored form of events has the
// events in place of the fields, each with its length.
//
// A field is a key and a value. The key is twice the number of the field, plus 1 when the value is a length and that many bytes. Otherwise
// the value is a varint. Fields are in the order of their numbers, and zero fields are left out. A new field therefore does not change
// records that do not have it. Text is stored byte for byte, and a time as its instant in nanoseconds, in UTC. An empty list or map is read
// as nil.
//
// A reader normally refuses a record with a field that it does not know: when it writes the call again, the field would be lost. It skips
// unknown fields with numbers from firstSkippable on. These numbers are for later fields whose loss is harmless. A number is never used for
// another field later.
//
// Memory is bounded by the input: a length beyond the remaining bytes is refused. The strings of a decoded record share one copy of its
// bytes. A caller that keeps one of these strings for long must clone it.
const storedVersion = 1

// ErrStoredForm means that stored bytes are damaged or have a version that this build does not know.
var ErrStoredForm = errors.New("stored form not understood")

// EncodeCall returns the stored form of a call. It fails for a time outside the years 1678 to 2261.
func EncodeCall(c *Call) ([]byte, error) { return AppendCall(nil, c) }

// AppendCall appends the result of EncodeCall to b. After an error it returns b unchanged, but it may have overwritten bytes between the
// length and the capacity of b.
func AppendCall(b []byte, c *Call) ([]byte, error) {
	w := &wire{out: append(slices.Grow(b, capacityFor(c)), storedVersion)}
	start := w.open()
	callFields(w, c)
	w.close(start)
	return w.written(b)
}

// capacityFor estimates the length of a call's stored form, rather too high than too low.
func capacityFor(c *Call) int {
	capacity := 768 + len(c.Requested) + len(c.Effective) + len(c.Checkpoint) + 1024*len(c.Rounds)
	if c.Result != nil {
		capacity += len(c.Result.Data) + len(c.Result.Message)
	}
	return capacity
}

// DecodeCall decodes the result of EncodeCall.
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

// EncodeEvents returns the stored form of consecutive events of one call. It fails like EncodeCall.
func EncodeEvents(events []Event) ([]byte, error) { return AppendEvents(nil, events) }

// AppendEvents appends the result of EncodeEvents to b, as AppendCall does.
func AppendEvents(b []byte, events []Event) ([]byte, error) {
	w := &wire{out: append(slices.Grow(b, 64+64*len(events)), storedVersion)}
	start := w.open()
	writeItems(w, events, eventFields)
	w.close(start)
	return w.written(b)
}

// DecodeEvents decodes the result of EncodeEvents.
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

// DecodeEventsAfter returns at most limit events with a sequence above after; a limit of 0 means all. It skips the other events at almost
// no cost and does not detect damage in them.
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

// unframe checks the version and the length, and returns the bytes after them.
func unframe(b []byte) ([]byte, error) {
	if len(b) == 0 || b[0] != storedVersion {
		return nil, fmt.Errorf("%w: want version %d", ErrStoredForm, storedVersion)
	}
	length, size := binary.Uvarint(b[1:])
	if size <= 0 || length != uint64(len(b)-1-size) {
		return nil, fmt.Errorf("%w: its length differs from the stored length", ErrStoredForm)
	}
	return b[1+size:], nil
}
