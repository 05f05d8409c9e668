package daemon

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"connectrpc.com/connect"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
)

// A browser is a client of a daemon over HTTP.
type browser struct {
	t     *testing.T
	base  string
	token string
}

func browserOf(t *testing.T, p *proc) *browser {
	t.Helper()
	token, err := os.ReadFile(p.ready.TokenFile)
	must(t, err)
	return &browser{t, p.ready.HTTP, strings.TrimSpace(string(token))}
}

// do sends a request, with the token unless it is empty, and returns the status and the body.
func (b *browser) do(method, path, token, body string) (int, string) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(within(b.t), method, b.base+path, strings.NewReader(body))
	must(b.t, err)
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	must(b.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(b.t, err)
	return resp.StatusCode, string(text)
}

// TestHTTP checks the API as JSON, with the access check of gRPC.
func TestHTTP(t *testing.T) {
	b := browserOf(t, newSite(t, "").start("--listen-http", "127.0.0.1:0"))
	defer http.DefaultClient.CloseIdleConnections()
	call := `{"spec":{"tool":"grep","arguments":"{\"pattern\":\"nothing\"}"}}`
	tests := []struct {
		name, method, path, token, body string
		status                          int
		want                            string
	}{
		{"call", "POST", tooldv1.CallService_CallTool_FullMethodName, b.token, call, 200, `"status":"CALL_STATUS_SUCCEEDED"`},
		{"no token", "POST", tooldv1.CallService_CallTool_FullMethodName, "", call, 401, `"TOKEN_REQUIRED"`},
		{"unknown token", "POST", tooldv1.CallService_CallTool_FullMethodName, b.token + "x", call, 401, `"TOKEN_INVALID"`},
		{"bad argument", "POST", tooldv1.CallService_GetCall_FullMethodName, b.token, `{}`, 400, `call_id`},
		{"health", "GET", "/healthz", "", "", 200, "ok"},
		{"readiness", "GET", "/readyz", "", "", 200, "ready"},
		{"metrics", "GET", "/metrics", b.token, "", 200, "toold_calls_total"},
		{"metrics without a token", "GET", "/metrics", "", "", 401, `"TOKEN_REQUIRED"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, text := b.do(tt.method, tt.path, tt.token, tt.body)
			if status != tt.status || !strings.Contains(strings.ReplaceAll(text, `": "`, `":"`), tt.want) {
				t.Errorf("%d %s, want %d with %s", status, text, tt.status, tt.want)
			}
		})
	}
	for name := range access.Table() {
		if !strings.HasPrefix(name, "/toold.") {
			continue
		}
		if status, text := b.do("POST", name, "", "{}"); status == http.StatusNotFound {
			t.Errorf("%s is not served: %s", name, text)
		}
	}
}

// TestHTTPStreams checks a stream over each protocol, as generated clients use them.
func TestHTTPStreams(t *testing.T) {
	b := browserOf(t, newSite(t, "").start("--listen-http", "127.0.0.1:0"))
	defer http.DefaultClient.CloseIdleConnections()
	for name, option := range map[string]connect.ClientOption{"connect": connect.WithProtoJSON(), "grpc-web": connect.WithGRPCWeb()} {
		t.Run(name, func(t *testing.T) {
			client := connect.NewClient[tooldv1.ExecuteToolRequest, tooldv1.ExecuteToolResponse](http.DefaultClient, b.base+tooldv1.CallService_ExecuteTool_FullMethodName, option)
			req := connect.NewRequest(&tooldv1.ExecuteToolRequest{Spec: &tooldv1.CallSpec{Tool: "grep", Arguments: `{"pattern":"nothing"}`}})
			req.Header().Set("Authorization", "Bearer "+b.token)
			s, err := client.CallServerStream(context.WithoutCancel(within(t)), req)
			must(t, err)
			defer s.Close()
			last := &tooldv1.CallEvent{}
			for s.Receive() {
				for _, e := range s.Msg().GetFrame().GetEvents() {
					last = e
				}
			}
			must(t, s.Err())
			if last.GetFinished().GetStatus() != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED {
				t.Errorf("the last event is %v", last)
			}
		})
	}
}
