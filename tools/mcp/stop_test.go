package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/mcp"
	"github.com/toold-dev/toold/tools/mcp/mcptest"
)

// stubborn makes a call and cancels it with cause. The server does not stop the call. stubborn returns the call's error and the ids of the
// server's processes.
func (w *world) stubborn(cause error) (server, child int, err error) {
	w.t.Helper()
	c, _ := newCall(w.t, `{}`)
	e, ok := w.tools.Lookup("w__stubborn")
	if !ok {
		w.t.Fatal("no tool w__stubborn")
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	done := make(chan error, 1)
	go func() {
		_, err := e.Tool.Execute(ctx, c)
		done <- err
	}()
	w.eventually("it runs", func() bool { return strings.Contains(w.journal(), "stubborn began") })
	if _, err := fmt.Sscanf(w.journal(), "child %d\nstubborn began %d", &child, &server); err != nil {
		w.t.Fatal(err)
	}
	cancel(cause)
	return server, child, <-done
}

// withChild returns an entry whose server has a child process.
func withChild(t *testing.T, change func(*mcp.Entry)) mcp.Entry {
	e := own(t, "w", "good", change)
	e.Args = []string{"-c", `sleep 600 </dev/null >/dev/null 2>&1 & echo "child $!" >>"$` + mcptest.Journal + `"; exec "` + e.Command + `"`}
	e.Command = "sh"
	return e
}

// A server does not stop a cancelled call. The test checks that this server is restarted, that all its processes are killed, and that the
// call counts as stopped.
func TestUnstoppedServerIsRestarted(t *testing.T) {
	t.Parallel()
	for name, entry := range map[string]func(*mcp.Entry){
		"by trust":   func(*mcp.Entry) {},
		"by setting": func(e *mcp.Entry) { e.Trust, e.OnCancel = mcp.TrustFull, mcp.CancelRestarts },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := connect(t, newMemory(), nil, withChild(t, entry)).ready()
			server, child, err := w.stubborn(tool.Errorf(tool.Cancelled, "enough"))
			if err == nil || err.Error() != "enough" || errors.Is(err, tool.ErrLost) {
				t.Errorf("the call ended with %v", err)
			}
			for _, pid := range []int{server, child} {
				if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && !strings.Contains(string(stat), ") Z ") {
					t.Errorf("process %d of %d and %d lives: %s", pid, server, child, stat)
				}
			}
			w.eventually("the server is there again", func() bool {
				s := w.hub.Sources()[0]
				return s.State == tool.SourceReady && s.Starts == 2
			})
			contains(t, w.text("w__echo", `{"text":"again"}`), "again")
			if strings.Contains(w.journal(), "wrote") {
				t.Error("the call continued after its outcome was published")
			}
		})
	}
}

// With `on_cancel: leave`, set or implied by the trust, the server keeps running when it ignores a cancellation. The outcome of the call is
// then unknown.
func TestUnstoppedServerLeavesDoubt(t *testing.T) {
	t.Parallel()
	for name, entry := range map[string]func(*mcp.Entry){
		"by trust":   trusting(mcp.TrustHints),
		"by setting": func(e *mcp.Entry) { e.OnCancel = mcp.CancelLeaves },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := connect(t, newMemory(), nil, withChild(t, entry)).ready()
			server, _, err := w.stubborn(tool.Errorf(tool.Timeout, "too late"))
			if !errors.Is(err, tool.ErrLost) || tool.AsError(err).Code != tool.Timeout {
				t.Errorf("the call ended with %v", err)
			}
			if err := syscall.Kill(server, 0); err != nil {
				t.Errorf("the server is gone: %v", err)
			}
			must(t, os.WriteFile(filepath.Join(w.dir, "journal.go"), nil, 0o600))
			w.eventually("the server continues", func() bool { return strings.Contains(w.journal(), "stubborn wrote") })
		})
	}
}

// The test checks a call that is cancelled before its server is ready or has received the request. The error says that nothing ran, and the
// server is not restarted.
func TestCancelledBeforeItWasSent(t *testing.T) {
	t.Parallel()
	remembered := newMemory()
	connect(t, remembered, nil, own(t, "w", "good")).ready().stop()
	ready := map[string]*world{
		"pipe": connect(t, newMemory(), nil, own(t, "w", "good")).ready(),
		"HTTP": connect(t, newMemory(), nil, overHTTP(t, "w", mcptest.Handler(eras[0]))).ready(),
	}
	worlds := map[string]*world{"no server": connect(t, remembered, nil, own(t, "w", "mute"))}
	maps.Copy(worlds, ready)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(tool.Errorf(tool.Cancelled, "enough"))
	for name, w := range worlds {
		e, ok := w.tools.Lookup("w__nap")
		if !ok {
			t.Fatalf("%s: no tool w__nap", name)
		}
		for range 20 { // The test repeats the call, because select chooses at random when two of its cases are ready.
			c, _ := newCall(t, `{}`)
			if _, err := e.Tool.Execute(ctx, c); !errors.Is(err, tool.ErrNotRun) || tool.AsError(err).Message != "enough" {
				t.Fatalf("%s: the call ended with %v", name, err)
			}
		}
	}
	for name, w := range ready {
		contains(t, w.text("w__echo", `{"text":"still there"}`), "still there")
		if n := w.hub.Sources()[0].Starts; n != 1 || strings.Contains(w.journal(), "nap began") {
			t.Errorf("%s: %d starts; the journal is %q", name, n, w.journal())
		}
	}
}
