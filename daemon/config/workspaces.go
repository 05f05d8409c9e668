package config

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/toold-dev/toold/sandbox"
)

// Workspaces maps each namespace that has its own workspace to the directory.
type Workspaces map[string]string

// WorkspaceOf returns the workspace of a namespace: its own, or the shared one.
func (c *Config) WorkspaceOf(namespace string) string {
	if own, ok := c.Workspaces[namespace]; ok {
		return own
	}
	return c.Workspace
}

// WorkspacePath returns [Config.WorkspaceOf] as an absolute path.
func (c *Config) WorkspacePath(namespace string) (string, error) {
	path, err := filepath.Abs(c.WorkspaceOf(namespace))
	if err != nil {
		return "", fmt.Errorf("workspace: %w", err)
	}
	return path, nil
}

// Sharing stands for all namespaces that have no separate workspace.
const Sharing = ""

// WithWorkspaces returns the namespaces that have a separate workspace, sorted.
func (c *Config) WithWorkspaces() []string { return slices.Sorted(maps.Keys(c.Workspaces)) }

// WorkspaceKey returns the key of the setting that names the workspace of a namespace.
func WorkspaceKey(namespace string) string {
	if namespace == Sharing {
		return "workspace"
	}
	return "workspaces." + namespace
}

// InWorkspaces returns a copy of c with the workspaces of other.
func (c *Config) InWorkspaces(other *Config) *Config {
	in := *c
	in.Workspace, in.Workspaces = other.Workspace, other.Workspaces
	return &in
}

// separateWorkspaces refuses workspaces that overlap after links are resolved. It also refuses isolation profiles that make a workspace
// visible to every namespace.
func (c *Config) separateWorkspaces() error {
	var problems []error
	ways := map[string][]string{}
	for _, namespace := range append([]string{Sharing}, c.WithWorkspaces()...) {
		steps, err := resolveSteps(filepath.Clean(c.WorkspaceOf(namespace)))
		if err != nil {
			return c.unresolved(WorkspaceKey(namespace), err)
		}
		for _, other := range slices.Sorted(maps.Keys(ways)) {
			problems = append(problems, checkSeparate(namespace, other, steps, ways[other]))
		}
		ways[namespace] = steps
	}
	for _, p := range c.Sandbox.Profiles {
		for _, path := range p.Read {
			shown, err := resolve(path)
			if err != nil {
				return c.unresolved("sandbox.profiles", err)
			}
			for _, namespace := range c.WithWorkspaces() {
				if at := last(ways[namespace]); holds(shown, at) || holds(at, shown) {
					problems = append(problems, Errorf("sandbox.profiles: %q shows %s, and with it the workspace %s (%s) to every namespace; remove it from read",
						p.Name, path, at, WorkspaceKey(namespace)))
				}
			}
		}
	}
	return errors.Join(problems...)
}

// checkSeparate refuses two workspaces if one contains the other, or if the callers of one could change where the path of the other leads.
func checkSeparate(namespace, other string, steps, others []string) error {
	at, there := last(steps), last(others)
	if holds(at, there) || holds(there, at) {
		return Errorf("%s: %s and %s (%s) overlap, so that one namespace would see the files of another; give each its own directory", WorkspaceKey(namespace), at, there, WorkspaceKey(other))
	}
	return errors.Join(checkSteps(there, WorkspaceKey(namespace), steps), checkSteps(at, WorkspaceKey(other), others))
}

func last(steps []string) string { return steps[len(steps)-1] }

// others returns the absolute paths of the workspaces that processes in dir must not see: all that do not contain dir.
func (c *Config) others(dir string) (hide []string, err error) {
	if len(c.Workspaces) == 0 {
		return nil, nil
	}
	for _, namespace := range append([]string{Sharing}, c.WithWorkspaces()...) {
		path, err := c.WorkspacePath(namespace)
		if err != nil {
			return nil, err
		}
		if inside, err := filepath.Rel(path, dir); err != nil || !filepath.IsLocal(inside) {
			hide = append(hide, path)
		}
	}
	return hide, nil
}

// Policies returns a function that returns the policy of a profile for the workspace of a namespace.
func (c *Config) Policies(namespace string) func(profile string) (*sandbox.Policy, error) {
	return func(profile string) (*sandbox.Policy, error) {
		path, err := c.WorkspacePath(namespace)
		if err != nil {
			return nil, err
		}
		return c.Policy(profile, path)
	}
}
