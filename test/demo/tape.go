package main

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// A tape records what one watcher saw of one call, from its first event on. It refuses a frame that omits or repeats events, or belongs to
// another call. A new connection continues the same tape.
type tape struct {
	callID  string
	cursor  string // cursor of the last frame
	events  []*tooldv1.CallEvent
	streams map[string][]byte // bytes of the output events
	inline  int64             // number of bytes that came together with their event
	// read returns a range of a stream. The tape needs it for events from the journal, which contain only the position of their bytes.
	read func(stream string, offset, length int64) ([]byte, error)
}

func newTape(callID string, read func(string, int64, int64) ([]byte, error)) *tape {
	return &tape{callID: callID, streams: map[string][]byte{}, read: read}
}

func (t *tape) last() int64 { return int64(len(t.events)) }

// finished returns the terminal event, or nil.
func (t *tape) finished() *tooldv1.CallFinished {
	if len(t.events) == 0 {
		return nil
	}
	return t.events[len(t.events)-1].GetFinished()
}

func (t *tape) take(f *tooldv1.Frame) error {
	for _, e := range f.GetEvents() {
		if err := t.event(e); err != nil {
			return err
		}
	}
	switch c := f.GetControl().(type) {
	case *tooldv1.Frame_Gap:
		return fmt.Errorf("the daemon says that events are missing before %d: %v", c.Gap.GetFirstKept(), c.Gap.GetReason())
	case *tooldv1.Frame_Snapshot:
		return fmt.Errorf("a snapshot in place of the events from %d on", t.last()+1)
	case *tooldv1.Frame_Lagged, *tooldv1.Frame_Closing:
		return fmt.Errorf("the daemon ends the stream: %v", f)
	}
	if f.GetCursor() != "" {
		t.cursor = f.GetCursor()
	}
	return nil
}

func (t *tape) event(e *tooldv1.CallEvent) error {
	switch want := t.last() + 1; {
	case e.GetCallId() != t.callID:
		return fmt.Errorf("an event of call %s in the log of %s", e.GetCallId(), t.callID)
	case e.GetSequence() != want:
		return fmt.Errorf("event %d came where %d was due", e.GetSequence(), want)
	case t.finished() != nil:
		return fmt.Errorf("event %d came after the terminal one", e.GetSequence())
	}
	if out := e.GetOutput(); out != nil {
		if err := t.output(out); err != nil {
			return fmt.Errorf("event %d: %w", e.GetSequence(), err)
		}
	}
	t.events = append(t.events, e)
	return nil
}

func (t *tape) output(out *tooldv1.Output) error {
	have := t.streams[out.GetStream()]
	if out.GetOffset() != int64(len(have)) {
		return fmt.Errorf("%s resumes at byte %d, %d bytes are known", out.GetStream(), out.GetOffset(), len(have))
	}
	data := out.GetData()
	t.inline += int64(len(data))
	if len(data) == 0 {
		var err error
		if data, err = t.read(out.GetStream(), out.GetOffset(), out.GetLength()); err != nil {
			return err
		}
	}
	if int64(len(data)) != out.GetLength() {
		return fmt.Errorf("%s has %d bytes at %d, the event says %d", out.GetStream(), len(data), out.GetOffset(), out.GetLength())
	}
	t.streams[out.GetStream()] = slices.Concat(have, data)
	return nil
}

// same compares two tapes event by event and byte by byte. It does not matter whether output bytes came with the event or were read by
// position.
func (t *tape) same(other *tape) error {
	for i := range max(len(t.events), len(other.events)) {
		if i >= len(t.events) || i >= len(other.events) {
			return fmt.Errorf("one log has %d events, the other %d", len(t.events), len(other.events))
		}
		if a, b := withoutData(t.events[i]), withoutData(other.events[i]); !proto.Equal(a, b) {
			return fmt.Errorf("event %d differs:\n  %v\n  %v", i+1, a, b)
		}
	}
	for _, stream := range slices.Sorted(maps.Keys(t.streams)) {
		if string(t.streams[stream]) != string(other.streams[stream]) {
			return fmt.Errorf("the bytes of %s differ", stream)
		}
	}
	return nil
}

func withoutData(e *tooldv1.CallEvent) *tooldv1.CallEvent {
	if e.GetOutput() == nil {
		return e
	}
	e = proto.CloneOf(e)
	e.GetOutput().Data = nil
	return e
}
