package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/toold-dev/toold/secret"
	"github.com/toold-dev/toold/tools/subagent"
)

// NamedSecret is the secret that secret://name refers to. Exactly one of File, Env and Command is set.
type NamedSecret struct {
	Name      string        `yaml:"name" help:"name of the secret in references; required and unique"`
	File      string        `yaml:"file" help:"absolute path of the file that contains the secret; only its owner may read it"`
	Env       string        `yaml:"env" help:"variable of the daemon's environment that contains the secret"`
	Command   []string      `yaml:"command" help:"absolute path of a program that prints the secret, and its arguments"`
	Variables []string      `yaml:"variables" format:"variable" secret:"true" help:"environment of the program, in addition to PATH and LANG: NAME=value, or NAME for the value that the daemon has"`
	Timeout   time.Duration `yaml:"timeout" default:"0" min:"0" max:"5m" help:"longest time of the program; 0 means 10s"`
	Cache     time.Duration `yaml:"cache" default:"0" min:"0" max:"1d" help:"time for which toold uses the printed value before it runs the program again; 0 means 5m"`
	Allow     []SecretAllow `yaml:"allow" help:"places that may use the secret; with an empty list no place may use it"`
}

// SecretAllow permits the uses of a secret that match all of its lists.
type SecretAllow struct {
	Namespaces []string `yaml:"namespaces" help:"globs on namespaces; an empty list matches every namespace"`
	Tools      []string `yaml:"tools" help:"globs on tool ids, mcp:<server>, notify:<target> and hook:<name>; required"`
	Parameters []string `yaml:"parameters" help:"globs on parameters, such as env.* and headers.*; an empty list matches every parameter"`
}

// of converts s for package secret. It uses lookup for variables of the daemon that the command gets by name.
func (s *NamedSecret) of(lookup func(string) (string, bool)) (secret.Secret, error) {
	out := secret.Secret{Name: s.Name, File: s.File, Env: s.Env, Command: s.Command, Timeout: s.Timeout, Cache: s.Cache}
	var missing error
	for _, v := range s.Variables {
		if !strings.Contains(v, "=") {
			value, set := lookup(v)
			if !set {
				missing = errors.Join(missing, fmt.Errorf("variables: the daemon's environment has no variable %s", v))
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

// NamedSecrets returns the configured secrets. An error is a mistake that the user can correct.
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

// Redacts reports whether secrets are redacted. When they are not, calls have no cost for redaction.
func (c *Config) Redacts() bool {
	return len(c.Redact.Values)+len(c.Redact.Patterns)+len(c.Secrets) > 0 || c.Redact.Tokens || c.Web.OwnKey() ||
		slices.ContainsFunc(c.Subagents, func(s subagent.Settings) bool { return s.OwnKey() }) || slices.ContainsFunc(c.Hooks, func(h Hook) bool { return h.Remote.TokenFile != "" })
}
