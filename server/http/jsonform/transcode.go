package jsonform

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// buffers caches memory for encoded messages. Its elements have the type *[]byte.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxBuffer is the size of the largest buffer that is used again.
const maxBuffer = 64 << 10

func putBuffer(b *[]byte) {
	if cap(*b) <= maxBuffer {
		buffers.Put(b)
	}
}

// appendPlain appends protobuf's JSON mapping of a message. It reads the encoded form, because messages of package translate may hold their
// content only in this form. Decoding it and writing it with protojson took a quarter of the server's CPU time for a call.
func appendPlain(dst []byte, m proto.Message) ([]byte, error) {
	b := buffers.Get().(*[]byte)
	defer putBuffer(b)
	encoded, err := proto.MarshalOptions{}.MarshalAppend((*b)[:0], m)
	if err != nil {
		return nil, err
	}
	*b = encoded
	t := transcoder{dst}
	if t.message(encoded, shapeOf(m.ProtoReflect().Descriptor())) {
		return t.out, nil
	}
	decoded := m.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(encoded, decoded); err != nil {
		return nil, err
	}
	return protojson.MarshalOptions{}.MarshalAppend(dst, decoded)
}

// A transcoder writes the JSON of encoded messages. Its methods return false for errors, and for content that only protojson can write:
// maps, rare types, and lists whose elements are not adjacent.
type transcoder struct{ out []byte }

// message writes a message of shape s.
func (t *transcoder) message(in []byte, s *shape) bool {
	if s.wellKnown != "" {
		return t.wellKnown(in, s.wellKnown)
	}
	t.out = append(t.out, '{')
	var seen uint64 // a bit for the number of each field that was written
	for len(in) > 0 {
		number, kind, n := protowire.ConsumeTag(in)
		if n < 0 || int(number) >= len(s.fields) || s.fields[number].name == nil || seen&(1<<number) != 0 {
			return false
		}
		if seen != 0 {
			t.out = append(t.out, ',')
		}
		seen |= 1 << number
		f := &s.fields[number]
		t.out = append(t.out, f.name...)
		var ok bool
		if in, ok = t.field(in[n:], number, kind, f); !ok {
			return false
		}
	}
	t.out = append(t.out, '}')
	return true
}

// field writes the value of a field whose tag has been read. If the field is a list, it writes all elements that follow directly. It
// returns the rest of the input.
func (t *transcoder) field(in []byte, number protowire.Number, kind protowire.Type, f *member) (rest []byte, ok bool) {
	if !f.list {
		return t.value(in, kind, f)
	}
	t.out = append(t.out, '[')
	for {
		if in, ok = t.elements(in, kind, f); !ok {
			return nil, false
		}
		next, k, n := protowire.ConsumeTag(in)
		if n < 0 || next != number { // n is negative at the end of the message
			break
		}
		in, kind = in[n:], k
	}
	t.out[len(t.out)-1] = ']' // The bracket replaces the last comma.
	return in, true
}

// elements writes one element of a list, or several packed numbers. It adds a comma after each element.
func (t *transcoder) elements(in []byte, kind protowire.Type, f *member) (rest []byte, ok bool) {
	if kind != protowire.BytesType || !f.packed {
		rest, ok = t.value(in, kind, f)
		t.out = append(t.out, ',')
		return rest, ok
	}
	packed, n := protowire.ConsumeBytes(in)
	if ok = len(packed) > 0; !ok {
		return nil, false
	}
	for len(packed) > 0 && ok {
		packed, ok = t.value(packed, protowire.VarintType, f)
		t.out = append(t.out, ',')
	}
	return in[n:], ok
}

func (t *transcoder) value(in []byte, kind protowire.Type, f *member) (rest []byte, ok bool) {
	n := -1
	switch kind {
	case protowire.VarintType:
		var v uint64
		v, n = protowire.ConsumeVarint(in)
		ok = t.number(v, f)
	case protowire.BytesType:
		var b []byte
		b, n = protowire.ConsumeBytes(in)
		ok = t.bytes(b, f)
	case protowire.Fixed64Type:
		var v uint64
		v, n = protowire.ConsumeFixed64(in)
		text, err := json.Marshal(math.Float64frombits(v)) // json.Marshal gives the same form as protojson, and refuses infinity.
		t.out = append(t.out, text...)
		ok = err == nil && f.kind == protoreflect.DoubleKind
	}
	if n < 0 || !ok {
		return nil, false
	}
	return in[n:], true
}

func (t *transcoder) number(v uint64, f *member) bool {
	switch f.kind {
	case protoreflect.BoolKind:
		t.out = strconv.AppendBool(t.out, v != 0)
	case protoreflect.EnumKind:
		value := f.enum.ByNumber(protoreflect.EnumNumber(v))
		if value == nil {
			t.out = strconv.AppendInt(t.out, int64(int32(v)), 10)
			break
		}
		t.out = append(append(append(t.out, '"'), value.Name()...), '"')
	case protoreflect.Int32Kind:
		t.out = strconv.AppendInt(t.out, int64(int32(v)), 10)
	case protoreflect.Int64Kind: // Write a string, because numbers of JavaScript cannot represent all 64-bit integers.
		t.out = append(strconv.AppendInt(append(t.out, '"'), int64(v), 10), '"')
	default:
		return false
	}
	return true
}

func (t *transcoder) bytes(b []byte, f *member) bool {
	switch f.kind {
	case protoreflect.StringKind:
		t.out = appendString(t.out, b)
	case protoreflect.BytesKind:
		t.out = append(base64.StdEncoding.AppendEncode(append(t.out, '"'), b), '"')
	case protoreflect.MessageKind:
		return f.message != nil && t.message(b, f.message)
	default:
		return false
	}
	return true
}

// wellKnown writes a time or a duration.
func (t *transcoder) wellKnown(in []byte, name protoreflect.FullName) bool {
	var seconds, nanos int64
	for len(in) > 0 {
		number, _, n := protowire.ConsumeTag(in)
		v, m := protowire.ConsumeVarint(in[max(n, 0):])
		switch {
		case n < 0 || m < 0:
			return false
		case number == 1:
			seconds = int64(v)
		case number == 2:
			nanos = int64(v)
		}
		in = in[n+m:]
	}
	const lastSecond = 253402300799 // last second of the year 9999
	if nanos < 0 || nanos >= int64(time.Second) || seconds < 0 || seconds > lastSecond {
		return false
	}
	t.out = append(t.out, '"')
	switch name {
	case "google.protobuf.Timestamp":
		t.out = time.Unix(seconds, 0).UTC().AppendFormat(t.out, time.RFC3339) // the one form that package time writes quickly
		t.out = append(appendFraction(t.out[:len(t.out)-1], nanos), 'Z', '"')
	case "google.protobuf.Duration":
		t.out = append(appendFraction(strconv.AppendInt(t.out, seconds, 10), nanos), 's', '"')
	default:
		return false
	}
	return true
}

// appendFraction appends a point and 9, 6 or 3 digits. It appends nothing for zero.
func appendFraction(dst []byte, nanos int64) []byte {
	if nanos == 0 {
		return dst
	}
	unit := int64(time.Second)
	for nanos%1000 == 0 {
		nanos, unit = nanos/1000, unit/1000
	}
	point := len(dst)
	dst = strconv.AppendInt(dst, unit+nanos, 10) // The added unit gives a leading one, which keeps the zeros before the digits.
	dst[point] = '.'
	return dst
}

// appendString appends a JSON string.
func appendString(dst, text []byte) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0 // start of the bytes that are not appended yet
	for i, c := range text {
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, text[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(append(dst, text[start:]...), '"')
}
