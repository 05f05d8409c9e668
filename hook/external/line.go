// Package external contains what hooks outside of the daemon have in common: limits for concurrent questions, counts that show whether a
// hook works, and checks of a hook's answers.
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

// DefaultDeadline limits one question to an external hook.
const DefaultDeadline = 5 * time.Second

// MaxWaiting is how many calls may wait in a [Line]. Without this limit, a hook that hangs would keep the data of all its callers in memory
// until its deadline.
const MaxWaiting = 1024

// ErrBusy means that a question was not sent because [MaxWaiting] calls already wait for the hook.
var ErrBusy = fmt.Errorf("%d calls already wait for this hook", MaxWaiting)

var errPanic = errors.New("panic in the daemon") // the error that counts when ask panics

// Config configures a Line.
type Config struct {
	Name   string // name of the hook in the log; required
	AtOnce int    // most concurrent questions; required
	// Log receives a line when the hook begins to fail and when it answers again. Nil discards them.
	Log *zap.Logger
}

// A Line limits the concurrent questions to one hook and lets further calls wait. Its methods may be called concurrently.
type Line struct {
	name  string
	log   *zap.Logger
	slots chan struct{}
	times *metric.Histogram

	mu      sync.Mutex
	waiting int
	health  Health
}

// Health contains a hook's counts and its response times.
type Health struct {
	hook.Health
	Times metric.Snapshot
}

// NewLine returns an empty line.
func NewLine(cfg Config) *Line {
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	return &Line{name: cfg.Name, log: cfg.Log, slots: make(chan struct{}, cfg.AtOnce), times: metric.NewTimes()}
}

// Ask waits for a slot and invokes ask. It counts an error of ask as a failure of the hook, unless the call was cancelled meanwhile.
func (l *Line) Ask(ctx context.Context, ask func(context.Context) error) error {
	if err := l.enter(ctx); err != nil {
		l.ended(ctx, 0, err)
		return err
	}
	began, err := time.Now(), errPanic
	defer func() {
		<-l.slots
		l.ended(ctx, time.Since(began), err)
	}()
	err = ask(ctx)
	return err
}

// enter takes a slot.
func (l *Line) enter(ctx context.Context) error {
	select {
	case l.slots <- struct{}{}:
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
	case l.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waited for other calls of the hook: %w", context.Cause(ctx))
	}
}

// ended counts a completed question. It does not count a question that failed because its call was cancelled.
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
		l.log.Info("hook recovered", zap.String("hook", l.name))
	}
}

// Health returns the current counts of the hook.
func (l *Line) Health() Health {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.health
	h.Running, h.Waiting, h.Times = len(l.slots), l.waiting, l.times.Snapshot()
	return h
}
