package files

import (
	"context"
	"errors"
	"io/fs"
)

// A Workspace is a tree of files that tools may use. Names are relative and slash-separated; "." is the root. A Workspace must be safe for
// concurrent use.
//
// Errors do not contain paths of the host. They are [fs.ErrNotExist], [fs.ErrPermission], the sentinels of this package or, for other
// errors, the system's text.
type Workspace interface {
	// Resolve follows the symbolic links in name. Parts of a path that do not exist are returned unchanged.
	Resolve(ctx context.Context, name string) (string, error)
	// Open opens a regular file or a directory for reading. It never blocks on a pipe or device.
	Open(ctx context.Context, name string) (File, error)
	// Replace replaces the whole file with content, atomically. The content is on disk when Replace returns. was is the SHA-256, in hex, of
	// the current content, or empty when the file must not exist. When the file differs from that, nothing changes and the error is
	// ErrChanged. Replace creates missing folders and keeps the mode of an existing file. It does not convert line ends.
	Replace(ctx context.Context, name string, content []byte, was string) error
}

// A File is an open file or directory. ReadDir returns entries in any order; their Info describes the entry itself, not the target of a
// link.
type File interface {
	fs.ReadDirFile
}

// Errors of a workspace.
var (
	// ErrOutside means that the name leads out of the workspace.
	ErrOutside = errors.New("path leads out of the workspace")
	// ErrNotRegular means that the name is a device, a pipe or a socket.
	ErrNotRegular = errors.New("neither a file nor a directory")
	// ErrHardLink means that the file has a second name, which may lie outside the workspace.
	ErrHardLink = errors.New("file has more than one name")
	// ErrChanged means that the file is not the expected one.
	ErrChanged = errors.New("file has changed")
	// ErrLoop means that there are too many symbolic links, possibly in a loop.
	ErrLoop = errors.New("too many symbolic links")
	// ErrNotDirectory means that the path needs a directory where a file exists.
	ErrNotDirectory = errors.New("not a directory")
	// ErrReadOnly means that the file's mode permits no user to write it.
	ErrReadOnly = errors.New("file is read-only")
)
