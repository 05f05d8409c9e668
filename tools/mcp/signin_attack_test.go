package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
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

func (v *vault) kept(key string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.text[key]
}

// issuer starts an Issuer that ends with the test.
func issuer(t *testing.T) *mcptest.Issuer {
	t.Helper()
	i, end := mcptest.NewIssuer(eras[0], false)
	t.Cleanup(end)
	return i
}

// guest returns a world with the server w, to which no person has signed in yet.
func guest(t *testing.T, v mcp.Vault, e mcp.Entry, change ...func(*mcp.Config)) *world {
	t.Helper()
	w := connect(t, newMemory(), func(c *mcp.Config) {
		c.Vault, c.Wait, c.Connect, c.Drain = v, hangs, 5*time.Second, time.Second
		for _, f := range change {
			f(c)
		}
	}, e)
	w.eventually("somebody can sign in", func() bool { _, ok := w.tools.Lookup("w__sign_in"); return ok })
	return w
}

// asks makes a call that asks a person to sign in. It returns the call and the suspended result.
func (w *world) asks() (c *tool.Call, rep *reporter, asked *tool.Result) {
	w.t.Helper()
	c, rep = newCall(w.t, `{}`)
	asked, err := w.do("w__sign_in", c)
	must(w.t, err)
	return c, rep, asked
}

// signIn makes a call and signs in, as a person does.
func (w *world) signIn(i *mcptest.Issuer) *world {
	w.t.Helper()
	c, rep, asked := w.asks()
	at, err := i.Visit(page(w.t, asked))
	must(w.t, err)
	r, err := w.do("w__sign_in", answered(c, rep, asked, addressed(at)))
	must(w.t, err)
	contains(w.t, r.ModelText(), "Signed in")
	return w.ready()
}

// The test checks that a sign-in for one server is not used for another server that has the same key later.
func TestVisitOfAnotherServer(t *testing.T) {
	a, b, v := issuer(t), issuer(t), &vault{text: map[string]string{}}
	w := guest(t, v, mcp.Entry{Key: "w", URL: a.URL + "/mcp"})
	c, rep, asked := w.asks()
	at, err := a.Visit(page(t, asked))
	must(t, err)
	_, err = w.hub.Reload([]mcp.Entry{{Key: "w", URL: b.URL + "/mcp"}})
	must(t, err)
	w.eventually("the other one wants it too", func() bool { _, ok := w.tools.Lookup("w__sign_in"); return ok })
	r, err := w.do("w__sign_in", answered(c, rep, asked, addressed(at)))
	if err != nil || !r.IsError() || r.Error.Reason != "SIGN_IN_FAILED" {
		t.Errorf("the sign-in of another server: %+v, %v", r, err)
	}
	if received := b.Received(); len(received) > 0 {
		t.Errorf("the other server was sent %v", received)
	}
	w.signIn(b)
}

// The test checks that checkpoints contain no client secret, and that the daemon still knows its registration after a restart.
func TestSecretOfClientIsNotInTheJournal(t *testing.T) {
	const secret = "client-secret-0123456789"
	for _, given := range []bool{true, false} {
		i, v := issuer(t), &vault{text: map[string]string{}}
		i.Confidential(secret)
		e := mcp.Entry{Key: "w", URL: i.URL + "/mcp"}
		if given {
			e.Client = &mcp.Client{ID: "known", Secret: secret}
			i.Refuse(nil)
		}
		w := guest(t, v, e)
		c, rep, asked := w.asks()
		if strings.Contains(string(rep.checkpoint), secret) {
			t.Errorf("given %v: the checkpoint is %s", given, rep.checkpoint)
		}
		at, err := i.Visit(page(t, asked))
		must(t, err)
		w.stop()
		w = guest(t, v, e)
		r, err := w.do("w__sign_in", answered(c, rep, asked, addressed(at)))
		must(t, err)
		contains(t, r.ModelText(), "Signed in")
		w.ready()
		i.Forget(false)
		contains(t, w.text("w__echo", `{"text":"renewed"}`), "renewed")
		if given && strings.Contains(v.kept("w"), secret) {
			t.Error("the vault has a secret of the configuration")
		}
		w.stop()
	}
}

// The test checks that the new refresh token is not lost when the call is cancelled during the renewal.
func TestRenewalOutlivesItsCall(t *testing.T) {
	i, v := issuer(t), &vault{text: map[string]string{}}
	w := guest(t, v, mcp.Entry{Key: "w", URL: i.URL + "/mcp"}).signIn(i)
	i.Forget(false)
	release := i.Hold()
	e, _ := w.tools.Lookup("w__echo")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	c, _ := newCall(t, `{"text":"cancelled"}`)
	go func() { _, err := e.Tool.Execute(ctx, c); ended <- err }()
	w.eventually("it is renewed", func() bool { n, _, _ := i.Counts(); return n == 1 })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v", err)
	}
	release()
	contains(t, w.text("w__echo", `{"text":"goes on"}`), "goes on")
}

// The test checks that a refresh token that is valid only once is used only once. Many concurrent calls cause one renewal, even when a
// reload replaces the server, changes its client, or removes the server and adds it again.
func TestRenewalIsOne(t *testing.T) {
	client := func(scopes ...string) *mcp.Client { return &mcp.Client{ID: "known", Scopes: scopes} }
	for name, reload := range map[string]func(e *mcp.Entry) (removed bool){
		"another trust":     func(e *mcp.Entry) bool { e.Trust = mcp.TrustHints; return false },
		"other scopes":      func(e *mcp.Entry) bool { e.Client = client("more"); return false },
		"removed and added": func(*mcp.Entry) bool { return true },
	} {
		t.Run(name, func(t *testing.T) { renewalIsOne(t, mcp.Entry{Key: "w", Client: client("tools")}, reload) })
	}
}

func renewalIsOne(t *testing.T, e mcp.Entry, reload func(*mcp.Entry) bool) {
	i, v := issuer(t), &vault{text: map[string]string{}}
	e.URL = i.URL + "/mcp"
	w := guest(t, v, e, func(c *mcp.Config) { c.Drain = hangs }).signIn(i)
	i.Forget(false)
	release, visits := i.Hold(), i.Visits()
	var calls []chan string
	for range 8 {
		calls = append(calls, w.running("w__echo", "before"))
	}
	w.eventually("all of them wait for one renewal", func() bool { // All calls must have begun, because a call does not begin on a removed server.
		n, _, _ := i.Counts()
		return n == 1 && i.Visits() >= visits+8
	})
	if reload(&e) {
		_, err := w.hub.Reload(nil)
		must(t, err)
	}
	_, err := w.hub.Reload([]mcp.Entry{e})
	must(t, err)
	calls = append(calls, w.running("w__echo", "after"))
	release()
	for _, c := range calls {
		if text := <-c; !strings.HasPrefix(text, "you said") {
			t.Errorf("a call ended with %q", text)
		}
	}
	w.ready()
	i.Forget(false)
	contains(t, w.text("w__echo", `{"text":"again"}`), "again")
	if n, _, _ := i.Counts(); n != 2 {
		t.Errorf("it was renewed %d times", n)
	}
}

// failing is a vault that can no longer store anything.
type failing struct {
	vault
	full atomic.Bool
}

func (f *failing) Save(key string, text []byte) error {
	if f.full.Load() {
		return errors.New("no space left on device")
	}
	return f.vault.Save(key, text)
}

// The test checks that new tokens are used even when they cannot be stored, because the old ones are no longer valid.
func TestRenewalThatCannotBeKept(t *testing.T) {
	i, v := issuer(t), &failing{vault: vault{text: map[string]string{}}}
	w := guest(t, v, mcp.Entry{Key: "w", URL: i.URL + "/mcp"}).signIn(i)
	v.full.Store(true)
	for range 3 {
		i.Forget(false)
		contains(t, w.text("w__echo", `{"text":"goes on"}`), "goes on")
	}
}

// The test checks that no answer contains current or recent credentials of the daemon, and that Config.Known gets them (T79).
func TestTokensAreHidden(t *testing.T) {
	var secrets sync.Map
	i, v := issuer(t), &vault{text: map[string]string{}}
	w := guest(t, v, mcp.Entry{Key: "w", URL: i.URL + "/mcp"}, func(c *mcp.Config) { c.Known = func(_, s string) { secrets.Store(s, true) } }).signIn(i)
	kept := func() (access, refresh string) {
		var r struct {
			Token struct {
				Access  string `json:"access_token"`
				Refresh string `json:"refresh_token"`
			}
		}
		must(t, json.Unmarshal([]byte(v.kept("w")), &r))
		return r.Token.Access, r.Token.Refresh
	}
	access, refresh := kept()
	i.Forget(false)
	contains(t, w.text("w__echo", `{"text":"renewed"}`), "renewed")
	next, _ := kept()
	for _, value := range []string{access, refresh, next} {
		if text := w.text("w__echo", `{"text":"`+value+`"}`); strings.Contains(text, value) {
			t.Errorf("a result holds a token: %s", text)
		}
		if _, ok := secrets.Load(value); !ok {
			t.Errorf("nobody else takes %s out", value)
		}
	}
	text := w.text("w__echo", `{"text":"complain"}`)
	contains(t, text, "bad: [token], [token]")
}

// The test checks that malformed or excessive challenges do not prevent a sign-in, and do not make the daemon contact other addresses.
func TestHostileChallenges(t *testing.T) {
	i, v := issuer(t), &vault{text: map[string]string{}}
	i.Refuse(func(w http.ResponseWriter) {
		w.Header().Add("WWW-Authenticate", `Negotiate YIIB==`)
		w.Header().Add("WWW-Authenticate", `"`)
		w.Header().Add("WWW-Authenticate", `Basic realm="`)
		w.Header().Add("WWW-Authenticate", `Basic resource_metadata="`+i.URL+`/about/other"`)
		w.Header().Add("WWW-Authenticate", `Bearer resource_metadata="`+i.URL+`/about"`)
		for range 20 {
			w.Header().Add("WWW-Authenticate", `Bearer resource_metadata="`+i.URL+`/about/other"`)
		}
	})
	w := guest(t, v, mcp.Entry{Key: "w", URL: i.URL + "/mcp"}).signIn(i)
	contains(t, w.text("w__echo", `{"text":"hello"}`), "hello")
	if _, _, asked := i.Counts(); asked > 0 {
		t.Errorf("others were asked %d times", asked)
	}
}

// The test checks that concurrent calls register the daemon once, and that one sign-in is enough for all of them.
func TestOneSignInForManyCalls(t *testing.T) {
	i, v := issuer(t), &vault{text: map[string]string{}}
	w := guest(t, v, mcp.Entry{Key: "w", URL: i.URL + "/mcp"})
	c, rep, asked := w.asks()
	other, otherRep, otherAsked := w.asks()
	if _, n, _ := i.Counts(); n != 1 {
		t.Errorf("the daemon is registered %d times", n)
	}
	at, err := i.Visit(page(t, asked))
	must(t, err)
	signIn, _ := w.tools.Lookup("w__sign_in")
	for _, c := range []*tool.Call{
		answered(c, rep, asked, addressed(at)),
		answered(c, rep, asked, addressed(at)), // The daemon was killed before it stored the end of the call, so the same answer arrives again.
		answered(other, otherRep, otherAsked, addressed("http://127.0.0.1:33418/callback?state=x")),
	} {
		r, err := signIn.Tool.Execute(t.Context(), c)
		must(t, err)
		contains(t, r.ModelText(), "Signed in")
	}
}

// The test checks that a sign-in fails when the address has no code, contains the error of another authorization server, or has an invalid
// code.
func TestWrongEndsOfASignIn(t *testing.T) {
	i, v := issuer(t), &vault{text: map[string]string{}}
	w := guest(t, v, mcp.Entry{Key: "w", URL: i.URL + "/mcp"})
	c, rep, asked := w.asks()
	at, err := i.Visit(page(t, asked))
	must(t, err)
	base, rest, _ := strings.Cut(at, "?")
	for query, want := range map[string]string{
		strings.Replace(rest, "code=", "c=", 1):             "no code",
		strings.Replace(rest, "code=", "code=x", 1):         "answered invalid_grant",
		strings.Replace(rest, "iss=", "error=e&iss=x", 1):   "different authorization server",
		strings.Replace(rest, "iss=", "error=nope&iss=", 1): "refused: nope",
	} {
		r, err := w.do("w__sign_in", answered(c, rep, asked, addressed(base+"?"+query)))
		must(t, err)
		contains(t, r.ModelText(), want)
	}
}

// The test checks that a token with a short lifetime is not renewed for each request.
func TestShortLivedTokens(t *testing.T) {
	i, v := issuer(t), &vault{text: map[string]string{}}
	i.SetLifetime(25)
	w := guest(t, v, mcp.Entry{Key: "w", URL: i.URL + "/mcp"}).signIn(i)
	for range 5 {
		contains(t, w.text("w__echo", `{"text":"hello"}`), "hello")
	}
	if n, _, _ := i.Counts(); n > 0 {
		t.Errorf("it was renewed %d times", n)
	}
}

// The test checks that a server on this machine can direct the daemon to this machine and to the public network, but not to private
// networks (T48).
func TestT48LocalServerLeadsNowhereElse(t *testing.T) {
	i, v := issuer(t), &vault{text: map[string]string{}}
	about := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"resource": i.URL + "/mcp", "authorization_servers": []string{"https://198.18.0.1"}})
	}))
	t.Cleanup(about.Close)
	i.Refuse(func(w http.ResponseWriter) {
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+about.URL+`"`)
	})
	w := guest(t, v, mcp.Entry{Key: "w", URL: i.URL + "/mcp"})
	c, _ := newCall(t, `{}`)
	_, err := w.do("w__sign_in", c)
	if e := tool.AsError(err); e == nil || e.Reason != "SIGN_IN_IMPOSSIBLE" || !strings.Contains(e.Message, "address 198.18.0.1 is refused") {
		t.Errorf("it was looked for: %v", err)
	}
}
