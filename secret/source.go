package secret

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// A source is a secret with the state of its value.
type source struct {
	Secret
	asking    chan struct{} // a semaphore: only the goroutine that has put its token into asking may run the command
	asked     atomic.Pointer[answer]
	announced atomic.Pointer[string] // the newest value that was passed to Redact
	seen      atomic.Pointer[seen]
}

// An answer is the cached result of a command.
type answer struct {
	value string
	err   error
	until time.Time
}

// seen is the outcome of the last read of a value.
type seen struct {
	at  time.Time
	err error
}

func newSource(s Secret) *source {
	return &source{Secret: s, asking: make(chan struct{}, 1)}
}

// get returns the current value, after it was passed to Redact.
func (s *source) get(ctx context.Context, cfg *Config) (string, error) {
	value, err := s.read(ctx, cfg)
	if err == nil {
		err = s.redact(cfg, value)
	}
	if ctx.Err() == nil || err == nil {
		s.seen.Store(&seen{time.Now(), err})
	}
	if err != nil {
		return "", err
	}
	return value, nil
}

func (s *source) read(ctx context.Context, cfg *Config) (string, error) {
	switch {
	case s.File != "":
		return readFile(s.File)
	case s.Env != "":
		text, set := cfg.Lookup(s.Env)
		if !set {
			return "", fmt.Errorf("the variable %s is not set", s.Env)
		}
		return usable(text)
	default:
		return s.ask(ctx, cfg.Start)
	}
}

func (s *source) redact(cfg *Config, value string) error {
	if last := s.announced.Load(); last != nil && *last == value {
		return nil
	}
	if err := cfg.Redact(s.Name, value); err != nil {
		return fmt.Errorf("it cannot be removed from the output of calls: %w", err)
	}
	s.announced.Store(&value)
	return nil
}

// readFile returns the value in a file. It is called at each use, so that a replaced file is used at once. The filter continues to redact
// the old value.
func readFile(name string) (string, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // Without O_NONBLOCK, opening a named pipe would block until a process opens it for writing.
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // The file was only read, so an error of Close loses no data.
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", name)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return "", fmt.Errorf("%s can be read or changed by other users (mode %04o): run chmod 600", name, mode)
	}
	b, err := io.ReadAll(io.LimitReader(f, MaxValue+3))
	if err != nil {
		return "", err
	}
	return usable(string(b))
}

// usable returns the value without its final line end, or an error when it is invalid. The error contains no part of the value.
func usable(text string) (string, error) {
	text = strings.TrimRight(text, "\r\n")
	switch {
	case len(text) < MinValue:
		return "", fmt.Errorf("has %d bytes: fewer than %d cannot be removed safely from the output of calls", len(text), MinValue)
	case len(text) > MaxValue:
		return "", fmt.Errorf("has more than %d bytes", MaxValue)
	case strings.Contains(text, "\x00"):
		return "", errors.New("contains a NUL, which variables and headers cannot contain")
	}
	return text, nil
}
