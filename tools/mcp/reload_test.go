package mcp_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/mcp"
)

// running starts a call. The channel gets its outcome.
func (w *world) running(id, callID string) (ended chan string) {
	w.t.Helper()
	e, ok := w.tools.Lookup(id)
	if !ok {
		w.t.Fatalf("no tool %s", id)
	}
	c, _ := newCall(w.t, `{}`)
	c.ID = callID
	ended = make(chan string, 1)
	go func() {
		r, err := e.Tool.Execute(context.Background(), c)
		if err != nil {
			ended <- tool.AsError(err).Reason
			return
		}
		ended <- r.ModelText()
	}()
	return ended
}

func starts(w *world) map[string]int {
	out := map[string]int{}
	for _, s := range w.hub.Sources() {
		out[s.Name] = s.Starts
	}
	return out
}

// TestReload checks that a reload adds, removes and changes servers while the others continue, and that a call on a removed server has time
// to finish.
func TestReload(t *testing.T) {
	entry := func(key string, change ...func(*mcp.Entry)) mcp.Entry { return own(t, key, "good", change...) }
	w := connect(t, newMemory(), func(c *mcp.Config) { c.Drain = 2 * time.Second }, entry("stays"), entry("goes"), entry("changes")).ready()
	with := func(entries ...mcp.Entry) []mcp.Entry {
		for i := range entries {
			entries[i].Env = append(entries[i].Env, "TOOLD_MCPTEST_JOURNAL="+w.dir+"/journal")
		}
		return entries
	}
	if changed, err := w.hub.Reload(with(entry("stays"), entry("goes"), entry("changes"))); err != nil || len(changed) > 0 {
		t.Fatalf("the same servers: %v, %v", changed, err)
	}
	short, long := w.running("goes__nap", "short"), w.running("goes__slow", "long")
	w.eventually("both run", func() bool {
		return strings.Contains(w.journal(), "slow began") && strings.Contains(w.journal(), "nap began")
	})
	changed, err := w.hub.Reload(with(entry("comes"), entry("changes", trusting(mcp.TrustFull)), entry("stays")))
	must(t, err)
	if !slices.Equal(changed, []string{"changes", "comes", "goes"}) {
		t.Errorf("others are %v", changed)
	}
	if _, ok := w.tools.Lookup("goes__echo"); ok {
		t.Error("a tool of a server that is gone is in the list")
	}
	if e, ok := w.tools.Lookup("changes__writer"); !ok || e.Descriptor.Effects.Tier != tool.Observe {
		t.Error("what the operator says of a server does not count at once")
	}
	contains(t, w.text("changes__echo", `{"text":"new"}`), "new") // The call waits until the changed server is ready.
	contains(t, w.text("stays__echo", `{"text":"old"}`), "old")
	if text := <-short; text != "rested" {
		t.Errorf("a call that ends soon ended with %q", text)
	}
	if text := <-long; text != "CONNECTION_LOST" {
		t.Errorf("a call that does not end ended with %q", text)
	}
	w.ready()
	if got := starts(w); len(got) != 3 || got["mcp:stays"] != 1 || got["mcp:comes"] != 1 || got["mcp:changes"] != 1 {
		t.Errorf("connections: %v", got)
	}
	if _, err := w.hub.Reload([]mcp.Entry{{Key: "a b", Command: "x"}, {Key: "a_b", Command: "x"}}); err == nil {
		t.Error("two servers have one prefix")
	}
	contains(t, w.text("stays__echo", `{"text":"still"}`), "still")
}

// The test checks calls that wait for a server. They continue on the new server when a reload replaces the server, and fail when a reload
// removes the server.
func TestReloadOfAServerThatIsDown(t *testing.T) {
	down := mcp.Entry{Key: "w", Command: "sh", Args: []string{"-c", "exit 1"}}
	w := connect(t, newMemory(), func(c *mcp.Config) { c.Wait = hangs }, own(t, "w", "good")).ready()
	_, err := w.hub.Reload([]mcp.Entry{down})
	must(t, err)
	first := w.running("w__echo", "first")
	w.eventually("it is tried", func() bool { return w.hub.Sources()[0].Error != "" })
	_, err = w.hub.Reload([]mcp.Entry{own(t, "w", "good")})
	must(t, err)
	if text := <-first; !strings.HasPrefix(text, "you said") {
		t.Errorf("the call ended with %q", text)
	}
	_, err = w.hub.Reload([]mcp.Entry{down})
	must(t, err)
	second := w.running("w__echo", "second")
	_, err = w.hub.Reload(nil)
	must(t, err)
	if text := <-second; text != "SERVER_REMOVED" {
		t.Errorf("the call ended with %q", text)
	}
	if len(w.hub.Sources()) > 0 || w.tools.Sources() != nil && slices.Contains(w.tools.Sources(), "mcp:w") {
		t.Errorf("left are %v", w.hub.Sources())
	}
}

// unbroken counts how often a source lost all its tools.
type unbroken struct {
	mcp.Tools
	empty *atomic.Int32
}

func (u unbroken) Replace(source string, tools []tool.Tool) map[string]error {
	if len(tools) == 0 {
		u.empty.Add(1)
	}
	return u.Tools.Replace(source, tools)
}

// The test checks that the tools of a changed server stay listed during the whole reload. Otherwise a decision that arrives meanwhile would
// not find its tool.
func TestReloadLeavesNoGap(t *testing.T) {
	var empty atomic.Int32
	e := own(t, "w", "good")
	w := connect(t, newMemory(), func(c *mcp.Config) { c.Tools = unbroken{c.Tools, &empty} }, e).ready()
	e.Trust = mcp.TrustFull
	_, err := w.hub.Reload([]mcp.Entry{e})
	must(t, err)
	if n := empty.Load(); n > 0 {
		t.Errorf("there was nothing %d times", n)
	}
	_, err = w.hub.Reload(nil)
	must(t, err)
	if empty.Load() == 0 {
		t.Error("what is gone has tools")
	}
}

// The test checks a call that waits for a server without sign-in. When a reload replaces this server by one that requires a sign-in, the
// call asks a person to sign in.
func TestReloadToAServerThatWantsASignIn(t *testing.T) {
	i, v := issuer(t), &vault{text: map[string]string{}}
	down := mcp.Entry{Key: "w", Command: "sh", Args: []string{"-c", "exit 1"}}
	w := connect(t, newMemory(), func(c *mcp.Config) { c.Vault, c.Wait = v, hangs }, own(t, "w", "good")).ready()
	_, err := w.hub.Reload([]mcp.Entry{down})
	must(t, err)
	e, ok := w.tools.Lookup("w__echo")
	if !ok {
		t.Fatal("its tools are gone")
	}
	c, _ := newCall(t, `{"text":"x"}`)
	type end struct {
		r   *tool.Result
		err error
	}
	ended := make(chan end, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				ended <- end{nil, fmt.Errorf("panic: %v", p)}
			}
		}()
		r, err := e.Tool.Execute(context.Background(), c)
		ended <- end{r, err}
	}()
	w.eventually("it is tried", func() bool { return w.hub.Sources()[0].Error != "" })
	_, err = w.hub.Reload([]mcp.Entry{{Key: "w", URL: i.URL + "/mcp"}})
	must(t, err)
	got := <-ended
	must(t, got.err)
	contains(t, page(t, got.r), i.URL)
}

// TestRetry checks that a server which waits before its next connection connects at once.
func TestRetry(t *testing.T) {
	w := connect(t, newMemory(), func(c *mcp.Config) { c.Backoff = time.Hour }, mcp.Entry{Key: "w", Command: "sh", Args: []string{"-c", "exit 1"}})
	down := func(starts int) func() bool {
		return func() bool {
			s := w.hub.Sources()[0]
			return s.State == tool.SourceDown && s.Starts == starts
		}
	}
	w.eventually("it is down", down(1))
	since := w.hub.Sources()[0].Unready
	if w.hub.Retry("mcp:other") || !w.hub.Retry("mcp:w") {
		t.Error("a wrong source was tried")
	}
	w.eventually("it is tried again", down(2))
	if got := w.hub.Sources()[0].Unready; since.IsZero() || !got.Equal(since) {
		t.Errorf("not ready since %v, then since %v", since, got)
	}
}
