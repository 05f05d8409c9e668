package secret

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/toold-dev/toold/sandbox"
)

// A Starter starts processes, like [sandbox.Runner].
type Starter interface {
	Run(ctx context.Context, spec sandbox.Spec) (*sandbox.Exit, error)
}

// ask returns the output of the command, or the cached output while that is valid. When several goroutines call ask, one of them starts the
// command and the others wait for its output.
func (s *source) ask(ctx context.Context, start Starter) (string, error) {
	if a := s.fresh(); a != nil {
		return a.value, a.err
	}
	select {
	case s.asking <- struct{}{}:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	defer func() { <-s.asking }()
	if a := s.fresh(); a != nil {
		return a.value, a.err
	}
	value, err := s.run(ctx, start)
	if ctx.Err() != nil && err != nil {
		return "", err // not cached, because the cancellation is not a failure of the command
	}
	keep := s.Cache
	switch {
	case err != nil:
		keep = failed
	case keep == 0:
		keep = DefaultCache
	}
	s.asked.Store(&answer{value, err, time.Now().Add(keep)})
	return value, err
}

func (s *source) fresh() *answer {
	if a := s.asked.Load(); a != nil && time.Now().Before(a.until) {
		return a
	}
	return nil
}

var errTooMuch = errors.New("it printed too much")

// run starts the command and returns its output. The command belongs to the operator and has the rights of this process. Its standard error
// is discarded, because it may contain the secret.
func (s *source) run(ctx context.Context, start Starter) (string, error) {
	timeout := s.Timeout
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	late := fmt.Errorf("%s did not end within %v", s.Command[0], timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, late)
	defer cancel()
	var printed bytes.Buffer
	exit, err := start.Run(ctx, sandbox.Spec{
		Path: s.Command[0], Args: s.Command[1:], Dir: "/", Tag: "secret-" + s.Name, Grace: -1,
		Env: append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}, s.Variables...),
		Output: func(stream string, chunk []byte) error {
			if stream != "stdout" {
				return nil
			}
			if printed.Len()+len(chunk) > MaxValue+2 { // The two bytes are for a line end.
				return errTooMuch
			}
			printed.Write(chunk)
			return nil
		},
	})
	switch {
	case errors.Is(err, errTooMuch):
		return "", fmt.Errorf("%s printed more than %d bytes", s.Command[0], MaxValue)
	case err != nil:
		return "", err
	case exit.Signal != "":
		return "", fmt.Errorf("%s was ended by signal %s", s.Command[0], exit.Signal)
	case exit.Code != 0:
		return "", fmt.Errorf("%s ended with exit code %d", s.Command[0], exit.Code)
	}
	return usable(printed.String())
}
