// Package packed is the stored form of calls and events: bytes that are read in a tenth of the time that JSON takes.
//
// What comes out is what went in, byte for byte: JSON text inside a record is not compacted or escaped anew, so digests
// over it stay what they were. Fields go by the names of their JSON tags, and a zero field is left out. A reader skips a
// field that it does not know and leaves one that is missing zero, so fields may come and go; one that changes its type
// needs a new name.
//
// The first byte is the version. Version 1 is the JSON of package call, which is read too.
package packed

import (
	"fmt"
	"reflect"

	"github.com/toold-dev/toold/call"
)

// version is the form of this package: after it come the fields of a struct, or a list.
const version = 2

var (
	callCodec   = structOf(reflect.TypeFor[call.Call](), map[reflect.Type]*structCodec{})
	eventsCodec = list{reflect.TypeFor[[]call.Event](), codecOf(reflect.TypeFor[call.Event](), map[reflect.Type]*structCodec{})}
)

// EncodeCall returns the stored form of a call.
func EncodeCall(c *call.Call) []byte {
	return callCodec.encode(append(make([]byte, 0, 1024), version), reflect.ValueOf(c).Elem())
}

// DecodeCall reads what EncodeCall wrote.
func DecodeCall(b []byte) (*call.Call, error) {
	if len(b) > 0 && b[0] != version {
		return call.DecodeCall(b)
	}
	var c call.Call
	if err := decode(b, callCodec, reflect.ValueOf(&c).Elem()); err != nil {
		return nil, err
	}
	return &c, nil
}

// EncodeEvents returns the stored form of consecutive events of one call.
func EncodeEvents(events []call.Event) []byte {
	return eventsCodec.encode(append(make([]byte, 0, 256), version), reflect.ValueOf(&events).Elem())
}

// DecodeEvents reads what EncodeEvents wrote.
func DecodeEvents(b []byte) ([]call.Event, error) {
	if len(b) > 0 && b[0] != version {
		return call.DecodeEvents(b)
	}
	var events []call.Event
	if err := decode(b, eventsCodec, reflect.ValueOf(&events).Elem()); err != nil {
		return nil, err
	}
	return events, nil
}

func decode(b []byte, c codec, into reflect.Value) error {
	if len(b) == 0 {
		return fmt.Errorf("%w: empty", call.ErrStoredForm)
	}
	r := reader{s: string(b), at: 1} // the strings of the record are parts of this one
	c.decode(&r, into)
	if r.failed || r.at != len(r.s) {
		return fmt.Errorf("%w: broken at byte %d of %d", call.ErrStoredForm, r.at, len(r.s))
	}
	return nil
}
