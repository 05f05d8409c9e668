package external_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/toold-dev/toold/hook/external"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDown = errors.New("down")

// TestP11LineIsBounded sends ten thousand questions at the same time. It checks that few are asked, some wait, and the others are refused
// at once.
func TestP11LineIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := external.NewLine(external.Config{Name: "slow", AtOnce: 4})
		var mu sync.Mutex
		ends := map[string]int{}
		began := time.Now()
		for range 10_000 {
			go func() {
				ctx, stop := context.WithTimeout(t.Context(), time.Second)
				defer stop()
				err := l.Ask(ctx, func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
				mu.Lock()
				defer mu.Unlock()
				switch {
				case errors.Is(err, external.ErrBusy):
					if time.Since(began) > 0 {
						t.Error("who was not let in had to wait")
					}
					ends["busy"]++
				case errors.Is(err, context.DeadlineExceeded):
					ends["deadline"]++
				}
			}()
		}
		synctest.Wait()
		if h := l.Health(); h.Running != 4 || h.Waiting != external.MaxWaiting {
			t.Errorf("%d running, %d waiting", h.Running, h.Waiting)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if ends["deadline"] != 4+external.MaxWaiting || ends["busy"] != 10_000-4-external.MaxWaiting {
			t.Errorf("ends %v", ends)
		}
		if h := l.Health(); h.Running != 0 || h.Waiting != 0 || h.Failed != 10_000 || h.Asked != 10_000 || !h.Failing {
			t.Errorf("health %+v", h)
		}
	})
}

// The test checks that a question that panics frees its slot and counts as a failure.
func TestPanicFreesTheSlot(t *testing.T) {
	l := external.NewLine(external.Config{Name: "h", AtOnce: 1})
	func() {
		defer func() { _ = recover() }()
		_ = l.Ask(t.Context(), func(context.Context) error { panic("hook") })
	}()
	if h := l.Health(); h.Running != 0 || h.Failed != 1 {
		t.Errorf("health %+v", h)
	}
}

func TestHealth(t *testing.T) {
	l := external.NewLine(external.Config{Name: "h", AtOnce: 1})
	answer := func(ctx context.Context, err error) { _ = l.Ask(ctx, func(context.Context) error { return err }) }
	answer(t.Context(), nil)
	if h := l.Health(); h.Asked != 1 || h.Failing || !h.Since.IsZero() || h.Times.Count() != 1 {
		t.Errorf("health %+v", h)
	}
	answer(t.Context(), errDown)
	if h := l.Health(); h.Failed != 1 || !h.Failing || h.LastError != "down" || h.Since.IsZero() {
		t.Errorf("health %+v", h)
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	answer(stopped, errDown) // not counted, because the call was cancelled
	if h := l.Health(); h.Asked != 2 {
		t.Errorf("health %+v", h)
	}
	answer(t.Context(), nil)
	if h := l.Health(); h.Failing || h.LastError != "down" {
		t.Errorf("health %+v", h)
	}
}
