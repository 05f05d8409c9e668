package tool

import "io"

// Controls are the actions, other than typing, that a client can apply to a running call. toold calls the functions one at a time. A nil
// function means that the tool does not support the action.
type Controls struct {
	Resize func(rows, columns int) error
	Signal func(name string) error // a name such as SIGINT

	Position int64 // Offset of the first byte of the input. It is not 0 when input was typed before the daemon restarted.
}

// An Interactor is a [Reporter] through which the caller can type into a running call.
type Interactor interface {
	Input(c Controls) (io.ReadCloser, error)
}

// Input opens the call for typing. The reader returns the typed bytes once and in order, and io.EOF at the end of input. A Read waits for
// input until the reader is closed or the attempt is over. Input may be called once per attempt.
func (c *Call) Input(controls Controls) (io.ReadCloser, error) {
	i, ok := c.Reporter.(Interactor)
	if !ok {
		return nil, ErrNoReporter
	}
	return i.Input(controls)
}
