package jsonform

import (
	"encoding/json"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// A rewriter copies the JSON of a message without the white space between its tokens, and converts the fields that hold JSON text. The input
// must be valid JSON.
type rewriter struct {
	in      []byte
	at      int // position of the next byte in the input
	out     []byte
	convert func(dst, value []byte) []byte
}

// space moves to the next token.
func (r *rewriter) space() {
	for r.at < len(r.in) && (r.in[r.at] == ' ' || r.in[r.at] == '\n' || r.in[r.at] == '\t' || r.in[r.at] == '\r') {
		r.at++
	}
}

// take copies the next byte, and moves to the token after it.
func (r *rewriter) take() {
	r.out = append(r.out, r.in[r.at])
	r.at++
	r.space()
}

// next returns the first byte of the next token.
func (r *rewriter) next() byte {
	r.space()
	return r.in[r.at]
}

// message copies the JSON of a message of type d, or any other value.
func (r *rewriter) message(d protoreflect.MessageDescriptor) {
	if r.next() != '{' || d == nil || isWellKnown(d) {
		r.out = append(r.out, r.value()...)
		return
	}
	r.members(func(name []byte) {
		if f := field(d, name); f != nil {
			r.field(f)
			return
		}
		r.out = append(r.out, r.value()...)
	})
}

// isWellKnown reports whether protobuf's JSON mapping has a special form for a message.
func isWellKnown(d protoreflect.MessageDescriptor) bool {
	return d.ParentFile().Package() == "google.protobuf"
}

// field copies the value of a field.
func (r *rewriter) field(f protoreflect.FieldDescriptor) {
	switch {
	case HoldsJSON(f):
		r.out = r.convert(r.out, r.value())
	case f.IsMap() && r.next() == '{':
		r.members(func([]byte) { r.message(f.MapValue().Message()) })
	case f.IsList() && r.next() == '[':
		r.elements(func() { r.message(f.Message()) })
	default:
		r.message(f.Message())
	}
}

// members copies an object. value copies the value of the member with a name, which is a JSON string.
func (r *rewriter) members(value func(name []byte)) {
	r.take()
	for r.next() != '}' {
		name := r.value()
		r.out = append(r.out, name...)
		r.space()
		r.take() // the colon
		value(name)
		if r.next() == ',' {
			r.take()
		}
	}
	r.take()
}

// elements copies an array. value copies an element.
func (r *rewriter) elements(value func()) {
	r.take()
	for r.next() != ']' {
		value()
		if r.next() == ',' {
			r.take()
		}
	}
	r.take()
}

// value returns the next value and moves to its end.
func (r *rewriter) value() []byte {
	r.space()
	start, depth := r.at, 0
	for r.at < len(r.in) {
		switch c := r.in[r.at]; c {
		case '"':
			r.at = endOfString(r.in, r.at)
		case '{', '[':
			depth++
			r.at++
		case '}', ']':
			depth--
			r.at++
		case ',', ':', ' ', '\n', '\t', '\r':
			r.at++
		default:
			for r.at < len(r.in) && !delimits(r.in[r.at]) { // a number, true, false or null
				r.at++
			}
		}
		if depth == 0 {
			break
		}
	}
	return r.in[start:r.at]
}

func delimits(c byte) bool {
	return c == ',' || c == '}' || c == ']' || c == ' ' || c == '\n' || c == '\t' || c == '\r'
}

// endOfString returns the position after the string that begins at the position at.
func endOfString(b []byte, at int) int {
	for at++; b[at] != '"'; at++ {
		if b[at] == '\\' {
			at++
		}
	}
	return at + 1
}

// field returns the field with a name, which is a JSON string, or nil.
func field(d protoreflect.MessageDescriptor, name []byte) protoreflect.FieldDescriptor {
	text := string(name[1 : len(name)-1])
	for i := range text {
		if text[i] == '\\' {
			if json.Unmarshal(name, &text) != nil {
				return nil
			}
			break
		}
	}
	if f := d.Fields().ByJSONName(text); f != nil {
		return f
	}
	return d.Fields().ByTextName(text)
}
