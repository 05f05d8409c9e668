package mcp_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/mcp"
	"github.com/toold-dev/toold/tools/mcp/mcptest"
)

type vault struct {
	mu   sync.Mutex
	text map[string]string
}

func (v *vault) Load(key string) ([]byte, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	text, ok := v.text[key]
	return []byte(text), ok
}

func (v *vault) Save(key string, text []byte) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.text[key] = string(text)
	return nil
}

func page(t *testing.T, r *tool.Result) string {
	t.Helper()
	if !r.IsPending() || r.Suspension.Action != "auth" {
		t.Fatalf("nobody is asked to sign in: %+v", r)
	}
	var p struct{ URL string }
	must(t, json.Unmarshal(r.Suspension.Parameters, &p))
	return p.URL
}

func addressed(address string) string {
	text, _ := json.Marshal(map[string]string{"address": address})
	return string(text)
}

// TestOAuth signs in to a server whose tools are still unknown, and later again during a call. It checks that after a restart the daemon
// uses the stored credentials and renews its tokens, and that no result or error contains them.
func TestOAuth(t *testing.T) {
	for _, era := range eras {
		for _, plain := range []bool{false, true} {
			t.Run(fmt.Sprint(era, plain), func(t *testing.T) { oauth(t, era, plain) })
		}
	}
}

func oauth(t *testing.T, era string, plain bool) {
	i, end := mcptest.NewIssuer(era, plain)
	t.Cleanup(end)
	visit := func(asked *tool.Result) string {
		t.Helper()
		at, err := i.Visit(page(t, asked))
		must(t, err)
		return at
	}
	v, m := &vault{text: map[string]string{}}, newMemory()
	entry := mcp.Entry{Key: "w", URL: i.URL + "/mcp"}
	with := func(c *mcp.Config) { c.Vault, c.Wait, c.Connect, c.Backoff = v, hangs, 5*time.Second, time.Hour } // The backoff is long, so the test also checks that a sign-in ends the wait.
	w := connect(t, m, with, entry)
	w.eventually("somebody can sign in", func() bool { _, ok := w.tools.Lookup("w__sign_in"); return ok })
	c, rep := newCall(t, `{}`)
	asked, err := w.do("w__sign_in", c)
	must(t, err)
	at := visit(asked)
	r, err := w.do("w__sign_in", answered(c, rep, asked, addressed(strings.Replace(at, "state=", "state=x", 1))))
	must(t, err)
	if !r.IsError() || r.Error.Reason != "SIGN_IN_FAILED" {
		t.Errorf("the address of another sign-in: %+v", r)
	}
	r, err = w.do("w__sign_in", answered(c, rep, asked, addressed(at)))
	must(t, err)
	contains(t, r.Message, "Signed in")
	w.ready()
	contains(t, w.text("w__echo", `{"text":"hello"}`), "hello")
	if _, ok := w.tools.Lookup("w__sign_in"); ok {
		t.Error("the tool to sign in is there although somebody did")
	}

	i.Forget(false) // The next call renews the token without a question.
	contains(t, w.text("w__echo", `{"text":"renewed"}`), "renewed")
	if i.Last().Get("grant_type") != "refresh_token" {
		t.Errorf("the last request was %v", i.Last())
	}
	var kept struct {
		Token struct {
			Access string `json:"access_token"`
		}
	}
	must(t, json.Unmarshal([]byte(v.text["w"]), &kept))
	if text := w.text("w__echo", `{"text":"`+kept.Token.Access+`"}`); strings.Contains(text, kept.Token.Access) || !strings.Contains(text, "[token]") {
		t.Errorf("a result holds the token: %s", text)
	}

	i.Forget(true) // The next call must ask for a new sign-in.
	c, rep = newCall(t, `{"text":"again"}`)
	asked, err = w.do("w__echo", c)
	must(t, err)
	at = visit(asked)
	w.stop()
	w = connect(t, m, with, entry) // The daemon restarts before the question is answered.
	r, err = w.do("w__echo", answered(c, rep, asked, addressed(at)))
	must(t, err)
	contains(t, r.ModelText(), "again")
	w.ready()
	for _, s := range w.hub.Sources() {
		if strings.Contains(s.Error, "Access-") || s.Starts > 3 {
			t.Errorf("the source is %+v", s)
		}
	}
}
