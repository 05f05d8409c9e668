// Package sse writes the frames of a watch as server-sent events.
//
// Each frame is one event, because only a frame has a cursor. The id of the event is the cursor. When a connection breaks in the middle of
// an event, the client ignores the incomplete event. After it connects again, it gets the whole frame again.
package sse

import (
	"strconv"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// A Form encodes a message as JSON without line breaks.
type Form interface {
	MarshalAppend(dst []byte, message any) ([]byte, error)
}

// EndID is the id of the event "end", the last event of a watch whose call, batch or turn has ended. When a client sends this id as
// Last-Event-ID, the server answers with 204 (no content), which stops an EventSource.
const EndID = "end"

// AppendFrame appends the event of a frame. A frame without a cursor, such as a heartbeat, does not change the position of the client.
func AppendFrame(dst []byte, f *tooldv1.Frame, form Form) ([]byte, error) {
	return Append(dst, f.GetCursor(), name(f), f, form)
}

// name returns the name of the frame's control, such as "caught_up", or "events".
func name(f *tooldv1.Frame) string {
	m := f.ProtoReflect()
	if control := m.WhichOneof(m.Descriptor().Oneofs().ByName("control")); control != nil {
		return string(control.Name())
	}
	return "events"
}

// Append appends an event with a message as its data. An event with an empty id does not change the position of the client.
func Append(dst []byte, id, name string, message any, form Form) ([]byte, error) {
	dst = header(dst, id, name)
	dst, err := form.MarshalAppend(dst, message)
	return append(dst, "\n\n"...), err
}

// AppendJSON appends an event whose data is JSON without line breaks.
func AppendJSON(dst []byte, id, name string, data []byte) []byte {
	dst = append(header(dst, id, name), data...)
	return append(dst, "\n\n"...)
}

func header(dst []byte, id, name string) []byte {
	if id != "" {
		dst = append(append(append(dst, "id: "...), id...), '\n')
	}
	dst = append(append(append(dst, "event: "...), name...), '\n')
	return append(dst, "data: "...)
}

// AppendRetry appends the time, in milliseconds, that a client waits before it connects again.
func AppendRetry(dst []byte, milliseconds int64) []byte {
	dst = strconv.AppendInt(append(dst, "retry: "...), milliseconds, 10)
	return append(dst, "\n\n"...)
}
