package mcp_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/mcp"
	"github.com/toold-dev/toold/tools/mcp/mcptest"
)

// keys resolves secret://key to the newest value of the key, for servers that may use this secret.
type keys struct {
	mu    sync.Mutex
	value string
	asked []string
}

func (k *keys) Expand(_ context.Context, namespace, tool, parameter, text string) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !strings.Contains(text, "secret://") {
		return text, nil
	}
	k.asked = append(k.asked, strings.Join([]string{namespace, tool, parameter}, " "))
	if k.value == "" {
		return "", errors.New("secret key is not available to this tool")
	}
	return strings.ReplaceAll(text, "secret://key", k.value), nil
}

func (k *keys) set(value string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.value = value
}

func (k *keys) requests() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return strings.Join(k.asked, "\n")
}

// The test checks that a reference in a header is resolved for each request, so that a new value is used at once, on the same connection.
func TestSecretInHeader(t *testing.T) {
	k := &keys{value: "right"}
	var seen sync.Map
	h := mcptest.Handler(eras[0])
	e := overHTTP(t, "w", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r.Header.Get("X-Key"), true)
		h.ServeHTTP(w, r)
	}))
	e.Headers = map[string]string{"Authorization": "Bearer right", "X-Key": "v=secret://key"}
	w := connect(t, newMemory(), func(c *mcp.Config) { c.Secrets = k }, e).ready()
	k.set("next")
	contains(t, w.text("w__echo", `{"text":"x"}`), "x")
	for _, want := range []string{"v=right", "v=next"} {
		if _, ok := seen.Load(want); !ok {
			t.Errorf("no request had %q", want)
		}
	}
	if !strings.Contains(k.requests(), "* mcp:w headers.X-Key") || strings.Contains(k.requests(), "Authorization") {
		t.Errorf("asked for\n%s", k.requests())
	}
	k.set("two\nlines")
	c, _ := newCall(t, `{"text":"x"}`)
	if r, err := w.do("w__echo", c); err == nil && r.Status != tool.StatusError {
		t.Errorf("with a key of two lines it answers %+v", r)
	}
	k.set("right") // The client needs the right key to close the session.
}

// The test checks that a process does not start without its secret, and that it gets the value that is current when it starts.
func TestSecretInEnvironment(t *testing.T) {
	k := &keys{}
	e := own(t, "leaky", "leaky", func(e *mcp.Entry) { e.Env = append(e.Env, mcptest.Leak+"=secret://key") })
	w := connect(t, newMemory(), func(c *mcp.Config) { c.Secrets = k }, e)
	w.eventually("it is refused", func() bool {
		return strings.Contains(w.hub.Sources()[0].Error, "env "+mcptest.Leak+": secret key is not available to this tool")
	})
	k.set("the-value")
	w.ready()
	contains(t, w.text("leaky__bash", `{}`), "raw the-value json")
	if !strings.HasPrefix(k.requests(), "* mcp:leaky env."+mcptest.Leak) {
		t.Errorf("asked for\n%s", k.requests())
	}
}

// homesOf is an Exec that records the home directory of each process.
type homesOf struct {
	mcp.Exec
	homes *sync.Map
}

func (h homesOf) Run(ctx context.Context, spec sandbox.Spec) (*sandbox.Exit, error) {
	h.homes.Store(spec.Tag, spec.Home)
	return h.Exec.Run(ctx, spec)
}

// The test checks that each server has a separate home directory, and that a server that gets a secret has a fresh one (T116).
func TestT116HomesOfServers(t *testing.T) {
	k := &keys{}
	k.set("the-value")
	var homes sync.Map
	secret := own(t, "a", "leaky", func(e *mcp.Entry) { e.Env = append(e.Env, mcptest.Leak+"=secret://key") })
	connect(t, newMemory(), func(c *mcp.Config) { c.Secrets, c.Exec = k, homesOf{c.Exec, &homes} }, secret, own(t, "b", "leaky")).ready()
	for server, want := range map[string]string{"mcp:a": sandbox.FreshHome, "mcp:b": "mcp:b"} {
		if got, _ := homes.Load(server); got != want {
			t.Errorf("%s has the home %q", server, got)
		}
	}
}
