package files

import "context"

// Resolve resolves a path in the arguments of a call. root is the workspace's absolute path. clean is the path relative to the workspace.
// actual is the same path after all symbolic links were followed, or "" when that is impossible. ok is false for a path outside the
// workspace.
func Resolve(ctx context.Context, w Workspace, root, name string) (clean, actual string, ok bool) {
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
