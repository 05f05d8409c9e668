package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/worker"
	"github.com/toold-dev/toold/tools/worker/link"
)

// TestHalfOpen checks a worker that reconnects while its old connection still looks open to the daemon. The old connection gets no more
// work. The worker keeps the leases that its new offer names, and loses the others at once.
func TestHalfOpen(t *testing.T) {
	inBubble(t, worker.Config{}, func(t *testing.T, w *world) {
		old, l, first := w.connect(offer("a"))
		held, dropped := w.call(t.Context(), "a", nil), w.call(t.Context(), "a", nil)
		leases := l.leases()
		o := offer("a")
		o.Previous, o.Held = first.ID, leases[:1]
		stranger := tool.Principal{Namespace: "default", Subject: "mallory"}
		s, _, ready, err := w.hub.Connect(stranger, o, &line{})
		if err != nil {
			t.Fatal(err)
		}
		if synctest.Wait(); l.why() != nil {
			t.Error("somebody else ended the connection")
		}
		s.Close(true)
		ready()
		start := time.Now()
		back, newLine, again := w.connect(o)
		if !slices.Equal(again.Kept, leases[:1]) || !errors.Is(l.why(), worker.ErrReplaced) || l.reason != "WORKER_REPLACED" {
			t.Errorf("kept %v, the old connection ended with %v", again.Kept, l.why())
		}
		var lost int
		synctest.Wait()
		for _, done := range []<-chan outcome{held, dropped} {
			select {
			case out := <-done:
				if lost++; !errors.Is(out.err, tool.ErrLost) {
					t.Errorf("a call that the worker did not name: %v", out.err)
				}
			default:
			}
		}
		if lost != 1 || time.Since(start) > 0 {
			t.Errorf("%d calls lost after %v", lost, time.Since(start))
		}
		w.call(t.Context(), "a", nil)
		if n := len(newLine.leases()); n != 1 || len(l.leases()) != 2 {
			t.Errorf("the new connection got %d calls", n)
		}
		if err := old.Finish(leases[0], tool.Text("x"), nil); !errors.Is(err, worker.ErrNotHeld) {
			t.Errorf("over the old connection: %v", err)
		}
		if err := back.Finish(leases[0], tool.Text("x"), nil); err != nil {
			t.Error(err)
		}
	})
}

// slow is a memory that takes a minute to store a tool.
type slow struct{ memory }

func (m *slow) Keep(ctx context.Context, k worker.Known) error {
	time.Sleep(time.Minute)
	return m.memory.Keep(ctx, k)
}

// The test checks that a worker does not count as silent while the daemon processes its message.
func TestBusyIsNotSilent(t *testing.T) {
	inBubble(t, worker.Config{Lease: 10 * time.Second, Memory: &slow{memory{known: map[string]worker.Known{}}}}, func(t *testing.T, w *world) {
		s, l, _ := w.connect(offer("a"))
		done := w.call(t.Context(), "a", nil)
		lease := l.leases()[0]
		_ = s.Receive(func() error { time.Sleep(time.Minute); return nil })
		time.Sleep(9 * time.Second)
		if err := s.Finish(lease, tool.Text("done"), nil); err != nil || l.why() != nil {
			t.Errorf("%v, %v", err, l.why())
		}
		<-done
		if time.Sleep(11 * time.Second); !errors.Is(l.why(), worker.ErrSilent) {
			t.Error("and then it is not silent at all")
		}
	})
}

// TestManyTools checks that the number of tools of a namespace's workers is limited, because the daemon keeps offered tools. Each namespace
// has a separate limit.
func TestManyTools(t *testing.T) {
	inBubble(t, worker.Config{}, func(t *testing.T, w *world) {
		flood := func(p tool.Principal, pool int) (refused []link.Refusal) {
			o := link.Offer{Pool: fmt.Sprint("p", pool)}
			for n := range 256 {
				o.Tools = append(o.Tools, link.Tool{Descriptor: tool.Descriptor{ID: fmt.Sprintf("%s_%d_%d", p.Namespace, pool, n)}})
			}
			s, a, _, err := w.hub.Connect(p, o, &line{})
			if err != nil {
				t.Fatal(err)
			}
			s.Close(true)
			return a.Refused
		}
		for pool := range 16 {
			if refused := flood(alice, pool); len(refused) > 0 {
				t.Fatalf("pool %d: %v", pool, refused[0])
			}
		}
		if refused := flood(alice, 16); len(refused) != 256 || refused[0].Reason != link.TooMany {
			t.Errorf("too many: %d refused", len(refused))
		}
		if refused := flood(alice, 3); len(refused) > 0 {
			t.Errorf("what is known: %v", refused[0])
		}
		if refused := flood(tool.Principal{Namespace: "other", Subject: "bob"}, 0); len(refused) > 0 {
			t.Errorf("another namespace: %v", refused[0])
		}
		if n := len(w.hub.Pools()); n != 17 {
			t.Errorf("%d pools are kept", n)
		}
	})
}

// The test checks that closed connections leave no state in the hub.
func TestThousandConnects(t *testing.T) {
	inBubble(t, worker.Config{}, func(t *testing.T, w *world) {
		for n := range 1000 {
			s, l, _ := w.connect(offer("a"))
			done := w.call(t.Context(), "a", nil)
			lease := l.leases()[0]
			if n%2 == 0 {
				_ = s.Finish(lease, tool.Text("done"), nil)
			}
			s.Close(n%4 < 2)
			if n%4 > 2 {
				time.Sleep(15 * time.Second)
			}
			<-done
		}
		if got := w.hub.Stats(); got.Workers+got.Leases+got.Waiting != 0 {
			t.Errorf("left: %+v", got)
		}
	})
}

// The test checks that a poll does not wait when no worker has a free slot, so polls cannot fill the queue.
func TestPollWaitsForNobody(t *testing.T) {
	inBubble(t, worker.Config{}, func(t *testing.T, w *world) {
		o := offer("a", "b")
		o.Tools[0].Polls, o.Tools[1].Polls, o.Tools[1].Reconciles = true, true, true
		s, l, _ := w.connect(o)
		for n, id := range []string{"a", "b"} {
			go func() {
				synctest.Wait()
				_ = s.Finish(l.leases()[n], nil, nil)
			}()
			p := w.registry.get(id).(tool.Poller)
			if r, err := p.Poll(t.Context(), &tool.Call{}); r != nil || err != nil || l.kinds[n] != worker.Poll {
				t.Errorf("%s: %v, %v, asked %v", id, r, err, l.kinds)
			}
		}
		s.Drain()
		start := time.Now()
		_, err := w.registry.get("a").(tool.Poller).Poll(t.Context(), &tool.Call{})
		if e := tool.AsError(err); e.Reason != "NO_WORKER" || time.Since(start) > 0 {
			t.Errorf("without a worker: %v after %v", err, time.Since(start))
		}
		if _, ok := w.registry.get("b").(tool.Reconciler); !ok {
			t.Error("it says nothing of attempts")
		}
	})
}

// The test checks that the texts of a refusal are valid UTF-8, which protobuf requires.
func TestRefusalsCanBeSent(t *testing.T) {
	inBubble(t, worker.Config{}, func(t *testing.T, w *world) {
		_, _, answer := w.connect(offer("a", "x"+strings.Repeat("я", 60)))
		if len(answer.Refused) != 1 || !utf8.ValidString(answer.Refused[0].Tool) || !strings.HasPrefix(answer.Refused[0].Tool, "xяя") {
			t.Errorf("refused %q", answer.Refused)
		}
	})
}

// The test checks that the texts of a refusal are short, whatever names a worker gives its tools. They are stored, logged and shown to
// operators.
func TestRefusalsAreShort(t *testing.T) {
	inBubble(t, worker.Config{}, func(t *testing.T, w *world) {
		_, _, answer := w.connect(offer("a", strings.Repeat("ж\x00", 1<<20)))
		pools := w.hub.Pools()
		for _, refused := range [][]link.Refusal{answer.Refused, pools[0].Refused} {
			if len(refused) != 1 || refused[0].Message == "" || len(refused[0].Message) > 4<<10 || len(refused[0].Tool) > 100 || !utf8.ValidString(refused[0].Message) {
				t.Errorf("%d refused, with %d and %d bytes", len(refused), len(refused[0].Message), len(refused[0].Tool))
			}
		}
	})
}

// The test checks that a worker is rejected when people could mistake its name for another name or a path (T125). Such a name is never
// logged or returned unescaped.
func TestT125WorkerNames(t *testing.T) {
	core, logged := observer.New(zapcore.DebugLevel)
	inBubble(t, worker.Config{Log: zap.New(core)}, func(t *testing.T, w *world) {
		for _, strange := range []string{"../../etc/cron.d/evil", "a/../b", "/etc/x", "a\u009b2J", "a\u202egnp", "a\u200b", "a\nb", "\u0430dmin", " a"} {
			for field, o := range map[string]link.Offer{
				"name": {Pool: "p", Name: strange}, "version": {Pool: "p", Version: strange}, "pool": {Pool: strange},
			} {
				o.Tools = offer("t").Tools
				if _, _, _, err := w.hub.Connect(tool.Principal{Namespace: "n"}, o, &line{}); !errors.As(err, new(*worker.InvalidError)) || strings.ContainsAny(err.Error(), "\u009b\u202e\u200b\n") {
					t.Errorf("%s %+q: %v", field, strange, err)
				}
			}
		}
		for _, plain := range []string{"", "host.example/4711", "buero", "py 3.12 (linux)", "1.2.3-rc.1+build"} {
			o := offer("t")
			o.Name, o.Version = plain, plain
			w.connect(o)
		}
		if _, _, answer := w.connect(offer("t", "evil\u202e\u009b", "../../x")); len(answer.Refused) != 2 {
			t.Errorf("refused %+v", answer.Refused)
		}
	})
	for _, entry := range logged.All() {
		if text := fmt.Sprint(entry.ContextMap()); strings.ContainsAny(text, "\u009b\u202e\u200b") {
			t.Errorf("the log says %+q", text)
		}
	}
}

// TestWorkers checks what Workers returns about a worker that runs a call.
func TestWorkers(t *testing.T) {
	inBubble(t, worker.Config{}, func(t *testing.T, w *world) {
		o := offer("b", "a", "taken")
		o.Name, o.Version, o.Labels, o.Limit = "host", "1.2", map[string]string{"zone": "x"}, 3
		connected := time.Now()
		s, l, _ := w.connect(o)
		time.Sleep(5 * time.Second)
		if err := s.Receive(func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		done := w.call(t.Context(), "a", nil)
		lease := l.leases()
		time.Sleep(time.Second)
		got := w.hub.Workers()
		if len(got) != 1 || len(lease) != 1 {
			t.Fatalf("%d workers, %d leases", len(got), len(lease))
		}
		c := got[0]
		if c.Source != "worker:default/p" || c.Pool != "p" || c.Name != "host" || c.Version != "1.2" || c.Owner.Subject != "alice" || c.Labels["zone"] != "x" || !slices.Equal(c.Tools, []string{"a", "b"}) {
			t.Errorf("the worker is %+v", c)
		}
		if !c.Since.Equal(connected) || !c.Seen.Equal(connected.Add(5*time.Second)) || c.Limit != 3 || c.Leases != 1 || len(c.Calls) != 1 || c.Draining {
			t.Errorf("its work is %+v", c)
		}
		if err := s.Finish(lease[0], tool.Text("done"), nil); err != nil {
			t.Fatal(err)
		}
		<-done
		s.Drain()
		if c := w.hub.Workers()[0]; c.Leases != 0 || !c.Draining {
			t.Errorf("after its work it is %+v", c)
		}
		s.Close(true)
		if left := w.hub.Workers(); len(left) > 0 {
			t.Errorf("left are %+v", left)
		}
	})
}
