package proxy_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/toold-dev/toold/sandbox/proxy"
)

// seen returns the request as the test server saw it.
func seen(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s host=%s te=%v cl=%d body=%s err=%v", r.Method, r.RequestURI, r.Host, r.TransferEncoding, r.ContentLength, body, err)
	for _, name := range []string{"X-Own", "X-Named", "Proxy-Authorization", "Authorization", "Te", "Upgrade", "Expect", "User-Agent"} {
		if v := r.Header.Values(name); len(v) > 0 {
			fmt.Fprintf(w, " %s=%q", name, v)
		}
	}
}

func TestPlainRequests(t *testing.T) {
	t.Parallel()
	addr := serve(t, seen)
	p := port(addr)
	resolver, _ := names(t, map[string][][]string{"server.test": {{"127.0.0.1"}}})
	d := open(t, proxy.Config{Resolver: resolver}, policy(addr, "server.test"))
	at := "http://server.test:" + p
	for _, tt := range []struct{ name, request, want string }{
		{"no host", "GET " + at + "/a?b=c HTTP/1.0\r\n\r\n", "GET /a?b=c host=server.test:" + p + " te=[] cl=0 body= err=<nil>"},
		{"host", "GET " + at + "//x HTTP/1.1\r\nHost: server.test:" + p + "\r\n\r\n", "GET //x host=server.test:" + p + " te=[]"},
		{"scheme and host in capitals, a dot", "GET HTTP://SERVER.test.:" + p + " HTTP/1.1\r\nHost: Server.Test:" + p + "\r\n\r\n", "GET / host=server.test:" + p + " te=[]"},
		{"query alone", "GET " + at + "?q HTTP/1.1\r\n\r\n", "GET /?q host="},
		{"body", "POST " + at + "/ HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello, and more", "cl=5 body=hello err=<nil>"},
		{"empty body", "POST " + at + "/ HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "cl=0 body= err=<nil>"},
		{"chunks", "POST " + at + "/ HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", "te=[chunked] cl=-1 body=hello err=<nil>"},
		{
			"what is for the proxy stays here",
			"GET " + at + "/ HTTP/1.1\r\nConnection: keep-alive, X-Named\r\nX-Named: 1\r\nX-Own: 2\r\nProxy-Authorization: Basic x\r\nTE: trailers\r\nUpgrade: h2c\r\nUser-Agent: me\r\n\r\n",
			`err=<nil> X-Own=["2"] User-Agent=["me"]`,
		},
		{"a body that waits", "POST " + at + "/ HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi", "100 Continue\r\n\r\nHTTP/1.1 200 OK"},
		{"one request for a connection", "GET " + at + "/1 HTTP/1.1\r\n\r\nGET " + at + "/2 HTTP/1.1\r\n\r\n", "GET /1 "},
	} {
		_, answer := d.ask(t, tt.request)
		if !strings.Contains(answer, tt.want) || !strings.Contains(answer, "Connection: close\r\n") || strings.Contains(answer, "GET /2") {
			t.Errorf("%s: %s, want %s", tt.name, answer, tt.want)
		}
	}
}

func TestTunnel(t *testing.T) {
	t.Parallel()
	addr := echo(t, "127.0.0.1:0")
	d := open(t, proxy.Config{}, policy(addr, "127.0.0.1"))
	conn, in := d.connect(t, addr)
	fmt.Fprint(conn, "ping")
	if b := make([]byte, 4); true {
		if _, err := io.ReadFull(in, b); err != nil || string(b) != "ping" {
			t.Fatalf("%q, %v", b, err)
		}
	}
	fmt.Fprint(conn, strings.Repeat("x", 1<<20))
	_ = conn.CloseWrite() // The proxy must pass on the end of file, and the answer must still arrive.
	rest, err := io.ReadAll(in)
	if err != nil || len(rest) != 1<<20 {
		t.Fatalf("%d bytes, %v", len(rest), err)
	}
	d.end()
	events := d.reported()
	if len(events) != 1 || len(d.sums) != 1 {
		t.Fatalf("%+v, %+v", events, d.sums)
	}
	const all = 1<<20 + 4
	e := events[0]
	if e.Tag != "call-1" || e.Method != "CONNECT" || e.Host != "127.0.0.1" || e.Verdict != proxy.Allowed || e.Address != addr || e.Up != all || e.Down != all || e.Took <= 0 {
		t.Errorf("%+v", e)
	}
	if s := d.sums[0]; s.Requests != 1 || s.Refused != 0 || s.Up != all || s.Down != all {
		t.Errorf("%+v", s)
	}
}

// Bytes that the process sends after a CONNECT, before its answer, go through the tunnel.
func TestEagerTunnel(t *testing.T) {
	t.Parallel()
	addr := echo(t, "127.0.0.1:0")
	d := open(t, proxy.Config{}, policy(addr, "127.0.0.1"))
	conn := d.dial(t)
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.0\r\n\r\nearly", addr)
	_ = conn.CloseWrite()
	if b, err := io.ReadAll(conn); err != nil || string(b) != "HTTP/1.1 200 Connection established\r\n\r\nearly" {
		t.Errorf("%q, %v", b, err)
	}
}

// The test checks that no tunnel and no request, even an incomplete one, remains after its run.
func TestNothingOutlivesTheRun(t *testing.T) {
	t.Parallel()
	hung := make(chan struct{})
	slow := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		_ = http.NewResponseController(w).Flush()
		close(hung)
		<-r.Context().Done()
	})
	d := open(t, proxy.Config{}, policy(slow, "127.0.0.1"))
	conn, in := d.connect(t, slow) // a server that only answers when it receives something
	half := d.dial(t)
	fmt.Fprint(half, "GET http://")
	plain := d.dial(t)
	fmt.Fprintf(plain, "GET http://%s/ HTTP/1.1\r\n\r\n", slow)
	<-hung
	began := time.Now()
	d.end()
	if took := time.Since(began); took > 2*time.Minute {
		t.Errorf("the end took %v", took)
	}
	for name, r := range map[string]io.Reader{"tunnel": in, "half": half, "plain": plain} {
		if b, err := io.ReadAll(r); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if _, err := net.Dial("tcp", d.addr); err == nil {
		t.Error("the proxy still listens")
	}
	conn.Close()
}

func TestIdleTunnelsEnd(t *testing.T) {
	t.Parallel()
	addr := echo(t, "127.0.0.1:0")
	d := open(t, proxy.Config{Idle: 1500 * time.Millisecond}, policy(addr, "127.0.0.1"))
	conn, in := d.connect(t, addr)
	began := time.Now()
	for range 4 { // takes longer than the idle time, but is never idle
		time.Sleep(500 * time.Millisecond)
		fmt.Fprint(conn, "x")
		if _, err := in.ReadByte(); err != nil {
			t.Fatalf("ended after %v: %v", time.Since(began), err)
		}
	}
	if _, err := in.ReadByte(); err == nil {
		t.Error("something came")
	}
	if took := time.Since(began); took > 2*time.Minute {
		t.Errorf("it took %v", took)
	}
}

func TestHostsThatAreNotThere(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	resolver, _ := names(t, map[string][][]string{"gone.test": {{"127.0.0.1"}}})
	d := open(t, proxy.Config{Resolver: resolver}, policy(addr, "gone.test", "unknown.test"))
	for _, host := range []string{"gone.test", "unknown.test"} {
		for _, request := range []string{"GET http://%s:%s/ HTTP/1.1\r\n\r\n", "CONNECT %s:%s HTTP/1.1\r\n\r\n"} {
			if status, answer := d.ask(t, fmt.Sprintf(request, host, port(addr))); status != http.StatusBadGateway {
				t.Errorf("%s: %s", host, answer)
			}
		}
	}
	d.end()
	for _, e := range d.reported() {
		if e.Verdict != proxy.Failed || e.Why == "" {
			t.Errorf("%+v", e)
		}
	}
}

// The test checks that the process gets the status 502 when the host sends a malformed answer or never ends the head of an answer.
func TestBrokenAnswers(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"nothing": "", "garbage": "hello\r\n\r\n", "no head": "HTTP/1.1 200 OK\r\nX: y\r\n", "a flood": "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 20_000) + "\r\n",
		"a long line": "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", 100_000) + "\r\n\r\n", "an upgrade": "HTTP/1.1 101 Switching Protocols\r\n\r\n",
		"interim without end": strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 50),
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			if c, err := l.Accept(); err == nil {
				_, _ = io.WriteString(c, answer)
				_, _ = c.Read(make([]byte, 4096))
				c.Close()
			}
		}()
		d := open(t, proxy.Config{}, policy(l.Addr().String(), "127.0.0.1"))
		if status, got := d.ask(t, fmt.Sprintf("GET http://%s/ HTTP/1.1\r\n\r\n", l.Addr())); status != http.StatusBadGateway && !strings.Contains(got, "HTTP/1.1 502") {
			t.Errorf("%s: %.200s", name, got)
		}
		l.Close()
		<-done
	}
}
