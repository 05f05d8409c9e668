package files

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// Prefix and suffix of the name of a temporary file. The name does not contain the final name, because that may already have the maximum
// length of the file system.
const tempPrefix, tempSuffix = ".toold-", ".tmp"

func isTemp(name string) bool {
	return strings.HasPrefix(name, tempPrefix) && strings.HasSuffix(name, tempSuffix)
}

// Replace implements [Workspace]. It writes a new file beside the old one, syncs it, and renames it over the old one. It opens the folder
// once, without following links, and works in the open folder. So later changes of the path have no effect.
func (l *Local) Replace(ctx context.Context, name string, content []byte, was string) error {
	dir, err := l.folder(path.Dir(name))
	if err != nil {
		return plain(err)
	}
	defer dir.Close()
	in, name := &Local{Root: dir, AllowHardLinks: l.AllowHardLinks}, path.Base(name)
	old, err := in.unchanged(ctx, name, was)
	if err != nil {
		return err
	}
	temp := tempPrefix + rand.Text() + tempSuffix
	if err := in.fill(temp, content, old); err != nil {
		return errors.Join(plain(err), in.discard(temp))
	}
	// The file is checked a second time right before the rename. A change by another program stays unnoticed only if it happens between
	// this check and the rename.
	if _, err := in.unchanged(ctx, name, was); err != nil {
		return errors.Join(err, in.discard(temp))
	}
	if err := dir.Rename(temp, name); err != nil {
		return errors.Join(plain(err), in.discard(temp))
	}
	return in.sync()
}

// folder opens a folder and creates missing parts of its path. It follows no link: if a part of the path became a link after the approval,
// it would lead to another folder.
func (l *Local) folder(name string) (*os.Root, error) {
	at, err := l.Root.OpenRoot(".")
	for part := range strings.SplitSeq(name, "/") {
		if err != nil || part == "." {
			break
		}
		var next *os.Root
		next, err = step(at, part)
		err = errors.Join(err, at.Close())
		at = next
	}
	return at, err
}

// step opens a subfolder, or creates it. It returns ErrChanged when the opened folder is not the folder that Lstat found.
func step(at *os.Root, part string) (*os.Root, error) {
	seen, err := at.Lstat(part)
	if errors.Is(err, fs.ErrNotExist) {
		if err = at.Mkdir(part, 0o777); err == nil || errors.Is(err, fs.ErrExist) {
			seen, err = at.Lstat(part)
		}
	}
	if err != nil {
		return nil, err
	}
	next, err := at.OpenRoot(part)
	if err != nil {
		return nil, err
	}
	if is, err := next.Stat("."); err != nil || !os.SameFile(seen, is) {
		return nil, errors.Join(cmp.Or(err, ErrChanged), next.Close())
	}
	return next, nil
}

// unchanged checks that the file still has the hash was, and returns its info. When was is empty, the file must not exist, and the info is
// nil. When the check fails, unchanged returns ErrChanged; for a read-only file it returns ErrReadOnly.
func (l *Local) unchanged(ctx context.Context, name, was string) (fs.FileInfo, error) {
	if was == "" {
		_, err := l.Root.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, ctx.Err()
		case err != nil:
			return nil, plain(err)
		}
		return nil, ErrChanged
	}
	f, info, err := l.open(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrChanged
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !info.Mode().IsRegular() {
		return nil, ErrChanged
	}
	if info.Mode().Perm()&0o222 == 0 {
		return nil, ErrReadOnly
	}
	sum, err := hashOf(ctx, f)
	if err != nil {
		return nil, plain(err)
	}
	if sum != was {
		return nil, ErrChanged
	}
	return info, nil
}

// fill writes the temporary file with the mode and, where the system permits it, the owner of old.
func (l *Local) fill(temp string, content []byte, old fs.FileInfo) error {
	mode := fs.FileMode(0o666) // The umask reduces this mode.
	if old != nil {
		mode = 0o600 // Other users must not read the file before it has its final mode.
	}
	f, err := l.Root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil && old != nil {
		if stat, ok := old.Sys().(*syscall.Stat_t); ok {
			_ = f.Chown(int(stat.Uid), int(stat.Gid)) // Only root may change the owner. An error is ignored, because the content matters more.
		}
		err = f.Chmod(old.Mode().Perm()) // Setuid and setgid are not kept, because writing to a file also removes them.
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (l *Local) discard(temp string) error {
	if err := l.Root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return plain(err)
	}
	return nil
}

func (l *Local) sync() error {
	d, err := l.Root.Open(".")
	if err != nil {
		return plain(err)
	}
	defer d.Close()
	return plain(d.Sync())
}
