package files

import (
	"context"
	"errors"
	"io/fs"
)

// A Workspace is a tree of files that tools may touch. Names are relative and slash-separated; "." is its root. It is
// used from many goroutines.
//
// Errors say what is wrong without naming the host: [fs.ErrNotExist], [fs.ErrPermission], the sentinels of this package
// or, for what is none of these, the system's own words.
type Workspace interface {
	// Resolve follows the symbolic links in name. The parts of a path that do not exist stay as they are.
	Resolve(ctx context.Context, name string) (string, error)
	// Open opens a regular file or a directory for reading; it never waits for somebody at the other end.
	Open(ctx context.Context, name string) (File, error)
	// Replace makes content the whole of the file, at once or not at all; it is on the disk when Replace returns. was is
	// the SHA-256, in hex, of what the file holds, and empty when there is none yet; when it is something else, nothing
	// changes and the error is ErrChanged. Missing folders are made; mode and line endings are not its business, except
	// that the mode of a file that exists stays.
	Replace(ctx context.Context, name string, content []byte, was string) error
}

// A File is an open file or directory. ReadDir gives entries in no order; their Info describes the entry itself, not
// what a link leads to.
type File interface {
	fs.ReadDirFile
}

// What a workspace refuses.
var (
	// ErrOutside means that the name leads out of the workspace.
	ErrOutside = errors.New("path leads out of the workspace")
	// ErrNotRegular means that the name is a device, a pipe or a socket.
	ErrNotRegular = errors.New("neither a file nor a directory")
	// ErrHardLink means that the file has a second name, which may lie outside.
	ErrHardLink = errors.New("file has more than one name")
	// ErrChanged means that the file is not the one that was to be replaced.
	ErrChanged = errors.New("file has changed")
	// ErrLoop means that links lead to links without end.
	ErrLoop = errors.New("too many symbolic links")
	// ErrNotDirectory means that a file stands where the path needs a directory.
	ErrNotDirectory = errors.New("not a directory")
	// ErrReadOnly means that the file's mode lets nobody write it.
	ErrReadOnly = errors.New("file is read-only")
)
