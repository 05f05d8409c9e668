package daemon

import (
	"context"
	"io"
	"net/http"
	"os"
	"regexp"
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
	p := newSite(t, "").start("--listen-http", "127.0.0.1:0")
	b := browserOf(t, p)
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
	refused := regexp.MustCompile(`request refused.*127\.0\.0\.1:\d+.*TOKEN_REQUIRED`)
	eventually(t, "the log has the address of a refused client", func() bool { return refused.MatchString(p.log.String()) })
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

// send sends a request with more headers, and returns the response without its body.
func (b *browser) send(method, path string, headers ...string) *http.Response {
	b.t.Helper()
	req, err := http.NewRequestWithContext(within(b.t), method, b.base+path, nil)
	must(b.t, err)
	for i := 0; i < len(headers); i += 2 {
		if req.Header.Add(headers[i], headers[i+1]); headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	resp, err := http.DefaultClient.Do(req)
	must(b.t, err)
	b.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// TestT67OtherOrigins (T67, T133) checks that a page of another origin reaches no route, even with a token. Another local port is another
// origin.
func TestT67OtherOrigins(t *testing.T) {
	b := browserOf(t, newSite(t, "").start("--listen-http", "127.0.0.1:0"))
	defer http.DefaultClient.CloseIdleConnections()
	from := map[string][]string{
		"evil origin":       {"Origin", "https://evil.test"},
		"no origin":         {"Origin", "null"},
		"another port":      {"Origin", "http://127.0.0.1:1"},
		"image of a page":   {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"},
		"page on this site": {"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors"},
	}
	for name, headers := range from {
		t.Run(name, func(t *testing.T) {
			b.refused(append(headers, "Authorization", "Bearer "+b.token))
		})
	}
	own := b.send("GET", "/metrics", "Origin", b.base, "Sec-Fetch-Site", "same-origin", "Authorization", "Bearer "+b.token)
	if own.StatusCode != 200 || own.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a page of the server gets %s, %v", own.Status, own.Header)
	}
}

// TestT68Rebinding (T68) does the same as TestT67OtherOrigins for a page of a host whose name resolves to the daemon's address.
func TestT68Rebinding(t *testing.T) {
	b := browserOf(t, newSite(t, "").start("--listen-http", "127.0.0.1:0"))
	defer http.DefaultClient.CloseIdleConnections()
	b.refused([]string{"Host", "evil.test", "Authorization", "Bearer " + b.token})
	for _, name := range []string{"localhost", "x1.localhost", "127.0.0.1", "[::1]"} {
		if resp := b.send("GET", "/healthz", "Host", name); resp.StatusCode != 200 {
			t.Errorf("%s gets %s", name, resp.Status)
		}
	}
}

// refused checks that no route serves a request with these headers.
func (b *browser) refused(headers []string) {
	b.t.Helper()
	for _, route := range []string{
		"POST " + tooldv1.CallService_CallTool_FullMethodName, "GET " + tooldv1.CallService_ListCalls_FullMethodName, "GET /healthz", "GET /readyz", "GET /metrics",
		"GET /v1/calls/x/artifacts/y", "POST /mcp", "GET /mcp", "DELETE /mcp", "GET /.well-known/oauth-protected-resource/mcp", "OPTIONS " + tooldv1.CallService_CallTool_FullMethodName, "GET /nothing",
	} {
		method, path, _ := strings.Cut(route, " ")
		if resp := b.send(method, path, headers...); resp.StatusCode != http.StatusForbidden {
			b.t.Errorf("%s with %q gets %s", route, headers, resp.Status)
		}
	}
}

// TestHTTPOrigins checks a page of an allowed origin: its browser may send a preflight request, and the page may read the response.
func TestHTTPOrigins(t *testing.T) {
	s := newSite(t, "")
	file := s.rules + ".toold"
	must(t, os.WriteFile(file, []byte("http: {origins: ['https://app.test'], hosts: [toold.test]}\n"), 0o600))
	b := browserOf(t, s.start("--config", file, "--listen-http", "127.0.0.1:0"))
	defer http.DefaultClient.CloseIdleConnections()
	asked := b.send("OPTIONS", tooldv1.CallService_CallTool_FullMethodName, "Origin", "https://app.test", "Host", "toold.test",
		"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,content-type,mcp-method,mcp-name,mcp-protocol-version")
	if asked.StatusCode != http.StatusNoContent || asked.Header.Get("Access-Control-Allow-Origin") != "https://app.test" || asked.Header.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("the answer to the preflight request is %s, %v", asked.Status, asked.Header)
	}
	ends := b.send("OPTIONS", "/mcp", "Origin", "https://app.test", "Host", "toold.test", "Access-Control-Request-Method", "DELETE", "Access-Control-Request-Headers", "mcp-session-id")
	if got := ends.Header.Get("Access-Control-Allow-Methods"); got != "DELETE" {
		t.Errorf("a page that ends its MCP session may use the methods %q", got)
	}
	b.refused([]string{"Origin", "https://app.test.evil.test"})
}

// TestT135Artifacts (T135) checks that a browser does not show an artifact as a page, and that a part of it can be read.
func TestT135Artifacts(t *testing.T) {
	s := newSite(t, bashAllowed)
	b := browserOf(t, s.start("--listen-http", "127.0.0.1:0"))
	defer http.DefaultClient.CloseIdleConnections()
	page := "<script>alert(1)</script>" + strings.Repeat("x", 700<<10)
	must(t, os.WriteFile(s.workspace+"/page.html", []byte(page), 0o600))
	b.do("POST", tooldv1.CallService_CallTool_FullMethodName, b.token, `{"spec":{"tool":"bash","callId":"artifact-0000000001","arguments":"{\"command\":\"cat page.html\"}"}}`)
	path := "/v1/calls/artifact-0000000001/artifacts/stdout"
	if status, body := b.do("GET", path, b.token, ""); status != 200 || body != page {
		t.Fatalf("%d with %d bytes, want %d: %.200s", status, len(body), len(page), body)
	}
	resp := b.send("GET", path, "Authorization", "Bearer "+b.token, "Range", "bytes=1-6")
	if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "script" {
		t.Errorf("a part is %q, %v", text, err)
	}
	want := map[string]string{
		"Content-Type": "application/octet-stream", "Content-Disposition": "attachment; filename=stdout", "X-Content-Type-Options": "nosniff",
		"Content-Security-Policy": "sandbox; default-src 'none'",
	}
	for name, value := range want {
		if got := resp.Header.Get(name); got != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
	if status, _ := b.do("GET", path, "", ""); status != http.StatusUnauthorized {
		t.Errorf("without a token the status is %d", status)
	}
}

// signIn opens a login link as its page does, and returns the base URL for browsers, the secret of the link, and the cookie.
func (b *browser) signIn(p *proc) (base, link string, cookie *http.Cookie) {
	b.t.Helper()
	made, err := p.admin.CreateLogin(within(b.t), &tooldv1.CreateLoginRequest{})
	must(b.t, err)
	base, link, _ = strings.Cut(made.GetUrl(), "/login#")
	resp := b.exchange(base, link, "same-origin")
	if resp.StatusCode != http.StatusNoContent || len(resp.Cookies()) != 1 {
		b.t.Fatalf("the link gives %s, %v", resp.Status, resp.Header)
	}
	return base, link, resp.Cookies()[0]
}

// exchange posts a login link. base is the URL for browsers.
func (b *browser) exchange(base, link, site string) *http.Response {
	b.t.Helper()
	req, err := http.NewRequestWithContext(within(b.t), http.MethodPost, b.base+"/login", strings.NewReader(`{"link":"`+link+`"}`))
	must(b.t, err)
	req.Host = strings.TrimPrefix(base, "http://")
	req.Header.Set("Sec-Fetch-Site", site)
	resp, err := http.DefaultClient.Do(req)
	must(b.t, err)
	resp.Body.Close()
	return resp
}

// TestT134LoginLink (T134) checks that only a POST of the page consumes a login link, that the link works once, and that no log contains
// it.
func TestT134LoginLink(t *testing.T) {
	s := newSite(t, "")
	p := s.start("--listen-http", "127.0.0.1:0", "--log-level", "debug")
	b := browserOf(t, p)
	defer http.DefaultClient.CloseIdleConnections()
	made, err := p.admin.CreateLogin(within(t), &tooldv1.CreateLoginRequest{})
	must(t, err)
	base, link, _ := strings.Cut(made.GetUrl(), "/login#")
	host := strings.TrimPrefix(base, "http://")
	for range 2 { // A scanner or a prefetch may open the page. A careless program may also send the secret.
		if resp := b.send("GET", "/login?link="+link, "Host", host); resp.StatusCode != 200 || len(resp.Cookies()) > 0 || resp.Header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("GET gives %s, %v", resp.Status, resp.Header)
		}
	}
	for name, resp := range map[string]*http.Response{
		"another page": b.exchange(base, link, "cross-site"), "a program": b.exchange(base, link, ""), "another host": b.exchange(b.base, link, "same-origin"),
	} {
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s gets %s", name, resp.Status)
		}
	}
	if first, second := b.exchange(base, link, "same-origin"), b.exchange(base, link, "same-origin"); first.StatusCode != 204 || second.StatusCode != 401 {
		t.Errorf("the link gives %s, then %s", first.Status, second.Status)
	}
	p.kill()
	if secret := link[len(link)-16:]; strings.Contains(p.log.String(), secret) {
		t.Errorf("the log has the link:\n%s", p.log)
	}
}

// TestT133Cookie (T133) checks that the cookie of a session is accepted only for pages of the server itself. It stays valid over a restart,
// and becomes invalid with the end of the session.
func TestT133Cookie(t *testing.T) {
	s := newSite(t, "")
	p := s.start("--listen-http", "127.0.0.1:0")
	b := browserOf(t, p)
	defer http.DefaultClient.CloseIdleConnections()
	base, _, cookie := b.signIn(p)
	if !cookie.Secure || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Domain != "" {
		t.Errorf("the cookie is %v", cookie)
	}
	with := func(headers ...string) int {
		return b.send("GET", "/metrics", append(headers, "Cookie", cookie.Name+"="+cookie.Value)...).StatusCode
	}
	own := strings.TrimPrefix(base, "http://")
	p.kill()
	s.start("--listen-http", strings.TrimPrefix(b.base, "http://"))
	for name, tt := range map[string]struct {
		headers []string
		want    int
	}{
		"own page":                 {[]string{"Host", own, "Sec-Fetch-Site", "same-origin"}, 200},
		"address typed":            {[]string{"Host", own, "Sec-Fetch-Site", "none"}, 200},
		"program":                  {[]string{"Host", own}, 403},
		"page of another port":     {[]string{"Host", own, "Sec-Fetch-Site", "same-site"}, 403},
		"its origin":               {[]string{"Host", own, "Origin", "http://" + strings.Split(own, ":")[0] + ":1", "Sec-Fetch-Site", "same-site"}, 403},
		"host that others know":    {[]string{"Host", "localhost", "Sec-Fetch-Site", "same-origin"}, 403},
		"address that others know": {[]string{"Sec-Fetch-Site", "same-origin"}, 403},
	} {
		if got := with(tt.headers...); got != tt.want {
			t.Errorf("%s gets %d, want %d", name, got, tt.want)
		}
	}
	if resp := b.send("POST", "/logout", "Host", own, "Sec-Fetch-Site", "same-origin", "Cookie", cookie.Name+"="+cookie.Value); resp.StatusCode != http.StatusNoContent {
		t.Errorf("the end of the session is %s", resp.Status)
	}
	if got := with("Host", own, "Sec-Fetch-Site", "same-origin"); got != http.StatusUnauthorized {
		t.Errorf("after the end of the session the status is %d", got)
	}
}
