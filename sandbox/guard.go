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

// guards keep the places of protected files that do not exist: what is not there cannot be kept from being made. While
// isolated processes run there is a socket that nobody listens on, which cannot be opened and which git and others do not
// take for a file.
type guards struct {
	mu   sync.Mutex
	held map[place]*guardian
}

// A place is a path in a workspace that has no links.
type place struct{ workspace, path string }

type guardian struct {
	runs int
	made bool // by a guard
}

// filler returns the placeholder of a file in .git; git would fail if it were a socket. A .git/commondir leads git to another
// configuration and other hooks; this one contains git's default.
func filler(base string) (text string, file bool) {
	switch base {
	case "commondir":
		return ".\n", true
	case "config.worktree":
		return "", true
	}
	return "", false
}

// guard takes the places of what is missing from the workspace of a run.
func (r *Runner) guard(run *run) error {
	p := run.spec.Policy
	if p.ReadOnly || p.Unsupervised {
		return nil // nothing can be made, or nothing can be protected
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
			at = place{outer, filepath.Join(rel, at.path)}
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

// below returns Within, and where dir is in it, both without links; empty when links may lead anywhere.
func (s *Spec) below(dir string) (top, rel string, err error) {
	if s.Within == "" {
		return "", "", nil
	}
	top = real(s.Within)
	rel, err = filepath.Rel(top, real(dir))
	if err != nil || !filepath.IsLocal(rel) {
		return "", "", fmt.Errorf("a symbolic link leads out of %s, where others may write; replace it by a directory", s.Within)
	}
	return top, rel, nil
}

// absent returns the place in the workspace, which is top without links, that has to be kept for a path: its own, or the one
// that a link to nothing names.
func absent(workspace, top, path string) (at place, missing bool, err error) {
	for range 40 { // as many links as the kernel follows
		at = place{workspace, path}
		whole := filepath.Join(workspace, path)
		info, err := os.Lstat(whole)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			dir, base := filepath.Split(path)
			if dir == "" {
				return at, true, nil
			}
			path, inside := within(workspace, top, filepath.Join(real(filepath.Join(workspace, dir)), base))
			return place{workspace, path}, inside, nil
		case errors.Is(err, unix.ENOTDIR):
			return at, false, nil // the file on the way is protected
		case err != nil:
			return at, false, err
		case info.Mode().Type() != fs.ModeSymlink:
			_, file := filler(filepath.Base(path))
			return at, file || info.Mode().Type() == fs.ModeSocket, nil // perhaps of another run
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
			return at, false, nil // nobody in the sandbox sees it
		}
	}
	return at, false, unix.ELOOP
}

// within returns the rest of a path that leads into a workspace, by its own name or by that without links.
func within(workspace, top, path string) (rel string, inside bool) {
	for _, top := range []string{workspace, top} {
		if rel, err := filepath.Rel(top, path); err == nil && filepath.IsLocal(rel) && rel != "." {
			return rel, true
		}
	}
	return "", false
}

// real returns a path without links; as it is when nothing is there.
func real(path string) string {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		return to
	}
	return path
}

// dir opens the directory of a place. No link on the way is followed: anybody may have written the workspace.
func (p place) dir() (fd int, base string, err error) {
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

// hold makes something in a place, or counts what others made. Where there is no directory for it nothing is held.
func (g *guards) hold(at place, model *int) (held bool, err error) {
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
		g.held = map[place]*guardian{}
	}
	if g.held[at] == nil {
		g.held[at] = &guardian{}
	}
	g.held[at].runs++
	// What is there already may be from a daemon that was killed.
	g.held[at].made = err == nil || occupied(fd, base)
	return true, nil
}

// occupy makes what keeps a place. The first socket of a run becomes the model, and the others are further names of it: a link takes
// a tenth of the time.
func occupy(dir int, base string, model *int) error {
	text, isFile := filler(base)
	if !isFile {
		if *model >= 0 {
			err := unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(*model), dir, base, unix.AT_SYMLINK_FOLLOW)
			if err == nil || errors.Is(err, fs.ErrExist) {
				return err
			} // another file system, or one without links
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

// socketAt opens a socket to link to; -1: somebody put something else in its place.
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

// occupied reports whether in a place is what keeps it.
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

// release takes away what was made for runs that have all ended.
func (g *guards) release(list []place) {
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
				_ = unix.Unlinkat(fd, base, 0) // the next run finds it there
			}
			unix.Close(fd)
		}
	}
}
