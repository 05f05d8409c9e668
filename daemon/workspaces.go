package daemon

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toold-dev/toold/sandbox"
)

// Workspaces are those of namespaces, by namespace.
type Workspaces map[string]string

// workspaceOf returns the workspace of a namespace.
func (c *Config) workspaceOf(namespace string) string {
	if own, ok := c.Workspaces[namespace]; ok {
		return own
	}
	return c.Workspace
}

// workspacePath is workspaceOf as an absolute path.
func (c *Config) workspacePath(namespace string) (string, error) {
	path, err := filepath.Abs(c.workspaceOf(namespace))
	if err != nil {
		return "", fmt.Errorf("workspace: %w", err)
	}
	return path, nil
}

// sharing stands for all namespaces that have no workspace of their own.
const sharing = ""

// withWorkspaces returns the namespaces that have a workspace of their own, sorted.
func (c *Config) withWorkspaces() []string { return slices.Sorted(maps.Keys(c.Workspaces)) }

// workspaceKey is the setting that names the workspace of a namespace.
func workspaceKey(namespace string) string {
	if namespace == sharing {
		return "workspace"
	}
	return "workspaces." + namespace
}

// inWorkspaces returns the configuration with the workspaces of another one.
func (c *Config) inWorkspaces(other *Config) *Config {
	in := *c
	in.Workspace, in.Workspaces = other.Workspace, other.Workspaces
	return &in
}

func (c *Config) validateWorkspaces(wrong complaint) {
	if c.Workspace == "" {
		wrong("workspace", "is empty")
	}
	for _, namespace := range c.withWorkspaces() {
		switch {
		case namespace == sharing:
			wrong("workspaces", "a namespace has no name")
		case c.Workspaces[namespace] == "":
			wrong(workspaceKey(namespace), "is empty")
		}
	}
}

// separateWorkspaces refuses workspaces of which one holds another, links followed, and profiles that show them.
func (c *Config) separateWorkspaces() error {
	var problems []error
	ways := map[string][]string{}
	for _, namespace := range append([]string{sharing}, c.withWorkspaces()...) {
		steps, err := way(filepath.Clean(c.workspaceOf(namespace)))
		if err != nil {
			return c.unclear(workspaceKey(namespace), err)
		}
		for _, other := range slices.Sorted(maps.Keys(ways)) {
			problems = append(problems, apartFrom(namespace, other, steps, ways[other]))
		}
		ways[namespace] = steps
	}
	for _, p := range c.Sandbox.Profiles {
		for _, path := range p.Read {
			shown, err := settle(path)
			if err != nil {
				return c.unclear("sandbox.profiles", err)
			}
			for _, namespace := range c.withWorkspaces() {
				if at := last(ways[namespace]); holds(shown, at) || holds(at, shown) {
					problems = append(problems, usagef("sandbox.profiles: %q shows %s, and with it the workspace %s (%s) to every namespace; take it out of read",
						p.Name, path, at, workspaceKey(namespace)))
				}
			}
		}
	}
	return errors.Join(problems...)
}

// apartFrom refuses two workspaces of which one holds the other, or whose callers decide where the other one is.
func apartFrom(namespace, other string, steps, others []string) error {
	at, there := last(steps), last(others)
	if holds(at, there) || holds(there, at) {
		return usagef("%s: %s and %s (%s) overlap, so that one namespace would see the files of another; give each its own directory", workspaceKey(namespace), at, there, workspaceKey(other))
	}
	return errors.Join(lentWay(there, workspaceKey(namespace), steps), lentWay(at, workspaceKey(other), others))
}

func last(steps []string) string { return steps[len(steps)-1] }

// others returns the absolute workspaces that what works in dir must not see: all that do not hold it.
func (c *Config) others(dir string) (hide []string, err error) {
	if len(c.Workspaces) == 0 {
		return nil, nil
	}
	for _, namespace := range append([]string{sharing}, c.withWorkspaces()...) {
		path, err := c.workspacePath(namespace)
		if err != nil {
			return nil, err
		}
		if inside, err := filepath.Rel(path, dir); err != nil || !filepath.IsLocal(inside) {
			hide = append(hide, path)
		}
	}
	return hide, nil
}

// policies returns what gives the policies of profiles in the workspace of a namespace.
func (c *Config) policies(namespace string) func(profile string) (*sandbox.Policy, error) {
	return func(profile string) (*sandbox.Policy, error) {
		path, err := c.workspacePath(namespace)
		if err != nil {
			return nil, err
		}
		return c.policy(profile, path)
	}
}

// A workspace is an open one.
type workspace struct {
	path string // absolute
	root *os.Root
}

// workspaces are the open ones, by namespace; sharing has that of all others.
type workspaces map[string]workspace

// openWorkspaces opens the workspaces of all namespaces; the caller closes them.
func openWorkspaces(cfg *Config) (workspaces, error) {
	all := workspaces{}
	for _, namespace := range append([]string{sharing}, cfg.withWorkspaces()...) {
		w, err := openWorkspace(cfg, namespace)
		if err != nil {
			return nil, errors.Join(err, all.Close())
		}
		all[namespace] = w
	}
	return all, nil
}

// openWorkspace opens the workspace of a namespace; the caller closes its root.
func openWorkspace(cfg *Config, namespace string) (workspace, error) {
	path, err := cfg.workspacePath(namespace)
	if err != nil {
		return workspace{}, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		advice := "make the directory"
		if namespace == sharing {
			advice += ", or name another one with --workspace"
		}
		return workspace{}, usagef("%s: %w; %s", workspaceKey(namespace), err, advice)
	}
	return workspace{path, root}, nil
}

// of returns the workspace of a namespace.
func (w workspaces) of(namespace string) workspace {
	if own, ok := w[namespace]; ok {
		return own
	}
	return w[sharing]
}

// Close closes all of them.
func (w workspaces) Close() (err error) {
	for _, one := range w {
		err = errors.Join(err, one.root.Close())
	}
	return err
}

// workspacesText writes the workspaces of namespaces as the file has them.
func workspacesText(margin string, all Workspaces) string {
	var b strings.Builder
	for _, namespace := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "%s  %s: %s\n", margin, quote(namespace), quote(all[namespace]))
	}
	return b.String()
}
