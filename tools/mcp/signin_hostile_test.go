package mcp_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/mcp"
	"github.com/toold-dev/toold/tools/mcp/mcptest"
)

// What an authorization server gave is in no message in a way that makes it grow: values shorter than what stands in their
// place stay, or each would be found in the mark of the one before.
func TestShortTokensMakeNoMessageGrow(t *testing.T) {
	srv := httptest.NewServer(mcptest.Over(mcptest.New(eras[0])))
	t.Cleanup(srv.Close)
	v := &vault{text: map[string]string{"w": fmt.Sprintf(
		`{"server":%q,"way":{"client":"c","secret":"~"},"member":{"secret":"[to"},"token":{"refresh_token":"ken]","access_token":"n]"}}`, srv.URL)}}
	w := connect(t, newMemory(), func(c *mcp.Config) { c.Vault = v }, mcp.Entry{Key: "w", URL: srv.URL}).ready()
	sent := strings.Repeat("~", 4<<10)
	if got := w.text("w__echo", `{"text":"`+sent+`"}`); len(got) > 2*len(sent) || !strings.Contains(got, sent) {
		t.Errorf("of %d bytes came %d", len(sent), len(got))
	}
}

// An access token that is too short to be hidden is not put in force.
func TestShortTokenIsRefused(t *testing.T) {
	i, v := issuer(t), &vault{text: map[string]string{}}
	i.Give(map[string]any{"access_token": "short", "token_type": "Bearer", "refresh_token": "refresh-0123456789"})
	w := guest(t, v, mcp.Entry{Key: "w", URL: i.URL + "/mcp"})
	c, rep, asked := w.asks()
	at, err := i.Visit(page(t, asked))
	must(t, err)
	r, err := w.do("w__sign_in", answered(c, rep, asked, addressed(at)))
	must(t, err)
	contains(t, r.ModelText(), "fewer than 8 bytes")
}

// A connection that failed is not gone on with in an earlier era, where it would be ready for a moment and lose the calls of
// that moment.
func TestFailedConnectionIsOver(t *testing.T) {
	h := mcptest.Over(mcptest.New(eras[0]))
	var mu sync.Mutex
	var heard []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte(`"server/discover"`)) {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
			return
		}
		mu.Lock()
		heard = append(heard, r.Method+" "+string(body))
		mu.Unlock()
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	w := connect(t, newMemory(), func(c *mcp.Config) { c.Backoff = time.Hour }, mcp.Entry{Key: "w", URL: srv.URL})
	w.eventually("it is down", func() bool { return w.hub.Sources()[0].State == mcp.Down })
	contains(t, w.hub.Sources()[0].Error, "redirect")
	mu.Lock()
	defer mu.Unlock()
	if len(heard) > 0 {
		t.Errorf("it went on with %q", heard)
	}
}

// A server that answers in the words of a connection that was closed before a call began has run it all the same: it is not
// called again.
func TestClosedConnectionInAnAnswer(t *testing.T) {
	h := mcptest.Over(mcptest.New(eras[0]))
	var calls atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal(body, &m) == nil && m.Method == "tools/call" {
			calls.Add(1)
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32003,"message":"client is closing"}}`, m.ID)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	w := connect(t, newMemory(), nil, mcp.Entry{Key: "w", URL: srv.URL}).ready()
	c, _ := newCall(t, `{"text":"x"}`)
	_, err := w.do("w__echo", c)
	if e := tool.AsError(err); e == nil || e.Reason != "CONNECTION_LOST" || calls.Load() != 1 {
		t.Errorf("it was called %d times and ended with %v", calls.Load(), err)
	}
}
