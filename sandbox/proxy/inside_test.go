package proxy_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/sandbox/helper"
	"github.com/toold-dev/toold/sandbox/proxy"
)

// An inside runs bash scripts behind a proxy.
type inside struct {
	*sandbox.Runner
	dir string
	mu  sync.Mutex
	all []proxy.Event
}

func (i *inside) reported() []proxy.Event {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]proxy.Event(nil), i.all...)
}

// small builds the small helper next to the test program, once. An ordinary user uses the whole test program as helper instead.
var small = sync.OnceValue(func() string {
	exe, err := os.Executable()
	if dir := filepath.Dir(exe); err == nil && strings.Contains(dir, "go-build") && os.Getuid() == 0 {
		path := filepath.Join(dir, helper.Name)
		build := exec.Command("go", "build", "-trimpath", "-o", path, "../../cmd/toold-sandbox")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			panic(fmt.Sprintf("go build: %v\n%s", err, out))
		}
		return path
	}
	return ""
})

func enter(t *testing.T, cfg proxy.Config) *inside {
	t.Helper()
	i := &inside{dir: t.TempDir()}
	cfg.Report = func(e proxy.Event) {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.all = append(i.all, e)
	}
	r, err := sandbox.New(sandbox.Config{Owner: fmt.Sprint("proxy-", os.Getpid()), StateDir: t.TempDir(), Helper: small(), Gateway: proxy.New(cfg)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	i.Runner = r
	return i
}

func (i *inside) run(ctx context.Context, t *testing.T, p sandbox.Policy, script string) string {
	t.Helper()
	var mu sync.Mutex
	var out bytes.Buffer
	p.Workspace = i.dir
	_, err := i.Run(ctx, sandbox.Spec{
		Path: "/bin/bash", Args: []string{"-c", script}, Dir: i.dir, Env: []string{"PATH=/usr/bin:/bin", "HOME=/tmp", "http_proxy=http://127.0.0.9:9", "ALL_PROXY=x"}, Tag: "call-1", Policy: &p,
		Output: func(_ string, chunk []byte) error {
			mu.Lock()
			defer mu.Unlock()
			out.Write(chunk)
			return nil
		},
	})
	if err != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	return out.String()
}

// site starts an HTTPS and an HTTP server. A test name server resolves their names, and the policy allows their ports.
func site(t *testing.T, h http.Handler) (cfg proxy.Config, p sandbox.Policy, plain, secure string, ca []byte) {
	t.Helper()
	one, two := httptest.NewServer(h), httptest.NewTLSServer(h)
	t.Cleanup(one.Close)
	t.Cleanup(two.Close)
	resolver, _ := names(t, map[string][][]string{"example.com": {{"127.0.0.1"}}, "denied.test": {{"127.0.0.1"}}})
	plain, secure = port(one.Listener.Addr().String()), port(two.Listener.Addr().String())
	p = sandbox.Policy{Network: sandbox.NetworkProxy, Hosts: []string{"example.com"}, Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}
	for _, s := range []*httptest.Server{one, two} {
		p.Ports = append(p.Ports, netip.MustParseAddrPort(s.Listener.Addr().String()).Port())
	}
	return proxy.Config{Resolver: resolver}, p, plain, secure, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: two.Certificate().Raw})
}

// The test checks that common programs work through the proxy and cannot bypass it (T33, T37).
func TestT37ProgramsInside(t *testing.T) {
	t.Parallel()
	cfg, p, plain, secure, ca := site(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello %s %s", r.Host, r.URL.Path) }))
	i := enter(t, cfg)
	if err := os.WriteFile(filepath.Join(i.dir, "ca.pem"), ca, 0o600); err != nil {
		t.Fatal(err)
	}
	web, tls := "http://example.com:"+plain, "https://example.com:"+secure
	const curl = "curl -sS --cacert ca.pem "
	const code = `-o /dev/null -w '%{http_code} %{http_connect}' `
	for _, tt := range []struct{ name, script, want string }{
		{"plain", curl + web + "/a", "hello example.com:" + plain + " /a"},
		{"https", curl + tls + "/b", "hello example.com:" + secure + " /b"},
		{"plain, denied", curl + code + "http://denied.test:" + plain, "403 000"},
		{"https, denied", curl + code + "https://denied.test:" + secure + " 2>/dev/null", "000 403"},
		{"why", curl + "http://denied.test:" + plain, "the host denied.test is not in the list"},
		{"another Host header", curl + code + "-H 'Host: denied.test' " + web, "403 000"},
		{"metadata", curl + code + "http://169.254.169.254/latest", "403 000"},
		{"this machine", curl + code + "http://127.0.0.1:" + plain + " --noproxy ''", "403 000"},
		{"around the proxy", curl + "--noproxy '*' http://127.0.0.1:" + plain + " http://example.com:" + plain + " http://1.1.1.1 2>&1 | cut -d' ' -f1-2 | tr '\\n' ' '", "curl: (7) curl: (6) curl: (7)"},
		{"a server of its own", "python3 -c 'import http.server as h; s = h.HTTPServer((\"127.0.0.1\", 8080), h.SimpleHTTPRequestHandler); s.handle_request()' 2>/dev/null & for i in $(seq 300); do curl -sS http://127.0.0.1:8080/ca.pem 2>/dev/null && break; sleep 0.1; done", "BEGIN CERTIFICATE"},
		{"variables", "env | grep -i _proxy | sort | tr '\\n' ' '", "HTTPS_PROXY=http://127.0.0.1:3128 HTTP_PROXY=http://127.0.0.1:3128 NODE_USE_ENV_PROXY=1 NO_PROXY=localhost,127.0.0.1,::1 http_proxy=http://127.0.0.1:3128 https_proxy=http://127.0.0.1:3128 no_proxy="},
		{"python", "python3 -c 'import urllib.request as u; print(u.urlopen(\"" + web + "/py\").read())'", "/py"},
		{"git", "GIT_SSL_CAINFO=ca.pem git ls-remote " + tls + "/x.git; GIT_CURL_VERBOSE=1 git ls-remote https://denied.test:" + secure + "/x 2>&1 | grep -o 'response 403' | head -1", "response 403"},
		{"listeners", "cat /proc/net/tcp | wc -l; ls /proc/self/fd | wc -l", "2\n4"}, // /proc/net/tcp has a header line and the proxy's listener. The file descriptors are 0, 1, 2 and the directory that ls reads.
	} {
		if got := i.run(t.Context(), t, p, tt.script); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	var up, down int64
	for _, e := range i.reported() {
		if e.Tag != "call-1" || e.Verdict == proxy.Allowed && e.Host != "example.com" {
			t.Errorf("%+v", e)
		}
		up, down = up+e.Up, down+e.Down
	}
	if up < 1000 || down < 1000 {
		t.Errorf("%d bytes up, %d down", up, down)
	}
}

// The test checks that a tunnel ends with its call, even when the process that uses it still runs for a moment after the command.
func TestTunnelEndsWithTheCall(t *testing.T) {
	t.Parallel()
	came, left := make(chan struct{}), make(chan struct{})
	cfg, p, plain, _, _ := site(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		close(came)
		<-r.Context().Done()
		close(left)
	}))
	i := enter(t, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-came
		cancel()
	}()
	i.run(ctx, t, p, "setsid curl -sS http://example.com:"+plain+" & wait")
	select {
	case <-left:
	case <-time.After(time.Minute):
		t.Error("the host still has a connection")
	}
	if events := i.reported(); len(events) != 1 || events[0].Verdict != proxy.Allowed {
		t.Errorf("reported when the call had ended: %+v", events)
	}
}

func TestFactsBehindAProxy(t *testing.T) {
	t.Parallel()
	i := enter(t, proxy.Config{})
	policy := sandbox.Policy{Workspace: i.dir, Network: sandbox.NetworkProxy, Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	facts, err := i.Prove(t.Context(), policy)
	if err != nil || !facts.Net.Held || !strings.Contains(facts.Net.Mechanism, "proxy") {
		t.Errorf("%+v, %v", facts.Net, err)
	}
	if events := i.reported(); len(events) != 1 || events[0].Tag != sandbox.CanaryTag || events[0].Verdict != proxy.Refused {
		t.Errorf("%+v", events)
	}
}
