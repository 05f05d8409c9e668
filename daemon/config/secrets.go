package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/toold-dev/toold/secret"
)

// NamedSecret is what secret://name stands for. Exactly one of File, Env and Command is given.
type NamedSecret struct {
	Name      string        `koanf:"name"`      // required, once
	File      string        `koanf:"file"`      // absolute path; its owner alone may read it
	Env       string        `koanf:"env"`       // variable of the daemon's environment
	Command   []string      `koanf:"command"`   // absolute path of a program that prints it, and arguments
	Variables []string      `koanf:"variables"` // of the command: NAME=value, or NAME for the daemon's own; none: PATH and LANG alone
	Timeout   time.Duration `koanf:"timeout"`   // of the command; 0: 10s
	Cache     time.Duration `koanf:"cache"`     // for which what the command printed counts; 0: 5m
	Allow     []SecretAllow `koanf:"allow"`     // who gets it; none: nobody
}

// SecretAllow entitles the uses that all of its lists match.
type SecretAllow struct {
	Namespaces []string `koanf:"namespaces"` // globs; none: every namespace
	Tools      []string `koanf:"tools"`      // globs on tool ids, mcp:<server>, notify:<target>, hook:<name>; required
	Parameters []string `koanf:"parameters"` // globs, such as env.* and headers.*; none: all of the tool's
}

// of is the form of package secret, with the variables that the command is to have of the daemon's own.
func (s *NamedSecret) of(lookup func(string) (string, bool)) (secret.Secret, error) {
	out := secret.Secret{Name: s.Name, File: s.File, Env: s.Env, Command: s.Command, Timeout: s.Timeout, Cache: s.Cache}
	var missing error
	for _, v := range s.Variables {
		if !strings.Contains(v, "=") {
			value, set := lookup(v)
			if !set {
				missing = errors.Join(missing, fmt.Errorf("variables: the daemon has no variable %s", v))
			}
			v += "=" + value
		}
		out.Variables = append(out.Variables, v)
	}
	for _, a := range s.Allow {
		out.Allow = append(out.Allow, secret.Allow(a))
	}
	return out, missing
}

// NamedSecrets are those of the configuration. An error is the user's to correct.
func (c *Config) NamedSecrets() ([]secret.Secret, error) {
	var out []secret.Secret
	var problems []error
	for i := range c.Secrets {
		s, err := c.Secrets[i].of(os.LookupEnv)
		if err != nil {
			problems = append(problems, Errorf("secrets: %s: %w", s.Name, err))
		}
		out = append(out, s)
	}
	return out, errors.Join(problems...)
}

func (c *Config) validateSecrets(wrong complaint) {
	var list []secret.Secret
	for i := range c.Secrets {
		s, _ := c.Secrets[i].of(func(string) (string, bool) { return "", true })
		list = append(list, s)
	}
	if err := secret.Check(list); err != nil {
		wrong("secrets", "%v", err)
	}
}

// secretsText writes the list as the file would, each entry on a line, without values of variables.
func secretsText(margin string, list []NamedSecret) string {
	var b strings.Builder
	for _, s := range list {
		s.Variables = slices.Clone(s.Variables)
		for i, v := range s.Variables {
			if name, _, isSet := strings.Cut(v, "="); isSet {
				s.Variables[i] = name + "=" + hidden
			}
		}
		fmt.Fprintf(&b, "%s  - %s\n", margin, flowText(reflect.ValueOf(s)))
	}
	return b.String()
}

// Redacts reports whether secrets are taken out of what calls tell. Without the setting calls do not pay for it.
func (c *Config) Redacts() bool {
	return len(c.Redact.Values)+len(c.Redact.Patterns)+len(c.Secrets) > 0 || c.Redact.Tokens || c.Web.ownKey() ||
		slices.ContainsFunc(c.Subagents, func(s Subagent) bool { return s.ownKey() }) || slices.ContainsFunc(c.Hooks, func(h Hook) bool { return h.Remote.TokenFile != "" })
}

// isReference reports whether a text is one reference and nothing else.
func isReference(text string) bool {
	name, ok := strings.CutPrefix(text, secret.Scheme)
	return ok && secret.ValidName(name)
}
