package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// SeparatePaths refuses workspaces that contain files of the daemon, or that overlap each other.
//
// Tools read and change the files of a workspace for every caller, mostly without asking. If the token file were in a workspace, every
// caller could become an operator. If the rules file were there, callers could write rules.
//
// The check follows symbolic links. For a path that does not exist yet, it uses the location where the path would be created. Each link on a
// path must be outside the workspace too: a caller who can change a link decides where the path leads.
func (c *Config) SeparatePaths() error {
	problems := []error{c.separate(Sharing)}
	for _, namespace := range c.WithWorkspaces() {
		problems = append(problems, c.separate(namespace))
	}
	if err := errors.Join(problems...); err != nil || len(c.Workspaces) == 0 {
		return err
	}
	return c.separateWorkspaces()
}

// separate does the work of [Config.SeparatePaths] for the workspace of one namespace.
func (c *Config) separate(namespace string) error {
	key := WorkspaceKey(namespace)
	workspace, err := resolve(filepath.Clean(c.WorkspaceOf(namespace))) // Clean the path first, as all users of the path do: Clean removes a link that is followed by "..".
	if err != nil {
		return c.unresolved(key, err)
	}
	toData, err := resolveSteps(filepath.Clean(c.Data))
	if err != nil {
		return c.unresolved("data", err)
	}
	data := toData[len(toData)-1]
	advice := "; keep them apart, as ./data and ./workspace are, with --data and --workspace"
	if namespace != Sharing {
		advice = "; keep them apart: name another directory in workspaces"
	}
	homes, err := resolve(filepath.Clean(c.Homes()))
	if err != nil {
		return c.unresolved("sandbox.homes", err)
	}
	switch {
	case holds(workspace, data):
		return Errorf("data: %s is in the workspace %s, where every caller could read the token and the journal%s", data, workspace, advice)
	case holds(data, workspace):
		return Errorf("%s: %s is in the data directory %s, which is the daemon's alone%s", key, workspace, data, advice)
	case holds(homes, workspace):
		return Errorf("%s: %s is in sandbox.homes %s, which holds the home directories of all namespaces; keep them apart", key, workspace, homes)
	}
	var problems []error
	if err := checkSteps(workspace, "data", toData); err != nil {
		problems = append(problems, err)
	}
	for _, own := range c.ownFiles() {
		if own.path == "" {
			continue
		}
		problem := c.checkOutside(workspace, own.what, own.path)
		if clean := filepath.Clean(own.path); problem == nil && clean != own.path { // Check both forms: some files are opened by the path as written, and some by the cleaned path.
			problem = c.checkOutside(workspace, own.what, clean)
		}
		if problem != nil {
			problems = append(problems, problem)
		}
	}
	return errors.Join(problems...)
}

// An ownFile is a file or directory of the daemon with its description.
type ownFile struct{ what, path string }

// ownFiles lists the files and directories that belong to the daemon. A path may be empty.
func (c *Config) ownFiles() []ownFile {
	files := []ownFile{
		{"the token file", c.TokenFile()}, {"rules", c.Rules}, {"the configuration file", c.File()}, {"listen.unix", c.Listen.Unix},
		{"tls.cert", c.TLS.Cert}, {"tls.key", c.TLS.Key}, {"tls.client_ca", c.TLS.ClientCA}, {"command.directory", c.Command.Directory},
		{"sandbox.homes", c.Sandbox.Homes},
	}
	for _, i := range c.Auth.Issuers {
		files = append(files, ownFile{"auth.issuers: " + i.Name, i.Keys}, ownFile{"auth.issuers: " + i.Name, i.Authority})
	}
	for i := range c.Hooks {
		for _, path := range c.Hooks[i].files() {
			files = append(files, ownFile{"hooks: " + c.Hooks[i].Name, path})
		}
	}
	for i := range c.Secrets {
		s := &c.Secrets[i]
		files = append(files, ownFile{"secrets: " + s.Name, s.File})
		if len(s.Command) > 0 {
			files = append(files, ownFile{"secrets: " + s.Name, s.Command[0]})
		}
	}
	for _, path := range c.Backup.Directories {
		files = append(files, ownFile{"backup.directories", path})
	}
	for _, path := range c.MCP.Files {
		files = append(files, ownFile{"mcp.files", path})
	}
	for _, t := range c.Notify.Targets {
		files = append(files, ownFile{"notify: " + t.Name, t.File}, ownFile{"notify: " + t.Name, t.Authority})
	}
	return files
}

// MayHoldBackup returns an error when dir may not hold a copy of the store: it is not below one of the configured folders, or callers could
// read it.
func (c *Config) MayHoldBackup(dir string) error {
	for _, namespace := range append([]string{Sharing}, c.WithWorkspaces()...) {
		workspace, err := resolve(filepath.Clean(c.WorkspaceOf(namespace)))
		if err != nil {
			return c.unresolved(WorkspaceKey(namespace), err)
		}
		if err := c.checkOutside(workspace, "the copy", dir); err != nil {
			return err
		}
	}
	at, err := resolve(dir)
	if err != nil {
		return err
	}
	folders := c.backupFolders()
	for _, folder := range folders {
		if folder, err = resolve(folder); err != nil {
			return err
		}
		if at != folder && holds(folder, at) {
			return nil
		}
	}
	return fmt.Errorf("%s is not below %s; name a directory there, or add a folder to the setting backup.directories", at, strings.Join(folders, " or "))
}

// checkOutside refuses a path that is in the workspace, and a path that callers could redirect.
func (c *Config) checkOutside(workspace, what, path string) error {
	steps, err := resolveSteps(path)
	if err != nil {
		return c.unresolved(what, err)
	}
	if path := steps[len(steps)-1]; holds(workspace, path) {
		return Errorf("%s: %s is in the workspace %s, where callers can read and change it; put it elsewhere", what, path, workspace)
	}
	return checkSteps(workspace, what, steps)
}

// checkSteps refuses a path that has a link or a ".." in the workspace. Callers could change that step, and so decide where the path leads.
func checkSteps(workspace, what string, steps []string) error {
	for _, step := range steps {
		if holds(workspace, filepath.Dir(step)) {
			return Errorf("%s: the path to %s passes through %s in the workspace %s, where callers can change it; use the direct path", what, steps[len(steps)-1], step, workspace)
		}
	}
	return nil
}

func (c *Config) unresolved(what string, err error) error {
	return Errorf("%s: cannot check that the workspace and the daemon's own files are separate: %w", what, err)
}

// resolve returns the absolute path with all links resolved. If the end of the path does not exist, it resolves only the part that exists.
func resolve(path string) (string, error) {
	steps, err := resolveSteps(path)
	if err != nil {
		return "", err
	}
	return steps[len(steps)-1], nil
}

// resolveSteps returns all paths that decide where a path leads, as absolute paths with links resolved:
//
//   - each symbolic link on the path,
//   - each directory that the path leaves with "..",
//   - last, the location where the path ends. Only this location need not exist.
func resolveSteps(path string) (steps []string, err error) {
	if !filepath.IsAbs(path) {
		dir, err := os.Getwd()
		if err != nil {
			return nil, err
		}
		path = dir + "/" + path
	}
	const most = 40 // Linux follows at most this many links.
	at, links := "/", 0
	for rest := strings.Split(path, "/"); len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			steps = append(steps, at)
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		to, err := os.Readlink(next)
		switch {
		case err == nil:
			if links++; links > most {
				return nil, errors.New(path + ": too many links")
			}
			if steps = append(steps, next); filepath.IsAbs(to) {
				at = "/"
			}
			rest = append(strings.Split(to, "/"), rest...)
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EINVAL): // next is not a link, or does not exist
			at = next
		default:
			return nil, err
		}
	}
	return append(steps, at), nil
}

// holds reports whether path is dir or below it. Links in both must be resolved. It also recognizes a directory that has two names, for
// example through a bind mount.
func holds(dir, path string) bool {
	at, dirErr := os.Stat(dir)
	for {
		if path == dir {
			return true
		}
		if info, err := os.Stat(path); err == nil && dirErr == nil && os.SameFile(at, info) {
			return true
		}
		parent := filepath.Dir(path)
		if parent == path {
			return false
		}
		path = parent
	}
}
