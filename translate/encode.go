package translate

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
)

// errNotText means that a text is not UTF-8. Messages can contain only UTF-8.
var errNotText = errors.New("a text is not UTF-8")

// encodeEvents encodes the events of a frame as the field of its message. It encodes events of common kinds by hand. With generated code,
// building and encoding these messages took a tenth of the server's CPU time for a call.
func encodeEvents(callID string, events []call.Event) ([]byte, error) {
	return written(func(w *encoder) {
		for i := range events {
			w.event(callID, &events[i])
		}
	})
}

// An encoder writes fields of messages. Like generated code, it omits zero values.
type encoder struct {
	b   []byte
	err error
}

// encoders are reused, except those with large buffers.
var encoders = sync.Pool{New: func() any { return new(encoder) }}

const keptCapacity = 16 << 10

// written returns a copy of the encoded bytes, so that the encoder's buffer can be reused.
func written(write func(*encoder)) ([]byte, error) {
	w := encoders.Get().(*encoder)
	w.b, w.err = w.b[:0], nil
	write(w)
	b, err := bytes.Clone(w.b), w.err
	if cap(w.b) <= keptCapacity {
		encoders.Put(w)
	}
	return b, err
}

func (w *encoder) tag(field protowire.Number, kind protowire.Type) {
	w.b = protowire.AppendTag(w.b, field, kind)
}

// open starts a message and returns its offset; close ends it.
func (w *encoder) open(field protowire.Number) int {
	w.tag(field, protowire.BytesType)
	w.b = append(w.b, 0)
	return len(w.b)
}

func (w *encoder) close(start int) {
	length := uint64(len(w.b) - start)
	more := max(bits.Len64(length)+6, 7)/7 - 1 // number of bytes that the length needs in addition to the one byte that open reserved
	w.b = append(w.b, make([]byte, more)...)
	copy(w.b[start+more:], w.b[start:])
	binary.PutUvarint(w.b[start-1:], length)
}

func (w *encoder) number(field protowire.Number, v int64) {
	if v != 0 {
		w.tag(field, protowire.VarintType)
		w.b = protowire.AppendVarint(w.b, uint64(v))
	}
}

func (w *encoder) flag(field protowire.Number, v bool) {
	if v {
		w.number(field, 1)
	}
}

func (w *encoder) double(field protowire.Number, v float64) {
	if b := math.Float64bits(v); b != 0 {
		w.tag(field, protowire.Fixed64Type)
		w.b = protowire.AppendFixed64(w.b, b)
	}
}

func (w *encoder) text(field protowire.Number, s string) {
	if s == "" {
		return
	}
	if !utf8.ValidString(s) {
		w.err = errNotText
	}
	w.tag(field, protowire.BytesType)
	w.b = protowire.AppendString(w.b, s)
}

func (w *encoder) bytes(field protowire.Number, b []byte) {
	if len(b) > 0 {
		w.tag(field, protowire.BytesType)
		w.b = protowire.AppendBytes(w.b, b)
	}
}

func (w *encoder) message(m proto.Message) {
	b, err := proto.MarshalOptions{}.MarshalAppend(w.b, m)
	if err != nil {
		w.err = err
		return
	}
	w.b = b
}

// event writes an event as an item of Frame.events.
func (w *encoder) event(callID string, e *call.Event) {
	start := w.open(1)
	if common(e) {
		w.common(callID, e)
	} else {
		var b eventBlock
		fillEvent(&b, callID, e)
		w.message(&b.event)
	}
	w.close(start)
}

func (w *encoder) common(callID string, e *call.Event) {
	w.text(1, callID)
	w.number(2, e.Sequence)
	at := w.open(3)
	w.number(1, e.Time.Unix())
	w.number(2, int64(e.Time.Nanosecond()))
	w.close(at)
	switch e.Type {
	case call.EventAccepted:
		w.accepted(e.Accepted)
	case call.EventAttemptStarted:
		body := w.open(5)
		w.number(1, int64(int32(e.Attempt)))
		w.close(body)
	case call.EventProgress:
		w.progress(e.Progress)
	case call.EventOutput:
		body := w.open(7)
		w.text(1, e.Output.Stream)
		w.number(2, e.Output.Offset)
		w.bytes(3, e.Output.Bytes)
		w.number(4, int64(e.Output.Length))
		w.close(body)
	case call.EventFinished:
		body := w.open(8)
		w.number(1, int64(FromStatus(e.Outcome.Status)))
		w.number(2, int64(FromExecuted(e.Outcome.Executed)))
		w.result(3, e.Outcome.Result)
		w.close(body)
	}
}

// common reports whether an event is encoded by hand. An event whose result has an error or parts is not encoded by hand.
func common(e *call.Event) bool {
	switch e.Type {
	case call.EventAccepted, call.EventAttemptStarted, call.EventProgress, call.EventOutput:
		return true
	case call.EventFinished:
		return e.Outcome.Result != nil && plainResult(e.Outcome.Result)
	}
	return false
}

// plainResult reports whether a result has neither an error nor parts.
func plainResult(r *tool.Result) bool {
	return r.Error == nil && r.Status != tool.StatusError && r.Process == nil && len(r.Content)+len(r.Artifacts)+len(r.Metadata) == 0
}

func (w *encoder) accepted(a *call.Accepted) {
	body := w.open(4)
	w.text(1, a.Tool)
	w.text(2, a.ToolDigest)
	w.number(3, int64(fromClass(a.Class)))
	w.text(4, a.Run)
	w.text(5, a.Thread)
	w.text(6, a.ModelCallID)
	if a.Kind != "" {
		w.description(7, describedIn(a))
		w.effects(8, a.Assessment.Normal())
	}
	w.text(9, a.BatchID)
	w.number(10, int64(a.BatchPosition))
	w.close(body)
}

func (w *encoder) progress(p *tool.Progress) {
	body := w.open(6)
	w.number(1, int64(fromProgressStatus(p.Status)))
	w.double(2, p.Fraction)
	w.text(3, p.Message)
	w.number(4, p.Loaded)
	w.number(5, p.Total)
	w.close(body)
}

// result writes a plain result with the same fields as FromResult.
func (w *encoder) result(field protowire.Number, r *tool.Result) {
	body := w.open(field)
	w.number(1, int64(fromResultStatus(r.Status)))
	w.text(2, r.Data)
	w.text(3, r.Message)
	w.text(7, r.ToolName)
	took := w.open(8)
	w.number(1, int64(r.Duration/time.Second))
	w.number(2, int64(r.Duration%time.Second))
	w.close(took)
	w.flag(9, r.Truncated)
	w.number(12, int64(fromDisplay(r.Display)))
	w.close(body)
}

// encodedFrame returns a frame with its events as encoded bytes; a client that receives it sees the events. It returns nil when the events
// cannot be encoded.
func encodedFrame(f *call.Frame) *tooldv1.Frame {
	b, err := encodeEvents(f.Key.ID, f.Events)
	if err != nil {
		return nil
	}
	out := &tooldv1.Frame{Cursor: f.Cursor}
	out.ProtoReflect().SetUnknown(b)
	return out
}

// snapshotFrame returns a frame with a record as encoded bytes.
func snapshotFrame(f *call.Frame) *tooldv1.Frame {
	out := &tooldv1.Frame{Cursor: f.Cursor}
	b, err := encodedSnapshot(f.Snapshot)
	if err != nil || len(b) > maxRecord {
		out.Control = &tooldv1.Frame_Snapshot{Snapshot: fitting(f.Snapshot)}
		return out
	}
	out.ProtoReflect().SetUnknown(b)
	return out
}

// A snapshot is the encoded form of a record. The last one is cached, because many clients read a suspended call. Records are immutable:
// each new state is a new record.
type snapshot struct {
	of      *call.Call
	encoded []byte
}

var lastSnapshot atomic.Pointer[snapshot]

// encodedSnapshot encodes a record as the field of a frame.
func encodedSnapshot(c *call.Call) ([]byte, error) {
	if last := lastSnapshot.Load(); last != nil && last.of == c {
		return last.encoded, nil
	}
	b, err := written(func(w *encoder) {
		at := w.open(3)
		w.call(c)
		w.close(at)
	})
	if err == nil && len(b) <= keptCapacity {
		lastSnapshot.Store(&snapshot{c, b})
	}
	return b, err
}
