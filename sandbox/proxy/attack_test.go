package proxy_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/sandbox/proxy"
)

// The test checks that a request to a host and port that the policy does not list is refused, in every form of the request (T37, T48, T50).
func TestT37RefusedTargets(t *testing.T) {
	t.Parallel()
	addr := serve(t, seen)
	p := port(addr)
	came := canary(t, "127.0.0.2:"+p)
	resolver, questions := names(t, map[string][][]string{"allowed.test": {{"127.0.0.1"}}, "private.test": {{"127.0.0.2"}}, "metadata.test": {{"169.254.169.254"}}})
	d := open(t, proxy.Config{Resolver: resolver}, policy(addr, "allowed.test", ".below.test", "private.test", "metadata.test", "127.0.0.2", "169.254.169.254"))
	for _, host := range []string{
		"denied.test", "xallowed.test", "allowed.test.denied.test", "below.testx", "xbelow.test", // names that the list does not match
		"127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[0:0:0:0:0:ffff:7f00:1]", "8.8.8.8", "[2606:4700:4700::1111]", "[::]", "0.0.0.0", // unlisted addresses
		"127.0.0.2", "[::ffff:127.0.0.2]", "169.254.169.254", "private.test", "metadata.test", // listed, but not in the public network
		"2130706433", "0x7f.1", "0x7f000001", "0177.0.0.1", "127.1", "127.0.0.1.", "１２７.0.0.1", "1.2.3.256", // addresses in unusual notations
		"allowed%2etest", "%61llowed.test", "allowed_.test", "allowed.test@denied.test", "user:x@allowed.test", "allowed..test", ".allowed.test", "allowed.test..", "[fe80::1%25eth0]",
		"[allowed.test]", "[127.0.0.1", "127.0.0.1]", "", "-", "[]", "::1", "al\xfflowed.test", "allowed.test\\denied.test", "allowed。.test", "*", strings.Repeat("a", 300) + ".test",
	} {
		for _, request := range []string{"CONNECT " + host + ":" + p + " HTTP/1.1\r\n\r\n", "GET http://" + host + ":" + p + "/ HTTP/1.1\r\n\r\n"} {
			if status, answer := d.ask(t, request); status != http.StatusForbidden {
				t.Errorf("%q: %s", request, answer)
			}
		}
	}
	for _, request := range []string{
		"GET http://allowed.test:P/ HTTP/1.1\r\nHost: denied.test\r\n\r\n", "GET http://allowed.test:P/ HTTP/1.1\r\nHost: allowed.test:81\r\n\r\n", "GET http://allowed.test:P/ HTTP/1.1\r\nHost:\r\n\r\n",
		"GET http://denied.test:P/ HTTP/1.1\r\nHost: allowed.test:P\r\n\r\n", "CONNECT denied.test:P HTTP/1.1\r\nHost: allowed.test:P\r\n\r\n", "CONNECT allowed.test:P HTTP/1.1\r\nHost: denied.test:P\r\n\r\n",
		"GET http://allowed.test/ HTTP/1.1\r\n\r\n", "CONNECT allowed.test:80 HTTP/1.1\r\n\r\n", "CONNECT allowed.test:443 HTTP/1.1\r\n\r\n", "CONNECT allowed.test:22 HTTP/1.1\r\n\r\n", // unlisted ports
		"CONNECT allowed.test HTTP/1.1\r\n\r\n", "CONNECT allowed.test: HTTP/1.1\r\n\r\n", "CONNECT allowed.test:0 HTTP/1.1\r\n\r\n", "CONNECT allowed.test:99999 HTTP/1.1\r\n\r\n",
		"CONNECT allowed.test:+P HTTP/1.1\r\n\r\n", "CONNECT allowed.test:P/ HTTP/1.1\r\n\r\n", "CONNECT http://allowed.test:P HTTP/1.1\r\n\r\n", "CONNECT :P HTTP/1.1\r\n\r\n",
		"TRACE http://allowed.test:P/ HTTP/1.1\r\n\r\n",
	} {
		request = strings.ReplaceAll(request, "P", p)
		request = strings.ReplaceAll(strings.ReplaceAll(request, "HTT"+p, "HTTP"), "TR"+p, "TRP")
		if status, answer := d.ask(t, request); status != http.StatusForbidden {
			t.Errorf("%q: %s", request, answer)
		}
	}
	if n := came(); n != 0 {
		t.Errorf("the canary was reached %d times", n)
	}
	// Only names that the policy lists may be resolved, each with an A and an AAAA question. Other names must not reach the name server, because
	// a name can carry data out.
	if n := questions(); n > 12 {
		t.Errorf("%d questions to the name server", n)
	}
	if status, answer := d.ask(t, "GET http://allowed.test:"+p+"/ HTTP/1.1\r\n\r\n"); status != http.StatusOK {
		t.Errorf("what is allowed: %s", answer)
	}
	d.end()
	for _, e := range d.reported() {
		if e.Verdict == proxy.Allowed && e.Host != "allowed.test" || e.Verdict == proxy.Refused && (e.Why == "" || e.Address != "") {
			t.Errorf("%+v", e)
		}
	}
	if s := d.sums[0]; s.Refused != s.Requests-1 || s.Unreported != s.Requests-proxy.MaxReported {
		t.Errorf("%+v", s)
	}
}

// The test checks that the proxy refuses requests that two parsers could understand differently.
func TestSmuggledRequests(t *testing.T) {
	t.Parallel()
	addr := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the server was reached") })
	d := open(t, proxy.Config{}, policy(addr, "127.0.0.1"))
	first := "POST http://" + addr + "/ HTTP/1.1\r\n"
	for _, request := range []string{
		first + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", first + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", first + "Content-Length: 5, 5\r\n\r\nhello",
		first + "Content-Length: +5\r\n\r\nhello", first + "Content-Length: -1\r\n\r\n", first + "Content-Length: 0x5\r\n\r\nhello", first + "Content-Length:\r\n\r\n", first + "Content-Length: 5 \x0b\r\n\r\nhello",
		first + "Content-Length: 99999999999999999999\r\n\r\n", first + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		first + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", first + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", first + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
		first + "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", first + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", first + " Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		first + "X: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", first + "X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", first + "X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		first + "X\x00: y\r\n\r\n", first + "X: y\x00\r\n\r\n", first + ": y\r\n\r\n", first + "X\r\n\r\n", first + "Host: " + addr + "\r\nHost: " + addr + "\r\n\r\n",
		"POST http://" + addr + "/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"GET http://" + addr + "/\nX: y HTTP/1.1\r\n\r\n", "GET  http://" + addr + "/ HTTP/1.1\r\n\r\n", "GET http://" + addr + "/ x HTTP/1.1\r\n\r\n", "GET\thttp://" + addr + "/ HTTP/1.1\r\n\r\n",
		"GET http://" + addr + "/#x HTTP/1.1\r\n\r\n", "G(T http://" + addr + "/ HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: " + addr + "\r\n\r\n", "GET https://" + addr + "/ HTTP/1.1\r\n\r\n", "GET ftp://" + addr + "/ HTTP/1.1\r\n\r\n",
		"CONNECT " + addr + " HTTP/1.1\r\nContent-Length: 1\r\n\r\nx", "CONNECT " + addr + " HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"\r\nGET http://" + addr + "/ HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\r\n",
	} {
		if status, answer := d.ask(t, request); status != http.StatusBadRequest {
			t.Errorf("%q: %s", request, answer)
		}
	}
	for request, want := range map[string]int{
		"GET http://" + addr + "/ HTTP/2.0\r\n\r\n":                               505,
		"GET http://" + addr + "/ HTTP/1.1 \r\n\r\n":                              400,
		"GET http://" + addr + "/" + strings.Repeat("x", 20_000):                  431,
		first + strings.Repeat("X: y\r\n", 200) + "\r\n":                          431,
		first + strings.Repeat("X: "+strings.Repeat("y", 10_000)+"\r\n", 10):      431,
		"POST http://" + addr + "/ HTTP/1.1\r\nExpect: 100-continue\r\nX\r\n\r\n": 400,
	} {
		if status, answer := d.ask(t, request); status != want {
			t.Errorf("%.80q: %s, want %d", request, answer, want)
		}
	}
}

// The test checks that no host receives an invalid or incomplete body as if it were complete.
func TestBrokenBodies(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 10)
	addr := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		ended <- err
	})
	d := open(t, proxy.Config{}, policy(addr, "127.0.0.1"))
	for _, body := range []string{
		"Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n5\r\nhel", "Transfer-Encoding: chunked\r\n\r\n-1\r\nhello\r\n0\r\n\r\n",
		"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nhello", "Content-Length: 10\r\n\r\nhello",
	} {
		conn := d.dial(t)
		fmt.Fprint(conn, "POST http://"+addr+"/ HTTP/1.1\r\n"+body)
		_ = conn.CloseWrite()
		answer, _ := io.ReadAll(conn)
		if err := <-ended; err == nil {
			t.Errorf("%q: the server had a whole body; %s", body, answer)
		}
	}
}

// T52: the proxy dials the address that it checked, whatever the name server answers next.
func TestT52ProxyRebinding(t *testing.T) {
	t.Parallel()
	addr := echo(t, "127.0.0.1:0")
	came := canary(t, "127.0.0.2:"+port(addr))
	resolver, _ := names(t, map[string][][]string{"rebind.test": {{"127.0.0.1"}, {"127.0.0.2"}}, "mixed.test": {{"127.0.0.2", "127.0.0.1"}}})
	d := open(t, proxy.Config{Resolver: resolver}, policy(addr, ".test"))
	d.connect(t, "rebind.test:"+port(addr))
	if status, answer := d.ask(t, "CONNECT rebind.test:"+port(addr)+" HTTP/1.1\r\n\r\n"); status != http.StatusForbidden || strings.Contains(answer, "127.0.0.2") {
		t.Errorf("second: %s", answer)
	}
	d.connect(t, "mixed.test:"+port(addr))
	if n := came(); n != 0 {
		t.Errorf("the canary was reached %d times", n)
	}
}

// TestNoList checks that without a list every name of the public network may be reached, but no address literal.
func TestNoList(t *testing.T) {
	t.Parallel()
	addr := echo(t, "127.0.0.1:0")
	resolver, _ := names(t, map[string][][]string{"any.test": {{"127.0.0.1"}}, "inner.test": {{"10.0.0.1"}}})
	d := open(t, proxy.Config{Resolver: resolver}, policy(addr))
	d.connect(t, "any.test:"+port(addr))
	for _, host := range []string{"inner.test", "127.0.0.1", "8.8.8.8"} {
		if status, answer := d.ask(t, "CONNECT "+host+":"+port(addr)+" HTTP/1.1\r\n\r\n"); status != http.StatusForbidden {
			t.Errorf("%s: %s", host, answer)
		}
	}
}

// The test checks that endless connections and incomplete requests of one run use up only this run's share of connections (T72).
func TestFloods(t *testing.T) {
	t.Parallel()
	addr := echo(t, "127.0.0.1:0")
	flooding := func(head time.Duration) (flooded, calm *testProxy) {
		p := proxy.New(proxy.Config{Each: 4, All: 6, Head: head})
		flooded, calm = runOf(t, p, policy(addr, "127.0.0.1")), runOf(t, p, policy(addr, "127.0.0.1"))
		for range 12 {
			conn := flooded.dial(t)
			go func() { // sends one byte now and then
				for range 100 {
					if _, err := conn.Write([]byte("G")); err != nil {
						return
					}
					time.Sleep(20 * time.Millisecond)
				}
			}()
		}
		return flooded, calm
	}
	began := time.Now()
	_, calm := flooding(time.Hour) // keeps the twelve connections open
	calm.connect(t, addr)
	if took := time.Since(began); took > 2*time.Minute {
		t.Errorf("another run waited %v", took)
	}
	const head = 500 * time.Millisecond
	began = time.Now()
	flooded, _ := flooding(head)
	slow := flooded.dial(t)
	fmt.Fprintf(slow, "CONNECT %s HTTP/1.1\r\n\r\n", addr) // This connection waits until one of the twelve ends.
	if resp, err := http.ReadResponse(bufio.NewReader(slow), nil); err != nil || resp.StatusCode != 200 {
		t.Errorf("%v, %v", resp, err)
	}
	if took := time.Since(began); took < 3*head {
		t.Errorf("twelve slow ones had more than four slots: %v", took)
	}
}

// runOf starts a run that uses the proxy p.
func runOf(t *testing.T, p *proxy.Proxy, policy *sandbox.Policy) *testProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		p.Serve(ctx, "call", policy, l)
	}()
	d := &testProxy{addr: l.Addr().String(), end: func() { stop(); <-served }}
	t.Cleanup(d.end)
	return d
}

// secrets adds headers to requests, by host.
type secrets map[string]http.Header

func (s secrets) Headers(_ context.Context, r proxy.Plain) (http.Header, error) {
	if r.Tag != "call-1" || r.Port == 0 || r.Policy.Network != sandbox.NetworkProxy {
		return nil, errors.New("nobody knows this call")
	}
	if r.Host == "locked.test" {
		return nil, errors.New("the secret of this host is not there")
	}
	return s[r.Host], nil
}

// The test checks that the proxy adds a secret that the process never sees, and adds it only to plain requests to the right host.
func TestAddedHeaders(t *testing.T) {
	t.Parallel()
	addr := serve(t, seen)
	resolver, _ := names(t, map[string][][]string{"api.test": {{"127.0.0.1"}}, "other.test": {{"127.0.0.1"}}, "locked.test": {{"127.0.0.1"}}})
	d := open(t, proxy.Config{Resolver: resolver, Headers: secrets{"api.test": {"Authorization": {"Bearer s3\r\ncret"}}}}, policy(addr, ".test"))
	get := func(host, more string) (int, string) {
		return d.ask(t, "GET http://"+host+":"+port(addr)+"/ HTTP/1.1\r\n"+more+"\r\n")
	}
	if _, answer := get("api.test", "authorization: Bearer mine\r\n"); !strings.Contains(answer, `Authorization=["Bearer s3cret"]`) {
		t.Errorf("api.test: %s", answer)
	}
	if _, answer := get("other.test", "authorization: Bearer mine\r\n"); !strings.Contains(answer, `Authorization=["Bearer mine"]`) {
		t.Errorf("other.test: %s", answer)
	}
	if _, answer := get("api.test", "Connection: authorization\r\n"); !strings.Contains(answer, `Authorization=["Bearer s3cret"]`) {
		t.Errorf("named as for a proxy: %s", answer)
	}
	if status, answer := get("locked.test", ""); status != http.StatusForbidden || !strings.Contains(answer, "is not there") {
		t.Errorf("locked.test: %s", answer)
	}
}

func FuzzRequest(f *testing.F) {
	for _, seed := range []string{
		"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", "CONNECT a.test:443 HTTP/1.1\r\n\r\n", "POST http://[::1]:80/x?y HTTP/1.0\r\nContent-Length: 1\r\nConnection: x\r\n\r\nz",
		"PUT http://A.test.:080 HTTP/1.1\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n1\r\nx\r\n0\r\n\r\n", "GET http://bücher.test/ HTTP/1.1\r\nProxy-X: y\r\n\r\n",
		"GET http://a.test/% HTTP/1.1\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		host, port, sent, err := proxy.ReadForTest(b)
		if err != nil {
			return
		}
		// The host receives the forwarded text. Go's HTTP parser must read it as one request to the same host and port, with no bytes left
		// over.
		if _, err := netip.ParseAddr(host); err != nil && (host != strings.ToLower(host) || strings.ContainsAny(host, " %@:/\\_\x00")) {
			t.Fatalf("host %q of %q", host, b)
		}
		if sent == "" {
			return
		}
		in := bufio.NewReader(strings.NewReader(sent))
		r, err := http.ReadRequest(in)
		if err != nil {
			t.Fatalf("%q became %q: %v", b, sent, err)
		}
		want := net.JoinHostPort(host, fmt.Sprint(port))
		if got := r.Host; got != want && got+":80" != want || r.Header.Get("Connection") != "close" && !r.Close || in.Buffered() != 0 {
			t.Fatalf("%q became %q: host %q, want %q", b, sent, r.Host, want)
		}
		for name := range r.Header {
			if strings.HasPrefix(name, "Proxy-") || name == "Upgrade" || name == "Te" || name == "Expect" {
				t.Fatalf("%q became %q", b, sent)
			}
		}
	})
}
