package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// readFeed reads a feed until n calls have ended, and reconnects with the last cursor after each frame.
func readFeed(w *world, p tool.Principal, run, thread, cursor string, n int) (logs map[string][]call.Event, last string) {
	logs = map[string][]call.Event{}
	for n > 0 {
		watcher, err := w.e.Watches().WatchFeed(w.t.Context(), p, run, thread, cursor, true)
		if err != nil {
			w.t.Error(err)
			return logs, cursor
		}
		for n > 0 {
			f, err := watcher.Next(w.t.Context())
			if err != nil {
				w.t.Error(err)
				return logs, cursor
			}
			logs[f.Key.ID] = append(logs[f.Key.ID], f.Events...)
			for _, ev := range f.Events {
				if ev.Type == call.EventFinished {
					n--
				}
			}
			if cursor = f.Cursor; len(f.Events) > 0 {
				break
			}
		}
		watcher.Close()
	}
	delete(logs, "")
	return logs, cursor
}

// TestP4FeedsPublishAtOnce checks that a waiting feed returns an event as soon as the event is stored, without waiting for the next event.
func TestP4FeedsPublishAtOnce(t *testing.T) {
	for _, effects := range []tool.Effects{mutating, reading} {
		inBubble(t, []tool.Tool{echo("t", effects)}, nil, func(t *testing.T, w *world) {
			ctx, leave := context.WithCancel(t.Context())
			watcher, err := w.e.Watches().WatchFeed(ctx, alice, "run-1", "", "", true)
			if err != nil {
				t.Fatal(err)
			}
			var received atomic.Int64
			var reader sync.WaitGroup
			reader.Go(func() {
				defer watcher.Close()
				for f, err := watcher.Next(ctx); err == nil; f, err = watcher.Next(ctx) {
					received.Add(int64(len(f.Events)))
				}
			})
			synctest.Wait() // Now the reader of the feed waits.
			c := w.do(spec("t", ""))
			time.Sleep(time.Second)
			if received.Load() != c.LastSequence || c.LastSequence == 0 {
				t.Errorf("%s: %d of %d events are received", effects.Mutability, received.Load(), c.LastSequence)
			}
			leave()
			reader.Wait()
		})
	}
}

func TestP4FeedsLoseAndRepeatNothing(t *testing.T) {
	tools := []tool.Tool{talker("t", mutating, 400, 0), talker("read", reading, 30, 11*time.Millisecond)}
	inBubble(t, tools, nil, func(t *testing.T, w *world) {
		viewer := tool.Principal{Namespace: "ns", Subject: "vera", Roles: []string{"viewer"}}
		of := map[string][]string{} // call ids by feed
		var all sync.WaitGroup
		type feed struct{ name, run, thread string }
		feeds := []feed{{"namespace", "", ""}, {"run", "run-0", ""}, {"thread", "", "thread-1"}}
		counts := map[string]int{"namespace": 12, "run": 6, "thread": 4}
		var mu sync.Mutex
		logs := map[string]map[string][]call.Event{}
		for _, f := range feeds {
			_, newest, err := w.store.Feed(t.Context(), store.Feed{Namespace: "ns"}, 1<<62, 1)
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				got, _ := readFeed(w, viewer, f.run, f.thread, fmt.Sprintf("f1.%d.0", newest), counts[f.name])
				mu.Lock()
				defer mu.Unlock()
				logs[f.name] = got
			})
		}
		for i := range 12 {
			s := spec([]string{"t", "read"}[i/6], "")
			s.Run.ID, s.Run.Thread = fmt.Sprintf("run-%d", i%2), fmt.Sprintf("thread-%d", i%3)
			of["namespace"] = append(of["namespace"], s.ID)
			if i%2 == 0 {
				of["run"] = append(of["run"], s.ID)
			}
			if i%3 == 1 {
				of["thread"] = append(of["thread"], s.ID)
			}
			all.Go(func() { w.do(s) })
		}
		all.Wait()
		for name, ids := range of {
			if len(logs[name]) != len(ids) {
				t.Errorf("feed of the %s has %d calls, want %d", name, len(logs[name]), len(ids))
			}
			for _, id := range ids {
				if got, want := contents(logs[name][id]), contents(w.checkLog(id)); got != want {
					t.Errorf("feed of the %s, call %s: %d events\n%.500s", name, id, len(logs[name][id]), got)
				}
			}
		}
		// The stored events can be read again, also after a restart.
		w.crash()
		again, err := w.e.Watches().WatchFeed(t.Context(), viewer, "run-0", "", "", false)
		if err != nil {
			t.Fatal(err)
		}
		list, controls := events(t, again)
		want := 0
		for _, id := range of["run"] {
			want += len(w.checkLog(id))
		}
		if want < 3*803+3*63 || len(list) != want || len(controls) != 1 || !controls[0].CaughtUp {
			t.Errorf("%d events and %+v, want %d", len(list), controls, want)
		}
	})
}

func TestFeedsShowVisibleCalls(t *testing.T) {
	inBubble(t, []tool.Tool{echo("t", mutating)}, nil, func(t *testing.T, w *world) {
		mine := w.do(spec("t", ""))
		other := spec("t", "")
		other.Run = tool.Run{ID: "run-2", Thread: "thread-2"}
		theirs, err := w.e.Execute(t.Context(), bob, other, call.ExecuteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := theirs.Wait(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		_, err = w.e.Watches().WatchFeed(t.Context(), alice, "", "", "", true)
		wantRefusal(t, err, call.PermissionDenied, "ROLE_REQUIRED")
		for _, run := range []string{"run-1", "run-2"} {
			seen := map[*tool.Principal]int{&alice: 1, &bob: 0, &carol: 1, &eve: 0}
			if run == "run-2" {
				seen[&alice], seen[&bob] = 0, 1
			}
			for who, want := range seen {
				feed, err := w.e.Watches().WatchFeed(t.Context(), *who, run, "", "", false)
				if err != nil {
					t.Fatal(err)
				}
				list, _ := events(t, feed)
				if len(list) != 3*want {
					t.Errorf("%s of %s sees %d events of %s", who.Subject, who.Namespace, len(list), run)
				}
			}
		}
		_, err = w.e.Watches().WatchFeed(t.Context(), carol, "", "", "f1.999999999.0", true)
		wantRefusal(t, err, call.OutOfRange, "CURSOR_OUT_OF_RANGE")
		for _, bad := range []string{"f1", "f1.x.0", "f1.1.-1", "c1.1.1", "f1.1.0.0"} {
			_, err := w.e.Watches().WatchFeed(t.Context(), carol, "", "", bad, true)
			wantRefusal(t, err, call.InvalidArgument, "INVALID_FIELD")
		}
		for _, bad := range []string{"c1", "c1.x.0", "c1.1.-1", "f1.1.1", "c1.1.1.1", strings.Repeat("c1.", 100)} {
			_, err := w.e.Watch(t.Context(), alice, mine.ID, bad, true)
			wantRefusal(t, err, call.InvalidArgument, "INVALID_FIELD")
		}
		for _, far := range []string{"c1.1.4", "c1.2.1", "c1.9.9"} {
			_, err := w.e.Watch(t.Context(), alice, mine.ID, far, true)
			wantRefusal(t, err, call.OutOfRange, "CURSOR_OUT_OF_RANGE")
		}
	})
}

func TestHeartbeatsAndClosing(t *testing.T) {
	p := held()
	heartbeats := func(c *lifecycle.Config) { c.Heartbeat = 15 * time.Second }
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, heartbeats, func(t *testing.T, w *world) {
		s := spec("t", "")
		w.begin(s)
		one, err := w.e.Watch(t.Context(), alice, s.ID, "c1.1.0", true)
		if err != nil {
			t.Fatal(err)
		}
		many, err := w.e.Watches().WatchFeed(t.Context(), carol, "", "", "", true)
		if err != nil {
			t.Fatal(err)
		}
		for name, watcher := range map[string]call.Stream{"call": one, "namespace": many} {
			for {
				f, err := watcher.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if f.CaughtUp {
					if f.Cursor == "" || name == "call" && f.Cursor != "c1.1.2" {
						t.Errorf("%s: caught up at %q", name, f.Cursor)
					}
					break
				}
			}
			for range 3 {
				before := time.Now()
				if f, err := watcher.Next(t.Context()); err != nil || !f.Heartbeat || time.Since(before) != 15*time.Second {
					t.Errorf("%s: after %v %+v, %v", name, time.Since(before), f, err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := watcher.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
			cancel()
		}
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			w.e.Drain(ctx)
		}()
		var all sync.WaitGroup
		for name, watcher := range map[string]call.Stream{"call": one, "namespace": many} {
			all.Go(func() {
				var list []call.Event
				for {
					f, err := watcher.Next(t.Context())
					if errors.Is(err, io.EOF) {
						break
					}
					if err != nil {
						t.Error(err)
						return
					}
					if list = append(list, f.Events...); f.Closing {
						if f.Cursor == "" {
							t.Errorf("%s: closed without a cursor", name)
						}
						break
					}
				}
				if len(list) == 0 || list[len(list)-1].Type != call.EventFinished {
					t.Errorf("%s: the end was not published: %d events", name, len(list))
				}
				watcher.Close()
			})
		}
		all.Wait()
	})
}

// TestClosingReportsTheCursor checks that, when the daemon closes, a waiting watcher gets a frame with its cursor.
func TestClosingReportsTheCursor(t *testing.T) {
	inBubble(t, []tool.Tool{asks("t", tool.Ticket{})}, nil, func(t *testing.T, w *world) {
		s := spec("t", "")
		watcher := w.start(s, call.ExecuteOptions{WaitForDecision: true})
		go func() {
			time.Sleep(time.Minute)
			drain(w.e)
		}()
		list, controls := events(t, watcher)
		if types(t, 1, list) != "accepted attempt_started suspended" || len(controls) != 1 || !controls[0].Closing || controls[0].Cursor != "c1.1.3" {
			t.Fatalf("events %s, then %+v", types(t, 1, list), controls)
		}
		w.store = w.store.Reopen()
		w.open()
		again, err := w.e.Execute(t.Context(), alice, s, call.ExecuteOptions{Cursor: controls[0].Cursor, WaitForDecision: true})
		if err != nil {
			t.Fatal(err)
		}
		w.answer(alice, w.get(s.ID), tool.Decision{Action: tool.Resume, Result: "1"})
		list, _ = events(t, again)
		if got := types(t, 4, list); got != "resumed attempt_started finished" {
			t.Errorf("then %s", got)
		}
	})
}

// TestListsContainPublishedCalls checks that a list contains every call whose events were published before the request, even while these are
// being written.
func TestListsContainPublishedCalls(t *testing.T) {
	release := make(chan struct{})
	inBubble(t, []tool.Tool{echo("t", reading)}, nil, func(t *testing.T, w *world) {
		release = make(chan struct{})
		w.useStore(nil, func(*store.Change) error { <-release; return nil })
		c := w.do(spec("t", ""))
		time.Sleep(60 * time.Millisecond) // By now, the write of the events has begun.
		synctest.Wait()
		listed := make(chan call.Page)
		go func() {
			page, err := w.e.Records().List(t.Context(), alice, call.Query{})
			if err != nil {
				t.Error(err)
			}
			listed <- page
		}()
		synctest.Wait()
		close(release)
		page := <-listed
		if !slices.ContainsFunc(page.Calls, func(x *call.Call) bool { return x.ID == c.ID }) {
			t.Errorf("%d calls listed", len(page.Calls))
		}
	})
}

// damagedStore is a journal in which the events of one call cannot be read for a feed.
type damagedStore struct {
	store.Store
	id string
}

func (s *damagedStore) Feed(ctx context.Context, f store.Feed, after int64, limit int) ([]store.FeedEntry, int64, error) {
	entries, newest, err := s.Store.Feed(ctx, f, after, limit)
	for i := range entries {
		if e := &entries[i]; e.Key.ID == s.id {
			e.Corrupt, e.Last, e.Events = true, e.Events[len(e.Events)-1].Sequence, nil
		}
	}
	return entries, newest, err
}

// TestP4FeedHasAGapForDamagedRows checks that a feed returns a gap in place of damaged rows and continues after them.
func TestP4FeedHasAGapForDamagedRows(t *testing.T) {
	inBubble(t, []tool.Tool{echo("t", mutating)}, nil, func(t *testing.T, w *world) {
		s := spec("t", "")
		s.Run.ID, s.Run.Thread = "run", "thread"
		broken := w.do(s)
		s.ID = spec("t", "").ID
		sound := w.do(s)
		other := w.do(spec("t", "")) // a call of another run and thread
		cfg := w.cfg
		cfg.Store = &damagedStore{w.store, broken.ID}
		e, err := lifecycle.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer drain(e)
		for _, of := range []struct {
			who         tool.Principal
			run, thread string
		}{{carol, "", ""}, {carol, "run", ""}, {carol, "", "thread"}, {alice, "run", ""}, {alice, "", "thread"}} { // alice sees her own calls.
			watcher, err := e.Watches().WatchFeed(t.Context(), of.who, of.run, of.thread, "", false)
			if err != nil {
				t.Fatal(err)
			}
			list, controls := events(t, watcher)
			want := sound.LastSequence
			if of.run+of.thread == "" {
				want += other.LastSequence
			}
			if len(list) != int(want) {
				t.Fatalf("%+v: %d events of sound calls, not %d", of, len(list), want)
			}
			types(t, 1, list[:sound.LastSequence])
			var last int64
			for _, f := range controls {
				if f.Gap == nil {
					continue
				}
				if last = f.Gap.FirstKept - 1; !f.Gap.Corrupt || f.Key.ID != broken.ID || f.Cursor == "" {
					t.Errorf("%+v: gap %+v of %s", of, f.Gap, f.Key.ID)
				}
			}
			if last != broken.LastSequence {
				t.Errorf("%+v: the gaps end with event %d of %d", of, last, broken.LastSequence)
			}
		}
	})
}
