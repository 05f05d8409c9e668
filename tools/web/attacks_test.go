package web_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/toold-dev/toold/tools/web"
)

func TestT48FetchOfPrivateAddresses(t *testing.T) {
	fetch := tools(t, web.Config{})["fetch"]
	for _, host := range []string{
		"127.0.0.1", "[::1]", "0.0.0.0", "169.254.169.254", "[fd00:ec2::254]", "10.0.0.1", "192.168.0.1", "[::ffff:127.0.0.1]", "[64:ff9b::a9fe:a9fe]", "[fe80::1%25eth0]",
	} {
		if got := refused(t, fetch, "http://"+host+"/"); got != "URL_REFUSED" {
			t.Errorf("%s: %s", host, got)
		}
	}
	s := serve(t, html("<p>secret"))
	if got := refused(t, fetch, strings.Replace(s.URL, "127.0.0.1", "localhost", 1)); got != "ADDRESS_REFUSED" {
		t.Errorf("localhost: %s", got)
	}
}

func TestT50NumbersInDisguise(t *testing.T) {
	fetch := tools(t, web.Config{Addresses: local})["fetch"]
	for _, target := range []string{
		"http://2130706433/", "http://0x7f.1/", "http://0177.0.0.1/", "http://127.1/", "http://0x7f000001/", "http://127.0.0.1./x/..", "http://1.2.3.256/", "http://１２７.0.0.1/", "http://a.0x1/",
		"file:///etc/passwd", "gopher://127.0.0.1/", "javascript:alert(1)", "data:text/html,x", "http://", "http:///x", "//host/x", "host/x", "",
		"http://user:pass@example.com/", "http://example.com:0/", "http://example.com:99999/", "http://exa mple.com/", "http://example.com\\@127.0.0.1/", "http://exam\x00ple.com/", "http://example.com/\nHost: x",
		"http://exa%6dple.com%00/", "http://under_score.com/", "http://a..b/", "http://" + strings.Repeat("a", 300) + ".com/", "http://example.com/" + strings.Repeat("a", 9000),
	} {
		if target == "http://127.0.0.1./x/.." {
			continue // An address with a dot at its end parses as a host name, not as an IP address. A check below covers it.
		}
		if got := refused(t, fetch, target); got != "URL_REFUSED" {
			t.Errorf("%q: %s", target, got)
		}
	}
	if got := refused(t, fetch, "http://127.0.0.1./"); got != "URL_REFUSED" {
		t.Errorf("an address with a dot: %s", got)
	}
}

func TestT51Redirects(t *testing.T) {
	addr, came := canary(t)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		to := map[string]string{
			"/metadata": "http://169.254.169.254/latest", "/canary": "http://" + addr + "/", "/named": strings.Replace("http://"+addr+"/", "127.0.0.2", "[::ffff:127.0.0.2]", 1),
			"/file": "file:///etc/passwd", "/disguised": "http://2130706434/", "/user": "http://a:b@127.0.0.1/", "/loop": "/loop", "/5": "/4", "/4": "/3", "/3": "/2", "/2": "/1", "/1": "/0", "/6": "/5",
		}[r.URL.Path]
		if to == "" {
			fmt.Fprint(w, "arrived")
			return
		}
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusFound)
	})
	fetch := tools(t, web.Config{Addresses: local})["fetch"]
	for _, path := range []string{"/metadata", "/canary", "/named", "/file", "/disguised", "/user", "/loop", "/6"} {
		if got := refused(t, fetch, s.URL+path); got != "FETCH_FAILED" && got != "ADDRESS_REFUSED" {
			t.Errorf("%s: %s", path, got)
		}
	}
	if p := fetched(t, fetch, map[string]any{"url": s.URL + "/5"}); p.Content != "arrived" || p.URL != s.URL+"/0" {
		t.Errorf("five redirects: %+v", p)
	}
	if n := came(); n != 0 {
		t.Errorf("the canary was reached %d times", n)
	}
	safe := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, s.URL+"/plain", http.StatusFound)
	}))
	defer safe.Close()
	roots := x509.NewCertPool()
	roots.AddCert(safe.Certificate())
	r, err := run(t, tools(t, web.Config{Addresses: local, RootCAs: roots})["fetch"], map[string]any{"url": safe.URL})
	if err != nil || !r.IsError() {
		t.Fatalf("https to http: %+v, %v", r, err)
	}
	contains(t, r.ModelText(), "from https to http")
}

// nameServer returns a resolver. It answers the first query for an IPv4 address with the first list, the second query with the second list,
// and so on. It repeats the last list.
func nameServer(t *testing.T, lists ...[]string) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	asked := 0
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
			m.Response, m.Additionals = true, nil
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				for _, a := range lists[min(asked, len(lists)-1)] {
					m.Answers = append(m.Answers, dnsmessage.Resource{
						Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}, Body: &dnsmessage.AResource{A: [4]byte(net.ParseIP(a).To4())},
					})
				}
				asked++
			}
			if packed, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(packed, from)
			}
		}
	}()
	t.Cleanup(func() { conn.Close(); <-done })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func TestT52Rebinding(t *testing.T) {
	addr, came := canary(t)
	_, port, _ := net.SplitHostPort(addr)
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: html("<p>public"), ReadHeaderTimeout: time.Minute}}
	s.Start()
	defer s.Close()
	fetch := tools(t, web.Config{Addresses: local, Resolver: nameServer(t, []string{"127.0.0.1"}, []string{"127.0.0.2"})})["fetch"]
	target := "http://rebind.test:" + port
	if p := fetched(t, fetch, map[string]any{"url": target}); p.Content != "public" {
		t.Fatalf("first: %+v", p)
	}
	if got := refused(t, fetch, target); got != "ADDRESS_REFUSED" {
		t.Errorf("second: %s", got)
	}
	mixed := tools(t, web.Config{Addresses: local, Resolver: nameServer(t, []string{"127.0.0.2", "127.0.0.1"})})["fetch"]
	if p := fetched(t, mixed, map[string]any{"url": target}); p.Content != "public" {
		t.Errorf("mixed: %+v", p)
	}
	if n := came(); n != 0 {
		t.Errorf("the canary was reached %d times", n)
	}
}

// heap returns the number of bytes allocated so far. A test reads the number before and after a fetch. The difference must be small,
// although the page is a bomb.
func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func TestT53BombsAndEndlessPages(t *testing.T) {
	const limit = 1 << 20
	var bomb bytes.Buffer
	z, zeros := gzip.NewWriter(&bomb), make([]byte, 1<<20)
	for range 256 {
		_, _ = z.Write(zeros)
	}
	z.Close()
	var empty bytes.Buffer // gzip members without content
	gzip.NewWriter(&empty).Close()
	empties := bytes.Repeat(empty.Bytes(), 8<<20/empty.Len())
	var wrote atomic.Int64
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		switch r.URL.Path {
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb.Bytes())
		case "/empty":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(empties)
		case "/endless":
			for chunk := bytes.Repeat([]byte("endless "), 4096); r.Context().Err() == nil; {
				n, err := w.Write(chunk)
				if wrote.Add(int64(n)); err != nil {
					return
				}
			}
		case "/headers":
			for i := range 100_000 {
				w.Header().Add(fmt.Sprint("X-", i), "x")
			}
		case "/slow":
			_, _ = w.Write([]byte("o"))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case "/mute":
			<-r.Context().Done()
		}
	})
	fetch := tools(t, web.Config{Addresses: local, MaxBytes: limit})["fetch"]
	before := heap()
	if p := fetched(t, fetch, map[string]any{"url": s.URL + "/bomb", "format": "raw"}); !p.Truncated || p.Bytes != limit {
		t.Errorf("bomb: %d bytes, cut %v", p.Bytes, p.Truncated)
	}
	if took := heap() - before; took > 64*limit {
		t.Errorf("the bomb took %d bytes", took)
	}
	if p := fetched(t, fetch, map[string]any{"url": s.URL + "/empty"}); !p.Truncated || p.Bytes != 0 {
		t.Errorf("empty members: %d bytes, cut %v", p.Bytes, p.Truncated)
	}
	if p := fetched(t, fetch, map[string]any{"url": s.URL + "/endless"}); !p.Truncated || p.Bytes != limit {
		t.Errorf("endless: %d bytes, cut %v", p.Bytes, p.Truncated)
	}
	if got := refused(t, fetch, s.URL+"/headers"); got != "FETCH_FAILED" {
		t.Errorf("headers: %s", got)
	}
	slow := tools(t, web.Config{Addresses: local, Timeout: 1500 * time.Millisecond})["fetch"] // long enough for the first bytes to arrive
	if p := fetched(t, slow, map[string]any{"url": s.URL + "/slow"}); !p.Truncated || p.Content != "o" {
		t.Errorf("slow: %+v", p)
	}
	mute := tools(t, web.Config{Addresses: local, Timeout: 200 * time.Millisecond})["fetch"]
	if got := refused(t, mute, s.URL+"/mute"); got != "FETCH_TIMEOUT" {
		t.Errorf("mute: %s", got)
	}
}

func TestHostileMarkup(t *testing.T) {
	for name, body := range map[string]string{
		"deep":       strings.Repeat("<div>", 400_000) + "inside",
		"formatting": strings.Repeat("<b><p>", 200_000) + "inside",
		"tables":     strings.Repeat("<table><tr><td>", 100_000) + "inside",
		"attributes": "<p " + strings.Repeat("a=b ", 400_000) + ">inside",
		"ends":       strings.Repeat("</div>", 400_000) + "inside",
		"links":      strings.Repeat("<a href=x>", 200_000) + "inside",
		"lists":      strings.Repeat("<ul><li>", 200_000) + "inside",
		"quotes":     strings.Repeat("<blockquote>", 200_000) + "inside",
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, html(body))
			for _, format := range []string{"markdown", "text"} {
				p := fetched(t, tools(t, web.Config{Addresses: local})["fetch"], map[string]any{"url": s.URL, "format": format})
				if format == "text" {
					contains(t, p.Content, "inside")
				}
			}
		})
	}
}
