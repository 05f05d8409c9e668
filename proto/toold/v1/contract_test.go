// Package tooldv1_test checks rules of the API that neither the compiler nor the linter checks.
package tooldv1_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// files invokes f with each file of the API.
func files(t *testing.T, f func(protoreflect.FileDescriptor)) {
	t.Helper()
	n := 0
	protoregistry.GlobalFiles.RangeFilesByPackage(tooldv1.File_toold_v1_call_service_proto.Package(), func(fd protoreflect.FileDescriptor) bool {
		n++
		f(fd)
		return true
	})
	if n < 11 {
		t.Fatalf("%d files of the API are linked in, want all 11", n)
	}
}

// methods invokes f with each method of the API.
func methods(t *testing.T, f func(protoreflect.MethodDescriptor)) {
	t.Helper()
	n := 0
	files(t, func(fd protoreflect.FileDescriptor) {
		for i := range fd.Services().Len() {
			service := fd.Services().Get(i)
			for j := range service.Methods().Len() {
				n++
				f(service.Methods().Get(j))
			}
		}
	})
	if n == 0 {
		t.Fatal("the API has no methods")
	}
}

func enums(t *testing.T, f func(protoreflect.EnumDescriptor)) {
	t.Helper()
	n := 0
	files(t, func(fd protoreflect.FileDescriptor) {
		for i := range fd.Messages().Len() {
			if m := fd.Messages().Get(i); m.Enums().Len() > 0 {
				t.Errorf("%s has enums inside; they belong beside it", m.FullName())
			}
		}
		for i := range fd.Enums().Len() {
			n++
			f(fd.Enums().Get(i))
		}
	})
	if n == 0 {
		t.Fatal("the API has no enums")
	}
}

func TestEnumValuesCarryTheirPrefixAndZeroIsUnspecified(t *testing.T) {
	enums(t, func(e protoreflect.EnumDescriptor) {
		prefix := upperSnake(string(e.Name())) + "_"
		for i := range e.Values().Len() {
			v := e.Values().Get(i)
			if !strings.HasPrefix(string(v.Name()), prefix) {
				t.Errorf("%s.%s does not begin with %s", e.Name(), v.Name(), prefix)
			}
			if (v.Number() == 0) != (string(v.Name()) == prefix+"UNSPECIFIED") {
				t.Errorf("%s.%s = %d: zero, and zero only, is %sUNSPECIFIED", e.Name(), v.Name(), v.Number(), prefix)
			}
		}
	})
}

func TestMethodsHaveMessagesOfTheirOwn(t *testing.T) {
	methods(t, func(m protoreflect.MethodDescriptor) {
		if got, want := m.Input().Name(), m.Name()+"Request"; got != want {
			t.Errorf("%s takes %s, want %s", m.FullName(), got, want)
		}
		if got, want := m.Output().Name(), m.Name()+"Response"; got != want {
			t.Errorf("%s returns %s, want %s", m.FullName(), got, want)
		}
	})
}

// TestHotFieldsHaveOneByteTags checks that the fields that are sent most often have numbers from 1 to 15. The tags of these numbers take
// one byte. In the table, a nil list means every field of the message.
func TestHotFieldsHaveOneByteTags(t *testing.T) {
	hot := []struct {
		message protoreflect.ProtoMessage
		fields  []protoreflect.Name
	}{
		{&tooldv1.ExecuteToolRequest{}, nil},
		{&tooldv1.ExecuteToolResponse{}, nil},
		{&tooldv1.CallToolRequest{}, nil},
		{&tooldv1.CallToolResponse{}, nil},
		{&tooldv1.ResumeToolRequest{}, nil},
		{&tooldv1.ResumeToolResponse{}, nil},
		{&tooldv1.WatchCallsResponse{}, nil},
		{&tooldv1.CallSpec{}, nil},
		{&tooldv1.Run{}, nil},
		{&tooldv1.Frame{}, nil},
		{&tooldv1.CallEvent{}, []protoreflect.Name{
			"call_id", "sequence", "time", "accepted", "attempt_started", "progress", "output", "finished", "suspended",
			"resumed", "activity_snapshot", "activity_delta", "queued",
		}},
		{&tooldv1.CallAccepted{}, nil},
		{&tooldv1.AttemptStarted{}, nil},
		{&tooldv1.Progress{}, nil},
		{&tooldv1.Output{}, nil},
		{&tooldv1.ActivitySnapshot{}, nil},
		{&tooldv1.ActivityDelta{}, nil},
		{&tooldv1.CallFinished{}, nil},
		{&tooldv1.ToolResult{}, nil},
		{&tooldv1.ToolError{}, nil},
		{&tooldv1.Content{}, nil},
		{&tooldv1.Call{}, []protoreflect.Name{
			"call_id", "status", "executed", "result", "tool", "run", "requested_arguments", "effective_arguments",
			"assessment", "description", "suspension", "last_sequence", "revision", "created_at", "ended_at",
		}},
	}
	for _, tt := range hot {
		md := tt.message.ProtoReflect().Descriptor()
		t.Run(string(md.Name()), func(t *testing.T) {
			names := tt.fields
			for i := 0; tt.fields == nil && i < md.Fields().Len(); i++ {
				names = append(names, md.Fields().Get(i).Name())
			}
			for _, name := range names {
				switch f := md.Fields().ByName(name); {
				case f == nil:
					t.Errorf("no field %s", name)
				case f.Number() > 15:
					t.Errorf("%s = %d, want 15 or less", name, f.Number())
				}
			}
		})
	}
}

func TestStreamsOfCallsCarryFrames(t *testing.T) {
	want := (&tooldv1.Frame{}).ProtoReflect().Descriptor()
	calls := tooldv1.File_toold_v1_call_service_proto.Services().ByName("CallService").Methods()
	streams := 0
	for i := range calls.Len() {
		m := calls.Get(i)
		if !m.IsStreamingServer() {
			continue
		}
		if answers := m.Output().Fields().ByName("answers"); m.IsStreamingClient() && answers != nil {
			if f := answers.Message().Fields().ByName("frame"); f == nil || f.Message() != want {
				t.Errorf("%s answers with something else than frames", m.Name())
			}
			continue // Session sends frames inside answers, each with the item that it belongs to.
		}
		if m.Name() == "WatchInbox" {
			continue // WatchInbox sends messages about questions, not about the log of a call.
		}
		streams++
		fields := m.Output().Fields()
		if f := fields.ByNumber(1); fields.Len() != 1 || f == nil || f.Message() != want {
			t.Errorf("%s streams something else than one frame", m.Name())
		}
	}
	if streams != 6 {
		t.Errorf("%d streams, want ExecuteTool, ExecuteBatch, ExecuteTurn, GetTurn, ResumeTool and WatchCalls", streams)
	}
}

// TestRequestsNameNoNamespace checks that no client can choose a namespace in a request, because the authentication determines it. A
// request may contain a Principal: the server fills it, and ignores what the client sent. Requests to hooks may name the namespace, because
// the daemon sends them. Requests about tokens may name it too: the server refuses another namespace to everybody but admins
// (TestT137GrantBeyondCreator).
func TestRequestsNameNoNamespace(t *testing.T) {
	principal := (&tooldv1.Principal{}).ProtoReflect().Descriptor()
	methods(t, func(m protoreflect.MethodDescriptor) {
		if m.Parent().Name() == "HookService" || m.Name() == "CreateToken" || m.Name() == "ListTokens" {
			return
		}
		walk(m.Input(), map[protoreflect.FullName]bool{principal.FullName(): true}, func(f protoreflect.FieldDescriptor) {
			// The field namespace of WatchCalls is a boolean, so it does not name a namespace.
			if f.Name() == "namespace" && f.Kind() != protoreflect.BoolKind {
				t.Errorf("%s takes %s", m.Name(), f.FullName())
			}
		})
	})
}

// TestJSONIsNeverConverted checks that all JSON is sent as text. The types google.protobuf.Struct and Value would turn every number into a
// float.
func TestJSONIsNeverConverted(t *testing.T) {
	methods(t, func(m protoreflect.MethodDescriptor) {
		for _, md := range []protoreflect.MessageDescriptor{m.Input(), m.Output()} {
			walk(md, map[protoreflect.FullName]bool{}, func(f protoreflect.FieldDescriptor) {
				if f.Message() != nil && f.Message().ParentFile().Path() == "google/protobuf/struct.proto" {
					t.Errorf("%s is a %s", f.FullName(), f.Message().FullName())
				}
			})
		}
	})
}

// walk invokes f with each field of md at any depth. It skips messages that are in seen.
func walk(md protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool, f func(protoreflect.FieldDescriptor)) {
	if seen[md.FullName()] {
		return
	}
	seen[md.FullName()] = true
	for i := range md.Fields().Len() {
		field := md.Fields().Get(i)
		f(field)
		if field.Message() != nil {
			walk(field.Message(), seen, f)
		}
	}
}

// upperSnake converts a name such as CallStatus to CALL_STATUS.
func upperSnake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.ToUpper(b.String())
}
