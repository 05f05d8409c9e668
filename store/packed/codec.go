package packed

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
)

// A codec writes and reads values of one type.
type codec interface {
	wire() wire
	encode(b []byte, v reflect.Value) []byte
	decode(r *reader, v reflect.Value)
}

// A wire says how a reader that does not know a field skips it.
type wire byte

const (
	number wire = 1 // a varint
	text   wire = 2 // its length as a varint, and bytes
	nested wire = 3 // its length in four bytes, and bytes
)

// maxName is how long a field's name may be: it shares a byte with the wire.
const maxName = 63

// codecOf returns the codec of a type. It panics for a type that a record may not hold, which the tests would see.
func codecOf(t reflect.Type, known map[reflect.Type]*structCodec) codec {
	if t == reflect.TypeFor[time.Time]() {
		return timeCodec{}
	}
	switch t.Kind() {
	case reflect.String:
		return stringCodec{}
	case reflect.Bool:
		return boolCodec{}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return intCodec{}
	case reflect.Float64:
		return floatCodec{}
	case reflect.Pointer:
		return pointer{t.Elem(), codecOf(t.Elem(), known)}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return bytesCodec{}
		}
		if t.Elem().Kind() != reflect.Pointer { // which could be nil
			return list{t, codecOf(t.Elem(), known)}
		}
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			return dictionary{t, codecOf(t.Elem(), known)}
		}
	case reflect.Struct:
		return structOf(t, known)
	}
	panic(fmt.Sprintf("packed: no stored form for %v", t))
}

type stringCodec struct{}

func (stringCodec) wire() wire { return text }
func (stringCodec) encode(b []byte, v reflect.Value) []byte {
	return append(binary.AppendUvarint(b, uint64(v.Len())), v.String()...)
}
func (stringCodec) decode(r *reader, v reflect.Value) { v.SetString(r.text()) }

type bytesCodec struct{}

func (bytesCodec) wire() wire { return text }
func (bytesCodec) encode(b []byte, v reflect.Value) []byte {
	return append(binary.AppendUvarint(b, uint64(v.Len())), v.Bytes()...)
}
func (bytesCodec) decode(r *reader, v reflect.Value) { v.SetBytes([]byte(r.text())) }

type boolCodec struct{}

func (boolCodec) wire() wire { return number }
func (boolCodec) encode(b []byte, v reflect.Value) []byte {
	if v.Bool() {
		return binary.AppendVarint(b, 1)
	}
	return binary.AppendVarint(b, 0)
}
func (boolCodec) decode(r *reader, v reflect.Value) { v.SetBool(r.number() != 0) }

type intCodec struct{}

func (intCodec) wire() wire { return number }
func (intCodec) encode(b []byte, v reflect.Value) []byte {
	return binary.AppendVarint(b, v.Int())
}
func (intCodec) decode(r *reader, v reflect.Value) { v.SetInt(r.number()) }

type floatCodec struct{}

func (floatCodec) wire() wire { return number }
func (floatCodec) encode(b []byte, v reflect.Value) []byte {
	return binary.AppendVarint(b, int64(math.Float64bits(v.Float())))
}
func (floatCodec) decode(r *reader, v reflect.Value) {
	v.SetFloat(math.Float64frombits(uint64(r.number())))
}

// A time is stored in UTC: seconds and nanoseconds.
type timeCodec struct{}

func (timeCodec) wire() wire { return text }
func (timeCodec) encode(b []byte, v reflect.Value) []byte {
	t := v.Interface().(time.Time)
	b = binary.BigEndian.AppendUint64(append(b, 12), uint64(t.Unix()))
	return binary.BigEndian.AppendUint32(b, uint32(t.Nanosecond()))
}
func (timeCodec) decode(r *reader, v reflect.Value) {
	s := r.text()
	if len(s) != 12 {
		r.failed = true
		return
	}
	var b [12]byte
	copy(b[:], s)
	*v.Addr().Interface().(*time.Time) = time.Unix(int64(binary.BigEndian.Uint64(b[:])), int64(binary.BigEndian.Uint32(b[8:]))).UTC()
}

// A pointer is left out when it is nil, so what it points at is there when it is not.
type pointer struct {
	of   reflect.Type
	elem codec
}

func (p pointer) wire() wire { return p.elem.wire() }
func (p pointer) encode(b []byte, v reflect.Value) []byte {
	return p.elem.encode(b, v.Elem())
}
func (p pointer) decode(r *reader, v reflect.Value) {
	to := reflect.New(p.of)
	p.elem.decode(r, to.Elem())
	v.Set(to)
}

// ahead is how many elements are made before the first is read: a broken count must not cost memory.
const ahead = 32

// A list is its length and its elements.
type list struct {
	of   reflect.Type
	elem codec
}

func (l list) wire() wire { return nested }
func (l list) encode(b []byte, v reflect.Value) []byte {
	n := v.Len()
	b = binary.AppendUvarint(b, uint64(n))
	for i := range n {
		b = l.elem.encode(b, v.Index(i))
	}
	return b
}
func (l list) decode(r *reader, v reflect.Value) {
	n := r.count()
	v.Set(reflect.MakeSlice(l.of, min(n, ahead), min(n, ahead)))
	for i := 0; i < n && !r.failed; i++ {
		if i == v.Len() {
			v.Grow(1)
			v.SetLen(min(n, v.Cap()))
		}
		l.elem.decode(r, v.Index(i))
	}
}

// A dictionary is stored in the order of its keys, so that the same record has the same bytes.
type dictionary struct {
	of   reflect.Type
	elem codec
}

func (d dictionary) wire() wire { return nested }
func (d dictionary) encode(b []byte, v reflect.Value) []byte {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	b = binary.AppendUvarint(b, uint64(len(keys)))
	for _, k := range keys {
		b = stringCodec{}.encode(b, k)
		b = d.elem.encode(b, v.MapIndex(k))
	}
	return b
}
func (d dictionary) decode(r *reader, v reflect.Value) {
	n := r.count()
	m := reflect.MakeMapWithSize(d.of, min(n, ahead))
	for range n {
		key, value := reflect.New(d.of.Key()).Elem(), reflect.New(d.of.Elem()).Elem()
		key.SetString(r.text())
		if d.elem.decode(r, value); r.failed {
			return
		}
		m.SetMapIndex(key, value)
	}
	v.Set(m)
}
