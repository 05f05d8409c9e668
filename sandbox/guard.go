package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// guards create placeholders for protected files that do not exist, so that no process can create these files. A placeholder exists while
// isolated processes run. Most placeholders are sockets without a listener: nobody can open such a socket, and git and other programs do
// not treat it as a file.
type guards struct {
	mu   sync.Mutex
	held map[guardedPath]*guardian
}

// A guardedPath is a path in a workspace. The path contains no symbolic link.
type guardedPath struct{ workspace, path string }

type guardian struct {
	runs int
	made bool // this daemon or a killed one created the placeholder, so release may remove it
}

// filler returns the text of a placeholder that must be a regular file, because git would fail on a socket with this name. commondir points
// git to a directory with configuration and hooks; its text here is git's default.
func filler(base string) (text string, file bool) {
	switch base {
	case "commondir":
		return ".\n", true
	case "config.worktree":
		return "", true
	}
	return "", false
}

// guard puts placeholders for the protected files that are missing from the workspace of a run.
func (r *Runner) guard(run *run) error {
	p := run.spec.Policy
	if p.ReadOnly || p.Unsupervised {
		return nil // A read-only workspace needs no placeholders. An unsupervised run has no protected files.
	}
	workspace := filepath.Clean(p.Workspace)
	top := real(workspace)
	outer, rel, err := run.spec.below(workspace)
	if err != nil {
		return &RefusedError{Fact: "fs_write", Step: "protect", Err: err}
	}
	model := -1
	defer func() { unix.Close(model) }()
	for _, name := range p.protected() {
		refuse := func(err error) error { return &RefusedError{Fact: "fs_write", Step: "protect: " + name, Err: err} }
		at, missing, err := absent(workspace, top, name)
		if err != nil {
			return refuse(err)
		}
		if !missing {
			continue
		}
		if outer != "" {
			at = guardedPath{outer, filepath.Join(rel, at.path)}
		}
		held, err := r.guards.hold(at, &model)
		if err != nil {
			return refuse(err)
		}
		if held {
			run.guarded = append(run.guarded, at)
		}
	}
	return nil
}

// below returns Within, and the path of dir relative to it, both without symbolic links. It returns empty texts when Within is empty, and
// an error when a link in dir leads out of Within.
func (s *Spec) below(dir string) (top, rel string, err error) {
	if s.Within == "" {
		return "", "", nil
	}
	top = real(s.Within)
	rel, err = filepath.Rel(top, real(dir))
	if err != nil || !filepath.IsLocal(rel) {
		return "", "", fmt.Errorf("a symbolic link leads out of %s, where other users can write; replace it with a directory", s.Within)
	}
	return top, rel, nil
}

// absent returns the path for the placeholder of a protected path: the path itself, or the target of a dangling link. missing is false
// when no placeholder is needed. top is the workspace without symbolic links.
func absent(workspace, top, path string) (at guardedPath, missing bool, err error) {
	for range 40 { // the kernel follows at most 40 links
		at = guardedPath{workspace, path}
		whole := filepath.Join(workspace, path)
		info, err := os.Lstat(whole)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			dir, base := filepath.Split(path)
			if dir == "" {
				return at, true, nil
			}
			path, inside := within(workspace, top, filepath.Join(real(filepath.Join(workspace, dir)), base))
			return guardedPath{workspace, path}, inside, nil
		case errors.Is(err, unix.ENOTDIR):
			return at, false, nil // A parent of the path is a file. That file is protected, so no placeholder is needed.
		case err != nil:
			return at, false, err
		case info.Mode().Type() != fs.ModeSymlink:
			_, file := filler(filepath.Base(path))
			return at, file || info.Mode().Type() == fs.ModeSocket, nil // The file exists. When it may be the placeholder of another run, hold must count this run too.
		}
		if _, err := os.Stat(whole); err == nil {
			return at, false, nil
		}
		to, err := os.Readlink(whole)
		if err != nil {
			return at, false, err
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(whole), to)
		}
		var inside bool
		if path, inside = within(workspace, top, to); !inside {
			return at, false, nil // The link leads out of the workspace, where the sandbox shows no file to write.
		}
	}
	return at, false, unix.ELOOP
}

// within returns the path relative to the workspace. top is the workspace without symbolic links; path may begin with workspace or with
// top.
func within(workspace, top, path string) (rel string, inside bool) {
	for _, top := range []string{workspace, top} {
		if rel, err := filepath.Rel(top, path); err == nil && filepath.IsLocal(rel) && rel != "." {
			return rel, true
		}
	}
	return "", false
}

// real returns path without symbolic links. A path that does not exist is returned unchanged.
func real(path string) string {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		return to
	}
	return path
}

// dir opens the parent directory of a guarded path. It follows no symbolic link, because any process may have changed the workspace.
func (p guardedPath) dir() (fd int, base string, err error) {
	root, err := unix.Open(p.workspace, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, "", err
	}
	dir, base := filepath.Split(p.path)
	if dir == "" {
		return root, base, nil
	}
	defer unix.Close(root)
	fd, err = unix.Openat2(root, dir, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	return fd, base, err
}

// hold creates a placeholder and counts the run as a user of it. When the placeholder already exists, hold only counts the run. It returns
// false when the parent directory does not exist.
func (g *guards) hold(at guardedPath, model *int) (held bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	fd, base, err := at.dir()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	err = occupy(fd, base, model)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return false, err
	}
	if g.held == nil {
		g.held = map[guardedPath]*guardian{}
	}
	if g.held[at] == nil {
		g.held[at] = &guardian{}
	}
	g.held[at].runs++
	// A placeholder that already exists may come from a daemon that was killed, so release may remove it.
	g.held[at].made = err == nil || occupied(fd, base)
	return true, nil
}

// occupy creates a placeholder. Most placeholders are sockets. For the first of them in a run, occupy creates a socket and stores a file
// descriptor of it in model. The later ones are hard links to this socket, because creating a hard link is ten times faster.
func occupy(dir int, base string, model *int) error {
	text, isFile := filler(base)
	if !isFile {
		if *model >= 0 {
			err := unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(*model), dir, base, unix.AT_SYMLINK_FOLLOW)
			if err == nil || errors.Is(err, fs.ErrExist) {
				return err
			} // The link fails on another file system, or on one without hard links. Then occupy creates a new socket.
		}
		if err := unix.Mknodat(dir, base, unix.S_IFSOCK|0o600, 0); err != nil || *model >= 0 {
			return err
		}
		*model = socketAt(dir, base)
		return nil
	}
	fd, err := unix.Openat(dir, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), base)
	defer file.Close()
	_, err = file.WriteString(text)
	return err
}

// socketAt opens the socket to which the later placeholders of a run become hard links. It returns -1 when another process has replaced the
// socket.
func socketAt(dir int, base string) int {
	fd, err := unix.Openat(dir, base, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	var is unix.Stat_t
	if unix.Fstat(fd, &is) != nil || is.Mode&unix.S_IFMT != unix.S_IFSOCK {
		unix.Close(fd)
		return -1
	}
	return fd
}

// occupied reports whether the file at a guarded path is a placeholder.
func occupied(dir int, base string) bool {
	var now unix.Stat_t
	if unix.Fstatat(dir, base, &now, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return false
	}
	text, isFile := filler(base)
	if !isFile {
		return now.Mode&unix.S_IFMT == unix.S_IFSOCK
	}
	if now.Mode&unix.S_IFMT != unix.S_IFREG || now.Size != int64(len(text)) {
		return false
	}
	fd, err := unix.Openat(dir, base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	is := make([]byte, len(text)+1)
	n, err := unix.Read(fd, is)
	return err == nil && string(is[:n]) == text
}

// release removes the placeholders that no run uses any more.
func (g *guards) release(list []guardedPath) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, at := range list {
		held := g.held[at]
		if held.runs--; held.runs > 0 {
			continue
		}
		delete(g.held, at)
		if !held.made {
			continue
		}
		if fd, base, err := at.dir(); err == nil {
			if occupied(fd, base) {
				_ = unix.Unlinkat(fd, base, 0) // A placeholder that cannot be removed is used again by the next run.
			}
			unix.Close(fd)
		}
	}
}
