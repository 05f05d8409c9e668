// Package log writes one structured line for each call.
//
// It is a [hook.Filter], because that sees the end of every call: those that ran, those that were refused, and those
// that wait. The path of a call only appends a line to a buffer; [Filter.Run] wakes a few times a second and writes what
// is there. When the buffer is full lines are dropped, counted, and the loss is reported: a slow log never slows a call.
//
// A line holds names, codes, sizes and times. It never holds arguments, results, messages, reasons that people typed, or
// the id of a suspension.
package log

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
)

// A Config is what a filter starts with.
type Config struct {
	Log    *zap.Logger   // required; it is synced behind each write, so it may collect lines
	Buffer int           // lines that wait; 0 means 8,192
	Every  time.Duration // between two writes; 0 means 100 ms
}

// A Filter is a [hook.Filter].
type Filter struct {
	log    *zap.Logger
	buffer int
	every  time.Duration

	mu      sync.Mutex
	lines   []line
	dropped uint64 // in all
}

// New returns a filter. Its lines are written while [Filter.Run] runs.
func New(cfg Config) (*Filter, error) {
	if cfg.Log == nil {
		return nil, errors.New("log: needs a logger")
	}
	if cfg.Buffer <= 0 {
		cfg.Buffer = 8192
	}
	if cfg.Every <= 0 {
		cfg.Every = 100 * time.Millisecond
	}
	return &Filter{log: cfg.Log, buffer: cfg.Buffer, every: cfg.Every}, nil
}

// Filter implements [hook.Filter]. Events pass unchanged.
func (f *Filter) Filter(in *hook.Input) func(call.Event) ([]call.Event, []hook.Record) {
	observe := f.Observe(in)
	return func(e call.Event) ([]call.Event, []hook.Record) {
		observe(&e)
		return []call.Event{e}, nil
	}
}

// Observe implements [hook.Observer].
func (f *Filter) Observe(in *hook.Input) func(*call.Event) {
	t := &tracker{line: newLine(in)}
	return func(e *call.Event) {
		if t.see(e) {
			f.add(&t.line)
		}
	}
}

func (f *Filter) add(l *line) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.lines) >= f.buffer {
		f.dropped++
		return
	}
	f.lines = append(f.lines, *l)
}

// Dropped returns how many lines were lost since the start.
func (f *Filter) Dropped() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dropped
}

// Run writes lines until ctx is done, then what is left, and returns nil. The caller owns its goroutine, and ends it after
// the last call.
func (f *Filter) Run(ctx context.Context) error {
	tick := time.NewTicker(f.every)
	defer tick.Stop()
	var w writer
	for {
		select {
		case <-ctx.Done():
			w.write(f)
			return nil
		case <-tick.C:
			w.write(f)
		}
	}
}

// A writer is what Run keeps from one write to the next.
type writer struct {
	spare    []line // the buffer that was written last, empty
	room     []zap.Field
	reported uint64
}

func (w *writer) write(f *Filter) {
	f.mu.Lock()
	lines, dropped := f.lines, f.dropped
	f.lines = w.spare
	f.mu.Unlock()

	for i := range lines {
		w.room = lines[i].write(f.log, w.room)
	}
	if lost := dropped - w.reported; lost > 0 {
		f.log.Warn("call lines dropped: the log is too slow", zap.Uint64("dropped", lost), zap.Uint64("dropped_in_all", dropped))
		w.reported = dropped
	}
	if len(lines) > 0 {
		_ = f.log.Sync() // the error of a log cannot be logged
	}
	clear(lines)
	w.spare = lines[:0]
}
