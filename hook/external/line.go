// Package external has what external hooks, which run outside the daemon, have in common: how many of their answers are waited for at
// once, and how they fare.
package external

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/metric"
)

// DefaultDeadline bounds one question to an external hook.
const DefaultDeadline = 5 * time.Second

// MaxWaiting is how many calls may wait in a [Line]. A hook that hangs would otherwise keep what every caller sends, for as long as
// its deadline.
const MaxWaiting = 1024

// ErrBusy means that so many wait for the hook that one more was not let in.
var ErrBusy = fmt.Errorf("%d calls wait for this hook already", MaxWaiting)

var errPanic = errors.New("panic in the daemon") // until ask has returned

// Config says whose line it is.
type Config struct {
	Name   string // for the log; required
	AtOnce int    // questions that are asked at once; required
	// Log gets a line when the hook begins to fail and when it answers again; nil drops them.
	Log *zap.Logger
}

// A Line stands before one hook. Its methods may be called from many goroutines.
type Line struct {
	name   string
	log    *zap.Logger
	places chan struct{}
	times  *metric.Histogram

	mu      sync.Mutex
	waiting int
	health  Health
}

// Health is how a hook fares, with how long it takes.
type Health struct {
	hook.Health
	Times metric.Snapshot
}

// NewLine returns a line with nobody in it.
func NewLine(cfg Config) *Line {
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	return &Line{name: cfg.Name, log: cfg.Log, places: make(chan struct{}, cfg.AtOnce), times: metric.NewTimes()}
}

// Ask waits for a place and asks. What ask returns is counted; that the call was stopped meanwhile is no failure of the hook.
func (l *Line) Ask(ctx context.Context, ask func(context.Context) error) error {
	if err := l.enter(ctx); err != nil {
		l.ended(ctx, 0, err)
		return err
	}
	began, err := time.Now(), errPanic
	defer func() {
		<-l.places
		l.ended(ctx, time.Since(began), err)
	}()
	err = ask(ctx)
	return err
}

// enter takes a place.
func (l *Line) enter(ctx context.Context) error {
	select {
	case l.places <- struct{}{}:
		return nil
	default:
	}
	l.mu.Lock()
	full := l.waiting >= MaxWaiting
	if !full {
		l.waiting++
	}
	l.mu.Unlock()
	if full {
		return ErrBusy
	}
	defer func() {
		l.mu.Lock()
		l.waiting--
		l.mu.Unlock()
	}()
	select {
	case l.places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waited for other calls of the hook: %w", context.Cause(ctx))
	}
}

// ended counts.
func (l *Line) ended(ctx context.Context, took time.Duration, err error) {
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(cause, context.DeadlineExceeded) {
		return
	}
	l.times.Observe(int64(took))
	l.mu.Lock()
	defer l.mu.Unlock()
	h := &l.health
	h.Asked++
	if err != nil {
		h.Failed++
		h.LastError = err.Error()
	}
	if h.Failing == (err != nil) {
		return
	}
	h.Failing, h.Since = err != nil, time.Now()
	if err != nil {
		l.log.Warn("hook fails", zap.String("hook", l.name), zap.Error(err))
	} else {
		l.log.Info("hook answers again", zap.String("hook", l.name))
	}
}

// Health returns how the hook fares now.
func (l *Line) Health() Health {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.health
	h.Running, h.Waiting, h.Times = len(l.places), l.waiting, l.times.Snapshot()
	return h
}
