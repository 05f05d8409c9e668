package service

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/translate"
)

// A mask says which fields of a Call to keep. If the entry of a field is an empty mask, the whole field is kept. A nil mask keeps
// everything.
type mask map[protoreflect.Name]mask

// newMask checks the paths of a read mask.
func newMask(in *fieldmaskpb.FieldMask) (mask, error) {
	if in == nil || len(in.GetPaths()) == 0 {
		return nil, nil
	}
	m := mask{}
	for _, path := range in.GetPaths() {
		if _, err := fieldmaskpb.New((*tooldv1.Call)(nil), path); err != nil {
			return nil, call.InvalidField("read_mask", "%q is not a field path of Call", path)
		}
		m.add(strings.Split(path, "."))
	}
	return m, nil
}

func (m mask) add(path []string) {
	name := protoreflect.Name(path[0])
	below, there := m[name]
	switch {
	case len(path) == 1:
		m[name] = mask{}
	case there && len(below) == 0: // the mask already keeps everything below this name
	case !there:
		m[name] = mask{}
		fallthrough
	default:
		m[name].add(path[1:])
	}
}

// apply clears the fields that are not in the mask.
func (m mask) apply(c *tooldv1.Call) *tooldv1.Call {
	if m != nil {
		m.prune(c.ProtoReflect())
	}
	return c
}

func (m mask) prune(msg protoreflect.Message) {
	msg.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		below, keep := m[fd.Name()]
		switch {
		case !keep:
			msg.Clear(fd)
		case len(below) > 0 && fd.Message() != nil && !fd.IsList() && !fd.IsMap():
			below.prune(v.Message())
		}
		return true
	})
}

// record translates a call and keeps only the fields in the mask.
func (m mask) record(c *call.Call) *tooldv1.Call {
	if m == nil {
		return translate.WholeCall(c)
	}
	out := m.apply(translate.FromCall(c))
	translate.Fit(out)
	return out
}
