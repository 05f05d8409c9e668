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

// FreshHome is the [Spec.Home] of a run that gets an empty home directory, which is removed with the run.
const FreshHome = "fresh"

// isolatedHome is where a process with its own root finds its home directory.
const isolatedHome = "/toold-home"

const homeVariable = "HOME="

// The bounds of homes that no run uses. A home holds caches, so that a lost one costs time and nothing else.
const (
	mostHomes   = 256
	oldestHome  = 24 * time.Hour
	leastFree   = 4 << 30          // bytes of the file system, or a tenth of a small one; below it every home without a run goes
	removedHome = "removed-"       // prefix of what is being removed
	freshHome   = "fresh-"         // prefix of a home that goes with its run
	pruneEvery  = 15 * time.Minute // at most, while there is room
)

// homes are the home directories of runs. They lie outside of every workspace: what one tool writes there, such as
// .gitconfig or .local/lib/python3/site-packages/x.pth, is loaded by no other tool, thread or level of isolation.
type homes struct {
	dir string

	mu      sync.Mutex
	used    map[string]int // runs, by path
	pruned  time.Time      // when prune began last
	pruning bool
	closed  bool
	done    sync.WaitGroup // prune and the removal of fresh homes
}

// A home is the home directory of one run.
type home struct {
	dir string // to be given back to homes; empty: none
	at  string // where the process finds it; empty: it has none of this Runner
}

// enterHome gives the run its home directory and names it in HOME. A HOME that the operator set stays.
func (r *Runner) enterHome(run *run) error {
	spec := &run.spec
	if spec.Home == "" || slices.ContainsFunc(spec.Env, func(pair string) bool { return strings.HasPrefix(pair, homeVariable) }) {
		return nil
	}
	at := isolatedHome
	if !run.supervised() || spec.Home != FreshHome { // a fresh home of an isolated run is memory, which ends with the run
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

// homeName is the name of the directory. It differs for each level of isolation: what an isolated process wrote is not
// loaded by one without isolation.
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

// enter makes the directory when it is missing and keeps it from being removed until leave.
func (h *homes) enter(name string) (path string, err error) {
	path = filepath.Join(h.dir, name)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", err
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now) // prune removes the oldest first
	if h.used == nil {
		h.used = map[string]int{}
	}
	h.used[path]++
	return path, nil
}

// leave ends the use of a home and starts the removal of what is not needed any more. It does not wait for the removal.
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
		return // the next start removes it
	}
	if strings.HasPrefix(filepath.Base(path), freshHome) {
		h.done.Go(func() { _ = removeTree(path) }) // prune tries again
	}
	if time.Since(h.pruned) > pruneEvery || h.short() {
		h.startPruneLocked()
	}
}

// sweep starts the removal of what an earlier daemon left.
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

// close waits for removals that have begun.
func (h *homes) close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.done.Wait()
}

// prune removes the homes that no run uses: fresh ones, old ones, those beyond mostHomes, and all of them, the oldest
// first, while the file system is nearly full. What a killed daemon left is such a home too.
func (h *homes) prune() {
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.pruning = false
	}()
	entries, err := os.ReadDir(h.dir)
	if err != nil {
		return // there is none yet, or the next prune sees it
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
		case err != nil: // it is gone
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

// remove removes a home unless a run uses it. It takes the name away first: a run that comes meanwhile gets an empty home.
func (h *homes) remove(path string) {
	h.mu.Lock()
	away := filepath.Join(h.dir, removedHome+rand.Text())
	if h.closed || h.used[path] > 0 || os.Rename(path, away) != nil {
		h.mu.Unlock()
		return
	}
	h.mu.Unlock()
	_ = removeTree(away) // what is left goes with the next prune
}

// removeTree removes a directory also where its user may not write, as caches of Go modules are.
func removeTree(path string) error {
	if os.RemoveAll(path) == nil {
		return nil
	}
	root, err := os.OpenRoot(path) // what is in it was written by others: no link leads out
	if err != nil {
		return err
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return root.Chmod(name, 0o700)
		}
		return nil // a directory that cannot be read was just made readable, or stays
	})
	return errors.Join(err, os.RemoveAll(path))
}
