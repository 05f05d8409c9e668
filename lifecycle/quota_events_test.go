package lifecycle_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// TestT124ReportsCountAsOutput checks that all kinds of reports use the output quota. Otherwise reports could make the journal grow without
// limit.
func TestT124ReportsCountAsOutput(t *testing.T) {
	text := strings.Repeat("x", 10_000)
	floods := map[string]func(c *tool.Call) error{
		"activities":          func(c *tool.Call) error { return c.Activity("a", "text", text) },
		"ids of activities":   func(c *tool.Call) error { return c.Activity(text, "text", 1) },
		"types of activities": func(c *tool.Call) error { return c.Activity("a", text, 1) },
		"deltas":              func(c *tool.Call) error { return c.ActivityDelta("a", text) },
		"messages":            func(c *tool.Call) error { return c.Progress(tool.ProgressRunning, 0, text) },
		"states":              func(c *tool.Call) error { return c.ReportProgress(tool.Progress{Status: tool.ProgressStatus(text)}) },
		"empty progress":      func(c *tool.Call) error { return c.Progress(tool.ProgressRunning, 0, "") },
	}
	for name, report := range floods {
		size := 10_000
		if name == "empty progress" {
			size = 64
		}
		for _, e := range []tool.Effects{mutating, reading} {
			run := func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
				for n := 0; ctx.Err() == nil && n < 4*quotaBytes; n += size {
					_ = report(c)
				}
				return nil, context.Cause(ctx)
			}
			inBubble(t, []tool.Tool{made("flood", e, run)}, smallQuota, func(t *testing.T, w *world) {
				c := w.do(spec("flood", ""))
				wantExhausted(t, w, c, "OUTPUT_QUOTA")
				size := 0
				for _, ev := range logOf(w, c) {
					size += ev.Weight()
				}
				if size > quotaBytes+1000 {
					t.Errorf("%s: the journal has %d bytes; the quota is %d", name, size, quotaBytes)
				}
			})
		}
	}
}

// TestT124ReportsOfEarlierAttemptsCount checks that the reports of earlier attempts use the quota of the call, also after a restart.
func TestT124ReportsOfEarlierAttemptsCount(t *testing.T) {
	asks := made("asks", mutating, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		for range 60 {
			if err := c.Activity("a", "text", strings.Repeat("x", 10_000)); err != nil {
				return nil, err
			}
		}
		if c.Resume == nil {
			return tool.Suspended("go on?"), nil
		}
		return tool.Text("done"), nil
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

// TestT124CheckpointsCount checks that only the largest checkpoint of a call uses the quota, because each checkpoint replaces the previous
// one.
func TestT124CheckpointsCount(t *testing.T) {
	saves := made("saves", mutating, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		if err := c.Output("stdout", make([]byte, quotaBytes-150_000)); err != nil {
			return nil, err
		}
		for range 100 {
			if err := c.SaveCheckpoint(make([]byte, 100_000)); err != nil {
				return nil, fmt.Errorf("a checkpoint that replaces another: %w", err)
			}
		}
		return nil, c.SaveCheckpoint(make([]byte, 200_000))
	})
	inBubble(t, []tool.Tool{saves}, smallQuota, func(t *testing.T, w *world) {
		c := w.do(spec("saves", ""))
		wantExhausted(t, w, c, "OUTPUT_QUOTA")
		if len(c.Checkpoint) != 100_000 {
			t.Errorf("the checkpoint has %d bytes", len(c.Checkpoint))
		}
	})
}

// TestT124DocumentCommandsCount checks that document commands of a tool use the quota. Commands beyond the quota are dropped, but the
// result of the call is kept.
func TestT124DocumentCommandsCount(t *testing.T) {
	writes := made("writes", mutating, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		r := tool.Text("done")
		for i := range 100 {
			r.Documents = append(r.Documents, tool.Command{Op: tool.OpSet, Scope: tool.ThreadScope, Key: fmt.Sprintf("key-%d", i), Value: `"` + strings.Repeat("x", 50_000) + `"`})
		}
		return r, nil
	})
	inBubble(t, []tool.Tool{writes}, smallQuota, func(t *testing.T, w *world) {
		c := w.do(spec("writes", ""))
		if c.Status != call.Succeeded {
			t.Fatalf("%s %+v", c.Status, c.Result)
		}
		written := 0
		for _, ev := range logOf(w, c) {
			if ev.Type == call.EventDocumentChanged {
				written++
			}
		}
		if written != quotaBytes/50_100 {
			t.Errorf("%d documents of 50,000 bytes were written; the quota is %d", written, quotaBytes)
		}
	})
}

// logOf returns the stored log of an ended call.
func logOf(w *world, c *call.Call) (list []call.Event) {
	w.t.Helper()
	time.Sleep(time.Second) // After this time, the BEHIND events are written.
	for {
		events, _, err := w.store.Events(w.t.Context(), c.Key(), int64(len(list)), 1000)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(events) == 0 {
			return list
		}
		list = append(list, events...)
	}
}
