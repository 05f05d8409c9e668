package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// separatePlaces refuses a workspace that holds what is the daemon's own. Tools show and change what is in the workspace
// for every caller, mostly without asking anybody: a token there makes each of them an operator, and rules there are
// theirs to write. Symbolic links are followed, and what does not exist yet counts as where it would be made.
func (c *Config) separatePlaces() error {
	workspace, err := settle(c.Workspace)
	if err != nil {
		return c.unclear("workspace", err)
	}
	data, err := settle(c.Data)
	if err != nil {
		return c.unclear("data", err)
	}
	const advice = "; keep them apart, as ./data and ./workspace are, with --data and --workspace"
	switch {
	case holds(workspace, data):
		return usagef("data: %s is in the workspace %s, where every caller could read the token and the journal%s", data, workspace, advice)
	case holds(data, workspace):
		return usagef("workspace: %s is in the data directory %s, which is the daemon's alone%s", workspace, data, advice)
	}
	var problems []error
	places := []struct{ what, path string }{
		{"the token file", c.TokenFile()}, {"rules", c.Rules}, {"the configuration file", c.File()}, {"listen.unix", c.Listen.Unix},
		{"tls.cert", c.TLS.Cert}, {"tls.key", c.TLS.Key}, {"tls.client_ca", c.TLS.ClientCA}, {"command.directory", c.Command.Directory},
	}
	for i := range c.Hooks {
		for _, path := range c.Hooks[i].files() {
			places = append(places, struct{ what, path string }{"hooks: " + c.Hooks[i].Name, path})
		}
	}
	for i := range c.Secrets {
		s := &c.Secrets[i]
		places = append(places, struct{ what, path string }{"secrets: " + s.Name, s.File})
		if len(s.Command) > 0 {
			places = append(places, struct{ what, path string }{"secrets: " + s.Name, s.Command[0]})
		}
	}
	for _, path := range c.MCP.Files {
		places = append(places, struct{ what, path string }{"mcp.files", path})
	}
	for _, t := range c.Notify.Targets {
		places = append(places, struct{ what, path string }{"notify: " + t.Name, t.SecretFile}, struct{ what, path string }{"notify: " + t.Name, t.CA})
	}
	for _, place := range places {
		if place.path == "" {
			continue
		}
		path, err := settle(place.path)
		if err != nil {
			problems = append(problems, c.unclear(place.what, err))
		} else if holds(workspace, path) {
			problems = append(problems, usagef("%s: %s is in the workspace %s, where callers can read and change it; put it elsewhere", place.what, path, workspace))
		}
	}
	return errors.Join(problems...)
}

func (c *Config) unclear(what string, err error) error {
	return usagef("%s: cannot tell whether the workspace and what is the daemon's own are apart: %w", what, err)
}

// settle returns the absolute path without links. Of a path that does not exist, the part that does is followed.
func settle(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for range 40 { // as many links as Linux follows
		at, err := filepath.EvalSymlinks(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return at, err
		}
		if to, err := os.Readlink(path); err == nil { // a link to what is not there yet
			if !filepath.IsAbs(to) {
				to = filepath.Join(filepath.Dir(path), to)
			}
			path = to
			continue
		}
		parent, err := settle(filepath.Dir(path))
		return filepath.Join(parent, filepath.Base(path)), err
	}
	return "", errors.New(path + ": too many links")
}

// holds reports whether path is dir or below it. Both are settled. Directories that are the same under two names, as with
// a bind mount, are found too, if they exist.
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
