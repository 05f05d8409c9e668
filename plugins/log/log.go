// Package log writes one structured line for each call.
//
// It is a [hook.Filter], because a filter sees the end of every call, including calls that are refused or wait. During a call it only
// appends a line to a buffer. [Filter.Run] writes the buffer several times a second. When the buffer is full, lines are dropped and
// counted, and the number is logged. So a slow log never slows a call.
//
// A line contains names, codes, sizes and times. It never contains arguments, results, messages, reasons that people typed, or the ID of a
// suspension.
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

// A Config configures a filter.
type Config struct {
	Log    *zap.Logger   // required; synced after each write, so it may buffer lines
	Buffer int           // maximum number of lines in the buffer; 0 means 8,192
	Every  time.Duration // time between two writes; 0 means 100 ms
}

// A Filter is a [hook.Filter].
type Filter struct {
	log    *zap.Logger
	buffer int
	every  time.Duration

	mu      sync.Mutex
	lines   []line
	dropped uint64 // number of lines dropped since the start
}

// New returns a filter. [Filter.Run] writes its lines.
func New(cfg Config) (*Filter, error) {
	if cfg.Log == nil {
		return nil, errors.New("log: a logger is required")
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

// Dropped returns the number of lines lost since the start.
func (f *Filter) Dropped() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dropped
}

// Run writes lines until ctx is done. Then it writes the remaining lines and returns nil. The caller must not end ctx before the last call
// has ended.
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

// A writer is the state that Run keeps between writes.
type writer struct {
	spare    []line // buffer that the last write has emptied, for reuse
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
		_ = f.log.Sync() // An error is ignored, because it cannot be logged.
	}
	clear(lines)
	w.spare = lines[:0]
}
