package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// guards keep the places of protected files that do not exist: what is not there cannot be kept from being made. While
// isolated processes run there is a socket that nobody listens on, which cannot be opened and which git and others do not
// take for a file.
type guards struct {
	mu   sync.Mutex
	held map[string]*guardian
}

type guardian struct {
	runs int
	made bool // by a guard
}

// guard takes the places of what is missing from the workspace of a run.
func (r *Runner) guard(run *run) error {
	p := run.spec.Policy
	if p.ReadOnly || p.Unsupervised {
		return nil // nothing can be made, or nothing can be protected
	}
	for _, name := range p.protected() {
		if strings.Contains(name, "/") {
			continue
		}
		path := filepath.Join(p.Workspace, name)
		if err := r.guards.hold(path); err != nil {
			return &RefusedError{Fact: "fs_write", Step: "protect: " + name, Err: err}
		}
		run.guarded = append(run.guarded, path)
	}
	return nil
}

func (g *guards) hold(path string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := unix.Mknod(path, unix.S_IFSOCK|0o600, 0)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if g.held == nil {
		g.held = map[string]*guardian{}
	}
	if g.held[path] == nil {
		g.held[path] = &guardian{}
	}
	g.held[path].runs++
	// A socket that is there already is from a daemon that was killed.
	now, _ := os.Lstat(path)
	g.held[path].made = now != nil && now.Mode().Type() == fs.ModeSocket
	return nil
}

// release takes away what was made for runs that have all ended.
func (g *guards) release(paths []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, path := range paths {
		held := g.held[path]
		if held.runs--; held.runs > 0 {
			continue
		}
		delete(g.held, path)
		if now, err := os.Lstat(path); held.made && err == nil && now.Mode().Type() == fs.ModeSocket {
			os.Remove(path)
		}
	}
}
