package lifecycle_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// talker returns a tool that prints and reports n times, with pauses.
func talker(id string, e tool.Effects, n int, pause time.Duration) tool.Tool {
	return made(id, e, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		for i := range n {
			if err := c.Progress(tool.ProgressRunning, float64(i)/float64(n), fmt.Sprint(i)); err != nil {
				return nil, err
			}
			if err := c.Output("stdout", fmt.Appendf(nil, "line %d\n", i)); err != nil {
				return nil, err
			}
			time.Sleep(pause)
		}
		return tool.Text("said"), nil
	})
}

// content returns the part of an event that must be equal for all watchers.
func content(ev call.Event) string {
	s := fmt.Sprintf("%d %s %d", ev.Sequence, ev.Type, ev.Attempt)
	switch {
	case ev.Progress != nil:
		s += ev.Progress.Message
	case ev.Output != nil:
		s += fmt.Sprintf("%s %d %q", ev.Output.Stream, ev.Output.Offset, ev.Output.Bytes)
	case ev.Outcome != nil:
		s += string(ev.Outcome.Status) + ev.Outcome.Result.ModelText()
	}
	return s
}

func contents(list []call.Event) string {
	var b strings.Builder
	for _, ev := range list {
		b.WriteString(content(ev) + "\n")
	}
	return b.String()
}

func TestT92ReattachAtEachSequence(t *testing.T) {
	for _, effects := range []tool.Effects{mutating, reading} {
		inBubble(t, []tool.Tool{talker("t", effects, 100, 3*time.Millisecond)}, nil, func(t *testing.T, w *world) {
			s := spec("t", "")
			first := w.start(s, call.ExecuteOptions{})
			var all sync.WaitGroup
			logs := make([][]call.Event, 203)
			for after := range int64(203) {
				all.Go(func() {
					for w.get(s.ID).LastSequence < after { // Wait until the event exists.
						time.Sleep(time.Millisecond)
					}
					cursor := w.e.Watches().CursorAfter(after)
					for {
						watcher, err := w.e.Watch(t.Context(), alice, s.ID, cursor, true)
						if err != nil {
							t.Error(err)
							return
						}
						f, err := watcher.Next(t.Context())
						watcher.Close() // Reconnect after each frame.
						if errors.Is(err, io.EOF) {
							return
						}
						if err != nil || f.Gap != nil || f.Snapshot != nil {
							t.Errorf("after %d: %+v, %v", after, f, err)
							return
						}
						logs[after] = append(logs[after], f.Events...)
						if cursor = f.Cursor; f.CaughtUp {
							time.Sleep(7 * time.Millisecond)
						}
					}
				})
			}
			live, _ := events(t, first)
			all.Wait()
			if got := types(t, 1, live); strings.Count(got, "output") != 100 || !strings.HasSuffix(got, "finished") || len(live) != 203 {
				t.Fatalf("events %s", got)
			}
			for after, list := range logs {
				if got, want := contents(list), contents(live[after:]); got != want {
					t.Fatalf("after %d:\n%s\nwant\n%s", after, got, want)
				}
			}
			time.Sleep(time.Second)
			w.crash()
			if got := contents(w.checkLog(s.ID)); got != contents(live) {
				t.Errorf("after a restart:\n%s", got)
			}
		})
	}
}

// TestSlowWatcherLosesNothing checks a watcher that pauses while the call continues. The events that are no longer in memory are read from
// the journal.
func TestSlowWatcherLosesNothing(t *testing.T) {
	const n = 2000
	for _, effects := range []tool.Effects{mutating, reading} {
		inBubble(t, []tool.Tool{talker("t", effects, n, 0)}, nil, func(t *testing.T, w *world) {
			s := spec("t", "")
			slow := w.start(s, call.ExecuteOptions{})
			w.do(s)
			var list []call.Event
			for {
				f, err := slow.Next(t.Context())
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil || len(f.Events) == 0 || len(f.Events) > 256 {
					t.Fatalf("frame of %d events, %v", len(f.Events), err)
				}
				list = append(list, f.Events...)
			}
			slow.Close()
			if got := types(t, 1, list); len(list) != 2*n+3 || !strings.HasSuffix(got, "finished") {
				t.Errorf("%d events", len(list))
			}
			i := 0
			for _, ev := range list {
				if ev.Output != nil {
					if want := fmt.Sprintf("line %d\n", i); string(ev.Output.Bytes) != want {
						t.Fatalf("output %q, want %q", ev.Output.Bytes, want)
					}
					i++
				}
			}
		})
	}
}

func TestFramesAreBounded(t *testing.T) {
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB in one output
	loud := made("t", mutating, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		for range 3 {
			if err := c.Output("stdout", big); err != nil {
				return nil, err
			}
		}
		for range 4 {
			if err := c.Activity("a", "plan", strings.Repeat("x", 100<<10)); err != nil {
				return nil, err
			}
		}
		if err := c.Activity("a", "plan", strings.Repeat("x", 1<<20)); err == nil {
			return nil, errors.New("an activity larger than a frame was taken")
		}
		return tool.Text("said"), nil
	})
	inBubble(t, []tool.Tool{loud}, nil, func(t *testing.T, w *world) {
		s := spec("t", "")
		fresh := w.start(s, call.ExecuteOptions{})
		if c := w.do(s); c.Status != call.Succeeded {
			t.Fatalf("%+v", c.Result)
		}
		late, err := w.e.Watch(t.Context(), alice, s.ID, "c1.1.0", true)
		if err != nil {
			t.Fatal(err)
		}
		feed, err := w.e.Watches().WatchFeed(t.Context(), alice, "run-1", "", "", false)
		if err != nil {
			t.Fatal(err)
		}
		for name, watcher := range map[string]call.Stream{"fresh": fresh, "late": late, "feed": feed} {
			var out []byte
			for {
				f, err := watcher.Next(t.Context())
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				size := 0
				for _, ev := range f.Events {
					if ev.Output != nil {
						size += len(ev.Output.Bytes)
						out = append(out, ev.Output.Bytes...)
					}
					if ev.Activity != nil {
						size += len(ev.Activity.Content)
					}
				}
				if size > 256<<10 || len(f.Events) > 256 {
					t.Errorf("%s: a frame of %d events and %d bytes", name, len(f.Events), size)
				}
			}
			watcher.Close()
			if !bytes.Equal(out, bytes.Repeat(big, 3)) {
				t.Errorf("%s: %d bytes of output", name, len(out))
			}
		}
	})
}

func TestT110LostTail(t *testing.T) {
	inBubble(t, []tool.Tool{talker("t", reading, 100, 20*time.Millisecond)}, nil, func(t *testing.T, w *world) {
		s := spec("t", "")
		old := map[string]string{} // content of each event, by epoch and sequence
		cursors := []string{}
		follow := func(cursor string, lines int) { // The tool prints one line each 20 ms. The engine writes published events each 50 ms.
			t.Helper()
			watcher, err := w.e.Execute(t.Context(), alice, s, call.ExecuteOptions{Cursor: cursor})
			if err != nil {
				t.Fatal(err)
			}
			defer watcher.Close()
			for lines > 0 {
				f, err := watcher.Next(t.Context())
				if errors.Is(err, io.EOF) {
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				for _, ev := range f.Events {
					epoch := strings.Split(f.Cursor, ".")[1]
					key := fmt.Sprintf("%s %d", epoch, ev.Sequence)
					if was, ok := old[key]; ok && was != content(ev) {
						t.Errorf("event %s was %s and is %s", key, was, content(ev))
					}
					old[key] = content(ev)
					if ev.Output != nil {
						lines--
					}
				}
				cursors = append(cursors, f.Cursor)
			}
		}
		follow("", 8) // This watcher reads until 140 ms. At the crash, the journal has only the events of the first 100 ms.
		lost := cursors[len(cursors)-1]
		w.crash()
		watcher, err := w.e.Execute(t.Context(), alice, s, call.ExecuteOptions{Cursor: lost})
		if err != nil {
			t.Fatal(err)
		}
		f, err := watcher.Next(t.Context())
		if err != nil || f.Gap == nil || !f.Gap.LostTail {
			t.Fatalf("first frame %+v, %v", f, err)
		}
		watcher.Close()
		follow(f.Cursor, 6) // The cursor in the gap continues after the events that still exist. This watcher reads until 100 ms; the journal has the events of the first 40 ms.
		w.crash()
		follow(cursors[len(cursors)-1], 1000)
		for _, cursor := range cursors { // An earlier cursor must never return a different event for the same epoch and sequence.
			follow(cursor, 1000)
		}
		if c := w.do(s); c.Status != call.Succeeded || len(c.Epochs) != 3 {
			t.Errorf("call %s, epochs %+v", c.Status, c.Epochs)
		}
		w.checkLog(s.ID)
	})
}

// TestT110ForgottenCall checks a read-only call that a crash lost completely. When it is sent again, it begins in a new epoch.
func TestT110ForgottenCall(t *testing.T) {
	p := held()
	inBubble(t, []tool.Tool{p.tool("t", reading)}, nil, func(t *testing.T, w *world) {
		s := spec("t", "")
		watcher := w.start(s, call.ExecuteOptions{})
		f, err := watcher.Next(t.Context())
		watcher.Close()
		if err != nil || f.Cursor != "c1.1.2" && f.Cursor != "c1.1.1" {
			t.Fatalf("%+v, %v", f, err)
		}
		w.crash() // The crash comes within the 50 ms in which events are not written yet.
		_, err = w.e.Records().Get(t.Context(), alice, s.ID)
		wantRefusal(t, err, call.NotFound, "CALL_NOT_FOUND")
		p.free()
		again, err := w.e.Execute(t.Context(), alice, s, call.ExecuteOptions{Cursor: f.Cursor})
		if err != nil {
			t.Fatal(err)
		}
		list, controls := events(t, again)
		if got := types(t, 1, list); got != "accepted attempt_started finished" || again.Cursor() != "c1.2.3" {
			t.Errorf("events %s up to %s", got, again.Cursor())
		}
		if len(controls) != 1 || controls[0].Gap == nil || *controls[0].Gap != (call.Gap{LostTail: true, FirstKept: 1, Epoch: 2}) || controls[0].Cursor != "c1.2.0" {
			t.Errorf("the call began again with %+v", controls)
		}
		time.Sleep(time.Second)
		late, err := w.e.Watch(t.Context(), alice, s.ID, f.Cursor, true)
		if err != nil {
			t.Fatal(err)
		}
		list, controls = events(t, late)
		if len(controls) != 1 || controls[0].Gap == nil || !controls[0].Gap.LostTail || types(t, 1, list) != "accepted attempt_started finished" {
			t.Errorf("with the old cursor: %+v, %s", controls, types(t, 1, list))
		}
	})
}

// trimmedStore is a journal without the beginning of each log.
type trimmedStore struct {
	store.Store
	first int64
}

func (s *trimmedStore) Events(ctx context.Context, key call.Key, after int64, limit int) ([]call.Event, int64, error) {
	list, _, err := s.Store.Events(ctx, key, max(after, s.first-1), limit)
	return list, s.first, err
}

func TestTrimmedBeginningIsAGap(t *testing.T) {
	inBubble(t, []tool.Tool{talker("t", mutating, 10, 0)}, nil, func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		synctest.Wait()
		cfg := w.cfg
		cfg.Store = &trimmedStore{w.store, 8}
		e, err := lifecycle.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for after, gap := range map[int64]bool{0: true, 3: true, 6: true, 7: false, 9: false} {
			watcher, err := e.Watch(t.Context(), alice, c.ID, e.Watches().CursorAfter(after), true)
			if err != nil {
				t.Fatal(err)
			}
			list, controls := events(t, watcher)
			if got := len(controls) == 1 && controls[0].Gap != nil && controls[0].Gap.FirstKept == 8 && controls[0].Cursor == "c1.1.7"; got != gap {
				t.Errorf("after %d: %+v", after, controls)
			}
			types(t, max(after+1, 8), list)
			if len(list) != int(c.LastSequence-max(after, 7)) {
				t.Errorf("after %d: %d events", after, len(list))
			}
		}
	})
}

// TestP11WatchersReleaseSentEvents checks the memory of a watcher that reads events ahead. The events that it has returned must not
// stay in memory.
func TestP11WatchersReleaseSentEvents(t *testing.T) {
	const size, watchers = 16 << 20, 16
	prints := made("prints", mutating, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		return tool.Text("done"), c.Output("stdout", make([]byte, size))
	})
	inBubble(t, []tool.Tool{prints}, nil, func(t *testing.T, w *world) {
		id := w.do(spec("prints", "")).ID
		heap := func() int64 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		before := heap()
		for range watchers {
			watcher, err := w.e.Watch(t.Context(), alice, id, "c1.1.0", true)
			if err != nil {
				t.Fatal(err)
			}
			defer watcher.Close()
			for sent := 0; sent < size/2; {
				f, err := watcher.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for i := range f.Events {
					sent += f.Events[i].Weight()
				}
			}
		}
		if grown := heap() - before; grown > watchers<<20 {
			t.Errorf("%d watchers that are half way keep %d bytes", watchers, grown)
		}
	})
}
