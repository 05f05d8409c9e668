package config

import (
	"fmt"
)

// An Error is a mistake in the configuration that the user can correct. The command line exits as it does for a wrong flag.
type Error struct{ err error }

func (e Error) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e Error) Unwrap() error { return e.err }

// WrongUsage marks the error as a mistake of the user, for the command line.
func (Error) WrongUsage() {}

// Errorf returns an [Error].
func Errorf(format string, args ...any) error { return Error{fmt.Errorf(format, args...)} }
