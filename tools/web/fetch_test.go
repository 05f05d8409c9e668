package web_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/tooltest"
	"github.com/toold-dev/toold/tool/typed"
	"github.com/toold-dev/toold/tools/web"
)

const article = `<!doctype html><html><head><title>A  page &amp; more</title><style>p{color:red}</style>
<body><script>alert("no")</script><nav><a href="/home">Home</a></nav><h1>Heading</h1><p>Some <b>bold</b> text and <a href="/next?a=1">a link</a>.</p>
<ul><li>one<li>two</ul><pre><code>x := 1</code></pre><svg><title>drawn</title></svg><noscript>switch it on</noscript></body></html>`

func TestFetch(t *testing.T) {
	s := serve(t, html(article))
	fetch := tools(t, web.Config{Addresses: local})["fetch"]
	md := fetched(t, fetch, map[string]any{"url": s.URL + "/a#part"})
	contains(t, md.Content, "# Heading", "Some **bold** text", "[a link]("+s.URL+"/next?a=1)", "- one", "x := 1")
	if md.URL != s.URL+"/a" || md.Title != "A page & more" || md.Format != "markdown" || md.Status != 200 || md.Truncated || md.Bytes != int64(len(article)) {
		t.Errorf("page = %+v", md)
	}
	text := fetched(t, fetch, map[string]any{"url": s.URL, "format": "text"})
	contains(t, text.Content, "Heading\n", "Some bold text and a link.", "\none\ntwo")
	for _, p := range []page{md, text} {
		for _, removed := range []string{"alert", "color:red", "switch it on", "drawn", "<p>"} {
			if strings.Contains(p.Content, removed) {
				t.Errorf("%s has %q:\n%s", p.Format, removed, p.Content)
			}
		}
	}
	if raw := fetched(t, fetch, map[string]any{"url": s.URL, "format": "raw"}); raw.Content != article || raw.Format != "raw" {
		t.Errorf("raw = %+v", raw)
	}
}

// TestT54FetchSendsNothingOfTheDaemon checks that fetch uses no cookie, no credential and no proxy of the daemon. The URL has a host name,
// because Go never uses a proxy for a local address.
func TestT54FetchSendsNothingOfTheDaemon(t *testing.T) {
	var got http.Header
	var method string
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			http.SetCookie(w, &http.Cookie{Name: "who", Value: "you"})
			http.Redirect(w, r, "/there", http.StatusFound)
			return
		}
		got, method = r.Header.Clone(), r.Method
	})
	fetch := tools(t, web.Config{Addresses: local, UserAgent: "toold/test", Resolver: nameServer(t, []string{"127.0.0.1"})})["fetch"]
	fetched(t, fetch, map[string]any{"url": strings.Replace(s.URL, "127.0.0.1", "page.test", 1) + "/"})
	if method != http.MethodGet || got.Get("User-Agent") != "toold/test" || got.Get("Cookie") != "" || got.Get("Referer") != "" || got.Get("Authorization") != "" {
		t.Errorf("%s with %v", method, got)
	}
}

func TestFetchKeepsWhatIsNoText(t *testing.T) {
	png := append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, 100)...)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/named.bin" {
			w.Header().Set("Content-Type", "text/plain")
			_, _ = w.Write([]byte("text\x00that is none"))
			return
		}
		_, _ = w.Write(png)
	})
	fetch := tools(t, web.Config{Addresses: local})["fetch"]
	kept := &tooltest.Recorder{}
	r, err := fetch.Execute(t.Context(), &tool.Call{Arguments: typed.Args(map[string]any{"url": s.URL + "/pic%2f..png?x=/y"}), Reporter: kept})
	if err != nil || !r.IsSuccess() || len(r.Content) != 1 || r.Content[0].Type != tool.ContentImage || r.Content[0].MIMEType != "image/png" {
		t.Fatalf("%+v, %v", r, err)
	}
	if p := fetched(t, fetch, map[string]any{"url": s.URL + "/named.bin"}); p.Artifact != "named.bin" || p.Content != "" {
		t.Errorf("page = %+v", p)
	}
}

func TestFetchOtherTexts(t *testing.T) {
	for name, tt := range map[string]struct{ kind, body, want string }{
		"json":          {"application/json", `{"a":1}`, `{"a":1}`},
		"windows-1252":  {"text/plain; charset=windows-1252", "caf\xe9 \x80", "café €"},
		"latin1 unsaid": {"text/plain", "caf\xe9", "café"},
		"bom":           {"text/plain; charset=utf-8", "\xef\xbb\xbftext", "text"},
		"broken utf-8":  {"text/plain; charset=utf-8", "a\xffb", "a\uFFFDb"},
		"no type":       {"", "plain words", "plain words"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = nil
				if tt.kind != "" {
					w.Header().Set("Content-Type", tt.kind)
				}
				_, _ = w.Write([]byte(tt.body))
			})
			if p := fetched(t, tools(t, web.Config{Addresses: local})["fetch"], map[string]any{"url": s.URL}); p.Content != tt.want {
				t.Errorf("content = %q, want %q", p.Content, tt.want)
			}
		})
	}
}

func TestFetchFailures(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/404":
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, "<h1>Gone</h1>%s", strings.Repeat("x", 1000))
		case "/503":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/br":
			w.Header().Set("Content-Encoding", "br")
			fmt.Fprint(w, "packed")
		case "/gz":
			w.Header().Set("Content-Encoding", "gzip")
			fmt.Fprint(w, "not packed")
		case "/cut":
			w.Header().Set("Content-Length", "100")
		}
	})
	fetch := tools(t, web.Config{Addresses: local})["fetch"]
	r, err := run(t, fetch, map[string]any{"url": s.URL + "/404"})
	if err != nil || !r.IsError() || r.Error.Reason != "HTTP_404" || r.Error.Retryable || len(r.Error.Message) > 700 {
		t.Fatalf("%+v, %v", r, err)
	}
	contains(t, r.ModelText(), "404 Not Found", "# Gone")
	if r, err = run(t, fetch, map[string]any{"url": s.URL + "/503"}); err != nil || r.Error.Reason != "HTTP_503" || !r.Error.Retryable {
		t.Errorf("%+v, %v", r, err)
	}
	for path, want := range map[string]string{"/br": "br", "/gz": "gzip", "/cut": "ended before"} {
		if r, err = run(t, fetch, map[string]any{"url": s.URL + path}); err != nil || !r.IsError() || r.Error.Reason != "FETCH_FAILED" {
			t.Errorf("%s: %+v, %v", path, r, err)
			continue
		}
		contains(t, r.ModelText(), want)
	}
	s.Close()
	if got := refused(t, fetch, s.URL); got != "FETCH_FAILED" {
		t.Errorf("a closed port: %s", got)
	}
}

func TestFetchIsCancelled(t *testing.T) {
	came, over := make(chan struct{}), make(chan struct{})
	s := serve(t, func(_ http.ResponseWriter, _ *http.Request) { close(came); <-over })
	defer close(over)
	fetch := tools(t, web.Config{Addresses: local})["fetch"]
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("nobody wants it")
	go func() { <-came; cancel(why) }()
	if _, err := fetch.Execute(ctx, &tool.Call{Arguments: typed.Args(map[string]any{"url": s.URL})}); !errors.Is(err, why) {
		t.Errorf("err = %v, want the cause", err)
	}
}

func TestOperatorNamesHosts(t *testing.T) {
	s := serve(t, html("<p>here"))
	at := func(host string) string { return strings.Replace(s.URL, "127.0.0.1", host, 1) }
	for _, tt := range []struct {
		allow, deny []string
		host        string
		want        bool
	}{
		{nil, nil, "127.0.0.1", true},
		{[]string{"example.com"}, nil, "localhost", false},
		{[]string{"LOCALHOST"}, nil, "localhost", true},
		{[]string{"LOCALHOST"}, nil, "LocalHost.", true},
		{nil, []string{"localhost"}, "localhost", false},
		{nil, []string{".localhost"}, "a.localhost", false},
		{nil, []string{".ocalhost"}, "localhost", true},
		{[]string{".localhost"}, []string{"localhost"}, "localhost", false},
	} {
		fetch := tools(t, web.Config{Addresses: local, AllowHosts: tt.allow, DenyHosts: tt.deny})["fetch"]
		err := fetch.(tool.Validator).Validate(typed.Args(map[string]any{"url": at(tt.host)}))
		if (err == nil) != tt.want {
			t.Errorf("%+v: %v", tt, err)
		}
	}
	if _, err := web.New(web.Config{AllowHosts: []string{"not a host"}}); err == nil {
		t.Error("a rule that names no host was taken")
	}
}

func TestDescribeFetch(t *testing.T) {
	fetch := tools(t, web.Config{})["fetch"]
	d, err := fetch.(tool.Describer).Describe(t.Context(), &tool.Call{Arguments: typed.Args(map[string]any{"url": "HTTPS://EXAMPLE.com:443/A?b#c"})})
	if err != nil || d.Kind != tool.KindFetch || d.Title != "Fetch https://example.com:443/A?b" {
		t.Errorf("%+v, %v", d, err)
	}
}

// FuzzPage checks that the conversion of any page succeeds.
func FuzzPage(f *testing.F) {
	for _, seed := range []string{article, "<div><div><p><table><tr><td><b><i></b></i>", "<title>x", "<script>", "<svg><title></svg>", "<!--", "<a href='javascript:x'>y</a>", "&#0;&lt;"} {
		f.Add(seed)
	}
	page := "" // All inputs use one server, because one server for each input would use up the ports of the machine.
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { html(page)(w, r) }))
	f.Cleanup(s.Close)
	f.Fuzz(func(t *testing.T, body string) {
		page = body
		for _, format := range []string{"markdown", "text"} {
			fetched(t, tools(t, web.Config{Addresses: local})["fetch"], map[string]any{"url": s.URL, "format": format})
		}
	})
}
