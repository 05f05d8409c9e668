package secret

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toold-dev/toold/tool"
)

// Check returns an error for invalid secrets. It reads no value.
func Check(secrets []Secret) error {
	var problems []error
	seen := map[string]bool{}
	for i := range secrets {
		s := &secrets[i]
		err := s.check()
		if err == nil && seen[s.Name] {
			err = errors.New("the name is used twice")
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("entry %d (%s): %w", i+1, s.Name, err))
		}
		seen[s.Name] = true
	}
	return errors.Join(problems...)
}

func (s *Secret) check() error {
	given := 0
	for _, there := range []bool{s.File != "", s.Env != "", len(s.Command) > 0} {
		if there {
			given++
		}
	}
	switch {
	case !ValidName(s.Name):
		return errors.New("want a name of at most 64 letters, digits, - and _ that begins with a letter or a digit")
	case given != 1:
		return errors.New("requires one of file, env and command")
	case s.File != "" && !filepath.IsAbs(s.File):
		return fmt.Errorf("file %q is not absolute", s.File)
	case strings.ContainsAny(s.Env, "=\x00"):
		return fmt.Errorf("env: %q is not a variable name", s.Env)
	}
	if err := s.checkCommand(); err != nil {
		return err
	}
	for i := range s.Allow {
		if err := s.Allow[i].check(); err != nil {
			return fmt.Errorf("allow: entry %d: %w", i+1, err)
		}
	}
	return nil
}

func (s *Secret) checkCommand() error {
	if len(s.Command) == 0 {
		if len(s.Variables) > 0 || s.Timeout != 0 || s.Cache != 0 {
			return errors.New("variables, timeout and cache require command")
		}
		return nil
	}
	if !filepath.IsAbs(s.Command[0]) {
		return errors.New("command: want the absolute path of a program, and arguments")
	}
	if strings.Contains(strings.Join(s.Command, ""), "\x00") {
		return errors.New("command: has a NUL")
	}
	for _, v := range s.Variables {
		if name, _, ok := strings.Cut(v, "="); !ok || name == "" || strings.Contains(v, "\x00") {
			return errors.New("variables: want NAME=value")
		}
	}
	for _, d := range []struct {
		name        string
		value, most time.Duration
	}{{"timeout", s.Timeout, 5 * time.Minute}, {"cache", s.Cache, 24 * time.Hour}} {
		if d.value != 0 && (d.value < time.Second || d.value > d.most) {
			return fmt.Errorf("%s: %v is not between 1s and %v", d.name, d.value, d.most)
		}
	}
	return nil
}

func (a *Allow) check() error {
	if len(a.Tools) == 0 {
		return errors.New("requires tools")
	}
	for _, list := range [][]string{a.Namespaces, a.Tools, a.Parameters} {
		for _, g := range list {
			if !tool.ValidGlob(g) || g == "" {
				return fmt.Errorf("%q is not a pattern of *, ? and [classes]", g)
			}
		}
	}
	return nil
}

func (s *Secret) entitles(use Use) bool {
	for i := range s.Allow {
		if a := &s.Allow[i]; a.entitlesTool(use.Namespace, use.Tool) && (len(a.Parameters) == 0 || matches(a.Parameters, use.Parameter)) {
			return true
		}
	}
	return false
}

func (s *Secret) entitlesTool(namespace, tool string) bool {
	for i := range s.Allow {
		if s.Allow[i].entitlesTool(namespace, tool) {
			return true
		}
	}
	return false
}

func (a *Allow) entitlesTool(namespace, tool string) bool {
	return a.reaches(namespace) && matches(a.Tools, tool)
}

// reaches reports whether the Allow covers a namespace. A use in all namespaces ([Everywhere]) needs an Allow without namespaces or with
// the pattern "*". A pattern such as "?", which also matches the text "*", is not enough.
func (a *Allow) reaches(namespace string) bool {
	if len(a.Namespaces) == 0 {
		return true
	}
	if namespace != Everywhere {
		return matches(a.Namespaces, namespace)
	}
	for _, g := range a.Namespaces {
		if g == "*" {
			return true
		}
	}
	return false
}

func matches(globs []string, text string) bool {
	return tool.AnyGlob(globs, text) || slices.Contains(globs, "*") // unlike other globs, "*" also matches a text with "/"
}
