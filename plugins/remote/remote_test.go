package remote_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/plugins/remote"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
)

// with adds a field that this version of the API does not know.
func with(r *tooldv1.GateResponse) *tooldv1.GateResponse {
	r.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 100, protowire.BytesType), `{"command":"rm"}`))
	return r
}

func TestGate(t *testing.T) {
	deny := func(reason string) *tooldv1.GateResponse {
		return &tooldv1.GateResponse{Verdict: &tooldv1.GateResponse_Deny{Deny: &tooldv1.GateDeny{Reason: reason}}, PolicyVersion: "v7"}
	}
	result := func(r *tooldv1.HookResult) *tooldv1.GateResponse {
		return &tooldv1.GateResponse{Verdict: &tooldv1.GateResponse_SetResult{SetResult: r}}
	}
	nested := deny("no")
	nested.GetDeny().ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 9, protowire.VarintType), 1))
	tests := []struct {
		name     string
		service  *service
		kind     hook.VerdictKind // expected kind; empty means that an error is expected
		text     string
		protocol bool
	}{
		{"allow", responds(allowed()), hook.KindAllow, "", false},
		{"deny", responds(deny("not on Fridays")), hook.KindSetResult, "not on Fridays", false},
		{"block", responds(&tooldv1.GateResponse{Verdict: &tooldv1.GateResponse_Block{Block: &tooldv1.GateBlock{Reason: "stop"}}}), hook.KindBlock, "stop", false},
		{"suspend", responds(&tooldv1.GateResponse{Verdict: &tooldv1.GateResponse_Suspend{Suspend: &tooldv1.HookTicket{Message: "sure?", ExpiresIn: durationpb.New(time.Hour), Approvers: &tooldv1.Approvers{Roles: []tooldv1.Role{tooldv1.Role_ROLE_OPERATOR}}}}}), hook.KindSuspend, "sure?", false},
		{"result", responds(result(&tooldv1.HookResult{Status: tooldv1.ResultStatus_RESULT_STATUS_SUCCESS, Data: "1.50"})), hook.KindSetResult, "1.50", false},
		{"an error as the result", responds(result(&tooldv1.HookResult{Status: tooldv1.ResultStatus_RESULT_STATUS_ERROR, Error: &tooldv1.HookError{Code: tooldv1.ErrorCode_ERROR_CODE_NOT_FOUND, Message: "gone"}})), hook.KindSetResult, "gone", false},

		{"no verdict", responds(&tooldv1.GateResponse{}), "", "without a verdict", false},
		{"an error", &service{gate: func(context.Context, *tooldv1.GateRequest) (*tooldv1.GateResponse, error) {
			return nil, status.Error(codes.Internal, "no database")
		}}, "", "Internal: no database", false},
		{"unimplemented", &service{}, "", "Unimplemented", false},
		{"too large", responds(deny(strings.Repeat("x", 2<<20))), "", "ResourceExhausted", false},

		{"a field that a gate has not", responds(with(allowed())), "", "GateResponse", true}, // T95: a gate has no such field
		{"one inside", responds(nested), "", "GateDeny", true},
		{"data that is no JSON", responds(result(&tooldv1.HookResult{Status: tooldv1.ResultStatus_RESULT_STATUS_SUCCESS, Data: "{"})), "", "data", true},
		{"a code of the engine's", responds(result(&tooldv1.HookResult{Status: tooldv1.ResultStatus_RESULT_STATUS_ERROR, Error: &tooldv1.HookError{Code: tooldv1.ErrorCode_ERROR_CODE_IN_DOUBT}})), "", "IN_DOUBT", true},
		{"a question as the result", responds(result(&tooldv1.HookResult{Status: tooldv1.ResultStatus_RESULT_STATUS_PENDING})), "", "SUCCESS", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHook(t, serve(t, tt.service))
			v, err := h.Check(t.Context(), input(t, `{"command":"ls"}`))
			got := v.Reason()
			switch {
			case err != nil:
				got = err.Error()
			case v.Result() != nil:
				got = v.Result().ModelText()
			}
			if v.Kind() != tt.kind || !strings.Contains(got, tt.text) {
				t.Errorf("verdict %q %q, %v; want %q %q", v.Kind(), got, err, tt.kind, tt.text)
			}
			if is := errors.As(err, new(*hook.ProtocolError)); is != tt.protocol {
				t.Errorf("error of the protocol: %t, %v", is, err)
			}
			if failed := h.Health().Failed == 1; failed != (tt.kind == "") {
				t.Errorf("health %+v", h.Health())
			}
		})
	}
}

// The service gets the details of the call.
func TestInput(t *testing.T) {
	var q *tooldv1.GateRequest
	var token []string
	s := &service{gate: func(ctx context.Context, got *tooldv1.GateRequest) (*tooldv1.GateResponse, error) {
		q = got
		md, _ := metadata.FromIncomingContext(ctx)
		token = md.Get("authorization")
		return allowed(), nil
	}}
	h := newHook(t, serve(t, s), func(c *remote.Config) { c.Token = "secret" })
	in := input(t, `{"command":"echo  \u00e9","n":9007199254740993}`).WithAnswer(&tool.Decision{ID: "d1", Action: tool.Resume, Result: `{"ok":1}`})
	if _, err := h.Check(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	i := q.GetInput()
	if i.GetTool() != "bash" || i.GetArguments() != in.Arguments.Text() || i.GetRequestedArguments() != in.Requested || i.GetCaller().GetSubject() != "alice" ||
		i.GetCaller().GetRoles()[1] != tooldv1.Role_ROLE_DELEGATE || i.GetRun().GetOnBehalfOf() != "carol" || i.GetRun().GetAgent().GetAgentId() != "a" ||
		i.GetDescription().GetKind() != tooldv1.Kind_KIND_EXECUTE || i.GetDescription().GetPreview()[0].GetType() != tooldv1.ContentType_CONTENT_TYPE_TEXT ||
		i.GetAssessment().GetMutability() != tooldv1.Mutability_MUTABILITY_MUTATING || i.GetDescriptor_().GetSource() != "builtin" || i.GetHook() != "h" || i.GetAttempt() != 1 {
		t.Errorf("input %v", i)
	}
	if a := q.GetAnswer(); a.GetDecisionId() != "d1" || a.GetAction() != tooldv1.DecisionAction_DECISION_ACTION_RESUME || a.GetResult() != `{"ok":1}` {
		t.Errorf("answer %v", a)
	}
	if len(token) != 1 || token[0] != "Bearer secret" {
		t.Errorf("token %q", token)
	}
}

// TestT94HostileServices checks that any misbehaving service yields a failure, at the deadline at the latest.
func TestT94HostileServices(t *testing.T) {
	listen := func(t *testing.T, talk func(net.Conn)) string {
		path := filepath.Join(t.TempDir(), "s")
		lis, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		t.Cleanup(func() { lis.Close(); close(done) })
		go func() {
			for {
				conn, err := lis.Accept()
				if err != nil {
					return
				}
				go func() { <-done; conn.Close() }()
				go talk(conn)
			}
		}()
		return "unix:" + path
	}
	tests := map[string]func(t *testing.T) string{
		"never reads": func(t *testing.T) string { return listen(t, func(net.Conn) {}) },
		"garbage": func(t *testing.T) string {
			return listen(t, func(c net.Conn) { _, _ = c.Write([]byte(strings.Repeat("garbage\r\n", 1000))) })
		},
		"slowly": func(t *testing.T) string {
			return listen(t, func(c net.Conn) {
				for err := error(nil); err == nil; time.Sleep(5 * time.Millisecond) {
					_, err = c.Write([]byte{0})
				}
			})
		},
		"closes":    func(t *testing.T) string { return listen(t, func(c net.Conn) { c.Close() }) },
		"not there": func(t *testing.T) string { return "unix:" + filepath.Join(t.TempDir(), "nobody") },
		"hangs": func(t *testing.T) string {
			return serve(t, &service{gate: func(ctx context.Context, _ *tooldv1.GateRequest) (*tooldv1.GateResponse, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}})
		},
		"hangs and hears nothing": func(t *testing.T) string {
			done := make(chan struct{})
			address := serve(t, &service{gate: func(context.Context, *tooldv1.GateRequest) (*tooldv1.GateResponse, error) {
				<-done
				return allowed(), nil
			}})
			t.Cleanup(func() { close(done) }) // This must run before the server stops, because the server waits for it.
			return address
		},
		"a gibibyte in pieces": func(t *testing.T) string {
			return serve(t, responds(&tooldv1.GateResponse{PolicyVersion: strings.Repeat("x", 64<<20), Verdict: allowed().Verdict}), grpc.MaxSendMsgSize(1<<30))
		},
	}
	for name, address := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHook(t, address(t))
			if v, err := h.Check(soon(t), input(t, `{}`)); err == nil {
				t.Errorf("verdict %q", v.Kind())
			}
			if health := h.Health(); health.Running != 0 || !health.Failing {
				t.Errorf("health %+v", health)
			}
		})
	}
}

// TestReconnect checks that a service that was stopped is asked again after it has started.
func TestReconnect(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	first := serveAt(t, path, responds(allowed()))
	h := newHook(t, "unix:"+path)
	if _, err := h.Check(t.Context(), input(t, `{}`)); err != nil {
		t.Fatal(err)
	}
	first.Stop()
	if _, err := h.Check(soon(t), input(t, `{}`)); err == nil {
		t.Fatal("a service that is gone has answered")
	}
	serveAt(t, path, responds(allowed()))
	for h.Health().Failing {
		if t.Context().Err() != nil {
			t.Fatal("it does not come back")
		}
		_, _ = h.Check(t.Context(), input(t, `{}`))
		runtime.Gosched()
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []remote.Config{
		{}, {Name: "h"}, {Name: "h", Address: "host"}, {Name: "h", Address: ":1"}, {Name: "h", Address: "unix:here"},
		{Name: "h", Address: "h:1", Plaintext: true, ServerName: "x"}, {Name: "h", Address: "h:1", CA: []byte("x")},
		{Name: "h", Address: "h:1", Cert: []byte("x"), Key: []byte("y")},
	} {
		if _, err := remote.New(c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

// TestQuestionKeepsItsHook checks that a question is answered although its caller no longer holds the hook, as with a call that outlives a
// reload.
func TestQuestionKeepsItsHook(t *testing.T) {
	address := serve(t, &service{gate: func(context.Context, *tooldv1.GateRequest) (*tooldv1.GateResponse, error) {
		for range 5 {
			runtime.GC() // If ask did not keep the hook, this would collect the hook, and its connection would be closed.
			time.Sleep(5 * time.Millisecond)
		}
		return allowed(), nil
	}})
	h, err := remote.New(remote.Config{Name: "h", Address: address})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Check(t.Context(), input(t, `{}`)); err != nil {
		t.Fatal(err)
	}
}

// TestNothingIsLeftOfAReload checks that the connections of unreferenced hooks are closed.
func TestNothingIsLeftOfAReload(t *testing.T) {
	address := serve(t, responds(allowed()))
	ask := func() {
		h, err := remote.New(remote.Config{Name: "h", Address: address}) // never closed explicitly
		if err == nil {
			_, err = h.Check(t.Context(), input(t, `{}`))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ask()
	runtime.GC()
	before := runtime.NumGoroutine()
	for range 50 {
		ask()
	}
	for runtime.NumGoroutine() > before {
		if t.Context().Err() != nil {
			t.Fatalf("%d goroutines, were %d", runtime.NumGoroutine(), before)
		}
		runtime.GC()
		runtime.Gosched()
	}
}
