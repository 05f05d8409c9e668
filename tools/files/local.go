package files

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// maxLinks is the maximum number of symbolic links in a path, as in the Linux kernel.
const maxLinks = 40

// Local is the workspace of an [os.Root]. The caller owns the root and must keep it open while the tools are used.
type Local struct {
	Root *os.Root
	// AllowHardLinks permits files with several names (hard links). Package managers create such files. When it is false, they are refused,
	// because another name may be outside the workspace.
	AllowHardLinks bool
}

// Resolve implements [Workspace]. The file system may change after Resolve returns, so its result does not protect the workspace. The
// protection is os.Root, which no access can leave.
func (l *Local) Resolve(ctx context.Context, name string) (string, error) {
	done, rest := ".", strings.Split(path.Clean(name), "/")
	for links := 0; len(rest) > 0; {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if done == "." {
				return "", ErrOutside
			}
			done = path.Dir(done)
			continue
		}
		next := path.Join(done, part)
		info, err := l.Root.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) {
			return inside(path.Join(next, path.Join(rest...)))
		}
		if err != nil {
			return "", plain(err)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			done = next
			continue
		}
		if links++; links > maxLinks {
			return "", ErrLoop
		}
		target, err := l.Root.Readlink(next)
		if err != nil {
			return "", plain(err)
		}
		if path.IsAbs(target) {
			return "", ErrOutside // An absolute link is refused even when its target is in the workspace, because os.Root does not follow absolute links.
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return done, nil
}

func inside(name string) (string, error) {
	if name == ".." || strings.HasPrefix(name, "../") {
		return "", ErrOutside
	}
	return name, nil
}

// Open implements [Workspace].
func (l *Local) Open(ctx context.Context, name string) (File, error) {
	f, _, err := l.open(ctx, name)
	if err != nil {
		return nil, err
	}
	return &localFile{f, l.Root, name}, nil
}

func (l *Local) open(ctx context.Context, name string) (*os.File, fs.FileInfo, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	f, err := l.Root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, plain(err)
	}
	info, err := f.Stat()
	if err == nil {
		err = l.acceptable(info)
	}
	if err != nil {
		f.Close()
		return nil, nil, plain(err)
	}
	return f, info, nil
}

// acceptable returns an error for a file that the tools must not use. It checks the open file, because a file at a path could be exchanged
// after the check.
func (l *Local) acceptable(info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return nil
	case !info.Mode().IsRegular():
		return ErrNotRegular
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !l.AllowHardLinks && (!ok || stat.Nlink > 1) {
		return ErrHardLink
	}
	return nil
}

// plain removes file names from a system error.
func plain(err error) error {
	var errno syscall.Errno
	switch {
	case !errors.As(err, &errno):
		if p, ok := errors.AsType[*fs.PathError](err); ok {
			if p.Err.Error() == "path escapes from parent" { // The package os does not export this error, so its text is compared.
				return ErrOutside
			}
			return p.Err
		}
		return err
	case errno == syscall.ENOTDIR:
		return ErrNotDirectory
	case errno == syscall.ENXIO: // a socket, or a pipe without a reader
		return ErrNotRegular
	case errno == syscall.ELOOP:
		return ErrLoop
	default:
		return errno
	}
}

// localFile replaces the entries of a directory by entries whose Info reads through the root. The entries that package os returns would use
// a path of the host.
type localFile struct {
	*os.File
	root *os.Root
	name string
}

func (f *localFile) ReadDir(n int) ([]fs.DirEntry, error) {
	entries, err := f.File.ReadDir(n)
	for i, e := range entries {
		entries[i] = localEntry{e, f.root, path.Join(f.name, e.Name())}
	}
	return entries, err
}

type localEntry struct {
	fs.DirEntry
	root *os.Root
	name string
}

func (e localEntry) Info() (fs.FileInfo, error) {
	info, err := e.root.Lstat(e.name)
	if err != nil {
		return nil, plain(err)
	}
	return info, nil
}
