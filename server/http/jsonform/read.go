package jsonform

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// readUsual reads requests in the usual form. It returns false for requests that only protojson reads, and for all errors; then the content
// of m is undefined. protojson takes four times as long, because it passes each token through several layers and sets each field by
// reflection.
func readUsual(text []byte, m proto.Message) bool {
	b := buffers.Get().(*[]byte)
	defer putBuffer(b)
	r := reader{in: text, out: (*b)[:0]}
	defer func() { *b = r.out }()
	return r.message(m.ProtoReflect().Descriptor(), 0) && r.peek() == 0 && len(r.in) == 0 && proto.Unmarshal(r.out, m) == nil
}

// A reader reads JSON objects and writes the encoded form of their messages. Each member must be a known field that occurs at most once.
// The field must be neither a list or map nor in a oneof. Its value must be a string, a boolean, a name of an enum value, or a message. For
// anything else the methods return false.
type reader struct {
	in  []byte // bytes that are not read yet
	out []byte
}

// peek skips white space and returns the next byte. It returns zero at the end.
func (r *reader) peek() byte {
	for i, c := range r.in {
		if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			r.in = r.in[i:]
			return c
		}
	}
	r.in = nil
	return 0
}

// accept skips white space and then the byte c. It returns false if another byte follows.
func (r *reader) accept(c byte) bool {
	if r.peek() != c {
		return false
	}
	r.in = r.in[1:]
	return true
}

// maxNesting bounds the recursion.
const maxNesting = 16

// message reads an object as a message of type d.
func (r *reader) message(d protoreflect.MessageDescriptor, depth int) bool {
	if depth == maxNesting || isWellKnown(d) || !r.accept('{') {
		return false
	}
	if r.accept('}') {
		return true
	}
	var seen uint64 // a bit for the number of each field that was read
	for {
		name, ok := r.name()
		if !ok || !r.accept(':') {
			return false
		}
		f := d.Fields().ByJSONName(name)
		if f == nil || f.Number() > 63 || seen&(1<<f.Number()) != 0 || f.Cardinality() == protoreflect.Repeated || f.ContainingOneof() != nil {
			return false
		}
		seen |= 1 << f.Number()
		if !r.value(f, depth) {
			return false
		}
		if !r.accept(',') {
			return r.accept('}')
		}
	}
}

// value reads the value of a field.
func (r *reader) value(f protoreflect.FieldDescriptor, depth int) bool {
	switch f.Kind() {
	case protoreflect.StringKind:
		return r.sized(f, r.text)
	case protoreflect.MessageKind:
		return r.sized(f, func() bool { return r.message(f.Message(), depth+1) })
	case protoreflect.EnumKind:
		name, ok := r.name()
		value := f.Enum().Values().ByName(protoreflect.Name(name))
		if !ok || value == nil {
			return false
		}
		r.varint(f, uint64(value.Number()))
		return true
	case protoreflect.BoolKind:
		return r.boolean(f)
	default:
		return false
	}
}

func (r *reader) varint(f protoreflect.FieldDescriptor, v uint64) {
	r.out = protowire.AppendVarint(protowire.AppendTag(r.out, f.Number(), protowire.VarintType), v)
}

func (r *reader) boolean(f protoreflect.FieldDescriptor) bool {
	literal, v := "false", uint64(0)
	if r.peek() == 't' {
		literal, v = "true", 1
	}
	var ok bool
	r.in, ok = bytes.CutPrefix(r.in, []byte(literal))
	r.varint(f, v)
	return ok
}

// sized writes the size and then the content of a field.
func (r *reader) sized(f protoreflect.FieldDescriptor, content func() bool) bool {
	r.out = protowire.AppendTag(r.out, f.Number(), protowire.BytesType)
	start := len(r.out)
	if !content() {
		return false
	}
	size := uint64(len(r.out) - start)
	var room [10]byte
	n := protowire.SizeVarint(size)
	r.out = append(r.out, room[:n]...)
	copy(r.out[start+n:], r.out[start:])
	protowire.AppendVarint(r.out[:start], size)
	return true
}

// name reads a string and returns it, without writing it.
func (r *reader) name() (string, bool) {
	start := len(r.out)
	ok := r.text()
	name := string(r.out[start:])
	r.out = r.out[:start]
	return name, ok
}

// escapes maps the character after a backslash to the byte that the escape stands for. Texts with \u are left to protojson.
var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// text writes the content of a string. It does not check the encoding.
func (r *reader) text() bool {
	if !r.accept('"') {
		return false
	}
	start := 0 // start of the bytes that are not written yet
	for i := 0; i < len(r.in); i++ {
		switch c := r.in[i]; {
		case c < ' ':
			return false
		case c == '"':
			r.out = append(r.out, r.in[start:i]...)
			r.in = r.in[i+1:]
			return true
		case c == '\\':
			if i+1 == len(r.in) || escapes[r.in[i+1]] == 0 {
				return false
			}
			r.out = append(append(r.out, r.in[start:i]...), escapes[r.in[i+1]])
			i++
			start = i + 1
		}
	}
	return false
}
