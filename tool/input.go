package tool

import "io"

// Controls are what may happen at the keyboard of a call beside typing. They are called one at a time; nil is not possible
// with this tool.
type Controls struct {
	Resize func(rows, columns int) error
	Signal func(name string) error // such as SIGINT

	Position int64 // of the first byte: what lies before it was typed before the daemon started again
}

// An Interactor is a [Reporter] through which the caller can type into a running call.
type Interactor interface {
	Input(c Controls) (io.ReadCloser, error)
}

// Input lets the caller type into the call from now on. The reader gives what is typed, in order and each byte once, and
// io.EOF behind the end of input; a Read waits for more until the reader is closed or the attempt is over. It may be asked
// for once in an attempt.
func (c *Call) Input(controls Controls) (io.ReadCloser, error) {
	i, ok := c.Reporter.(Interactor)
	if !ok {
		return nil, ErrNoReporter
	}
	return i.Input(controls)
}
