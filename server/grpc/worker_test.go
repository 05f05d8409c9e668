package grpcserver_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toold-dev/toold/daemon/wire"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/service"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/worker"
)

// withWorkers lets a world accept workers. It trusts the tools that they offer.
func withWorkers(lease time.Duration) func(*world, *service.Config) {
	return func(w *world, cfg *service.Config) {
		hub, err := worker.New(worker.Config{Registry: wire.WorkerTools(w.tools), Lease: lease, Wait: 100 * time.Millisecond})
		must(w.t, err)
		w.t.Cleanup(hub.Close)
		w.workers, cfg.Workers = hub, wire.Workers(hub, w.engine)
	}
}

// rawCodec sends byte slices unchanged, even if they are not valid messages.
type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error) {
	if b, ok := v.([]byte); ok {
		return b, nil
	}
	return proto.Marshal(v.(proto.Message))
}

func (rawCodec) Unmarshal(b []byte, v any) error { return proto.Unmarshal(b, v.(proto.Message)) }

func (rawCodec) Name() string { return "proto" }

// rude is a worker that may send any bytes, even invalid messages.
type rude struct {
	mu   sync.Mutex
	left bool

	stream grpc.ClientStream
	wrong  bool // the worker has sent bytes that are not a message
}

func (w *world) rude(ctx context.Context, t testing.TB) *rude {
	t.Helper()
	stream, err := w.as("wanda").NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, tooldv1.WorkerService_Connect_FullMethodName, grpc.ForceCodec(rawCodec{}))
	must(t, err)
	return &rude{stream: stream}
}

func registers(tools ...*tooldv1.WorkerTool) *tooldv1.ConnectRequest {
	return &tooldv1.ConnectRequest{Message: &tooldv1.ConnectRequest_Register{Register: &tooldv1.WorkerRegister{Pool: "rude", Tools: tools}}}
}

// send sends a message. After the worker has left, it does nothing.
func (r *rude) send(m any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.left {
		_ = r.stream.SendMsg(m)
	}
}

// leaves half-closes the stream.
func (r *rude) leaves() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = true
	_ = r.stream.CloseSend()
}

func (r *rude) receive() (*tooldv1.ConnectResponse, error) {
	m := &tooldv1.ConnectResponse{}
	return m, r.stream.RecvMsg(m)
}

// strange returns a tool for which the daemon asks the worker every kind of question.
func strange() *tooldv1.WorkerTool {
	return &tooldv1.WorkerTool{
		Descriptor_: &tooldv1.Descriptor{Id: "strange", Parameters: `{"type":"object"}`, Mildest: &tooldv1.Assessment{
			Mutability: tooldv1.Mutability_MUTABILITY_READ_ONLY, Safety: tooldv1.Safety_SAFETY_READ_ONLY, Tier: tooldv1.Tier_TIER_OBSERVE, ConcurrencySafe: true,
		}},
		Questions: []tooldv1.WorkerQuestionKind{
			tooldv1.WorkerQuestionKind_WORKER_QUESTION_KIND_VALIDATE, tooldv1.WorkerQuestionKind_WORKER_QUESTION_KIND_ASSESS, tooldv1.WorkerQuestionKind_WORKER_QUESTION_KIND_DESCRIBE,
		},
	}
}

// Placeholders for ids in the fuzzed input. They are as long as the ids that the daemon creates.
const (
	somethingAsked = "QQQQQQQQQQQQQQQQQQQQQQQQQQ"
	somethingHeld  = "LLLLLLLLLLLLLLLLLLLLLLLLLL"
)

// turns splits the fuzzed input into messages. Each message begins with its length, in two bytes.
func turns(data []byte) (list [][]byte) {
	for len(data) > 2 {
		n := min(int(binary.BigEndian.Uint16(data)), len(data)-2)
		list, data = append(list, data[2:2+n]), data[2+n:]
	}
	return list
}

func turnsOf(list ...*tooldv1.ConnectRequest) (data []byte) {
	for _, m := range list {
		b, _ := proto.Marshal(m)
		data = append(binary.BigEndian.AppendUint16(data, uint16(len(b))), b...)
	}
	return data
}

func seedsOfWorkers() [][]byte {
	answer := func(a *tooldv1.WorkerAnswer) *tooldv1.ConnectRequest {
		a.QuestionId = somethingAsked
		return &tooldv1.ConnectRequest{Message: &tooldv1.ConnectRequest_Answer{Answer: a}}
	}
	report := func(r *tooldv1.WorkerReport) *tooldv1.ConnectRequest {
		r.LeaseId = somethingHeld
		return &tooldv1.ConnectRequest{Message: &tooldv1.ConnectRequest_Report{Report: r}}
	}
	done := func(r *tooldv1.WorkerResult) *tooldv1.ConnectRequest {
		return &tooldv1.ConnectRequest{Message: &tooldv1.ConnectRequest_Done{Done: &tooldv1.WorkerDone{LeaseId: somethingHeld, Result: r}}}
	}
	mild := answer(&tooldv1.WorkerAnswer{Assessment: strange().GetDescriptor_().GetMildest()})
	described := answer(&tooldv1.WorkerAnswer{Description: &tooldv1.Description{Kind: 99, Title: "Paints it", Notes: []string{"wet"}, Basis: "b", Locations: []*tooldv1.Location{{Path: "x", Line: 3}}}})
	overdone := answer(&tooldv1.WorkerAnswer{Description: &tooldv1.Description{
		Kind: tooldv1.Kind_KIND_EDIT, Title: "Paints\x1b[31m it", Notes: []string{"wet", ""}, Basis: "b", Locations: []*tooldv1.Location{{Path: "../x", Line: -1}},
		Preview: []*tooldv1.Content{{Type: tooldv1.ContentType_CONTENT_TYPE_TEXT, Text: "t"}, {Type: tooldv1.ContentType_CONTENT_TYPE_IMAGE, Data: []byte{1}, Artifact: "a"}},
	}})
	success := &tooldv1.WorkerResult{Status: tooldv1.ResultStatus_RESULT_STATUS_SUCCESS, Data: `{"a":1}`, Message: "m", Metadata: map[string]string{"k": "v"},
		Content: []*tooldv1.Content{{Type: tooldv1.ContentType_CONTENT_TYPE_TEXT, Text: "t"}}}
	seconds := durationpb.New(50 * time.Millisecond)
	return [][]byte{
		turnsOf(answer(&tooldv1.WorkerAnswer{}), mild, described, done(success), done(success)),
		turnsOf(answer(&tooldv1.WorkerAnswer{Error: &tooldv1.ToolError{Code: 99, Reason: "R", Message: "no", Retryable: true, RetryAfter: &durationpb.Duration{Seconds: -1 << 62},
			FieldViolations: []*tooldv1.FieldViolation{{Field: "a", Description: "b"}}}})),
		turnsOf(mild, mild, mild, report(&tooldv1.WorkerReport{Report: &tooldv1.WorkerReport_Progress{Progress: &tooldv1.Progress{Fraction: -1, Message: "x", Status: 77}}}),
			report(&tooldv1.WorkerReport{Report: &tooldv1.WorkerReport_Output{Output: &tooldv1.Output{Stream: "stdout", Data: []byte("\xff\xfe")}}}),
			report(&tooldv1.WorkerReport{Sequence: 1, Report: &tooldv1.WorkerReport_Checkpoint{Checkpoint: []byte("c")}}),
			report(&tooldv1.WorkerReport{Report: &tooldv1.WorkerReport_ReadInput{ReadInput: &tooldv1.WorkerReadInput{Position: -5, MaxBytes: -5, Close: true}}}),
			report(&tooldv1.WorkerReport{Report: &tooldv1.WorkerReport_ReadInput{ReadInput: &tooldv1.WorkerReadInput{MaxBytes: 1 << 30}}}),
			done(&tooldv1.WorkerResult{Status: tooldv1.ResultStatus_RESULT_STATUS_ERROR, Error: &tooldv1.ToolError{Code: 4, Message: "m", Aborted: true}})),
		turnsOf(mild, mild, overdone, report(&tooldv1.WorkerReport{Sequence: 7, Report: &tooldv1.WorkerReport_Artifact{Artifact: &tooldv1.WorkerArtifact{Name: "../n\x00", MimeType: "text/plain", Data: []byte("d")}}}),
			report(&tooldv1.WorkerReport{Report: &tooldv1.WorkerReport_ActivitySnapshot{ActivitySnapshot: &tooldv1.ActivitySnapshot{ActivityId: "a", ActivityType: "t", Content: `{"a":[]}`}}}),
			report(&tooldv1.WorkerReport{Report: &tooldv1.WorkerReport_ActivityDelta{ActivityDelta: &tooldv1.ActivityDelta{ActivityId: "a", Patch: `[{"op":"add","path":"/a/-","value":1}]`}}}),
			done(&tooldv1.WorkerResult{Status: tooldv1.ResultStatus_RESULT_STATUS_PENDING, Ticket: &tooldv1.WorkerTicket{
				Action: "input", Message: "?", ResponseSchema: `{"type":"string"}`, ExpiresIn: seconds, Approvers: &tooldv1.Approvers{Count: -1}}})),
		turnsOf(mild, mild, mild, done(&tooldv1.WorkerResult{Status: tooldv1.ResultStatus_RESULT_STATUS_PENDING, Operation: &tooldv1.WorkerOperation{OperationId: "op", PollAfter: seconds, ExpiresIn: seconds}}),
			&tooldv1.ConnectRequest{Message: &tooldv1.ConnectRequest_Complete{Complete: &tooldv1.WorkerComplete{CallId: "x", OperationId: "op", Result: success}}}),
		turnsOf(&tooldv1.ConnectRequest{Message: &tooldv1.ConnectRequest_Drain{Drain: &tooldv1.WorkerDrain{}}}, &tooldv1.ConnectRequest{}, mild),
		turnsOf(mild, mild, mild, &tooldv1.ConnectRequest{Message: &tooldv1.ConnectRequest_Done{Done: &tooldv1.WorkerDone{LeaseId: somethingHeld, NotRun: true}}}),
		[]byte("\x00\x03\xff\xff\xff"), {}, // bytes that are not a message, and empty input
		turnsOf(registers(strange(), &tooldv1.WorkerTool{Descriptor_: &tooldv1.Descriptor{Id: "x" + strings.Repeat("я", 60)}},
			&tooldv1.WorkerTool{Descriptor_: &tooldv1.Descriptor{Id: "bad"}, Answers: []tooldv1.WorkKind{99}, Documents: []*tooldv1.WorkerDocument{{Key: "k"}}})),
		turnsOf(mild, mild, mild, done(&tooldv1.WorkerResult{Status: tooldv1.ResultStatus_RESULT_STATUS_SUCCESS, Documents: []*tooldv1.DocumentCommand{
			{Operation: tooldv1.DocumentOperation_DOCUMENT_OPERATION_SET, Scope: tooldv1.DocumentScope_DOCUMENT_SCOPE_RUN, Key: "k", Value: "{"}}})),
	}
}

// TestP11UnreadQuestionsAreBounded (P11) checks a worker that does not read the questions of the daemon. The total size of waiting
// questions is bounded. Further questions are not sent, and end without an answer.
func TestP11UnreadQuestionsAreBounded(t *testing.T) {
	w := newWorld(t, options{prepare: withWorkers(time.Minute)})
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	r := w.rude(ctx, t)
	large := strange()
	large.Descriptor_.MaxArguments = 1 << 20
	r.send(registers(large))
	if _, err := r.receive(); err != nil { // Read the response to the registration, and nothing after it.
		t.Fatal(err)
	}
	before := heap()
	arguments := fmt.Sprintf(`{"a":%q}`, strings.Repeat("x", 1<<20-100))
	var asking sync.WaitGroup
	for range 50 {
		asking.Go(func() {
			got, err := w.calls("alice").DescribeCall(ctx, &tooldv1.DescribeCallRequest{Spec: &tooldv1.CallSpec{Tool: "strange", Arguments: arguments}})
			check(t, err)
			if got.GetValid() {
				t.Errorf("nobody answered, and it is %v", got)
			}
		})
	}
	asking.Wait()
	if s := w.workers.Stats(); s.Workers != 1 {
		t.Errorf("the connection was ended: %+v", s)
	}
	if grown := heap() - before; grown > 42<<20 {
		t.Errorf("50 MiB of questions were asked, and %d MiB of them wait", grown>>20)
	}
}

// heap returns the bytes of the heap in use after a garbage collection.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the second collection frees the contents of pools
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// kept is the testing.TB of a world that a fuzz test uses for all its inputs.
type kept struct{ testing.TB }

// Helper does nothing, because the Helper of a fuzz test must not be called while its fuzz function runs.
func (kept) Helper() {}

// FuzzWorkerMessages (T61) lets a worker send anything while the daemon asks it about a call and runs the call.
//
// The call must end, or wait with a question that can be read and cancelled. The connection must end normally or with an error that
// gives the reason, and leave nothing behind. Bytes that are not a message end only the connection that sent them.
func FuzzWorkerMessages(f *testing.F) {
	for _, seed := range seedsOfWorkers() {
		f.Add(seed)
	}
	w := newWorld(kept{f}, options{prepare: withWorkers(300 * time.Millisecond)})
	var calls atomic.Int64
	f.Fuzz(func(t *testing.T, data []byte) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		stranger := w.rude(ctx, t) // This worker sends the fuzzed input as its first messages.
		stranger.ends(t, stranger.begin(turns(data)))
		r := w.rude(ctx, t)
		r.send(registers(strange()))
		first, err := r.receive()
		if err != nil || len(first.GetRegistered().GetRefused()) > 0 {
			t.Fatalf("registered %v, %v", first, err)
		}
		id := fmt.Sprintf("rude-worker-call-%08d", calls.Add(1))
		ended := make(chan *tooldv1.Call, 1)
		go func() {
			got, err := w.calls("alice").CallTool(ctx, &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{
				Tool: "strange", CallId: id, Arguments: "{}", Timeouts: &tooldv1.Timeouts{Attempt: durationpb.New(5 * time.Second)},
			}})
			check(t, err)
			ended <- got.GetCall()
		}()
		talked := make(chan error, 1)
		go func() { talked <- r.talk(turns(data)) }()
		c := <-ended
		if c.GetSuspension() != nil || c.GetStatus() == tooldv1.CallStatus_CALL_STATUS_RUNNING {
			got, err := w.calls("alice").CancelCall(ctx, &tooldv1.CancelCallRequest{CallId: id, Wait: durationpb.New(10 * time.Second)})
			must(t, err)
			c = got.GetCall()
		}
		if s := c.GetStatus(); s < tooldv1.CallStatus_CALL_STATUS_SUCCEEDED || c.GetResult().GetModelText() == "" && s != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED {
			t.Errorf("the call is %v", c)
		}
		if proto.Size(c.GetDescription()) > 70<<10 {
			t.Errorf("described with %d bytes", proto.Size(c.GetDescription()))
		}
		r.leaves()
		r.ends(t, <-talked)
		for s := w.workers.Stats(); s.Leases+s.Waiting > 0; s = w.workers.Stats() { // Wait until the leases of the broken connection have expired.
			if ctx.Err() != nil {
				t.Fatalf("left behind: %+v", s)
			}
			time.Sleep(time.Millisecond)
		}
	})
}

// begin sends the first message of a list, receives the response and leaves. It returns the error with which the connection ended.
func (r *rude) begin(list [][]byte) error {
	if len(list) > 0 {
		r.wrong = proto.Unmarshal(list[0], &tooldv1.ConnectRequest{}) != nil
		r.send(list[0])
		if _, err := r.receive(); err != nil {
			return err
		}
	}
	r.leaves()
	return r.talk(nil)
}

// ends checks that err is one of the errors with which a connection may end.
func (r *rude) ends(t *testing.T, err error) {
	t.Helper()
	okay := []codes.Code{codes.OK, codes.InvalidArgument, codes.FailedPrecondition, codes.ResourceExhausted}
	if !slices.Contains(okay, status.Code(err)) && !r.wrong {
		t.Errorf("the connection ended with %v", err)
	}
}

// talk answers the messages of the daemon with messages of the list. It returns the error with which the connection ended.
func (r *rude) talk(list [][]byte) error {
	for {
		m, err := r.receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		q, l := m.GetQuestion().GetQuestionId(), m.GetStart().GetLeaseId()
		if q == "" && l == "" {
			continue
		}
		for sent := 0; len(list) > 0 && (l != "" || sent == 0); sent++ { // After a question the worker sends the next message; after the start of a call, all remaining ones.
			b := bytes.ReplaceAll(bytes.ReplaceAll(list[0], []byte(somethingAsked), []byte(q)), []byte(somethingHeld), []byte(l))
			list, r.wrong = list[1:], r.wrong || proto.Unmarshal(b, &tooldv1.ConnectRequest{}) != nil
			r.send(b)
		}
		if l != "" { // If none of the messages has ended the call, this message ends it.
			r.send(&tooldv1.ConnectRequest{Message: &tooldv1.ConnectRequest_Done{Done: &tooldv1.WorkerDone{LeaseId: l, Result: &tooldv1.WorkerResult{Status: tooldv1.ResultStatus_RESULT_STATUS_SUCCESS}}}})
		} else {
			r.send(&tooldv1.ConnectRequest{Message: &tooldv1.ConnectRequest_Answer{Answer: &tooldv1.WorkerAnswer{QuestionId: q}}})
		}
	}
}

// offers connects a worker with one tool and returns the refusals.
func (w *world) offers(ctx context.Context, user, id string) (tooldv1.WorkerService_ConnectClient, []*tooldv1.WorkerRefusal) {
	w.t.Helper()
	stream, err := tooldv1.NewWorkerServiceClient(w.as(user)).Connect(ctx)
	must(w.t, err)
	must(w.t, stream.Send(&tooldv1.ConnectRequest{Message: &tooldv1.ConnectRequest_Register{Register: &tooldv1.WorkerRegister{
		Pool: "pool", Name: user, Tools: []*tooldv1.WorkerTool{{Descriptor_: &tooldv1.Descriptor{Id: id, Effects: &tooldv1.Assessment{Tier: tooldv1.Tier_TIER_OBSERVE}}}},
	}}}))
	first, err := stream.Recv()
	must(w.t, err)
	return stream, first.GetRegistered().GetRefused()
}

// TestT125WorkersOfTwoNamespaces (T125) checks that a worker of one namespace cannot reserve a tool name: another namespace and the
// operator can still use the name.
func TestT125WorkersOfTwoNamespaces(t *testing.T) {
	w := newWorld(t, options{prepare: withWorkers(time.Minute)})
	ctx, leave := context.WithCancel(within(t))
	if _, refused := w.offers(ctx, "mallory", "deploy"); len(refused) > 0 {
		t.Fatalf("refused: %v", refused)
	}
	leave() // The daemon remembers the tool of the worker that has left.
	ours, refused := w.offers(within(t), "oscar", "deploy")
	if len(refused) > 0 {
		t.Fatalf("the name of another namespace's tool is refused: %v", refused)
	}
	go func() {
		for {
			m, err := ours.Recv()
			if err != nil {
				return
			}
			if lease := m.GetStart().GetLeaseId(); lease != "" {
				_ = ours.Send(&tooldv1.ConnectRequest{Message: &tooldv1.ConnectRequest_Done{Done: &tooldv1.WorkerDone{LeaseId: lease,
					Result: &tooldv1.WorkerResult{Status: tooldv1.ResultStatus_RESULT_STATUS_SUCCESS, Data: `"ours"`}}}})
			}
		}
	}()
	run := func(user string) *tooldv1.Call {
		got, err := w.calls(user).CallTool(within(t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: "deploy"}})
		must(t, err)
		return got.GetCall()
	}
	if c := run("alice"); c.GetResult().GetData() != `"ours"` {
		t.Errorf("the call of our namespace is %v", c)
	}
	if c := run("mallory"); c.GetResult().GetError().GetReason() != "NO_WORKER" {
		t.Errorf("the call of the other namespace is %v", c)
	}
	must(t, w.tools.Register("mcp:x", tool.Func(tool.Descriptor{ID: "deploy", Effects: tool.Effects{Tier: tool.Observe}},
		func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text("shared"), nil })))
	for _, user := range []string{"alice", "mallory"} {
		if c := run(user); c.GetResult().GetMessage() != "shared" {
			t.Errorf("with a tool for all, the call of %s is %v", user, c)
		}
	}
	if _, refused := w.offers(within(t), "oscar", "deploy"); len(refused) != 1 || refused[0].GetReason() != "TAKEN" {
		t.Errorf("refused: %v", refused)
	}
}
