package lifecycle_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// TestP1PublishedMeansDurable checks that published questions, answers, votes, intents and outcomes survive a power failure (also P2 and P3).
func TestP1PublishedMeansDurable(t *testing.T) {
	p := held()
	tools := []tool.Tool{echo("t", mutating), echo("two", mutating), p.tool("held", mutating), asks("asks", tool.Ticket{})}
	inBubble(t, tools, gates(namedGate("g", func(in *hook.Input) (hook.Verdict, error) {
		switch in.Descriptor.ID {
		case "t":
			return approval(tool.Ticket{})(in)
		case "two":
			return approval(tool.Ticket{Approvers: &tool.Approvers{Count: 2}})(in)
		}
		return allow(in)
	})), func(t *testing.T, w *world) {
		cut := func() {
			w.store = w.store.LosePower()
			w.past = append(w.past, w.e)
			drain(w.e)
			w.open()
		}
		waiting, asked := w.do(spec("t", "")), w.do(spec("asks", ""))
		cut()
		for _, c := range []*call.Call{waiting, asked} {
			if now := w.get(c.ID); now.Status != call.Suspended || now.Open().Digest != c.Open().Digest {
				t.Fatalf("a published question is lost: %s", now.Status)
			}
		}
		done := w.answer(bob, waiting, yes())
		cut()
		if now := w.get(done.ID); now.Status != call.Succeeded || now.Rounds[0].Decision.DecidedBy.Subject != "bob" {
			t.Errorf("a published outcome is lost: %s", now.Status)
		}
		voted := w.answer(bob, w.do(spec("two", "")), yes())
		cut()
		if now := w.get(voted.ID); now.Status != call.Suspended || len(now.Rounds[0].Votes) != 1 {
			t.Errorf("a published vote is lost: %+v", now.Rounds[0].Votes)
		}
		running := w.begin(apart(spec("held", "")))
		cut()
		if c := w.get(running); c.Status != call.Failed || c.Result.Error.Code != tool.InDoubt || p.runs.Load() != 1 {
			t.Errorf("an attempt that began is %s, after %d runs", c.Status, p.runs.Load())
		}
		again := w.begin(apart(spec("held", "")))
		if _, err := w.e.Cancel(t.Context(), alice, again, "", 0); err != nil {
			t.Fatal(err)
		}
		cut()
		if c := w.get(again); c.Status != call.Cancelled {
			t.Errorf("an acknowledged cancel is lost: %s", c.Status)
		}
	})
}

// TestP1NothingIsPublishedBeforeItIsStored checks that questions, answers, attempts and outcomes are published only when no crash can lose them
// any more (also P2 and P3).
func TestP1NothingIsPublishedBeforeItIsStored(t *testing.T) {
	var look func(point string)
	points := map[string]int{}
	inBubble(t, []tool.Tool{asks("t", tool.Ticket{})}, func(c *lifecycle.Config) {
		c.FailPoint = func(point string) { look(point) }
	}, func(t *testing.T, w *world) {
		s := spec("t", "")
		var received atomic.Int64
		look = func(point string) {
			time.Sleep(time.Millisecond) // Let the watcher read all published events.
			stored, _, err := w.store.Events(t.Context(), call.Key{Namespace: "ns", ID: s.ID}, 0, 1000)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				t.Error(err)
			}
			if points[point]++; received.Load() > int64(len(stored)) {
				t.Errorf("%s: %d events are published, %d are stored", point, received.Load(), len(stored))
			}
		}
		watcher := w.start(s, call.ExecuteOptions{WaitForDecision: true})
		defer watcher.Close()
		go func() {
			for f, err := watcher.Next(t.Context()); err == nil; f, err = watcher.Next(t.Context()) {
				if n := len(f.Events); n > 0 {
					received.Store(f.Events[n-1].Sequence)
				}
			}
		}()
		time.Sleep(time.Second)
		if ended := w.answer(alice, w.get(s.ID), yes()); ended.Status != call.Succeeded {
			t.Fatalf("call %s", ended.Status)
		}
		time.Sleep(time.Second)
		if received.Load() != int64(len(w.checkLog(s.ID))) || points["before-commit"] < 5 {
			t.Errorf("%d events are published; points %v", received.Load(), points)
		}
	})
}

// voidStore discards output, so that only the memory of the engine can grow.
type voidStore struct {
	store.Store
	spool *voidSpool
}

func (s *voidStore) Spool() store.Spool { return s.spool }

type voidSpool struct {
	store.Spool
	mu    sync.Mutex
	sizes map[string]int64
}

func (s *voidSpool) Append(_ call.Key, _, name string, b []byte) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.sizes[name]
	s.sizes[name] += int64(len(b))
	return at, nil
}

func (s *voidSpool) ReadAt(_ call.Key, _ string, p []byte, _ int64) (int, error) { return len(p), nil }

func TestP11MemoryIsBoundedForAnyOutput(t *testing.T) {
	const size = 256 << 20
	for _, effects := range []tool.Effects{mutating, reading} {
		printed := make(chan struct{})
		loud := made("t", effects, func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
			chunk := make([]byte, 256<<10)
			for i := range size / len(chunk) {
				if err := c.Output("stdout", chunk); err != nil {
					return nil, err
				}
				if effects.IsZero() && i%32 == 0 { // This lets the in-memory journal drop the data that it keeps to simulate a power failure.
					if err := c.SaveCheckpoint(nil); err != nil {
						return nil, err
					}
				}
			}
			close(printed)
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
		inBubble(t, []tool.Tool{loud}, nil, func(t *testing.T, w *world) {
			printed = make(chan struct{})
			cfg := w.cfg
			cfg.Store = &voidStore{w.store, &voidSpool{Spool: w.store.Spool(), sizes: map[string]int64{}}}
			e, err := lifecycle.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			w.past, w.e = append(w.past, w.e), e
			before := heap()
			slow := w.start(spec("t", ""), call.ExecuteOptions{}) // This watcher reads nothing.
			<-printed
			time.Sleep(time.Second)
			if grown := heap() - before; grown > 16<<20 {
				t.Errorf("%s: %d MiB more for %d MiB of output", effects.Normal().Mutability, grown>>20, size>>20)
			}
			if w.e.Stats().Running != 1 {
				t.Error("the call is over")
			}
			slow.Close()
		})
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestP11NothingIsLeftOfCalls checks that an ended call leaves nothing in memory, whatever its outcome.
func TestP11NothingIsLeftOfCalls(t *testing.T) {
	p := held()
	p.deaf = true
	inBubble(t, []tool.Tool{echo("t", mutating), echo("read", reading), asks("asks", tool.Ticket{}), p.tool("deaf", mutating)}, func(c *lifecycle.Config) { c.Grace = time.Second }, func(t *testing.T, w *world) {
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() {
				s := spec([]string{"t", "read", "asks", "missing"}[i%4], "")
				watcher := w.start(s, call.ExecuteOptions{Attended: i%3 == 0})
				if i%5 == 0 {
					watcher.Close()
					_, _ = w.e.Cancel(t.Context(), alice, s.ID, "", time.Minute)
				} else if _, err := watcher.Wait(t.Context(), time.Hour); err != nil {
					t.Error(err)
				}
				_, _ = w.e.Records().Get(t.Context(), alice, "no-such-call-"+s.ID)
			})
		}
		all.Wait()
		id := w.begin(apart(spec("deaf", "")))
		if _, err := w.e.Cancel(t.Context(), alice, id, "", time.Minute); err != nil {
			t.Fatal(err)
		}
		p.free()
		time.Sleep(time.Minute)
		synctest.Wait()
		if st := w.e.Stats(); st.Active != 0 || st.Running != 0 || st.Queued != 0 || st.IllegalTransitions != 0 {
			t.Errorf("%+v", st)
		}
	})
}
