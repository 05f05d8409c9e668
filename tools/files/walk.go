package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"
)

// errEnough ends a walk that has reached a limit.
var errEnough = errors.New("walk ends early")

// walk visits a folder and everything below it, ordered by name. It does not follow links and skips .git.
type walk struct {
	family  *family
	honour  bool // obey .gitignore
	until   time.Time
	visited int
	cut     string // reason why the walk ended early, for the model; empty when it did not
	closed  int    // number of folders that could not be read
	visit   func(shown, actual string, e fs.DirEntry) error
}

func (f *family) newWalk(honour bool, visit func(shown, actual string, e fs.DirEntry) error) *walk {
	return &walk{family: f, honour: honour, until: time.Now().Add(f.limits.SearchTime), visit: visit}
}

// run walks from p. When a limit ends the walk, run sets cut and returns no error.
func (w *walk) run(ctx context.Context, p resolvedPath) error {
	var rules *ignores
	if w.honour {
		rules = w.above(ctx, p.actual)
	}
	err := w.enter(ctx, p, rules, 0)
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// above returns the .gitignore rules of the folders above dir.
func (w *walk) above(ctx context.Context, dir string) *ignores {
	if dir == "." {
		return nil
	}
	parent := path.Dir(dir)
	return w.above(ctx, parent).below(ctx, w.family.workspace, parent)
}

func (w *walk) enter(ctx context.Context, p resolvedPath, rules *ignores, depth int) error {
	if depth > maxDepth {
		w.cut = fmt.Sprintf("folders nested more than %d levels deep were skipped", maxDepth)
		return nil
	}
	entries, whole, err := w.entries(ctx, p.actual)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		w.closed++
		return nil
	}
	if w.honour {
		rules = rules.below(ctx, w.family.workspace, p.actual)
	}
	for _, e := range entries {
		w.visited++
		if err := w.within(ctx); err != nil {
			return err
		}
		next := resolvedPath{path.Join(p.path, e.Name()), path.Join(p.actual, e.Name())}
		switch {
		case e.Name() == ".git", rules.ignored(next.actual, e.IsDir()):
		case e.IsDir():
			err = w.enter(ctx, next, rules, depth+1)
		default:
			err = w.visit(next.path, next.actual, e)
		}
		if err != nil {
			return err
		}
	}
	if !whole {
		w.cut = fmt.Sprintf("the search ended after %d entries", w.family.limits.Entries)
		return errEnough
	}
	return nil
}

// entries reads a folder and closes it. So the walk holds only one file descriptor, whatever its depth.
func (w *walk) entries(ctx context.Context, actual string) ([]fs.DirEntry, bool, error) {
	dir, err := w.family.workspace.Open(ctx, actual)
	if err != nil {
		return nil, false, err
	}
	defer dir.Close()
	return entriesOf(ctx, dir, w.family.limits.Entries-w.visited)
}

// within returns an error when the walk has used up its time or its number of entries.
func (w *walk) within(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case w.visited > w.family.limits.Entries:
		w.cut = fmt.Sprintf("the search ended after %d entries", w.family.limits.Entries)
		return errEnough
	case time.Now().After(w.until):
		w.cut = fmt.Sprintf("the search ended after %v", w.family.limits.SearchTime)
		return errEnough
	}
	return nil
}
