package daemon

import (
	"errors"
	"os"

	"github.com/toold-dev/toold/daemon/config"
)

// A workspace is an open workspace directory.
type workspace struct {
	path string // absolute path
	root *os.Root
}

// workspaces has the open workspaces by namespace. The key config.Sharing has the shared one.
type workspaces map[string]workspace

// openWorkspaces opens the workspaces of all namespaces; the caller closes them.
func openWorkspaces(cfg *config.Config) (workspaces, error) {
	all := workspaces{}
	for _, namespace := range append([]string{config.Sharing}, cfg.WithWorkspaces()...) {
		w, err := openWorkspace(cfg, namespace)
		if err != nil {
			return nil, errors.Join(err, all.Close())
		}
		all[namespace] = w
	}
	return all, nil
}

// openWorkspace opens the workspace of a namespace. The caller closes its root.
func openWorkspace(cfg *config.Config, namespace string) (workspace, error) {
	path, err := cfg.WorkspacePath(namespace)
	if err != nil {
		return workspace{}, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		advice := "make the directory"
		if namespace == config.Sharing {
			advice += ", or name another one with --workspace"
		}
		return workspace{}, config.Errorf("%s: %w; %s", config.WorkspaceKey(namespace), err, advice)
	}
	return workspace{path, root}, nil
}

func (w workspaces) of(namespace string) workspace {
	if own, ok := w[namespace]; ok {
		return own
	}
	return w[config.Sharing]
}

// Close closes all workspaces.
func (w workspaces) Close() (err error) {
	for _, one := range w {
		err = errors.Join(err, one.root.Close())
	}
	return err
}
