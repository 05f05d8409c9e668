package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
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

func TestT104SameIDFromElsewhere(t *testing.T) {
	p := &probe{}
	inBubble(t, []tool.Tool{p.tool("t", mutating), echo("other", mutating)}, nil, func(t *testing.T, w *world) {
		s := spec("t", `{"secret":1}`)
		w.do(s)
		others := map[string]func(s *call.Spec) tool.Principal{
			"thread":    func(s *call.Spec) tool.Principal { s.Run.Thread = "thread-2"; return alice },
			"run":       func(s *call.Spec) tool.Principal { s.Run.ID = "run-2"; return alice },
			"principal": func(*call.Spec) tool.Principal { return bob },
			"operator":  func(*call.Spec) tool.Principal { return carol },
			"tool":      func(s *call.Spec) tool.Principal { s.Tool = "other"; return alice },
			"arguments": func(s *call.Spec) tool.Principal { s.Arguments = `{"secret":2}`; return alice },
			"number":    func(s *call.Spec) tool.Principal { s.Arguments = `{"secret":1.0}`; return alice },
			"broken":    func(s *call.Spec) tool.Principal { s.Arguments = `{"secret":1`; return alice },
		}
		for range 2 { // The second round is after a restart.
			for name, change := range others {
				again := s
				who := change(&again)
				_, err := w.e.Execute(t.Context(), who, again, call.ExecuteOptions{})
				if err == nil {
					t.Fatalf("another %s: taken", name)
				}
				wantRefusal(t, err, call.AlreadyExists, "CALL_ID_REUSED")
				if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "alice") {
					t.Errorf("another %s: refused with %q", name, err)
				}
			}
			w.crash()
		}
		// The same arguments in another JSON form are the same request. In another namespace, the same id belongs to another call.
		again := s
		again.Arguments = " { \"secret\" : 1 } "
		if c := w.do(again); c.Status != call.Succeeded || p.runs.Load() != 1 {
			t.Errorf("call %s, %d runs", c.Status, p.runs.Load())
		}
		if watcher, err := w.e.Execute(t.Context(), eve, s, call.ExecuteOptions{}); err != nil {
			t.Error(err)
		} else if _, err := watcher.Wait(t.Context(), time.Hour); err != nil || p.runs.Load() != 2 {
			t.Errorf("in another namespace: %d runs, %v", p.runs.Load(), err)
		}
	})
}

func TestT104SameIDAfterTrimming(t *testing.T) {
	p := &probe{}
	inBubble(t, []tool.Tool{p.tool("t", mutating), p.tool("read", reading)}, nil, func(t *testing.T, w *world) {
		for _, id := range []string{"t", "read"} {
			p.runs.Store(0)
			s := spec(id, "")
			w.do(s)
			time.Sleep(time.Minute)
			if trimmed, err := w.store.Trim(t.Context(), w.store.Now().Add(time.Hour), 0, 0, 100); err != nil || len(trimmed) != 1 {
				t.Fatalf("trimmed %v, %v", trimmed, err)
			}
			for range 2 {
				_, err := w.e.Execute(t.Context(), alice, s, call.ExecuteOptions{})
				wantRefusal(t, err, call.FailedPrecondition, "CALL_EXPIRED")
				_, err = w.e.Records().Get(t.Context(), alice, s.ID)
				wantRefusal(t, err, call.FailedPrecondition, "CALL_EXPIRED")
				w.crash()
			}
			if p.runs.Load() != 1 {
				t.Errorf("%s ran %d times", id, p.runs.Load())
			}
		}
	})
}

func TestT105RefusedByTheRequestCheck(t *testing.T) {
	p := held()
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, func(c *lifecycle.Config) { c.Concurrency, c.QueueLength, c.QueueTimeout = 1, 1, time.Hour }, func(t *testing.T, w *world) {
		running, queued := apart(spec("t", "")), apart(spec("t", ""))
		w.begin(running)
		w.begin(queued)
		if st := w.e.Stats(); st.Running != 1 || st.Queued != 1 {
			t.Fatalf("%+v", st)
		}
		s := spec("t", "")
		for range 3 {
			_, err := w.e.Execute(t.Context(), alice, s, call.ExecuteOptions{})
			wantRefusal(t, err, call.ResourceExhausted, "QUEUE_FULL")
			var r *call.Refusal
			if errors.As(err, &r); r.RetryAfter == 0 {
				t.Error("no time to come back")
			}
			_, err = w.e.Records().Get(t.Context(), alice, s.ID)
			wantRefusal(t, err, call.NotFound, "CALL_NOT_FOUND")
		}
		generated := s
		generated.ID = ""
		_, err := w.e.Execute(t.Context(), alice, generated, call.ExecuteOptions{})
		wantRefusal(t, err, call.ResourceExhausted, "QUEUE_FULL")
		w.start(queued, call.ExecuteOptions{}).Close() // Attaching to an existing call needs no capacity.
		ctx, cancel := context.WithCancel(t.Context())
		drained := make(chan struct{})
		go func() { w.e.Drain(ctx); close(drained) }()
		synctest.Wait()
		_, err = w.e.Execute(t.Context(), alice, s, call.ExecuteOptions{})
		wantRefusal(t, err, call.Unavailable, "DRAINING")
		w.start(running, call.ExecuteOptions{}).Close()
		p.free()
		<-drained
		cancel()
		w.store = w.store.Reopen()
		w.open()
		before := p.runs.Load()
		w.do(s)
		w.do(s)
		if p.runs.Load()-before != 1 {
			t.Errorf("ran %d times", p.runs.Load()-before)
		}
	})
}

func TestSameIDAtOnceRunsOnce(t *testing.T) {
	for _, effects := range []tool.Effects{mutating, reading} {
		p := &probe{}
		inBubble(t, []tool.Tool{p.tool("t", effects)}, nil, func(t *testing.T, w *world) {
			for round := range 20 {
				p.runs.Store(0)
				s := spec("t", fmt.Sprintf(`{"n":%d}`, round))
				var all sync.WaitGroup
				for i := range 100 {
					all.Go(func() {
						if i%10 == 9 {
							_, _ = w.e.Records().Get(t.Context(), alice, s.ID) // Reading an unknown id must not create an entry that makes the later call with this id fail.
							return
						}
						watcher, err := w.e.Execute(t.Context(), alice, s, call.ExecuteOptions{Attended: i%2 == 0})
						if err != nil {
							t.Error(err)
							return
						}
						if c, err := watcher.Wait(t.Context(), time.Hour); err != nil || c.Status != call.Succeeded {
							t.Errorf("%+v, %v", c, err)
						}
					})
				}
				all.Wait()
				if p.runs.Load() != 1 {
					t.Fatalf("round %d: ran %d times", round, p.runs.Load())
				}
				w.checkLog(s.ID)
			}
		})
	}
}

// slowStore is slow to report that a call does not exist.
type slowStore struct {
	store.Store
	asked, answer chan struct{}
	once          sync.Once
}

func (s *slowStore) Call(ctx context.Context, key call.Key) (*call.Call, error) {
	c, err := s.Store.Call(ctx, key)
	s.once.Do(func() {
		close(s.asked)
		<-s.answer
	})
	return c, err
}

// TestLookForACallThatComes checks a call that arrives while a reader looks for its id. Although the reader does not find the call, the
// call runs.
func TestLookForACallThatComes(t *testing.T) {
	inBubble(t, []tool.Tool{echo("t", mutating)}, nil, func(t *testing.T, w *world) {
		slow := &slowStore{Store: w.store, asked: make(chan struct{}), answer: make(chan struct{})}
		cfg := w.cfg
		cfg.Store = slow
		e, err := lifecycle.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		w.past = append(w.past, e)
		s := spec("t", "")
		go func() {
			_, err := e.Records().Get(t.Context(), alice, s.ID)
			wantRefusal(t, err, call.NotFound, "CALL_NOT_FOUND")
		}()
		<-slow.asked
		go func() {
			time.Sleep(time.Second)
			close(slow.answer)
		}()
		watcher, err := e.Execute(t.Context(), alice, s, call.ExecuteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if c, err := watcher.Wait(t.Context(), time.Hour); err != nil || c.Status != call.Succeeded {
			t.Errorf("%+v, %v", c, err)
		}
	})
}

func TestAttachToACallInEachState(t *testing.T) {
	p := held()
	inBubble(t, []tool.Tool{p.tool("held", mutating), p.tool("heldread", reading), echo("done", mutating), asks("asks", tool.Ticket{})}, nil, func(t *testing.T, w *world) {
		tests := []struct {
			tool   string
			status call.Status
			rest   string // types of the events after the snapshot
		}{
			{"held", call.Running, "finished"},
			{"heldread", call.Running, "finished"},
			{"done", call.Succeeded, ""},
			{"asks", call.Suspended, ""},
		}
		specs := map[string]call.Spec{}
		for _, tt := range tests {
			specs[tt.tool] = apart(spec(tt.tool, ""))
			w.begin(specs[tt.tool])
		}
		watchers := map[string]call.Stream{}
		for _, tt := range tests {
			watcher := w.start(specs[tt.tool], call.ExecuteOptions{})
			f, err := watcher.Next(t.Context())
			if err != nil || f.Snapshot == nil || f.Snapshot.Status != tt.status || f.Cursor == "" {
				t.Fatalf("%s: first frame %+v, %v", tt.tool, f, err)
			}
			watchers[tt.tool] = watcher
		}
		p.free()
		for _, tt := range tests {
			list, _ := events(t, watchers[tt.tool])
			c := w.get(specs[tt.tool].ID)
			if got := types(t, c.LastSequence-int64(len(list))+1, list); got != tt.rest {
				t.Errorf("%s: then %q, want %q", tt.tool, got, tt.rest)
			}
		}
		if p.runs.Load() != 2 {
			t.Errorf("%d runs", p.runs.Load())
		}
	})
}

func TestMalformedRequests(t *testing.T) {
	inBubble(t, []tool.Tool{echo("t", mutating)}, nil, func(t *testing.T, w *world) {
		for name, change := range map[string]func(s *call.Spec){
			"short id":  func(s *call.Spec) { s.ID = "0123456789abcde" },
			"long id":   func(s *call.Spec) { s.ID = strings.Repeat("x", 65) },
			"space":     func(s *call.Spec) { s.ID = "0123456789 abcdef" },
			"umlaut":    func(s *call.Spec) { s.ID = "0123456789äbcdef" },
			"no tool":   func(s *call.Spec) { s.Tool = "" },
			"long tool": func(s *call.Spec) { s.Tool = strings.Repeat("t", 65) },
			"arguments": func(s *call.Spec) { s.Arguments = `{"a":"` + strings.Repeat("x", 1<<20) + `"}` },
		} {
			s := spec("t", "")
			change(&s)
			_, err := w.e.Execute(t.Context(), alice, s, call.ExecuteOptions{})
			if err == nil {
				t.Fatalf("%s: taken", name)
			}
			wantRefusal(t, err, call.InvalidArgument, "INVALID_FIELD")
		}
		if page, _ := w.store.Calls(t.Context(), everything); len(page.Calls) != 0 {
			t.Errorf("%d calls stored", len(page.Calls))
		}
		s := spec("t", "")
		s.ID = ""
		a, b := w.do(s), w.do(s)
		if a.ID == b.ID || len(a.ID) != 36 {
			t.Errorf("ids %q and %q", a.ID, b.ID)
		}
	})
}
