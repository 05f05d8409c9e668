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

// The name of a file that is being written. It does not grow with the name that it will get, which may be as long as
// the file system allows.
const tempPrefix, tempSuffix = ".toold-", ".tmp"

func isTemp(name string) bool {
	return strings.HasPrefix(name, tempPrefix) && strings.HasSuffix(name, tempSuffix)
}

// Replace implements [Workspace]: a new file beside the old one, synced, then renamed over it. All of it happens in the folder that the
// name leads to without a link, whatever happens to the name meanwhile.
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
	// Looking again leaves a stranger no more than the moment before the rename.
	if _, err := in.unchanged(ctx, name, was); err != nil {
		return errors.Join(err, in.discard(temp))
	}
	if err := dir.Rename(temp, name); err != nil {
		return errors.Join(plain(err), in.discard(temp))
	}
	return in.sync()
}

// folder opens a folder and makes what is missing of it. It follows no link: a part of the path that became one since it was
// resolved leads to another folder than the one that was approved.
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

// step opens or makes a folder of another one. The folder is the one that Lstat saw.
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

// unchanged returns what is known of the file that holds was, nil when there is none and none is expected.
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

// fill makes the file with the mode and, where the system allows it, the owner of old.
func (l *Local) fill(temp string, content []byte, old fs.FileInfo) error {
	mode := fs.FileMode(0o666) // the umask decides
	if old != nil {
		mode = 0o600 // nobody else reads it before it has its actual mode
	}
	f, err := l.Root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil && old != nil {
		if stat, ok := old.Sys().(*syscall.Stat_t); ok {
			_ = f.Chown(int(stat.Uid), int(stat.Gid)) // only root may, and the content matters more
		}
		err = f.Chmod(old.Mode().Perm()) // setuid and setgid go, as they do on every write
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
