package daemon

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// TestHTTPRoutes checks the errors of paths and methods that no route has.
func TestHTTPRoutes(t *testing.T) {
	b := browserOf(t, newSite(t, "").start("--listen-http", "127.0.0.1:0"))
	defer http.DefaultClient.CloseIdleConnections()
	for request, want := range map[string]string{
		"GET /nothing": "404 not_found", "POST /toold.v1.CallService/Nothing": "404 not_found", "PUT /login": "405 unimplemented GET, HEAD, POST",
		"POST /healthz": "405 unimplemented GET, HEAD", "DELETE /v1/watch": "405 unimplemented GET, HEAD", "HEAD /v1/watch": "405  GET",
		"GET /v1/ui/decisions": "405 unimplemented POST", "HEAD /v1/agui/runs/x/stream": "405  GET", "HEAD /v1/ui/threads/x/stream": "405  GET",
		"HEAD /readyz": "200  ", "POST /toold.v1.AdminService%2FGetInfo": "404 not_found", "POST //toold.v1.AdminService/GetInfo": "400 invalid_argument", "GET /v1/calls/x/artifacts/../y": "404 not_found",
	} {
		method, path, _ := strings.Cut(request, " ")
		status, text := b.do(method, path, b.token, "")
		allow := b.send(method, path, "Authorization", "Bearer "+b.token).Header.Get("Allow")
		code, _, _ := strings.Cut(strings.TrimPrefix(text, `{"code":"`), `"`)
		if got := fmt.Sprintf("%d %s %s", status, code, allow); strings.TrimSpace(got) != strings.TrimSpace(want) {
			t.Errorf("%s gets %q, want %q: %s", request, got, want, text)
		}
	}
}

// TestT119BodyWithoutCredential (T119) checks that the daemon reads no message before it knows the client.
func TestT119BodyWithoutCredential(t *testing.T) {
	p := newSite(t, "").start("--listen-http", "127.0.0.1:0")
	for _, kind := range []string{"application/json", "application/proto", "application/connect+json", "application/grpc-web+proto"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.ready.HTTP, "http://"))
		must(t, err)
		defer conn.Close()
		must(t, conn.SetDeadline(time.Now().Add(5*time.Second)))
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: 4000000\r\n\r\n", tooldv1.CallService_ExecuteTool_FullMethodName, kind)
		must(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		resp.Body.Close()
	}
}
