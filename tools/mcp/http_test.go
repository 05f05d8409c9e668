package mcp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/mcp"
	"github.com/toold-dev/toold/tools/mcp/mcptest"
)

// overHTTP returns an entry for a test server over HTTP that requires a token.
func overHTTP(t *testing.T, key string, h http.Handler) mcp.Entry {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer right" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	return mcp.Entry{Key: key, URL: s.URL + "/mcp", Headers: map[string]string{"Authorization": "Bearer right"}}
}

func TestHTTP(t *testing.T) {
	for _, era := range eras {
		t.Run(era, func(t *testing.T) {
			w := connect(t, newMemory(), nil, overHTTP(t, "w", mcptest.Handler(era))).ready()
			c, _ := newCall(t, `{"text":"hi","big":18446744073709551615}`)
			r, err := w.do("w__echo", c)
			must(t, err)
			if r.Data != `{"text":"hi","big":18446744073709551615}` {
				t.Errorf("data %s: a digit was lost on the way", r.Data)
			}
			c, rep := newCall(t, `{}`)
			asked, err := w.do("w__ask", c)
			must(t, err)
			if !asked.IsPending() {
				t.Fatalf("the result is %+v", asked)
			}
			r, err = w.do("w__ask", answered(c, rep, asked, `{"name":"Ada"}`))
			must(t, err)
			contains(t, r.Message, "hello Ada")
			contains(t, w.text("w__change", `{}`), "changed")
			w.eventually("the list is another one", func() bool { _, ok := w.tools.Lookup("w__grown"); return ok })
		})
	}
}

// The test checks that the client follows no redirect, because its token must not reach another address.
func TestHTTPRedirect(t *testing.T) {
	var reached atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(other.Close)
	w := connect(t, newMemory(), nil, overHTTP(t, "w", http.RedirectHandler(other.URL, http.StatusTemporaryRedirect)))
	w.eventually("it is refused", func() bool { return strings.Contains(w.hub.Sources()[0].Error, "redirect") })
	if reached.Load() > 0 {
		t.Error("the other address was asked")
	}
}

// The test uses HTTP servers that send endless events, or answers to unknown requests (T76). It checks that their connections are ended,
// and that other servers keep working.
func TestT76HTTP(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	endless := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: ")
		for range 64 {
			if _, err := fmt.Fprint(w, long); err != nil {
				return
			}
		}
	}
	foreign := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 100 {
			fmt.Fprintf(w, "event: message\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"id\":%d,\"result\":{}}\n\n", 1000+i)
		}
	}
	w := connect(t, newMemory(), nil, overHTTP(t, "endless", http.HandlerFunc(endless)), overHTTP(t, "foreign", http.HandlerFunc(foreign)), own(t, "other", "good"))
	w.eventually("both are ended", func() bool {
		s := w.hub.Sources()
		return strings.Contains(s[0].Error, "more than 16777216 bytes") && strings.Contains(s[1].Error, "responses without a request")
	})
	w.eventually("the other one is ready", func() bool { return w.hub.Sources()[2].State == tool.SourceReady })
	contains(t, w.text("other__echo", `{"text":"here"}`), "here")
}
