package helper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// openHow returns a struct open_how for a path below a directory, without symbolic links.
func openHow() []byte {
	return words(unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
}

// protect makes protected paths read-only by mounting each one on itself. It also mounts each of their parent directories on itself,
// because a mount point can be neither renamed nor removed.
func (p *program) protect(o *Order) error {
	for _, path := range o.Protect {
		paths, err := protected(o.Workspace, path)
		if err != nil {
			return fmt.Errorf("protect: %s: %w", path, err)
		}
		for _, protectedPath := range paths {
			p.pinAbove(o.Workspace, protectedPath)
			p.pin(o.Workspace, protectedPath, true)
		}
	}
	return nil
}

// protected returns the paths that must be mounted read-only to protect a path: usually the path itself. When a parent of the path is a
// file, such as .git in an additional work tree, it returns that file. For a link it returns the link and its target.
func protected(workspace, path string) ([]string, error) {
	for i := range path + "/" {
		if i < len(path) && path[i] != '/' {
			continue
		}
		info, err := os.Lstat(filepath.Join(workspace, path[:i]))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil
		case err != nil:
			return nil, err
		case info.Mode()&fs.ModeSymlink != 0:
			real, inside, err := follow(workspace, path)
			if err != nil || !inside {
				return []string{path[:i]}, err
			}
			return []string{path[:i], real}, nil
		case i == len(path) || !info.IsDir():
			return []string{path[:i]}, nil
		}
	}
	return nil, nil
}

// follow resolves the links in a path. It returns the result relative to the workspace and whether it lies inside.
func follow(workspace, path string) (rel string, inside bool, err error) {
	top, err := filepath.EvalSymlinks(workspace)
	if err != nil {
		return "", false, err
	}
	real, err := filepath.EvalSymlinks(filepath.Join(workspace, path))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return "", false, nil // The target does not exist. For a target in the workspace, the daemon creates a placeholder before the run.
	}
	if err != nil || !beneath(real, top) || real == top {
		return "", false, err
	}
	return real[len(top)+1:], true, nil
}

// pinAbove mounts each parent directory of a path in the workspace on itself.
func (p *program) pinAbove(workspace, path string) {
	for i := range path {
		if path[i] == '/' {
			p.pin(workspace, path[:i], false)
		}
	}
}

// pin mounts a path of the workspace on itself, once. When whole is true, everything in this path becomes read-only.
func (p *program) pin(workspace, path string, whole bool) {
	if done, is := p.pinned[path]; is && (done || !whole) {
		return
	}
	p.pinned[path] = whole
	l := p.at(&p.setup, "protect: "+path)
	at := l.inside(workspace, path)
	t := l.open(unix.SYS_OPEN_TREE, at, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH)
	if whole {
		l.do(unix.SYS_MOUNT_SETATTR, t, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, words(unix.MOUNT_ATTR_RDONLY, 0, 0, 0), 32)
	}
	l.do(unix.SYS_MOVE_MOUNT, t, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	l.close(at, t)
}

// inside opens a path of the workspace. It follows no link, even when the workspace changes meanwhile.
func (l list) inside(workspace, path string) reg {
	base := l.open(unix.SYS_OPENAT, unix.AT_FDCWD, workspace, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
	at := l.open(unix.SYS_OPENAT2, base, path, openHow(), 24)
	l.close(base)
	return at
}

// hide covers hidden paths wherever a view shows them, also when their names lead through links. It covers a directory with an empty
// directory, and a file or socket with the null device. Sockets are covered because a process outside may serve them. The last view is the
// workspace. The parents of a covered path in the workspace cannot be renamed. Otherwise the next command would find the path under its new
// name.
func (p *program) hide(o *Order, all []view) error {
	own := all[len(all)-1]
	var hidden []string
	for _, path := range o.Hide {
		real, err := filepath.EvalSymlinks(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			continue
		}
		if err != nil {
			return err
		}
		if real == own.real {
			return fmt.Errorf("workspace %s: is hidden: %w", o.Workspace, unix.EINVAL)
		}
		hidden = append(hidden, real)
	}
	for _, real := range outermost(hidden) {
		info, err := os.Lstat(real)
		if err != nil {
			return err
		}
		for _, v := range all {
			switch {
			case !beneath(real, v.real):
			case v == own:
				p.coverInside(o.Workspace, strings.TrimPrefix(real, v.real+"/"), info.IsDir())
			default:
				l := p.at(&p.setup, "hide: "+real)
				l.cover(v.at+strings.TrimPrefix(real, v.real), info.IsDir())
			}
		}
	}
	found, err := sockets()
	if err != nil {
		return fmt.Errorf("sockets in the workspace: %w", err)
	}
	for _, real := range slices.Compact(slices.Sorted(slices.Values(append(found, o.Sockets...)))) {
		for _, v := range all {
			if beneath(real, v.real) && !slices.ContainsFunc(hidden, func(h string) bool { return beneath(real, h) }) {
				l := p.at(&p.setup, "hide: "+real)
				l.cover(v.at+strings.TrimPrefix(real, v.real), false).but(unix.ENOENT, unix.ENOTDIR) // The path may have been removed meanwhile.
			}
		}
	}
	return nil
}

// outermost removes paths that lie below another one.
func outermost(paths []string) []string {
	return slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(paths))), func(path string) bool {
		return slices.ContainsFunc(paths, func(h string) bool { return h != path && beneath(path, h) })
	})
}

// coverInside covers a path of the workspace. It follows no link, because other processes may change the workspace meanwhile.
func (p *program) coverInside(workspace, path string, dir bool) {
	p.pinAbove(workspace, path)
	l := p.at(&p.setup, "hide: "+path)
	at := l.inside(workspace, path)
	l.do(unix.SYS_DUP3, at, namedFD, unix.O_CLOEXEC)
	l.cover(fmt.Sprintf("/proc/self/fd/%d", namedFD), dir)
	l.do(unix.SYS_CLOSE, namedFD)
	l.close(at)
}

func (l list) cover(path string, dir bool) *op {
	if dir {
		return l.do(unix.SYS_MOUNT, "tmpfs", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_RDONLY, "mode=0555,size=4k")
	}
	return l.do(unix.SYS_MOUNT, "/dev/null", path, 0, unix.MS_BIND, 0)
}

// sockets returns the paths, without symbolic links, of the unix sockets that are open on the machine.
func sockets() ([]string, error) {
	table, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil, err
	}
	var found []string
	dirs := map[string]string{}
	for line := range strings.Lines(string(table)) {
		// Columns of the line: Num RefCount Protocol Flags Type St Inode Path
		i := strings.Index(line, " /")
		if i < 0 {
			continue
		}
		dir, name := filepath.Split(strings.TrimSuffix(line[i+1:], "\n"))
		real, known := dirs[dir]
		if !known {
			real, _ = filepath.EvalSymlinks(dir) // The path is empty when the directory does not exist any more.
			dirs[dir] = real
		}
		path := filepath.Join(real, name)
		// Only existing sockets count. A process can choose a socket name with a line end, and the text after it looks like another entry.
		if info, err := os.Lstat(path); real != "" && err == nil && info.Mode().Type() == fs.ModeSocket {
			found = append(found, path)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(found))), nil
}
