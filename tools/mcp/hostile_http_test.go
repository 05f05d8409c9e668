package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/mcp"
	"github.com/toold-dev/toold/tools/mcp/mcptest"
)

// restarted is an HTTP server that a test can stop and start again at the same address.
type restarted struct {
	t       *testing.T
	address string
	s       *httptest.Server
}

func (r *restarted) start(h http.Handler) {
	r.t.Helper()
	var l net.Listener
	var err error
	for range 100 {
		if l, err = net.Listen("tcp", r.address); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	must(r.t, err)
	r.address = l.Addr().String()
	r.s = &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	r.s.Start()
}

func (r *restarted) end() {
	r.s.CloseClientConnections()
	r.s.Close()
}

// The test stops an HTTP server and starts it again, in every era. Meanwhile, the source is not READY, and a call waits or fails with
// CONNECTION_LOST. After the restart, calls succeed again.
func TestHTTPReconnect(t *testing.T) {
	for _, quiet := range []bool{false, true} { // A quiet server sends no stream of messages, so the end of a stream cannot show that it has stopped.
		for _, era := range eras {
			t.Run(fmt.Sprint(era, quiet), func(t *testing.T) {
				var servers []*sdk.Server
				t.Cleanup(func() { // This must run after the hub has ended, because the hub would open new sessions.
					for _, server := range servers {
						for s := range server.Sessions() {
							_ = s.Close() // No client uses the session any more, so an error does not matter.
						}
					}
				})
				handler := func() http.Handler {
					server := mcptest.New(era)
					servers = append(servers, server)
					h := mcptest.Over(server)
					if !quiet {
						return h
					}
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if r.Method == http.MethodGet {
							http.Error(w, "no stream", http.StatusMethodNotAllowed)
							return
						}
						h.ServeHTTP(w, r)
					})
				}
				s := &restarted{t: t, address: stays(t)}
				s.start(handler())
				t.Cleanup(func() { s.end() })
				w := connect(t, newMemory(), func(c *mcp.Config) { c.Wait = time.Minute }, mcp.Entry{Key: "w", URL: "http://" + s.address}).ready()
				s.end()
				c, _ := newCall(t, `{"text":"lost"}`)
				calling := make(chan string, 1)
				e, _ := w.tools.Lookup("w__echo")
				go func() {
					r, err := e.Tool.Execute(context.Background(), c)
					if err != nil {
						calling <- "error: " + tool.AsError(err).Reason
						return
					}
					calling <- r.ModelText()
				}()
				w.eventually("it is down", func() bool { return w.hub.Sources()[0].State != tool.SourceReady })
				s.start(handler())
				w.ready()
				if text := <-calling; !strings.Contains(text, "lost") && text != "error: CONNECTION_LOST" {
					t.Errorf("the call ended with %q", text)
				}
				contains(t, w.text("w__echo", `{"text":"again"}`), "again")
			})
		}
	}
}

// The test checks that HTTP servers that violate the protocol become DOWN with a reason, and that no goroutine or connection remains.
func TestT76HTTPHabits(t *testing.T) {
	var n atomic.Int32
	answer := func(w http.ResponseWriter, r *http.Request, list string) {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		w.Header().Set("Content-Type", "application/json")
		if len(m.ID) == 0 {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		began(m.Method, m.ID, list, func(format string, args ...any) { fmt.Fprintf(w, format, args...) })
	}
	habits := map[string]http.HandlerFunc{
		"changing sessions": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Mcp-Session-Id", fmt.Sprint(n.Add(1)))
			answer(w, r, oneTool)
		},
		"huge headers": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
			answer(w, r, oneTool)
		},
		"no end": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for r.Context().Err() == nil {
				fmt.Fprint(w, ": nothing\n\n")
				http.NewResponseController(w).Flush()
				time.Sleep(time.Millisecond)
			}
		},
		"listening fails": func(w http.ResponseWriter, r *http.Request) {
			var m struct {
				ID     json.RawMessage `json:"id"`
				Method string          `json:"method"`
			}
			_ = json.NewDecoder(r.Body).Decode(&m)
			if m.Method == "server/discover" {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"x","version":"1"},"ttlMs":0,"cacheScope":"private"}}`, m.ID)
				return
			}
			http.Error(w, "no", http.StatusInternalServerError)
		},
		"a page": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html>welcome")
		},
	}
	var entries []mcp.Entry
	for name, h := range habits {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		t.Cleanup(s.CloseClientConnections)
		entries = append(entries, mcp.Entry{Key: name, URL: s.URL})
	}
	w := connect(t, newMemory(), func(c *mcp.Config) { c.Connect = 500 * time.Millisecond }, entries...)
	w.eventually("all failed some times", func() bool {
		for _, s := range w.hub.Sources() {
			if s.Starts < 4 {
				return false
			}
		}
		return true
	})
	for _, s := range w.hub.Sources() {
		if s.Error == "" {
			t.Errorf("%s: %+v", s.Name, s)
		}
	}
}
