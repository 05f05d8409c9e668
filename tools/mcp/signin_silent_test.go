package mcp_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/toold-dev/toold/tools/mcp"
	"github.com/toold-dev/toold/tools/mcp/mcptest"
)

// troubles returns responses of an authorization server that fail temporarily and are not refusals.
func troubles() map[string]http.HandlerFunc {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "later", code) }
	}
	return map[string]http.HandlerFunc{
		"unavailable": status(http.StatusServiceUnavailable), "too many": status(http.StatusTooManyRequests), "no answer": status(http.StatusOK),
		"no connection": func(w http.ResponseWriter, _ *http.Request) {
			if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
				_ = conn.Close()
			}
		},
	}
}

// The test checks that a temporary failure of an authorization server does not count as a refusal. No person is asked to sign in, and calls
// wait until the failure is over.
func TestSilenceIsNoRefusal(t *testing.T) {
	for name, answer := range troubles() {
		t.Run(name, func(t *testing.T) {
			i, v := issuer(t), &vault{text: map[string]string{}}
			w := guest(t, v, mcp.Entry{Key: "w", URL: i.URL + "/mcp"}).signIn(i)
			i.Break(answer)
			i.Forget(false)
			before := i.Requests()
			call := w.running("w__echo", "waits")
			w.eventually("it is tried again", func() bool { return i.Requests() > before+2 })
			w.eventually("it says why", func() bool { return strings.Contains(w.hub.Sources()[0].Error, "the sign-in was not renewed") })
			i.Break(nil)
			contains(t, <-call, "you said")
		})
	}
}

// The test checks that a temporary failure also does not count as a refusal when the token expired while the daemon was down.
func TestSilenceAtTheStart(t *testing.T) {
	i, v := issuer(t), &vault{text: map[string]string{}}
	w := signedInUntil(t, i, v, -time.Minute)
	i.Break(troubles()["unavailable"])
	i.Forget(false)
	before := i.Requests()
	w = connect(t, w.memory, func(c *mcp.Config) { c.Vault = v }, mcp.Entry{Key: "w", URL: i.URL + "/mcp"})
	w.eventually("it says why", func() bool { return strings.Contains(w.hub.Sources()[0].Error, "answered 503") })
	w.eventually("it is connected to again and again", func() bool { return w.hub.Sources()[0].Starts > 6 })
	if tried, starts := i.Requests()-before, w.hub.Sources()[0].Starts; tried > starts+3 {
		t.Errorf("it was tried %d times in %d connections", tried, starts)
	}
	i.Break(nil)
	w.ready()
	contains(t, w.text("w__echo", `{"text":"goes on"}`), "goes on")
}

// signedInUntil signs in and stops the world. The token expires after the given time.
func signedInUntil(t *testing.T, i *mcptest.Issuer, v *vault, end time.Duration) *world {
	t.Helper()
	w := guest(t, v, mcp.Entry{Key: "w", URL: i.URL + "/mcp"}).signIn(i)
	w.stop()
	var kept map[string]any
	must(t, json.Unmarshal([]byte(v.kept("w")), &kept))
	kept["token"].(map[string]any)["expiry"] = time.Now().Add(end)
	text, err := json.Marshal(kept)
	must(t, err)
	must(t, v.Save("w", text))
	return w
}

// The test checks that people are asked to sign in when an authorization server has not answered for a long time.
func TestLongSilence(t *testing.T) {
	i, v := issuer(t), &vault{text: map[string]string{}}
	w := guest(t, v, mcp.Entry{Key: "w", URL: i.URL + "/mcp"}, func(c *mcp.Config) { c.Silence = 50 * time.Millisecond }).signIn(i)
	i.Break(troubles()["unavailable"])
	i.Forget(false)
	c, _ := newCall(t, `{"text":"x"}`)
	asked, err := w.do("w__echo", c)
	must(t, err)
	page(t, asked)
}
