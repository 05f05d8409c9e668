package lifecycle_test

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

const quotaBytes = 1 << 20

func smallQuota(c *lifecycle.Config) { c.OutputQuota = quotaBytes }

// flood prints until it is stopped, or until it has printed much more than the quota. It ignores errors.
func flood(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	chunk := bytes.Repeat([]byte("x"), 100_000)
	for n := 0; ctx.Err() == nil && n < 100*quotaBytes; n += len(chunk) {
		_ = c.Output("stdout", chunk)
	}
	return nil, context.Cause(ctx)
}

func wantExhausted(t *testing.T, w *world, c *call.Call, reason string) {
	t.Helper()
	e := c.Result.Error
	if c.Status != call.Failed || c.Executed != call.Started || e == nil || e.Code != tool.ResourceExhausted || e.Reason != reason {
		t.Errorf("call is %s %s %+v, want it stopped with %s", c.Status, c.Executed, e, reason)
	}
	if size, err := w.store.Spool().Size(c.Key(), "stdout"); err == nil && size > quotaBytes {
		t.Errorf("%d bytes are kept; the quota is %d", size, quotaBytes)
	}
}

func TestT28OutputQuotaStopsACall(t *testing.T) {
	for _, e := range []tool.Effects{mutating, reading} {
		inBubble(t, []tool.Tool{made("flood", e, flood)}, smallQuota, func(t *testing.T, w *world) {
			wantExhausted(t, w, w.do(spec("flood", "")), "OUTPUT_QUOTA")
		})
	}
}

// TestOutputQuotaIsForTheCall checks that the output of earlier attempts and artifacts use the quota of the call, because they are still
// stored.
func TestOutputQuotaIsForTheCall(t *testing.T) {
	asks := made("asks", mutating, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		if c.Resume == nil {
			if err := c.Output("stdout", make([]byte, quotaBytes/2)); err != nil {
				return nil, err
			}
			return tool.Suspended("go on?"), nil
		}
		if _, err := c.SaveArtifact("saved", "text/plain", make([]byte, quotaBytes/4)); err != nil {
			return nil, err
		}
		if err := c.Output("stdout", make([]byte, quotaBytes/4)); err != nil {
			return nil, err
		}
		return nil, c.Output("stdout", []byte("x"))
	})
	for _, restart := range []bool{false, true} {
		inBubble(t, []tool.Tool{asks}, smallQuota, func(t *testing.T, w *world) {
			c := w.do(spec("asks", ""))
			if restart {
				w.crash()
			}
			wantExhausted(t, w, w.answer(alice, c, tool.Decision{Action: tool.Resume, Result: "1"}), "OUTPUT_QUOTA")
		})
	}
}

// TestP7FullDiskRefusesNewCalls checks that new calls are refused on a full disk. Clients can still attach to running calls, and these
// calls can end.
func TestP7FullDiskRefusesNewCalls(t *testing.T) {
	var full atomic.Bool
	p := held()
	inBubble(t, []tool.Tool{p.tool("t", mutating), echo("read", reading)}, func(c *lifecycle.Config) { c.Full = full.Load }, func(t *testing.T, w *world) {
		running := spec("t", "")
		w.begin(running)
		full.Store(true)
		refused := spec("read", "")
		for _, s := range []call.Spec{spec("t", ""), refused} {
			_, err := w.e.Execute(t.Context(), alice, s, call.ExecuteOptions{})
			wantRefusal(t, err, call.ResourceExhausted, "STORAGE_FULL")
		}
		w.start(running, call.ExecuteOptions{}).Close()
		p.free()
		if c := w.do(running); c.Status != call.Succeeded {
			t.Errorf("the call that ran is %s", c.Status)
		}
		full.Store(false)
		if c := w.do(refused); c.Status != call.Succeeded {
			t.Errorf("with space again a call is %s", c.Status)
		}
	})
}

// TestP7FullDiskTakesNoOutput checks that a full disk accepts no output: the remaining space is for the ends of calls.
func TestP7FullDiskTakesNoOutput(t *testing.T) {
	var full atomic.Bool
	begins := made("begins", mutating, func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		full.Store(true)
		return flood(ctx, c)
	})
	config := func(c *lifecycle.Config) { c.Full = full.Load }
	inBubble(t, []tool.Tool{begins}, config, func(t *testing.T, w *world) {
		wantExhausted(t, w, w.do(spec("begins", "")), "STORAGE_FULL")
	})
}

// saver returns a tool that saves an artifact of as many KiB as its argument has letters.
func saver(id string) tool.Tool {
	return made(id, mutating, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		_, err := c.SaveArtifact("saved", "text/plain", make([]byte, len(c.Arguments.String("n"))<<10))
		return tool.Text("ok"), err
	})
}

// TestP7FullDiskTakesNoArtifacts checks that a full disk accepts no artifacts: the remaining space is for the ends of calls.
func TestP7FullDiskTakesNoArtifacts(t *testing.T) {
	var full atomic.Bool
	begins := made("begins", mutating, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		full.Store(true)
		_, err := c.SaveArtifact("saved", "text/plain", make([]byte, 1<<10))
		return tool.Text("ok"), err
	})
	inBubble(t, []tool.Tool{begins}, func(c *lifecycle.Config) { c.Full = full.Load }, func(t *testing.T, w *world) {
		c := w.do(spec("begins", ""))
		wantExhausted(t, w, c, "STORAGE_FULL")
		if size, err := w.store.Spool().Size(c.Key(), "saved"); err == nil {
			t.Errorf("%d bytes are kept", size)
		}
	})
}

// TestSavedBytesAreStoredBytes checks that artifacts, like output, count towards the storage limit of a namespace.
func TestSavedBytesAreStoredBytes(t *testing.T) {
	inBubble(t, []tool.Tool{saver("saves")}, func(c *lifecycle.Config) { c.StoredBytes = 100 << 10 }, func(t *testing.T, w *world) {
		arguments := `{"n":"` + strings.Repeat("k", 60) + `"}`
		for range 2 { // The second call is still admitted, because the limit is not reached before it.
			if c := w.do(spec("saves", arguments)); c.Status != call.Succeeded {
				t.Fatalf("%s %+v", c.Status, c.Result)
			}
		}
		_, err := w.e.Execute(t.Context(), alice, spec("saves", arguments), call.ExecuteOptions{})
		wantRefusal(t, err, call.ResourceExhausted, "STORAGE_QUOTA")
	})
}
