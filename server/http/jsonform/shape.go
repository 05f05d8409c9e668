package jsonform

import (
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// A shape has the facts about a message type that the transcoder needs. Asking a descriptor costs a call through an interface, and the
// transcoder would need hundreds of such calls for a message.
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

// shapes caches the shapes of the message types that were used so far.
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

// newShape returns the shape of d. It also makes the shapes of all messages in d. The caller holds the lock.
func newShape(d protoreflect.MessageDescriptor) *shape {
	if s := shapes.of[d]; s != nil {
		return s
	}
	s := &shape{}
	shapes.of[d] = s // Store s before its fields are made, because a message may contain itself.
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
