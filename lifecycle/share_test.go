package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// TestWatchersAtTheSamePositionShareAFrame checks that watchers at the same position share a frame and its encoded form. A watcher at another
// position, or a single watcher, gets its own frame. A frame with a question is never shared, because not all watchers may see its full
// description.
func TestWatchersAtTheSamePositionShareAFrame(t *testing.T) {
	p := held()
	inBubble(t, []tool.Tool{p.tool("t", reading), asks("asks", tool.Ticket{Message: "well?"})}, nil, func(t *testing.T, w *world) {
		s := spec("t", `{}`)
		id := w.begin(s)
		at := func(cursor string) call.Stream {
			watcher, err := w.e.Watch(t.Context(), alice, id, cursor, true)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(watcher.Close)
			return watcher
		}
		next := func(watcher call.Stream) call.Frame {
			f, err := watcher.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for f.CaughtUp {
				if f, err = watcher.Next(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			return f
		}
		one, two, late := at("c1.1.2"), at("c1.1.2"), at("c1.1.0")
		p.free()
		synctest.Wait()
		a, b, c := next(one), next(two), next(late)
		if a.Shared == nil || a.Shared != b.Shared || c.Shared == a.Shared {
			t.Errorf("shared %p, %p, %p", a.Shared, b.Shared, c.Shared)
		}
		if contents(a.Events) != contents(b.Events) || types(t, 3, a.Events) != "finished" || a.Cursor != "c1.1.3" || b.Cursor != a.Cursor {
			t.Errorf("%q at %q, %q at %q", contents(a.Events), a.Cursor, contents(b.Events), b.Cursor)
		}
		if got := types(t, 1, c.Events); got != "accepted attempt_started finished" || c.Cursor != "c1.1.3" {
			t.Errorf("who came late has %q at %q", got, c.Cursor)
		}
		made := 0
		form := func() any { made++; return made }
		if a.Shared.Form(form) != b.Shared.Form(form) || made != 1 {
			t.Errorf("made %d times", made)
		}
		for _, watcher := range []call.Stream{one, two, late} {
			watcher.Close()
		}
		if f := next(at("c1.1.2")); f.Shared != nil {
			t.Error("shared by one")
		}
		id = w.begin(spec("asks", `{}`))
		one, two = at("c1.1.0"), at("c1.1.0")
		if a, b := next(one), next(two); a.Shared != nil || b.Shared != nil || contents(a.Events) != contents(b.Events) {
			t.Errorf("a question is shared: %q, %q", contents(a.Events), contents(b.Events))
		}
	})
}

// TestSharedFrameHasTheEpoch checks that the cursor of a shared frame has the epoch in which its events were published. A watcher that
// reconnects with this cursor misses no event and gets no gap. The same holds for the cursor of a control frame that follows.
func TestSharedFrameHasTheEpoch(t *testing.T) {
	p := held()
	ask := gates(namedGate("ask", approval(tool.Ticket{})))
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, ask, func(t *testing.T, w *world) {
		c := w.do(spec("t", `{}`))
		w.crash()
		watch := func(cursor string) call.Stream {
			watcher, err := w.e.Watch(t.Context(), alice, c.ID, cursor, true)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(watcher.Close)
			return watcher
		}
		next := func(watcher call.Stream) call.Frame {
			for {
				f, err := watcher.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if !f.CaughtUp {
					return f
				}
			}
		}
		first := fmt.Sprintf("c1.1.%d", c.LastSequence)
		watchers := []call.Stream{watch(first), watch(first)}
		decided, err := w.e.Resume(t.Context(), bob, call.ResumeRequest{
			SuspensionID: c.Open().ID, Decision: tool.Decision{ID: "decision-" + c.ID, Action: tool.Resume, ExpectedDigest: c.Open().Digest},
		})
		if err != nil {
			t.Fatal(err)
		}
		decided.Close()
		synctest.Wait()
		want := fmt.Sprintf("c1.2.%d", w.get(c.ID).LastSequence)
		for _, watcher := range watchers {
			f := next(watcher)
			if f.Shared == nil || f.Cursor != want || watcher.Cursor() != want {
				t.Errorf("shared %t, the frame says %s and its watcher is at %s, want %s", f.Shared != nil, f.Cursor, watcher.Cursor(), want)
			}
			if f.Cursor != want { // This cursor names the wrong epoch, so a watcher that starts at it would fail too.
				continue
			}
			watchers = append(watchers, watch(f.Cursor), watch(watcher.Cursor()))
		}
		p.free()
		synctest.Wait()
		for _, watcher := range watchers {
			if f := next(watcher); f.Gap != nil || types(t, w.get(c.ID).LastSequence, f.Events) != "finished" {
				t.Errorf("behind it %+v, %s", f.Gap, contents(f.Events))
			}
		}
	})
}

// TestWhatIsNotShared checks watchers that are far behind at the same position. They get all events. Their frames are as small as the
// frames of a single watcher. It also checks that a frame with a question is not shared, because not all watchers may see the full
// description in the question.
func TestWhatIsNotShared(t *testing.T) {
	begun := make(map[string]chan struct{})
	afterBegin := func(id string, execute func(c *tool.Call) (*tool.Result, error)) tool.Tool {
		return made(id, mutating, func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
			select {
			case <-begun[id]:
				return execute(c)
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		})
	}
	tools := []tool.Tool{
		afterBegin("many", func(c *tool.Call) (*tool.Result, error) {
			for i := range 300 {
				if err := c.Progress(tool.ProgressRunning, 0, fmt.Sprint(i)); err != nil {
					return nil, err
				}
			}
			return tool.Text("done"), nil
		}),
		afterBegin("large", func(c *tool.Call) (*tool.Result, error) {
			for i := range 10 {
				if err := c.Progress(tool.ProgressRunning, 0, fmt.Sprint(i)+strings.Repeat("x", 60<<10)); err != nil {
					return nil, err
				}
			}
			return tool.Text("done"), nil
		}),
		afterBegin("asks", func(*tool.Call) (*tool.Result, error) { return tool.SuspendedWith(tool.Ticket{Message: "well?"}), nil }),
	}
	inBubble(t, tools, nil, func(t *testing.T, w *world) {
		for id, last := range map[string]int64{"many": 303, "large": 13, "asks": 3} {
			begun[id] = make(chan struct{})
			key := w.begin(spec(id, `{}`))
			var watchers []call.Stream
			for range 2 {
				watcher, err := w.e.Watch(t.Context(), alice, key, "c1.1.0", true)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(watcher.Close)
				watchers = append(watchers, watcher)
			}
			close(begun[id])
			synctest.Wait()
			for _, watcher := range watchers {
				var at int64
				for at < last {
					f, err := watcher.Next(t.Context())
					if err != nil {
						t.Fatalf("%s: %v behind event %d", id, err, at)
					}
					weight := 0
					for _, ev := range f.Events {
						if at++; ev.Sequence != at {
							t.Fatalf("%s: event %d instead of %d", id, ev.Sequence, at)
						}
						if weight += ev.Weight(); ev.Suspension != nil && f.Shared != nil {
							t.Errorf("%s: a question is shared", id)
						}
					}
					if len(f.Events) > 256 || weight > 256<<10 {
						t.Errorf("%s: a frame of %d events with %d bytes", id, len(f.Events), weight)
					}
				}
			}
		}
	})
}

// TestPurgeLeavesNoSharedFrame checks that a purge also removes the shared frame of a call, even while watchers of the call are connected.
func TestPurgeLeavesNoSharedFrame(t *testing.T) {
	answers := made("t", mutating, func(context.Context, *tool.Call) (*tool.Result, error) {
		time.Sleep(time.Minute)
		return tool.Text(secret), nil
	})
	inBubble(t, []tool.Tool{answers}, nil, func(t *testing.T, w *world) {
		id := w.begin(spec("t", ""))
		at := func(cursor string) call.Stream {
			watcher, err := w.e.Watch(t.Context(), alice, id, cursor, false)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(watcher.Close)
			return watcher
		}
		one, two := at("c1.1.2"), at("c1.1.2")
		time.Sleep(2 * time.Minute)
		for _, watcher := range []call.Stream{one, two} {
			if f, err := watcher.Next(t.Context()); err != nil || f.Shared == nil || !strings.Contains(contents(f.Events), secret) {
				t.Fatalf("it got %+v, %v", f, err)
			}
		}
		if n, _, err := w.e.Purger().Purge(t.Context(), carol, call.PurgeSelector{IDs: []string{id}}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		late := at("c1.1.2")
		for {
			f, err := late.Next(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(contents(f.Events), secret) {
				t.Fatalf("who came after the purge reads %s", contents(f.Events))
			}
		}
	})
}
