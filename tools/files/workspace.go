package files

import (
	"context"
	"errors"
	"io/fs"
)

// A Workspace is a tree of files that tools may use. Names are relative and slash-separated; "." is the root. A Workspace must be safe for
// concurrent use.
//
// Errors do not contain paths of the host. They are [fs.ErrNotExist], [fs.ErrPermission] or a sentinel of this package. Other errors
// contain only the system's error text.
type Workspace interface {
	// Resolve returns name with all symbolic links followed. Parts of the path that do not exist stay unchanged.
	Resolve(ctx context.Context, name string) (string, error)
	// Open opens a regular file or a directory for reading. It never blocks on a pipe or device.
	Open(ctx context.Context, name string) (File, error)
	// Replace replaces the whole file with content, atomically. The content is on disk when Replace returns. was is the SHA-256, in hex, of
	// the content that the file must have; empty means that the file must not exist. When the file differs from that, Replace changes
	// nothing and returns ErrChanged. Replace creates missing folders and keeps the mode of an existing file. It does not convert line
	// ends.
	Replace(ctx context.Context, name string, content []byte, was string) error
}

// A File is an open file or directory. ReadDir returns entries in any order. When an entry is a link, its Info describes the link, not the
// target.
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
	// ErrLoop means that following the path needs too many symbolic links, possibly because of a loop.
	ErrLoop = errors.New("too many symbolic links")
	// ErrNotDirectory means that a part of the path is a file, but must be a directory.
	ErrNotDirectory = errors.New("not a directory")
	// ErrReadOnly means that no user may write the file, according to its mode.
	ErrReadOnly = errors.New("file is read-only")
)
