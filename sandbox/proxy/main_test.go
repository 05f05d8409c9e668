package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/sandbox/proxy"
)

func TestMain(m *testing.M) {
	sandbox.Help()
	goleak.VerifyTestMain(m)
}

// A testProxy is a proxy that serves one run.
type testProxy struct {
	addr string
	end  func() // ends the run; returns when the proxy has finished with it

	mu     sync.Mutex
	events []proxy.Event
	sums   []proxy.Summary
}

func (d *testProxy) reported() []proxy.Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]proxy.Event(nil), d.events...)
}

func open(t *testing.T, cfg proxy.Config, policy *sandbox.Policy) *testProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &testProxy{addr: l.Addr().String()}
	cfg.Report = func(e proxy.Event) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.events = append(d.events, e)
	}
	cfg.Summary = func(s proxy.Summary) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.sums = append(d.sums, s)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		proxy.New(cfg).Serve(ctx, "call-1", policy, l)
	}()
	d.end = func() { stop(); <-served }
	t.Cleanup(d.end)
	return d
}

// ask sends text and returns the status and the whole answer.
func (d *testProxy) ask(t *testing.T, text string) (status int, answer string) {
	t.Helper()
	conn := d.dial(t)
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(conn)
	if err != nil {
		t.Fatalf("%.60q: %v after %q", text, err, b)
	}
	_, _ = fmt.Sscanf(string(b), "HTTP/1.1 %d", &status)
	return status, string(b)
}

func (d *testProxy) dial(t *testing.T) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", d.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	return conn.(*net.TCPConn)
}

func (d *testProxy) connect(t *testing.T, to string) (*net.TCPConn, *bufio.Reader) {
	t.Helper()
	conn := d.dial(t)
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", to, to)
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, &http.Request{Method: http.MethodConnect})
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("CONNECT %s: %v, %v", to, resp, err)
	}
	return conn, in
}

// policy allows some hosts at the port of a test server.
func policy(addr string, hosts ...string) *sandbox.Policy {
	return &sandbox.Policy{
		Network: sandbox.NetworkProxy, Hosts: hosts, Ports: []uint16{netip.MustParseAddrPort(addr).Port()},
		Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
	}
}

func serve(t *testing.T, h http.HandlerFunc) (addr string) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// echo starts a server that returns what it receives.
func echo(t *testing.T, addr string) string {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			})
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return l.Addr().String()
}

// canary starts a listener that must not be reached. came returns the number of connections.
func canary(t *testing.T, addr string) (came func() int64) {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	var n atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n.Add(1)
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return n.Load
}

// names starts a name server. For each name it answers with one address list after another and repeats the last one. The returned function
// counts the questions.
func names(t *testing.T, table map[string][][]string) (*net.Resolver, func() int64) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var questions atomic.Int64
	asked := map[string]int{}
	go func() {
		defer close(done)
		b := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(b[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			questions.Add(1)
			m.Response, m.Additionals = true, nil
			q := m.Questions[0]
			lists, known := table[strings.TrimSuffix(q.Name.String(), ".")]
			if !known {
				m.RCode = dnsmessage.RCodeNameError
			}
			if known && q.Type == dnsmessage.TypeA {
				for _, a := range lists[min(asked[q.Name.String()], len(lists)-1)] {
					m.Answers = append(m.Answers, dnsmessage.Resource{
						Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}, Body: &dnsmessage.AResource{A: netip.MustParseAddr(a).As4()},
					})
				}
				asked[q.Name.String()]++
			}
			if packed, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(packed, from)
			}
		}
	}()
	t.Cleanup(func() { conn.Close(); <-done })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}, questions.Load
}

func port(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }
