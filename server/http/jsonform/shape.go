package jsonform

import (
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// A shape is what the transcoder needs of a message type. Each question to a descriptor is a call through an interface, and a message has
// hundreds of them.
type shape struct {
	wellKnown protoreflect.FullName // set if the mapping has a special form for the type
	fields    []member              // by number; fields with a number above 63 are left out
}

type member struct {
	name         []byte // with quotes and colon; nil if there is no such field
	kind         protoreflect.Kind
	list, packed bool
	enum         protoreflect.EnumValueDescriptors
	message      *shape // nil for a map
}

// shapes has the shapes that were used.
var shapes = struct {
	sync.RWMutex
	of map[protoreflect.MessageDescriptor]*shape
}{of: map[protoreflect.MessageDescriptor]*shape{}}

func shapeOf(d protoreflect.MessageDescriptor) *shape {
	shapes.RLock()
	s := shapes.of[d]
	shapes.RUnlock()
	if s == nil {
		shapes.Lock()
		defer shapes.Unlock()
		s = newShape(d)
	}
	return s
}

// newShape returns the shape of d, for a caller that holds the lock. It makes the shapes of all messages in d too.
func newShape(d protoreflect.MessageDescriptor) *shape {
	if s := shapes.of[d]; s != nil {
		return s
	}
	s := &shape{}
	shapes.of[d] = s // before its fields, because a message may contain itself
	if isWellKnown(d) {
		s.wellKnown = d.FullName()
		return s
	}
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		if f.Number() > 63 {
			continue
		}
		if n := int(f.Number()) + 1; n > len(s.fields) {
			s.fields = append(s.fields, make([]member, n-len(s.fields))...)
		}
		to := &s.fields[f.Number()]
		*to = member{name: []byte(`"` + f.JSONName() + `":`), kind: f.Kind(), list: f.IsList(), packed: f.IsPacked()}
		if f.Kind() == protoreflect.EnumKind {
			to.enum = f.Enum().Values()
		}
		if f.Message() != nil && !f.IsMap() {
			to.message = newShape(f.Message())
		}
	}
	return s
}
