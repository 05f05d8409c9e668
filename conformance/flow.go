package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	_ "google.golang.org/genproto/googleapis/rpc/errdetails" // registers the details of statuses
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	_ "google.golang.org/protobuf/types/known/durationpb" // registers types in answers

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// A flow is the sequence of responses to one request, as lines.
type flow struct {
	stream  grpc.ClientStream
	method  protoreflect.MethodDescriptor
	cancel  context.CancelFunc
	skip    []string
	pending []arrived
	ended   bool
	size    int              // bytes received in this step
	last    map[string]int64 // newest sequence of each call
	over    map[string]bool  // calls whose terminal event has arrived
	holes   []string         // errors in the sequences; they fail every transcript
}

// mostBytes is the limit for one step. No transcript needs a tenth of it. The limit protects the player from a daemon that sends without
// end.
const mostBytes = 16 << 20

type arrived struct {
	line
	group string // lines are ordered within a group, but not between groups
	text  string // message of a status; for people, not compared
}

// begin sends a request of any method. The caller must read the flow to its end or call leave.
func begin(ctx context.Context, conn *grpc.ClientConn, token, method, body string, skip []string) (*flow, error) {
	m, err := methodNamed(method)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(as(ctx, token))
	name := "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: m.IsStreamingServer(), ClientStreams: m.IsStreamingClient()}, name)
	f := &flow{stream: stream, method: m, cancel: cancel, skip: skip, last: map[string]int64{}, over: map[string]bool{}}
	if err != nil {
		f.end(err)
		return f, nil
	}
	for d := json.NewDecoder(strings.NewReader(body)); ; {
		var raw json.RawMessage
		err := d.Decode(&raw)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = f.send(raw)
		}
		if err != nil {
			cancel()
			return nil, fmt.Errorf("%w in %s", err, strings.TrimSpace(body))
		}
	}
	if err := stream.CloseSend(); err != nil {
		f.end(err)
	}
	return f, nil
}

func (f *flow) send(raw []byte) error {
	req, err := newMessage(f.method.Input())
	if err == nil {
		err = protojson.Unmarshal(raw, req)
	}
	if err == nil {
		err = f.stream.SendMsg(req)
	}
	if errors.Is(err, io.EOF) { // RecvMsg returns the reason
		return nil
	}
	return err
}

func (f *flow) leave() {
	f.cancel()
	f.ended = true
}

// lines returns the next n lines without those that the step skips, or fewer at the end of the flow. A negative n reads to the end.
func (f *flow) lines(n int) ([]arrived, error) {
	var got []arrived
	f.size = 0
	for n < 0 || len(got) < n {
		if len(f.pending) == 0 {
			if f.ended {
				break
			}
			if err := f.receive(); err != nil {
				return got, err
			}
			if f.size > mostBytes {
				return got, fmt.Errorf("the answer exceeds %d MiB and has not ended", mostBytes>>20)
			}
			continue
		}
		l := f.pending[0]
		f.pending = f.pending[1:]
		if !slices.Contains(f.skip, l.word) && !slices.Contains(f.skip, eventOf(l)) {
			got = append(got, l)
		}
	}
	return got, nil
}

// eventOf returns the kind of an event.
func eventOf(l arrived) string {
	v, ok := l.value.(map[string]any)
	if !ok || l.word != "event" {
		return ""
	}
	for name := range v {
		if !slices.Contains([]string{"callId", "sequence", "time", "correlationId"}, name) {
			return name
		}
	}
	return ""
}

func (f *flow) receive() error {
	m, err := newMessage(f.method.Output())
	if err != nil {
		return err
	}
	if err := f.stream.RecvMsg(m); err != nil {
		f.end(err)
		return nil
	}
	switch m := m.(type) {
	case *tooldv1.SessionResponse:
		for _, answer := range m.GetAnswers() {
			if err := f.item(answer); err != nil {
				return err
			}
		}
		return nil
	case interface{ GetFrame() *tooldv1.Frame }:
		return f.frame(m.GetFrame(), "")
	}
	return f.add("", "", m)
}

// item processes an answer of a session. Each of its lines gets the item's correlation id.
func (f *flow) item(m *tooldv1.SessionAnswer) error {
	group, before := itemGroup(m.GetCorrelationId()), len(f.pending)
	var err error
	if m.GetFrame() != nil {
		err = f.frame(m.GetFrame(), group)
	}
	if m.GetCancelled() != nil {
		err = errors.Join(err, f.add("cancelled", group, m.GetCancelled()))
	}
	if m.GetEnd() {
		err = errors.Join(err, f.add("item_end", group, &tooldv1.SessionAnswer{Error: m.GetError()}))
	}
	for _, l := range f.pending[before:] {
		if v, ok := l.value.(map[string]any); ok {
			v["correlationId"] = m.GetCorrelationId()
		}
	}
	return err
}

func itemGroup(correlationID string) string { return "item " + correlationID }

// frame processes the events or the control of a frame. It ignores heartbeats. In the streams of all methods except WatchCalls it also
// ignores caught_up, because a call may end before its stream has caught up.
func (f *flow) frame(m *tooldv1.Frame, group string) error {
	for _, e := range m.GetEvents() {
		f.count(e)
		if err := f.add("event", e.GetCallId(), e); err != nil {
			return err
		}
	}
	r := m.ProtoReflect()
	fd := r.WhichOneof(r.Descriptor().Oneofs().ByName("control"))
	if fd == nil || fd.Name() == "heartbeat" || fd.Name() == "caught_up" && f.method.Name() != "WatchCalls" {
		return nil
	}
	if c := m.GetSnapshot(); c != nil {
		f.last[c.GetCallId()] = c.GetLastSequence()
	}
	if g := m.GetGap(); g != nil {
		f.last[g.GetCallId()] = g.GetFirstKept() - 1
	}
	if err := f.add(string(fd.Name()), group, r.Get(fd).Message().Interface()); err != nil {
		return err
	}
	if v, ok := f.pending[len(f.pending)-1].value.(map[string]any); ok && m.GetCursor() != "" {
		v["cursor"] = m.GetCursor() // overwrites nothing: no control message has a field named cursor
	}
	return nil
}

// count checks the sequences of a call for every transcript. The sequences must be positive and have no gaps or repeats, and no event may
// follow the terminal one.
func (f *flow) count(e *tooldv1.CallEvent) {
	id, sequence := e.GetCallId(), e.GetSequence()
	switch last, known := f.last[id]; {
	case known && sequence != last+1:
		f.holes = append(f.holes, fmt.Sprintf("sequences of call %s: %d follows %d", id, sequence, last))
	case sequence < 1:
		f.holes = append(f.holes, fmt.Sprintf("sequences of call %s: %d is less than 1", id, sequence))
	case f.over[id]:
		f.holes = append(f.holes, fmt.Sprintf("sequences of call %s: %d follows the terminal event", id, sequence))
	}
	f.last[id] = sequence
	f.over[id] = f.over[id] || e.GetFinished() != nil
}

func (f *flow) add(word, group string, m proto.Message) error {
	raw, err := protojson.Marshal(m)
	if err != nil {
		return err
	}
	f.size += len(raw)
	v, err := decode(string(raw))
	if err != nil {
		return err
	}
	f.pending = append(f.pending, arrived{line: line{word: word, value: v}, group: group})
	return nil
}

// end processes the status of a flow.
func (f *flow) end(err error) {
	f.ended = true
	f.cancel()
	if errors.Is(err, io.EOF) {
		f.pending = append(f.pending, arrived{line: line{word: "end"}})
		return
	}
	st := status.Convert(err)
	f.pending = append(f.pending, arrived{line: line{word: "status", value: codeName(st.Code())}, text: st.Message()})
	for _, d := range st.Details() {
		if m, ok := d.(proto.Message); ok {
			if err := f.add(string(m.ProtoReflect().Descriptor().Name()), details, m); err != nil {
				f.holes = append(f.holes, err.Error())
			}
		}
	}
}

// details is the group of the lines for the details of a status.
const details = "details"

var hump = regexp.MustCompile(`([a-z])([A-Z])`)

// codeName returns the name of a code as in the gRPC specification.
func codeName(c codes.Code) string {
	if c == codes.Canceled {
		return "CANCELLED"
	}
	return strings.ToUpper(hump.ReplaceAllString(c.String(), "${1}_$2"))
}

func methodNamed(name string) (found protoreflect.MethodDescriptor, _ error) {
	protoregistry.GlobalFiles.RangeFilesByPackage("toold.v1", func(fd protoreflect.FileDescriptor) bool {
		for i := range fd.Services().Len() {
			if m := fd.Services().Get(i).Methods().ByName(protoreflect.Name(name)); m != nil {
				found = m
			}
		}
		return found == nil
	})
	if found == nil {
		return nil, fmt.Errorf("no method %q", name)
	}
	return found, nil
}

func newMessage(d protoreflect.MessageDescriptor) (proto.Message, error) {
	typ, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		return nil, err
	}
	return typ.New().Interface(), nil
}
