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

// The test checks that redaction never makes a message longer. Values shorter than the mark are not redacted, because such a value could
// match inside a mark that replaced another value.
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

// The test checks that an access token that is too short to be redacted is not used.
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

// The test checks that the client does not try an earlier era when a connection fails. Such a connection would look ready for a moment, and
// calls in that moment would be lost.
func TestFailedConnectionIsOver(t *testing.T) {
	h := mcptest.Over(mcptest.New(eras[0]))
	var mu sync.Mutex
	var requests []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte(`"server/discover"`)) {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
			return
		}
		mu.Lock()
		requests = append(requests, r.Method+" "+string(body))
		mu.Unlock()
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	w := connect(t, newMemory(), func(c *mcp.Config) { c.Backoff = time.Hour }, mcp.Entry{Key: "w", URL: srv.URL})
	w.eventually("it is down", func() bool { return w.hub.Sources()[0].State == tool.SourceDown })
	contains(t, w.hub.Sources()[0].Error, "redirect")
	mu.Lock()
	defer mu.Unlock()
	if len(requests) > 0 {
		t.Errorf("the client then sent %q", requests)
	}
}

// A server's answer may contain the same text as the error for a connection that closed before the call began. The test checks that such an
// answer is not mistaken for that error: the server has run the call, so it must not run again.
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

// The test checks that a value from an authorization server is redacted in all texts only when it looks like a token. It also checks that
// Config.Known gets the key of the server together with the value (T79).
func TestWordsAreNoTokens(t *testing.T) {
	i, v := issuer(t), &vault{text: map[string]string{}}
	var secrets sync.Map
	w := guest(t, v, mcp.Entry{Key: "w", URL: i.URL + "/mcp"}, func(c *mcp.Config) {
		c.Known = func(server, value string) { secrets.Store(value, server) }
	})
	for _, word := range []string{"application/json", "github.com/toold-dev/toold", "/etc/nginx/nginx.conf", "8c3a4d9f0e1b2a3c4d5e6f708192a3b4c5d6e7f8"} {
		token := "Access-0123456789-" + word
		i.Give(map[string]any{"access_token": token, "token_type": "Bearer", "refresh_token": word})
		c, rep, asked := w.asks()
		at, err := i.Visit(page(t, asked))
		must(t, err)
		_, err = w.do("w__sign_in", answered(c, rep, asked, addressed(at)))
		must(t, err)
		if server, ok := secrets.Load(word); ok {
			t.Errorf("%s of %v is taken out of what others tell", word, server)
		}
		if server, _ := secrets.Load(token); server != "w" {
			t.Errorf("%s is reported with %v", token, server)
		}
	}
}

// The test checks that a new token is redacted before the first request with this token is sent (T79).
func TestTokenIsHiddenBeforeItIsSent(t *testing.T) {
	i, v := issuer(t), &vault{text: map[string]string{}}
	var renewing, refused atomic.Int32
	hiding, release := make(chan struct{}), make(chan struct{})
	w := guest(t, v, mcp.Entry{Key: "w", URL: i.URL + "/mcp"}, func(c *mcp.Config) {
		c.Known = func(string, string) {
			if renewing.CompareAndSwap(1, 2) {
				close(hiding)
				<-release
			}
		}
	}).signIn(i)
	i.Refuse(func(http.ResponseWriter) { refused.Add(1) })
	renewing.Store(1)
	i.Forget(false)
	before := len(i.Received())
	first := w.running("w__echo", "first")
	<-hiding
	second := w.running("w__echo", "second")
	w.eventually("the second call is sent", func() bool { return refused.Load() > 1 || len(i.Received()) > before })
	if received := i.Received(); len(received) > before {
		t.Errorf("the server was sent %v before it was hidden", received[before:])
	}
	close(release)
	for _, c := range []chan string{first, second} {
		contains(t, <-c, "you said")
	}
}

// The test checks that the access token is not replaced when a renewal returns a token that is not a bearer token. The new refresh token is
// used.
func TestRenewalOfAnotherType(t *testing.T) {
	i, v := issuer(t), &vault{text: map[string]string{}}
	w := guest(t, v, mcp.Entry{Key: "w", URL: i.URL + "/mcp"}).signIn(i)
	i.Give(map[string]any{"access_token": "Mac-0123456789", "token_type": "mac", "refresh_token": "Next-0123456789"})
	i.Forget(false)
	c, _ := newCall(t, `{"text":"x"}`)
	asked, err := w.do("w__echo", c)
	must(t, err)
	page(t, asked)
	if received := strings.Join(i.Received(), " "); strings.Contains(received, "Mac-") {
		t.Errorf("the server was sent %s", received)
	}
	w.eventually("what came with it is what the next one is asked for with", func() bool { return i.Last().Get("refresh_token") == "Next-0123456789" })
}

// The test checks that no request waits for a renewal while the token is still valid, and that a failed renewal is not repeated for each
// request.
func TestEarlyRenewalKeepsNobodyWaiting(t *testing.T) {
	i, v := issuer(t), &vault{text: map[string]string{}}
	e := mcp.Entry{Key: "w", URL: i.URL + "/mcp"}
	guest(t, v, e).signIn(i).stop()
	var kept map[string]any
	must(t, json.Unmarshal([]byte(v.kept("w")), &kept))
	kept["token"].(map[string]any)["expiry"] = time.Now().Add(20 * time.Second)
	text, err := json.Marshal(kept)
	must(t, err)
	must(t, v.Save("w", text))
	i.Give(map[string]any{"access_token": "short", "token_type": "Bearer"})
	before, release := i.Requests(), i.Hold()
	w := connect(t, newMemory(), func(c *mcp.Config) { c.Vault = v }, e).ready()
	contains(t, w.text("w__echo", `{"text":"hello"}`), "hello")
	release()
	for range 3 {
		contains(t, w.text("w__echo", `{"text":"goes on"}`), "goes on")
	}
	if n := i.Requests() - before; n != 1 {
		t.Errorf("it was tried %d times", n)
	}
}

// The test checks that the first of two concurrent sign-ins is used.
func TestTwoSignInsAtOnce(t *testing.T) {
	i, v := issuer(t), &saves{vault: vault{text: map[string]string{}}}
	w := guest(t, v, mcp.Entry{Key: "w", URL: i.URL + "/mcp"})
	signIn, _ := w.tools.Lookup("w__sign_in")
	release := i.Hold()
	t.Cleanup(release)
	var both sync.WaitGroup
	before := i.Requests()
	for range 2 {
		c, rep, asked := w.asks()
		at, err := i.Visit(page(t, asked))
		must(t, err)
		both.Go(func() { _, _ = signIn.Tool.Execute(t.Context(), answered(c, rep, asked, addressed(at))) })
		w.eventually("it is exchanged", func() bool { return i.Requests() > before })
		before = i.Requests()
	}
	release()
	both.Wait()
	if n := len(v.visits()); n != 1 {
		t.Errorf("%d visits counted", n)
	}
}

// saves is a vault that records all visits.
type saves struct {
	vault
	mu  sync.Mutex
	all map[string]bool
}

func (s *saves) Save(key string, text []byte) error {
	var r struct{ Visit string }
	if json.Unmarshal(text, &r) == nil && r.Visit != "" {
		s.mu.Lock()
		if s.all == nil {
			s.all = map[string]bool{}
		}
		s.all[r.Visit] = true
		s.mu.Unlock()
	}
	return s.vault.Save(key, text)
}

func (s *saves) visits() map[string]bool { s.mu.Lock(); defer s.mu.Unlock(); return s.all }

// The test checks that the status line of an authorization server's refusal is shortened and cleaned like other texts.
func TestStatusOfARefusal(t *testing.T) {
	i, v := issuer(t), &vault{text: map[string]string{}}
	w := guest(t, v, mcp.Entry{Key: "w", URL: i.URL + "/mcp"})
	i.Give(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 400 \x1b[31m"+strings.Repeat("red ", 1000)+"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		_ = conn.Close()
	}))
	c, rep, asked := w.asks()
	at, err := i.Visit(page(t, asked))
	must(t, err)
	r, err := w.do("w__sign_in", answered(c, rep, asked, addressed(at)))
	must(t, err)
	text := r.ModelText()
	contains(t, text, "answered 400")
	if len(text) > 1000 || strings.Contains(text, "\x1b") {
		t.Errorf("it says %d bytes: %.80q", len(text), text)
	}
}
