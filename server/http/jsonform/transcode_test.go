package jsonform_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/http/jsonform"
)

// TestEveryMessage compares the plain form of every message of the API, with and without its maps, with protojson's.
func TestEveryMessage(t *testing.T) {
	count := 0
	protoregistry.GlobalTypes.RangeMessages(func(m protoreflect.MessageType) bool {
		if m.Descriptor().ParentFile().Package() != tooldv1.File_toold_v1_call_proto.Package() || m.Descriptor().IsMapEntry() {
			return true
		}
		for _, maps := range []bool{true, false} {
			full := m.New()
			fill(full, 3, maps)
			samePlain(t, full.Interface())
			count++
		}
		return true
	})
	if count < 300 {
		t.Errorf("only %d messages", count)
	}
}

// fill sets every field of a message, and the fields of its messages to a depth.
func fill(m protoreflect.Message, depth int, maps bool) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case f.IsMap():
			if maps {
				m.Mutable(f).Map().Set(protoreflect.ValueOfString("a\"").MapKey(), protoreflect.ValueOfString("b"))
			}
		case f.Message() != nil && (depth == 0 || f.Message().FullName() == "google.protobuf.Any"): // The URL of an Any must name a message type.
		case f.IsList():
			l := m.Mutable(f).List()
			for n := range 2 {
				l.Append(content(l.NewElement(), f, depth, n, maps))
			}
		default:
			m.Set(f, content(m.NewField(f), f, depth, 1, maps))
		}
	}
}

// content returns the n-th value for a field. n begins at 0.
func content(empty protoreflect.Value, f protoreflect.FieldDescriptor, depth, n int, maps bool) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.MessageKind:
		fill(empty.Message(), depth-1, maps)
		return empty
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(n))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString([]string{"text", "paths"}[n])
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte{0, 0xff}[:n])
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(n == 1)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(n) / 3)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(int64(n) << 33)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(n) << 31)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(n) << 63)
	}
	return empty
}

func TestRareValues(t *testing.T) {
	for _, m := range []proto.Message{
		&tooldv1.Call{},
		&tooldv1.Call{CallId: "\x00\x01\b\f\r\n\t\\\"/<&> é\u2028😀", Status: 999, Epoch: math.MinInt64, BatchPosition: math.MinInt32},
		&tooldv1.Call{CreatedAt: &timestamppb.Timestamp{}, EndedAt: &timestamppb.Timestamp{Seconds: 1e9, Nanos: 120_000_000}, StartedAt: &timestamppb.Timestamp{Seconds: 253402300799, Nanos: 999_999_999}},
		&tooldv1.Call{CreatedAt: &timestamppb.Timestamp{Seconds: -62135596800, Nanos: 1}},
		&tooldv1.Call{Timeouts: &tooldv1.Timeouts{Queue: &durationpb.Duration{}, Attempt: &durationpb.Duration{Seconds: 315576000000, Nanos: 1000}}},
		&tooldv1.Call{Timeouts: &tooldv1.Timeouts{Queue: &durationpb.Duration{Seconds: -1, Nanos: -500_000_000}}},
		&tooldv1.OfferedTools{Allow: []string{"", "b"}}, &tooldv1.Principal{Roles: []tooldv1.Role{0, 999, -1}},
		&tooldv1.Progress{Fraction: 1e-7}, &tooldv1.Progress{Fraction: 1e21}, &tooldv1.Progress{Fraction: math.Inf(-1)},
	} {
		samePlain(t, m)
	}
	for _, m := range []proto.Message{
		&tooldv1.Call{CallId: "\xff"},
		&tooldv1.Call{CreatedAt: &timestamppb.Timestamp{Nanos: -1}}, &tooldv1.Call{CreatedAt: &timestamppb.Timestamp{Seconds: 253402300800}},
		&tooldv1.Call{Timeouts: &tooldv1.Timeouts{Queue: &durationpb.Duration{Seconds: 315576000001}}},
	} {
		if text, err := jsonform.Plain().Marshal(m); err == nil {
			t.Errorf("%s, want an error", text)
		}
	}
}

// TestMergedMessage writes a message whose encoded form contains a field twice. The last value counts, as protobuf requires.
func TestMergedMessage(t *testing.T) {
	first, err := proto.Marshal(&tooldv1.Call{CallId: "a", Tool: "t"})
	if err != nil {
		t.Fatal(err)
	}
	last, err := proto.Marshal(&tooldv1.Call{CallId: "b"})
	if err != nil {
		t.Fatal(err)
	}
	m := &tooldv1.Call{}
	m.ProtoReflect().SetUnknown(append(first, last...))
	got, err := jsonform.Readable().Marshal(m)
	if want := `{"callId":"b","tool":"t"}`; err != nil || string(got) != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

// samePlain compares the plain form of a message with the output of protojson. It does the same for the message in encoded form.
func samePlain(t *testing.T, m proto.Message) {
	t.Helper()
	want, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	hidden := m.ProtoReflect().New()
	hidden.SetUnknown(encoded)
	for _, m := range []proto.Message{m, hidden.Interface()} {
		got, err := jsonform.Plain().Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var is, should any
		if err := json.Unmarshal(got, &is); err != nil {
			t.Fatalf("%v: %s", err, got)
		}
		if err := json.Unmarshal(want, &should); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(should, is); diff != "" {
			t.Fatalf("%s: %s", m.ProtoReflect().Descriptor().Name(), diff)
		}
	}
}
