package files

import "context"

// Place returns the clean path, relative to the workspace, of a path in arguments. actual is the same path without symbolic links, or ""
// when they cannot be followed. root is the workspace's absolute path. ok is false for a path outside the workspace.
func Place(ctx context.Context, w Workspace, root, name string) (clean, actual string, ok bool) {
	f := &family{workspace: w, root: root}
	clean, err := f.locate("path", name)
	if err != nil {
		return "", "", false
	}
	if p, err := f.follow(ctx, clean); err == nil {
		actual = p.actual
	}
	return clean, actual, true
}
