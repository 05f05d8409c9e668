package grpcserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	_ "google.golang.org/protobuf/types/known/durationpb" // answers contain this type
)

var update = flag.Bool("update", false, "write what the server answers into the transcripts")

// TestTranscripts plays each conversation of testdata against a new server. A section `-- user Method [deadline] --` is a request. The next
// section, `-- answer --`, has the answer: one line for each message or each event of a frame, and a line for the status when it is not OK.
//
// Some values differ between two runs of the test. The answers have names instead of these values. Requests may use the names {suspension},
// {digest}, {cursor}, {page} and {rule}. Each stands for the newest value of its kind.
//
// The test also plays each conversation over a session, which must give the same answers.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	must(t, err)
	if len(files) == 0 {
		t.Fatal("no transcripts")
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) { playFile(t, file, invoke) })
		t.Run(name+" over a session", func(t *testing.T) { playFile(t, file, overSession) })
	}
}

func playFile(t *testing.T, file string, through sender) {
	text, err := os.ReadFile(file)
	must(t, err)
	comment, sections := parseArchive(string(text))
	if comment == "" {
		t.Error("the first line has to say what the transcript guards")
	}
	got, late := "", true
	for tries := 0; late && tries < 5; tries++ { // Play the conversation again when an answer missed its deadline. beforeDeadline explains why that can happen.
		got, late = playSections(t, sections, through)
	}
	got = comment + got
	if *update {
		must(t, os.WriteFile(file, []byte(got), 0o644))
	} else if got != string(text) {
		t.Errorf("differs; run with -update and read the diff. Got:\n%s", got)
	}
}

// playSections plays the requests in a new world. late is true when an answer missed its deadline.
func playSections(t *testing.T, sections []section, through sender) (got string, late bool) {
	t.Helper()
	p := &player{w: newWorld(t, options{}), through: through, names: map[string]string{}, newest: map[string]string{}, counts: map[string]int{}}
	var all strings.Builder
	for _, s := range sections {
		if s.name == "answer" {
			continue
		}
		fmt.Fprintf(&all, "-- %s --\n%s-- answer --\n%s", s.name, s.body, p.play(t, s.name, s.body))
	}
	return all.String(), p.late
}

type section struct{ name, body string }

var heading = regexp.MustCompile(`^-- (.+) --$`)

// parseArchive reads the txtar format.
func parseArchive(text string) (comment string, sections []section) {
	for line := range strings.Lines(text) {
		if m := heading.FindStringSubmatch(strings.TrimSuffix(line, "\n")); m != nil {
			sections = append(sections, section{name: m[1]})
		} else if len(sections) == 0 {
			comment += line
		} else {
			sections[len(sections)-1].body += line
		}
	}
	return comment, sections
}

// player sends requests, and replaces the values in the answers that differ between two runs of the test.
type player struct {
	w       *world
	through sender
	names   map[string]string // the name that replaces each value
	newest  map[string]string // the newest value of each kind
	counts  map[string]int
	late    bool
}

func (p *player) play(t *testing.T, name, body string) string {
	t.Helper()
	words := strings.Fields(name)
	user, method, deadline := words[0], methodNamed(t, words[1]), time.Minute
	if len(words) > 2 {
		var err error
		deadline, err = time.ParseDuration(words[2])
		must(t, err)
	}
	for what, value := range p.newest {
		body = strings.ReplaceAll(body, "{"+what+"}", value)
	}
	req := newMessage(t, method.Input())
	if strings.TrimSpace(body) != "" {
		if err := protojson.Unmarshal([]byte(body), req); err != nil {
			t.Fatalf("%s: %v in %s", name, err, body)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	lines, err := p.through(ctx, p.w.as(user), method, req, func() proto.Message { return newMessage(t, method.Output()) })
	p.late = p.late || status.Code(err) == codes.DeadlineExceeded
	var out strings.Builder
	for _, m := range lines {
		p.print(&out, m, method.Name() == "WatchCalls")
	}
	if err != nil {
		p.tellStatus(&out, err)
	}
	return out.String()
}

// A sender sends one request over one of the endpoints and returns all answers.
type sender func(ctx context.Context, c *grpc.ClientConn, m protoreflect.MethodDescriptor, req proto.Message, answer func() proto.Message) ([]proto.Message, error)

// invoke calls any method whose request is one message.
func invoke(ctx context.Context, c *grpc.ClientConn, m protoreflect.MethodDescriptor, req proto.Message, answer func() proto.Message) ([]proto.Message, error) {
	name := "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
	stream, err := c.NewStream(ctx, &grpc.StreamDesc{ServerStreams: m.IsStreamingServer(), ClientStreams: m.IsStreamingClient()}, name)
	if err != nil {
		return nil, err
	}
	if err := stream.SendMsg(req); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := stream.CloseSend(); err != nil {
		return nil, err
	}
	var all []proto.Message
	for {
		m := answer()
		err := stream.RecvMsg(m)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, m)
	}
}

func methodNamed(t *testing.T, name string) (found protoreflect.MethodDescriptor) {
	t.Helper()
	protoregistry.GlobalFiles.RangeFilesByPackage("toold.v1", func(fd protoreflect.FileDescriptor) bool {
		for i := range fd.Services().Len() {
			if m := fd.Services().Get(i).Methods().ByName(protoreflect.Name(name)); m != nil {
				found = m
			}
		}
		return found == nil
	})
	if found == nil {
		t.Fatalf("no method %q", name)
	}
	return found
}

func newMessage(t *testing.T, d protoreflect.MessageDescriptor) proto.Message {
	t.Helper()
	typ, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	must(t, err)
	return typ.New().Interface()
}

// fieldOf returns the name of the field of a oneof that is set.
func fieldOf(m proto.Message, oneof string) string {
	r := m.ProtoReflect()
	fd := r.WhichOneof(r.Descriptor().Oneofs().ByName(protoreflect.Name(oneof)))
	if fd == nil {
		return ""
	}
	return string(fd.Name())
}

// print writes a message, or the events of its frame. It hides whether a stream caught up before its call ended, because that depends on
// timing.
func (p *player) print(out *strings.Builder, m proto.Message, catchesUp bool) {
	f, ok := m.(framed)
	if !ok {
		p.line(out, "", m)
		return
	}
	frame := f.GetFrame()
	if c := frame.GetCursor(); c != "" {
		p.newest["cursor"] = c
		if strings.HasPrefix(c, "f1.") {
			p.newest["batch_cursor"] = c
		}
	}
	for _, e := range frame.GetEvents() {
		p.line(out, "event ", e)
	}
	if control := fieldOf(frame, "control"); control != "" && control != "heartbeat" && (control != "caught_up" || catchesUp) {
		r := frame.ProtoReflect()
		p.line(out, control+" ", r.Get(r.Descriptor().Fields().ByName(protoreflect.Name(control))).Message().Interface())
	}
}

func (p *player) line(out *strings.Builder, prefix string, m proto.Message) {
	raw, err := protojson.Marshal(m)
	must(p.w.t, err)
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	must(p.w.t, d.Decode(&v))
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	must(p.w.t, e.Encode(p.steady(v, "")))
	out.WriteString(prefix + text.String())
}

func (p *player) tellStatus(out *strings.Builder, err error) {
	st := status.Convert(err)
	fmt.Fprintf(out, "status %v: %s\n", st.Code(), p.replaceNames(st.Message()))
	for _, d := range st.Details() {
		m, ok := d.(proto.Message)
		if !ok {
			p.w.t.Errorf("detail %v cannot be read", d)
			continue
		}
		p.line(out, string(m.ProtoReflect().Descriptor().Name())+" ", m)
	}
}

// unsteady lists the fields whose values differ between two runs of the test. It maps the name of the field to the kind of its value.
var unsteady = map[string]string{
	"suspensionId": "suspension", "digest": "digest", "toolDigest": "tool digest", "appliesTo": "digest", "expectedDigest": "digest",
	"cursor": "cursor", "nextPageToken": "page", "revision": "revision", "error_id": "error", "ruleId": "rule", "callId": "call", "id": "call", "call_id": "call",
}

var (
	aTime   = regexp.MustCompile(`^\d{4}-\d\d-\d\dT`)
	aUUID   = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-`)
	seconds = regexp.MustCompile(`^[0-9.]+s$`)
)

// steady replaces the values that differ between two runs of the test.
func (p *player) steady(v any, field string) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if _, number := member.(string); (name == "revision" && number || name == "notStored") && v["callId"] != nil {
				delete(v, name) // Remove the revision: it counts the writes of a call, and the number of writes of a read-only call depends on timing.
				continue
			}
			v[name] = p.steady(member, name)
		}
		return v
	case []any:
		for i := range v {
			v[i] = p.steady(v[i], field)
		}
		return v
	case string:
		return p.steadyText(v, field)
	}
	return v
}

func (p *player) steadyText(s, field string) string {
	what := unsteady[field]
	switch {
	case aTime.MatchString(s):
		return "<time>"
	case field == "duration" && seconds.MatchString(s):
		return "<duration>"
	case what == "call" && !aUUID.MatchString(s): // The test chose this id, so it is always the same.
		return s
	case what == "":
		return p.replaceNames(s)
	}
	p.newest[what] = s
	if p.names[s] == "" {
		p.counts[what]++
		p.names[s] = fmt.Sprintf("<%s %d>", what, p.counts[what])
	}
	return p.names[s]
}

func (p *player) replaceNames(s string) string {
	for value, name := range p.names {
		s = strings.ReplaceAll(s, value, name)
	}
	return s
}
