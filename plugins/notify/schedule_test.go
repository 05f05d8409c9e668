package notify_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/plugins/notify"
)

// pipes is a network in memory that works with a fake clock.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	c, ok := <-p.conns
	if !ok {
		return nil, errors.New("closed")
	}
	return c, nil
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.conns) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

// onSchedule runs a notifier and its receiver with a fake clock. at returns the times at which a letter was sent, counted from the start.
func onSchedule(t *testing.T, answer func(w http.ResponseWriter, n int), run func(o *outbox, n *notify.Notifier, at func() []time.Duration)) {
	synctest.Test(t, func(t *testing.T) {
		began, p := time.Now(), &pipes{conns: make(chan net.Conn)}
		var mu sync.Mutex
		var times []time.Duration
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			times = append(times, time.Since(began))
			n := len(times)
			mu.Unlock()
			w.Header().Set("Connection", "close")
			answer(w, n)
		})}
		var serving sync.WaitGroup
		serving.Go(func() { _ = srv.Serve(p) })
		n, err := notify.New(notify.Config{Dial: p.dial, Targets: []notify.Target{{Name: "ops", URL: "http://localhost/", Secrets: secrets(t, key)}}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		o := newOutbox()
		serving.Go(func() { _ = n.Run(ctx, o, zap.NewNop()) })
		run(o, n, func() []time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return times
		})
		stop()
		synctest.Wait()
		_ = srv.Close()
		serving.Wait()
	})
}

// TestSchedule checks that the delays double up to an hour, that the letter is dead after three days, and that the next letter is still
// tried.
func TestSchedule(t *testing.T) {
	fails := func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusServiceUnavailable) }
	onSchedule(t, fails, func(o *outbox, n *notify.Notifier, at func() []time.Duration) {
		o.put(n, finished("call-1"))
		time.Sleep(74 * time.Hour)
		synctest.Wait()
		times := at()
		for i := 1; i < len(times); i++ {
			most := time.Hour
			if i <= 12 {
				most = time.Second << (i - 1)
			}
			if wait := times[i] - times[i-1]; wait < most/2 || wait > most+time.Second {
				t.Errorf("attempt %d after %v, want up to %v", i+1, wait, most)
			}
		}
		if len(times) < 12+71 || len(times) > 2*(12+73) || times[len(times)-1] < 71*time.Hour {
			t.Errorf("%d attempts, the last after %v", len(times), times[len(times)-1])
		}
		if !strings.Contains(o.dead["a-1"], "503") || n.Stats()[0].Dead != 1 {
			t.Errorf("dead %v, %+v", o.dead, n.Stats())
		}
	})
}

// The test checks that after a long downtime an expired letter is still sent a few times.
func TestOldLetters(t *testing.T) {
	fails := func(w http.ResponseWriter, n int) {
		if n < 5 {
			w.WriteHeader(http.StatusNotFound)
		}
	}
	onSchedule(t, fails, func(o *outbox, n *notify.Notifier, at func() []time.Duration) {
		o.mu.Lock()
		o.letters["ops"] = []notify.Letter{{Namespace: "ns", ID: "a-1", CallID: "call-1", Position: 1, Age: 365 * 24 * time.Hour, Body: "{}"}}
		o.mu.Unlock()
		n.Wake("ops")
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(at()) != 5 || len(o.dead) != 0 || n.Stats()[0].Delivered != 1 {
			t.Errorf("%d attempts, dead %v", len(at()), o.dead)
		}
	})
}

// Nothing is sent during a receiver's Retry-After.
func TestRetryAfter(t *testing.T) {
	busy := func(w http.ResponseWriter, n int) {
		if n == 1 {
			w.Header().Set("Retry-After", "7200")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}
	onSchedule(t, busy, func(o *outbox, n *notify.Notifier, at func() []time.Duration) {
		o.put(n, finished("call-1"))
		synctest.Wait()
		o.put(n, finished("call-2"))
		time.Sleep(3 * time.Hour)
		if times := at(); len(times) != 3 || times[1] < 2*time.Hour || times[1] > 2*time.Hour+time.Minute {
			t.Errorf("attempts at %v", times)
		}
	})
}

// TestRecovery checks that waiting letters are sent within seconds when a receiver works again.
func TestRecovery(t *testing.T) {
	down := true
	var mu sync.Mutex
	set := func(v bool) { mu.Lock(); defer mu.Unlock(); down = v }
	fails := func(w http.ResponseWriter, _ int) {
		mu.Lock()
		defer mu.Unlock()
		if down {
			w.WriteHeader(http.StatusBadGateway)
		}
	}
	onSchedule(t, fails, func(o *outbox, n *notify.Notifier, at func() []time.Duration) {
		o.put(n, finished("call-1"))
		time.Sleep(24 * time.Hour)
		set(false)
		o.put(n, finished("call-2"))
		time.Sleep(5 * time.Second)
		if s := n.Stats()[0]; s.Delivered != 2 {
			t.Errorf("a few seconds after it is back: %+v", s)
		}
	})
}
