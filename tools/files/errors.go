package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/toold-dev/toold/tool"
)

// Reasons of the tools' refusals.
const (
	reasonOutside      = "OUTSIDE_WORKSPACE"
	reasonNotFound     = "NOT_FOUND"
	reasonIsDirectory  = "IS_DIRECTORY"
	reasonNotDirectory = "NOT_DIRECTORY"
	reasonNotRegular   = "NOT_REGULAR"
	reasonHardLink     = "HARD_LINKED"
	reasonProtected    = "PROTECTED_FILE"
	reasonLoop         = "LINK_LOOP"
	reasonBinary       = "IS_BINARY"
	reasonTooLarge     = "TOO_LARGE"
	reasonBeyondEnd    = "BEYOND_END"
	reasonNotRead      = "NOT_READ"
	reasonChanged      = "FILE_CHANGED"
	reasonNoMatch      = "NO_MATCH"
	reasonNotUnique    = "NOT_UNIQUE"
	reasonReadOnly     = "READ_ONLY_FILE"
	reasonPermission   = "PERMISSION_DENIED"
	reasonNoSpace      = "NO_SPACE"
	reasonIO           = "IO_ERROR"
)

// refuse returns an error that the call returns as an ERROR result, which the model reads.
func refuse(reason, format string, args ...any) *tool.Error {
	return &tool.Error{Code: tool.ExecutionFailed, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// invalid returns the error with which Validate rejects one argument.
func invalid(field, reason, format string, args ...any) *tool.Error {
	text := fmt.Sprintf(format, args...)
	return &tool.Error{
		Code: tool.InvalidArguments, Reason: reason, Message: "The argument " + field + " is not valid: " + text,
		Violations: []tool.Violation{{Field: field, Description: text}},
	}
}

// explain converts a workspace's error about a path to a refusal. It returns context errors unchanged.
func explain(name string, err error) error {
	if _, ok := errors.AsType[*tool.Error](err); ok || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	known := []struct {
		is           error
		reason, text string
	}{
		{ErrOutside, reasonOutside, "leads outside the workspace through a symbolic link; only paths that stay inside it may be used"},
		{ErrNotRegular, reasonNotRegular, "is a device, pipe or socket; only regular files and directories may be used"},
		{ErrHardLink, reasonHardLink, "has more than one name (hard links), one of which may be outside the workspace; copy it to a new file to use it"},
		{ErrChanged, reasonChanged, "has changed during the call and was not modified; read it again and send a new call"},
		{ErrLoop, reasonLoop, "leads through too many symbolic links"},
		{ErrNotDirectory, reasonNotDirectory, "has a file where a directory is required"},
		{ErrReadOnly, reasonReadOnly, "is read-only (file mode) and was not modified"},
		{fs.ErrNotExist, reasonNotFound, "does not exist; use glob, or read a directory, to find existing files"},
		{fs.ErrPermission, reasonPermission, "cannot be used: the operating system denies access"},
		{syscall.ENAMETOOLONG, reasonNotFound, "is too long for a file name"},
		{syscall.EISDIR, reasonIsDirectory, "is a directory"},
		{syscall.ENOSPC, reasonNoSpace, "could not be written: no space left on the device; the file is unchanged"},
		{syscall.EDQUOT, reasonNoSpace, "could not be written: the disk quota is exceeded; the file is unchanged"},
		{syscall.EROFS, reasonPermission, "is on a read-only file system"},
	}
	for _, k := range known {
		if errors.Is(err, k.is) {
			return refuse(k.reason, "%s %s.", quote(name), k.text)
		}
	}
	return &tool.Error{
		Code: tool.ExecutionFailed, Reason: reasonIO, DeveloperMessage: err.Error(),
		Message: fmt.Sprintf("%s could not be used: %v.", quote(name), cause(err)),
	}
}

// cause returns the error number of the system, or a general error. Unlike err, they contain no path.
func cause(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return errors.New("input/output error")
}

// answer returns the outcome of a call: a refusal becomes a result, and any other error aborts the call.
func answer(ctx context.Context, r *tool.Result, err error) (*tool.Result, error) {
	if err == nil {
		return r, nil
	}
	if e, ok := errors.AsType[*tool.Error](err); ok {
		return &tool.Result{Status: tool.StatusError, Error: &tool.Error{
			Code: tool.ExecutionFailed, Reason: e.Reason, Message: e.Message, DeveloperMessage: e.DeveloperMessage,
		}}, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, err
}
