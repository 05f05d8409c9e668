package web_test

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/toold-dev/toold/sandbox/address"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/tooltest"
	"github.com/toold-dev/toold/tool/typed"
	"github.com/toold-dev/toold/tools/web"
)

func TestMain(m *testing.M) {
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} { // The variables must be set before the first test, because Go reads them once per process (T54).
		_ = os.Setenv(name, "http://127.0.0.2:1")
	}
	goleak.VerifyTestMain(m)
}

// local permits 127.0.0.1, the address of the test servers. It does not permit 127.0.0.2, which the tests use as an address that must not
// be reached.
var local = address.Rules{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}

func tools(t *testing.T, cfg web.Config) map[string]tool.Tool {
	t.Helper()
	list, err := web.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	byID := map[string]tool.Tool{}
	for _, one := range list {
		byID[one.Descriptor().ID] = one
	}
	return byID
}

// run validates and executes a call as the engine does.
func run(t *testing.T, one tool.Tool, args map[string]any) (*tool.Result, error) {
	t.Helper()
	call := &tool.Call{Arguments: typed.Args(args), Reporter: &tooltest.Recorder{}}
	if v, ok := one.(tool.Validator); ok {
		if err := v.Validate(call.Arguments); err != nil {
			return nil, err
		}
	}
	return one.Execute(t.Context(), call)
}

// A page is the data of a fetch.
type page struct {
	URL, Title, Format, Content, Artifact string
	ContentType                           string `json:"content_type"`
	Status                                int
	Bytes                                 int64
	Truncated                             bool
}

func fetched(t *testing.T, one tool.Tool, args map[string]any) (p page) {
	t.Helper()
	r, err := run(t, one, args)
	if err != nil || !r.IsSuccess() {
		t.Fatalf("fetch %v: %v, %v", args, r.ModelText(), err)
	}
	if err := json.Unmarshal([]byte(r.Data), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// refused checks that a URL is not fetched, and returns the reason.
func refused(t *testing.T, one tool.Tool, target string) string {
	t.Helper()
	r, err := run(t, one, map[string]any{"url": target})
	var e *tool.Error
	switch {
	case errors.As(err, &e):
		return e.Reason
	case err != nil || !r.IsError():
		t.Fatalf("fetch %s: %v, %v, want a refusal", target, r.ModelText(), err)
	}
	return r.Error.Reason
}

func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// canary listens on an address that must not be reached. came returns the number of connections to it.
func canary(t *testing.T) (addr string, came func() int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.2:0")
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
	return l.Addr().String(), n.Load
}

func html(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(body))
	}
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is not in\n%s", p, text)
		}
	}
}
