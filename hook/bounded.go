package hook

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Bounded invokes fn, which is code of a hook or a tool, with a deadline; 0 means [DefaultDeadline]. Bounded returns at the deadline even
// when fn does not. It converts a panic of fn to an error. With [NoDeadline] it invokes fn in the goroutine of the caller.
func Bounded[T any](ctx context.Context, d time.Duration, fn func(context.Context) (T, error)) (T, error) {
	return BoundedOr(ctx, d, fn, nil)
}

// BoundedOr is like [Bounded]. When fn returns after the deadline, it passes the value to late. A nil late discards the value.
func BoundedOr[T any](ctx context.Context, d time.Duration, fn func(context.Context) (T, error), late func(T)) (v T, err error) {
	if d == NoDeadline {
		err = Safely(func() error { v, err = fn(ctx); return err })
		return v, err
	}
	if d == 0 {
		d = DefaultDeadline
	}
	within, cancel := context.WithTimeout(ctx, d) // a new variable, because assigning to ctx would move ctx to the heap in every call
	defer cancel()
	type answer struct {
		v   T
		err error
	}
	done := make(chan answer, 1)
	go func() {
		a := answer{err: errGoexit}
		defer func() { done <- a }()
		a.err = Safely(func() error {
			v, err := fn(within)
			a.v = v
			return err
		})
	}()
	select {
	case a := <-done:
		return a.v, a.err
	case <-within.Done():
	}
	if late != nil {
		go func() { late((<-done).v) }() // The goroutine ends when fn and late have returned.
	}
	if cause := context.Cause(within); !errors.Is(cause, context.DeadlineExceeded) {
		return v, cause
	}
	return v, fmt.Errorf("no answer within %v", d)
}

var errGoexit = errors.New("the hook ended its goroutine")

// Safely invokes fn and converts a panic of fn to an error. The text of this error is for the operator.
func Safely(fn func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return fn()
}
