package lifecycle_test

import (
	"context"
	"strings"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/memory"
	"github.com/toold-dev/toold/tool"
)

func keeps(limits store.OutputLimits) func(*lifecycle.Config) {
	return func(c *lifecycle.Config) { c.Store, c.OutputBudget = memory.New(memory.Config{Output: limits}), 2000 }
}

func inThread(s call.Spec, thread string) call.Spec {
	s.Run = tool.Run{ID: "run-" + thread, Thread: thread}
	return s
}

// chatty returns a tool that prints as many KiB as its argument has letters. The result lists the output as an artifact of this size.
func chatty() tool.Tool {
	return made("chatty", mutating, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		for range len(c.Arguments.String("n")) {
			if err := c.Output("stdout", []byte(strings.Repeat("x", 1<<10))); err != nil {
				return nil, err
			}
		}
		r := tool.SuccessMessage(nil, "%s", c.Arguments.String("say"))
		r.Artifacts = []tool.Artifact{{Name: "stdout", Size: int64(len(c.Arguments.String("n"))) << 10}}
		return r, nil
	})
}

func kib(n int) string { return `{"n":"` + strings.Repeat("k", n) + `","say":"done"}` }

func wantCut(t *testing.T, w *world, c *call.Call, reason string, keptBytes int64) {
	t.Helper()
	if c.Status != call.Succeeded || c.Result.Error != nil || c.Result.Metadata["output_cut"] != reason {
		t.Fatalf("%s %+v, want it succeeded with its output cut for %s", c.Status, c.Result, reason)
	}
	if reason == "" {
		return
	}
	if !c.Result.Truncated || !strings.Contains(c.Result.Message, "done\n[Output was cut: the calls of this") {
		t.Errorf("result %+v does not report the cut", c.Result)
	}
	cuts := 0
	for _, ev := range w.log(c.ID) {
		if ev.Progress != nil && strings.Contains(ev.Progress.Message, "Output was cut") {
			cuts++
		}
	}
	if cuts != 1 {
		t.Errorf("the log reports the cut %d times, want once", cuts)
	}
	size, err := w.store.Spool().Size(c.Key(), "stdout")
	if keptBytes == 0 {
		if err == nil || len(c.Result.Artifacts) != 0 {
			t.Errorf("%d bytes are kept, %+v", size, c.Result.Artifacts)
		}
	} else if size != keptBytes || len(c.Result.Artifacts) != 1 || c.Result.Artifacts[0].Size != size {
		t.Errorf("%d bytes are kept, want %d; %+v", size, keptBytes, c.Result.Artifacts)
	}
}

// TestOutputOfAThreadIsBounded checks a thread that has reached its output limit. Its calls continue, but their output is not stored. Other
// threads are not affected, and a purge frees the space.
func TestOutputOfAThreadIsBounded(t *testing.T) {
	inBubble(t, []tool.Tool{chatty()}, keeps(store.OutputLimits{Thread: 10 << 10}), func(t *testing.T, w *world) {
		first := w.do(inThread(spec("chatty", kib(6)), "a"))
		wantCut(t, w, first, "", 0)
		wantCut(t, w, w.do(inThread(spec("chatty", kib(6)), "a")), "OUTPUT_QUOTA_THREAD", 4<<10)
		wantCut(t, w, w.do(inThread(spec("chatty", kib(1)), "a")), "OUTPUT_QUOTA_THREAD", 0)
		wantCut(t, w, w.do(inThread(spec("chatty", kib(0)), "a")), "", 0)
		wantCut(t, w, w.do(inThread(spec("chatty", kib(10)), "b")), "", 0)
		wantCut(t, w, w.do(inThread(spec("chatty", kib(20)), "")), "", 0)

		w.crash()
		wantCut(t, w, w.do(inThread(spec("chatty", kib(1)), "a")), "OUTPUT_QUOTA_THREAD", 0)
		if n, _, err := w.e.Purger().Purge(t.Context(), carol, call.PurgeSelector{IDs: []string{first.ID}}); err != nil || n != 1 {
			t.Fatal(n, err)
		}
		wantCut(t, w, w.do(inThread(spec("chatty", kib(6)), "a")), "", 0)
		wantCut(t, w, w.do(inThread(spec("chatty", kib(1)), "a")), "OUTPUT_QUOTA_THREAD", 0)
	})
}

// TestCutOutputHasNoHole checks a call whose output was cut. No later output of the call is stored, even when there is space again, because
// the stored output would have a hole.
func TestCutOutputHasNoHole(t *testing.T) {
	var w *world
	var first *call.Call
	freeing := made("freeing", mutating, func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		for i := range 3 {
			if i == 2 {
				if _, _, err := w.e.Purger().Purge(ctx, carol, call.PurgeSelector{IDs: []string{first.ID}}); err != nil {
					return nil, err
				}
			}
			if err := c.Output("stdout", []byte(strings.Repeat(string(rune('0'+i)), 600))); err != nil {
				return nil, err
			}
		}
		return tool.Text("done"), nil
	})
	inBubble(t, []tool.Tool{chatty(), freeing}, keeps(store.OutputLimits{Namespace: 2000}), func(t *testing.T, world *world) {
		w = world
		first = w.do(spec("chatty", kib(1)))
		c := w.do(spec("freeing", ""))
		wantCut(t, w, first, "", 0)
		if c.Result.Metadata["output_cut"] != "OUTPUT_QUOTA_NAMESPACE" {
			t.Errorf("result %+v", c.Result)
		}
		if size, err := w.store.Spool().Size(c.Key(), "stdout"); err != nil || size != 600 {
			t.Errorf("%d bytes are kept, %v, want the first 600", size, err)
		}
	})
}

// TestCutResultsAndArtifacts checks a call at an exhausted quota. The part of a long result that would be stored is dropped, and an
// artifact is refused as a whole.
func TestCutResultsAndArtifacts(t *testing.T) {
	big := made("big", reading, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		return tool.SuccessMessage(map[string]string{"data": strings.Repeat("d", 5000)}, "%s", strings.Repeat("m", 5000)), nil
	})
	saves := made("saves", mutating, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		_, err := c.SaveArtifact("image", "image/png", make([]byte, 5000))
		return tool.Text("ok"), err
	})
	inBubble(t, []tool.Tool{big, saves}, keeps(store.OutputLimits{Thread: 4000}), func(t *testing.T, w *world) {
		c := w.do(inThread(spec("big", ""), "a"))
		if r := c.Result; c.Status != call.Succeeded || len(r.Artifacts) != 0 || strings.Contains(r.Data+r.Message, "artifact://") || !strings.Contains(r.Message, "bytes left out …]") ||
			r.Metadata["output_cut"] != "OUTPUT_QUOTA_THREAD" {
			t.Errorf("%s %+v", c.Status, r)
		}
		c = w.do(inThread(spec("saves", ""), "a"))
		if e := c.Result.Error; c.Status != call.Failed || e == nil || e.Code != tool.ResourceExhausted || e.Reason != "OUTPUT_QUOTA_THREAD" {
			t.Errorf("%s %+v", c.Status, c.Result.Error)
		}
		if c = w.do(inThread(spec("big", ""), "")); len(c.Result.Artifacts) != 2 {
			t.Errorf("without a thread: %+v", c.Result.Artifacts)
		}
	})
}

// TestCutLastsForTheAttempt checks a call whose output was cut in its first attempt. When there is space again, the output of a later
// attempt is stored. This must hold with and without a watcher during the question.
func TestCutLastsForTheAttempt(t *testing.T) {
	asks := made("asks", mutating, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		if err := c.Output("stdout", []byte(strings.Repeat("x", 1200))); err != nil {
			return nil, err
		}
		if c.Resume == nil {
			return tool.Suspended("go on?"), nil
		}
		return tool.Text("done"), nil
	})
	for _, watched := range []bool{false, true} {
		inBubble(t, []tool.Tool{chatty(), asks}, keeps(store.OutputLimits{Namespace: 2000}), func(t *testing.T, w *world) {
			first, s := w.do(spec("chatty", kib(1))), spec("asks", "")
			if watched {
				defer w.start(s, call.ExecuteOptions{WaitForDecision: true}).Close()
			}
			c := w.do(s)
			if _, _, err := w.e.Purger().Purge(t.Context(), carol, call.PurgeSelector{IDs: []string{first.ID}}); err != nil {
				t.Fatal(err)
			}
			c = w.answer(alice, c, tool.Decision{Action: tool.Resume, Result: "1"})
			size, err := w.store.Spool().Size(c.Key(), "stdout")
			if err != nil || size != 1200 || c.Result.Truncated {
				t.Errorf("watched %t: %d bytes are kept, %v; %+v", watched, size, err, c.Result)
			}
		})
	}
}
