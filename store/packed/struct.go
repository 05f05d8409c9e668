package packed

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"strings"
)

// A structCodec writes the fields that are not zero, each with its name, and a zero byte.
type structCodec struct {
	fields []field
	byName map[string]int
}

type field struct {
	index int
	name  string
	head  byte // wire and length of the name
	wire  wire
	empty bool // an empty list or map is as good as none
	part  bool // a struct in the struct
	codec codec
}

func structOf(t reflect.Type, known map[reflect.Type]*structCodec) *structCodec {
	if c := known[t]; c != nil {
		return c
	}
	c := &structCodec{byName: map[string]int{}}
	known[t] = c
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		if name == "" {
			name = f.Name
		}
		of := codecOf(f.Type, known)
		if len(name) > maxName || f.Anonymous {
			panic(fmt.Sprintf("packed: field %s of %v", name, t))
		}
		c.byName[name] = len(c.fields)
		_, part := of.(*structCodec)
		kind := f.Type.Kind()
		c.fields = append(c.fields, field{index: i, name: name, head: byte(of.wire())<<6 | byte(len(name)), wire: of.wire(), codec: of, part: part,
			empty: strings.Contains(options, "omitempty") && (kind == reflect.Slice || kind == reflect.Map)})
	}
	return c
}

func (c *structCodec) wire() wire { return nested }

func (c *structCodec) encode(b []byte, v reflect.Value) []byte {
	for i := range c.fields {
		f := &c.fields[i]
		value := v.Field(f.index)
		if !f.part && value.IsZero() || f.empty && value.Len() == 0 {
			continue
		}
		begin := len(b)
		b = append(append(b, f.head), f.name...)
		if f.wire != nested {
			b = f.codec.encode(b, value)
			continue
		}
		at := len(b)
		b = f.codec.encode(append(b, 0, 0, 0, 0), value)
		if n := len(b) - at - 4; f.part && n == 1 {
			b = b[:begin] // none of its fields is set
		} else {
			binary.BigEndian.PutUint32(b[at:], uint32(n))
		}
	}
	return append(b, 0)
}

func (c *structCodec) decode(r *reader, v reflect.Value) {
	for next := 0; ; {
		head := r.byte()
		if head == 0 || r.failed {
			return
		}
		name, w := r.take(int(head&maxName)), wire(head>>6)
		i, ok := next, next < len(c.fields) && c.fields[next].name == name // fields come in their order, some left out
		if !ok {
			i, ok = c.byName[name]
		}
		if ok && c.fields[i].wire != w {
			r.failed = true
			return
		}
		end := -1
		if w == nested {
			n := r.length()
			if end = r.at + n; end > len(r.s) {
				r.failed = true
			}
		}
		switch {
		case r.failed:
			return
		case !ok:
			r.skip(w, end)
		default:
			c.fields[i].codec.decode(r, v.Field(c.fields[i].index))
			next = i + 1
		}
		if end >= 0 && r.at != end {
			r.failed = true
		}
		if r.failed {
			return
		}
	}
}

// A reader walks through a stored form. After a failure it reads zeros.
type reader struct {
	s      string
	at     int
	failed bool
}

func (r *reader) byte() byte {
	if r.failed || r.at >= len(r.s) {
		r.failed = true
		return 0
	}
	r.at++
	return r.s[r.at-1]
}

func (r *reader) take(n int) string {
	if r.failed || n < 0 || n > len(r.s)-r.at {
		r.failed = true
		return ""
	}
	r.at += n
	return r.s[r.at-n : r.at]
}

func (r *reader) uvarint() uint64 {
	var x uint64
	for shift := 0; shift < 64; shift += 7 {
		b := r.byte()
		x |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return x
		}
	}
	r.failed = true
	return 0
}

func (r *reader) number() int64 {
	x := r.uvarint()
	return int64(x>>1) ^ -int64(x&1)
}

func (r *reader) text() string {
	n := r.uvarint()
	if n > uint64(len(r.s)) {
		r.failed = true
		return ""
	}
	return r.take(int(n))
}

// count is the number of elements that follow, each of which has a byte at least.
func (r *reader) count() int {
	n := r.uvarint()
	if n > uint64(len(r.s)-r.at) {
		r.failed = true
		return 0
	}
	return int(n)
}

// length is the length of what is nested.
func (r *reader) length() int {
	s := r.take(4)
	if r.failed {
		return 0
	}
	return int(s[0])<<24 | int(s[1])<<16 | int(s[2])<<8 | int(s[3])
}

func (r *reader) skip(w wire, end int) {
	switch w {
	case number:
		r.number()
	case text:
		r.text()
	case nested:
		r.at = end
	default:
		r.failed = true
	}
}
