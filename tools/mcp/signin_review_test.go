package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/mcp"
	"github.com/toold-dev/toold/tools/mcp/mcptest"
)

// The test checks that a person who was asked first can still sign in after the daemon has registered again for other scopes.
func TestSecondRegistrationKeepsTheFirst(t *testing.T) {
	i, v := issuer(t), &vault{text: map[string]string{}}
	i.Confidential("client-secret-0123456789")
	e := mcp.Entry{Key: "w", URL: i.URL + "/mcp"}
	w := guest(t, v, e)
	c, rep, asked := w.asks()
	at, err := i.Visit(page(t, asked))
	must(t, err)
	i.Refuse(func(w http.ResponseWriter) { w.Header().Set("WWW-Authenticate", `Bearer scope="more"`) })
	w.eventually("others are asked for more", func() bool {
		_, _, other := w.asks()
		return scopesOf(t, other) == "more"
	})
	w.stop()
	r, err := guest(t, v, e).do("w__sign_in", answered(c, rep, asked, addressed(at)))
	must(t, err)
	contains(t, r.ModelText(), "Signed in")
}

func scopesOf(t *testing.T, asked *tool.Result) string {
	t.Helper()
	u, err := url.Parse(page(t, asked))
	must(t, err)
	return u.Query().Get("scope")
}

// The test checks that a sign-in for more scopes also asks for the previous scopes, because the new token replaces the old one. A sign-in
// for a token that is no longer valid asks only for the scopes of the refusal.
func TestMoreScopes(t *testing.T) {
	i, v := issuer(t), &vault{text: map[string]string{}}
	w := guest(t, v, mcp.Entry{Key: "w", URL: i.URL + "/mcp"}).signIn(i)
	ask := func(status int, challenge string) string {
		t.Helper()
		i.Refuse(func(w http.ResponseWriter) { w.Header().Set("WWW-Authenticate", "Bearer "+challenge) })
		i.Admit(func(string) int { return status })
		c, _ := newCall(t, `{"text":"x"}`)
		asked, err := w.do("w__echo", c)
		must(t, err)
		return scopesOf(t, asked)
	}
	if got := ask(http.StatusForbidden, `error="insufficient_scope", scope="tools write"`); got != "tools offline_access write" {
		t.Errorf("of a token that lacks one it asks for %q", got)
	}
	i.Admit(nil)
	w.eventually("the server works again", func() bool { return strings.HasPrefix(w.text("w__echo", `{"text":"x"}`), "you said") })
	if got := ask(http.StatusUnauthorized, `scope="write"`); got != "write" {
		t.Errorf("of a token that is not good it asks for %q", got)
	}
}

// The test uses a server that refuses the daemon and later accepts it again. It checks that no person is asked to sign in when the server
// is then down for another reason.
func TestRefusalThatPassed(t *testing.T) {
	i, v := issuer(t), &vault{text: map[string]string{}}
	w := guest(t, v, mcp.Entry{Key: "w", URL: i.URL + "/mcp"}).signIn(i)
	i.Break(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no other token", http.StatusBadRequest) })
	i.Admit(func(string) int { return http.StatusUnauthorized })
	c, _ := newCall(t, `{"text":"x"}`)
	asked, err := w.do("w__echo", c)
	must(t, err)
	page(t, asked)
	i.Admit(nil)
	w.eventually("the server works again", func() bool { return strings.HasPrefix(w.text("w__echo", `{"text":"x"}`), "you said") })
	i.Admit(func(string) int { return http.StatusFound })
	lost := w.running("w__echo", "lost")
	w.eventually("it is down", func() bool { return w.hub.Sources()[0].State == tool.SourceDown })
	e, _ := w.tools.Lookup("w__echo")
	ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	if r, err := e.Tool.Execute(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it did not wait: %+v, %v", r, err)
	}
	i.Admit(nil)
	<-lost
}

// The test checks that a sign-in is accepted when it returns the same token, which now has more rights.
func TestSignInBringsTheSameToken(t *testing.T) {
	const same = "Same-0123456789abcdef"
	i, v := issuer(t), &vault{text: map[string]string{}}
	var visits atomic.Int32
	i.Give(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		visits.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"`+same+`","token_type":"Bearer"}`)
	}))
	i.Admit(func(token string) int {
		if token == same && visits.Load() > 1 {
			return 0
		}
		return http.StatusUnauthorized
	})
	w := guest(t, v, mcp.Entry{Key: "w", URL: i.URL + "/mcp"})
	var result *tool.Result
	for range 2 {
		c, rep, asked := w.asks()
		at, err := i.Visit(page(t, asked))
		must(t, err)
		result, err = w.do("w__sign_in", answered(c, rep, asked, addressed(at)))
		must(t, err)
	}
	contains(t, result.ModelText(), "Signed in")
}

// The test checks that the daemon's client secret is redacted when an authorization server repeats it in a refusal (T79).
func TestSecretInARefusal(t *testing.T) {
	const secret = "8c3a4d9f0e1b2a3c4d5e6f70"
	i, v := issuer(t), &vault{text: map[string]string{}}
	i.Confidential(secret)
	i.Give(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": "no client has " + r.PostFormValue("client_secret")})
	}))
	w := guest(t, v, mcp.Entry{Key: "w", URL: i.URL + "/mcp"})
	c, rep, asked := w.asks()
	at, err := i.Visit(page(t, asked))
	must(t, err)
	r, err := w.do("w__sign_in", answered(c, rep, asked, addressed(at)))
	must(t, err)
	contains(t, r.ModelText(), "no client has [token]")
}

// The test checks that a token is redacted when a server repeats it outside of a message, even a token that looks like a hash (T79).
func TestTokenInAStatusLine(t *testing.T) {
	const token = "8c3a4d9f0e1b2a3c4d5e6f70"
	var code atomic.Int32
	h := mcptest.Over(mcptest.New(eras[0]))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if code.Load() == 0 {
			h.ServeHTTP(w, r)
			return
		}
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", code.Load(), strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
			_ = conn.Close()
		}
	}))
	t.Cleanup(srv.Close)
	v := &vault{text: map[string]string{"w": fmt.Sprintf(`{"server":%q,"way":{"client":"c"},"token":{"access_token":%q}}`, srv.URL, token)}}
	w := connect(t, newMemory(), func(c *mcp.Config) { c.Vault = v }, mcp.Entry{Key: "w", URL: srv.URL}).ready()
	code.Store(http.StatusServiceUnavailable)
	c, _ := newCall(t, `{"text":"x"}`)
	_, err := w.do("w__echo", c)
	if e := tool.AsError(err); e == nil || e.Reason != "SERVER_BUSY" || !strings.Contains(e.DeveloperMessage, "503 [token]") {
		t.Errorf("it says %+v", e)
	}
	code.Store(http.StatusFound)
	_, _ = w.do("w__echo", c) // The call fails, because the connection to the server ends.
	w.eventually("it is down", func() bool { return w.hub.Sources()[0].State == tool.SourceDown })
	contains(t, w.hub.Sources()[0].Error, "302 [token]")
}

// The test checks that people are not asked to visit a page whose host looks like another host.
func TestHostsThatLookLikeOthers(t *testing.T) {
	for _, host := range []string{"acc\u0435pt.example", "acc\u200bept.example", "accept.example@evil.example"} {
		for _, member := range []string{"authorization_endpoint", "token_endpoint"} {
			i, v := issuer(t), &vault{text: map[string]string{}}
			about := httptest.NewUnstartedServer(nil)
			about.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				self := "http://" + about.Listener.Addr().String()
				metadata := map[string]any{"resource": i.URL + "/mcp", "authorization_servers": []string{self}}
				if strings.HasSuffix(r.URL.Path, "oauth-authorization-server") {
					metadata = map[string]any{
						"issuer": self, "authorization_endpoint": self + "/authorize", "token_endpoint": self + "/token",
						"registration_endpoint": i.URL + "/register", "code_challenge_methods_supported": []string{"S256"},
					}
					metadata[member] = "https://" + host + "/x"
				}
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(metadata)
			})
			about.Start()
			t.Cleanup(about.Close)
			i.Refuse(func(w http.ResponseWriter) {
				w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+about.URL+`"`)
			})
			w := guest(t, v, mcp.Entry{Key: "w", URL: i.URL + "/mcp"})
			c, _ := newCall(t, `{}`)
			r, err := w.do("w__sign_in", c)
			if err == nil || tool.AsError(err).Reason != "SIGN_IN_IMPOSSIBLE" || !strings.Contains(tool.AsError(err).Message, "mistaken for another one") {
				t.Errorf("%s at %+q: %+v, %v", member, host, r, err)
			}
			w.stop()
		}
	}
}

// The test checks that people are asked to sign in only a limited number of times when a server refuses the call after each sign-in.
func TestSigninsOfACallAreBounded(t *testing.T) {
	t.Parallel()
	i, end := mcptest.NewIssuer("good", false)
	t.Cleanup(end)
	w := connect(t, newMemory(), func(c *mcp.Config) { c.Vault, c.Wait = &vault{text: map[string]string{}}, hangs }, mcp.Entry{Key: "w", URL: i.URL + "/mcp"})
	w.eventually("somebody can sign in", func() bool { _, ok := w.tools.Lookup("w__sign_in"); return ok })
	i.Admit(func(string) int { return http.StatusUnauthorized })
	c, rep := newCall(t, `{}`)
	asked := 0
	for ; asked < 10; asked++ {
		r, err := w.do("w__sign_in", c)
		if err != nil {
			if e := tool.AsError(err); e.Reason != "SIGN_IN_REFUSED" {
				t.Errorf("the call ended with %v", err)
			}
			break
		}
		at, err := i.Visit(page(t, r))
		must(t, err)
		c = answered(c, rep, r, addressed(at))
	}
	if asked != 3 {
		t.Errorf("somebody was asked to sign in %d times", asked)
	}
}
