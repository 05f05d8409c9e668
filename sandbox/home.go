package sandbox

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// FreshHome is the [Spec.Home] of a run that gets an empty home directory. The directory is removed when the run ends.
const FreshHome = "fresh"

// isolatedHome is the path of the home directory inside the sandbox, for a process with a separate root.
const isolatedHome = "/toold-home"

const homeVariable = "HOME="

// Limits for homes that no run uses. Homes contain caches, so removing one costs only time.
const (
	mostHomes   = 256
	oldestHome  = 24 * time.Hour
	leastFree   = 4 << 30          // minimum free space of the file system in bytes, or a tenth of a small file system; below it, all unused homes are removed
	removedHome = "removed-"       // prefix of a directory that is being removed
	freshHome   = "fresh-"         // prefix of a home that is removed with its run
	pruneEvery  = 15 * time.Minute // minimum time between two prunes, as long as there is enough free space
)

// homes manages the home directories of runs. They are outside of every workspace. A tool can write files into its home that programs load,
// such as .gitconfig or .local/lib/python3/site-packages/x.pth. No other tool, thread or level of isolation gets this home, so the files
// affect only programs of the same tool.
type homes struct {
	dir string

	mu      sync.Mutex
	used    map[string]int // number of runs, by path
	pruned  time.Time      // start of the last prune
	pruning bool
	closed  bool
	done    sync.WaitGroup // counts running prunes and removals of fresh homes
}

type home struct {
	dir string // directory on the machine, for homes.leave; empty when the run uses none
	at  string // path of the home that the process sees; empty when it gets none
}

// enterHome gives the run its home directory and sets HOME, unless the operator has set HOME.
func (r *Runner) enterHome(run *run) error {
	spec := &run.spec
	if spec.Home == "" || slices.ContainsFunc(spec.Env, func(pair string) bool { return strings.HasPrefix(pair, homeVariable) }) {
		return nil
	}
	at := isolatedHome
	if !run.supervised() || spec.Home != FreshHome { // A fresh home of an isolated run is in memory, so it needs no directory.
		path, err := r.homes.enter(homeName(spec))
		if err != nil {
			return err
		}
		run.home.dir = path
		if !run.supervised() {
			at = path
		}
	}
	run.home.at = at
	spec.Env = append(slices.Clip(spec.Env), homeVariable+at)
	return nil
}

// homeName returns the directory name of a home. Each level of isolation has a separate one, so that an unisolated process never loads
// files that an isolated process wrote.
func homeName(spec *Spec) string {
	if spec.Home == FreshHome {
		return freshHome + rand.Text()
	}
	level := "none"
	if p := spec.Policy; p != nil {
		level = "isolated"
		if p.Unsupervised {
			level = "landlock"
		}
	}
	sum := sha256.Sum256([]byte(level + "\x00" + spec.Home))
	return hex.EncodeToString(sum[:16])
}

// enter creates the directory when it is missing and protects it from removal until leave.
func (h *homes) enter(name string) (path string, err error) {
	path = filepath.Join(h.dir, name)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", err
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now) // The modification time shows when the home was last used; prune removes the oldest first.
	if h.used == nil {
		h.used = map[string]int{}
	}
	h.used[path]++
	return path, nil
}

// leave ends the use of a home and starts the removal of unneeded homes. It does not wait for the removal.
func (h *homes) leave(path string) {
	if path == "" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.used[path]--; h.used[path] == 0 {
		delete(h.used, path)
	}
	if h.closed {
		return // At the next start, sweep removes homes that are not needed.
	}
	if strings.HasPrefix(filepath.Base(path), freshHome) {
		h.done.Go(func() { _ = removeTree(path) }) // When this fails, prune tries again.
	}
	if time.Since(h.pruned) > pruneEvery || h.short() {
		h.startPruneLocked()
	}
}

// sweep starts the removal of homes that are not needed, for example fresh homes of a killed daemon.
func (h *homes) sweep() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.startPruneLocked()
}

func (h *homes) startPruneLocked() {
	if !h.pruning && !h.closed {
		h.pruning, h.pruned = true, time.Now()
		h.done.Go(h.prune)
	}
}

// short reports whether the file system of the homes is nearly full.
func (h *homes) short() bool {
	var stat unix.Statfs_t
	if unix.Statfs(h.dir, &stat) != nil {
		return false
	}
	return stat.Bavail < min(leastFree/uint64(stat.Bsize), stat.Blocks/10)
}

// close waits for the removals that have started.
func (h *homes) close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.done.Wait()
}

// prune removes homes that no run uses: fresh ones, old ones, and the oldest of more than mostHomes. While the file system is nearly full
// it removes all unused homes, oldest first. Homes of a killed daemon count as unused.
func (h *homes) prune() {
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.pruning = false
	}()
	entries, err := os.ReadDir(h.dir)
	if err != nil {
		return // The directory does not exist yet, or the next prune can read it.
	}
	type unused struct {
		path string
		last time.Time
	}
	var kept []unused
	for _, e := range entries {
		path := filepath.Join(h.dir, e.Name())
		info, err := e.Info()
		switch {
		case err != nil: // The home was removed meanwhile.
		case strings.HasPrefix(e.Name(), freshHome), strings.HasPrefix(e.Name(), removedHome), time.Since(info.ModTime()) > oldestHome:
			h.remove(path)
		default:
			kept = append(kept, unused{path, info.ModTime()})
		}
	}
	slices.SortFunc(kept, func(a, b unused) int { return cmp.Or(a.last.Compare(b.last), strings.Compare(a.path, b.path)) })
	for i, one := range kept {
		if len(kept)-i > mostHomes || h.short() {
			h.remove(one.path)
		}
	}
}

// remove removes a home unless a run uses it. It renames the directory first, so that a run that starts meanwhile gets an empty home.
func (h *homes) remove(path string) {
	h.mu.Lock()
	away := filepath.Join(h.dir, removedHome+rand.Text())
	if h.closed || h.used[path] > 0 || os.Rename(path, away) != nil {
		h.mu.Unlock()
		return
	}
	h.mu.Unlock()
	_ = removeTree(away) // The next prune removes the rest.
}

// removeTree removes a directory tree, including directories that its user may not write, such as Go module caches.
func removeTree(path string) error {
	if os.RemoveAll(path) == nil {
		return nil
	}
	root, err := os.OpenRoot(path) // A process wrote the contents, which may contain links. A Root never follows a link out of the directory.
	if err != nil {
		return err
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return root.Chmod(name, 0o700)
		}
		return nil // An error is ignored here: when a directory cannot be read, RemoveAll below fails and returns the error.
	})
	return errors.Join(err, os.RemoveAll(path))
}
