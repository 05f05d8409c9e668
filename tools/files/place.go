package files

import "context"

// Place returns the clean path from the workspace that a path in arguments names, and the same without symbolic links, which is
// "" when they cannot be followed. root is the workspace's absolute path. It reports false for what lies outside.
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
