package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/toold-dev/toold/setting"
)

// loaded records the sources of a Config.
type loaded struct {
	file     string            // path of the configuration file; empty without one
	from     map[string]string // source of each value, by the key of its setting; a default has no entry
	warnings []string
	again    func() (*Config, error)
}

// Reload reads the same sources again and returns the new configuration. The receiver does not change. It returns an error for a Config
// that a program built itself, because that has no sources.
func (c *Config) Reload() (*Config, error) {
	if c.loaded.again == nil {
		return nil, Errorf("the configuration was built by a program, so it has no file to reload")
	}
	return c.loaded.again()
}

// File returns the path of the configuration file. It is empty when there was none.
func (c *Config) File() string { return c.loaded.file }

// Warnings lists environment variables whose names look like those of settings but are not.
func (c *Config) Warnings() []string { return c.loaded.warnings }

// Load reads the file, then the environment, then the flags. A later source overrides an earlier one. It checks the combined result. It
// returns an [Error] for a mistake that the user can correct.
func Load(flags *pflag.FlagSet, environ []string) (*Config, error) {
	file, _ := flags.GetString("config")
	if file == "" {
		file, _ = lookup(environ, "TOOLD_CONFIG")
	}
	c := defaults()
	c.loaded = loaded{file: file, from: map[string]string{}, again: func() (*Config, error) { return Load(flags, environ) }}
	for _, read := range []func() error{
		c.readFile,
		func() error { return c.readEnvironment(environ) },
		func() error { return c.readFlags(flags) },
		func() error { c.resolve(); return c.validate() },
		c.SeparatePaths,
	} {
		if err := read(); err != nil {
			return nil, Errorf("%w", err)
		}
	}
	c.Moved, _ = flags.GetBool("moved")
	return &c, nil
}

func (c *Config) readFile() error {
	if c.loaded.file == "" {
		return nil
	}
	text, err := os.ReadFile(c.loaded.file)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	return c.readYAML(text)
}

// set parses the text of a variable or a flag and stores the value.
func (c *Config) set(s setting.Setting, text, name, from string) error {
	if s.IsList() {
		return fmt.Errorf("%s: %s is a list; set it in the configuration file", name, s.Key)
	}
	if err := setting.Parse(s.In(reflect.ValueOf(c).Elem()), text); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	c.loaded.from[s.Key] = from + " " + name
	return nil
}

// readEnvironment reads the variables of settings. It ignores unknown variables that begin with TOOLD_, because container orchestrators
// create such variables. It warns about a name that differs little from that of a setting.
func (c *Config) readEnvironment(environ []string) error {
	var problems []error
	names := []string{"TOOLD_ADDRESS", "TOOLD_CONFIG", "TOOLD_TOKEN", "TOOLD_TOKEN_FILE", "TOOLD_CA"}
	others := len(names)
	for _, s := range Settings() {
		names = append(names, variable(s))
		if text, isSet := lookup(environ, variable(s)); isSet {
			problems = append(problems, c.set(s, text, variable(s), "environment"))
		}
	}
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, "TOOLD_") || slices.Contains(names, name) {
			continue
		}
		if meant := nearest(name, names[others:]); meant != "" && distance(name, meant) <= 2 {
			c.loaded.warnings = append(c.loaded.warnings, fmt.Sprintf("%s is not a setting; did you mean %s?", name, meant))
		}
	}
	slices.Sort(c.loaded.warnings)
	return errors.Join(problems...)
}

func (c *Config) readFlags(flags *pflag.FlagSet) error {
	var problems []error
	for _, s := range Settings() {
		if f := flags.Lookup(flagName(s)); f != nil && f.Changed {
			problems = append(problems, c.set(s, f.Value.String(), "--"+f.Name, "flag"))
		}
	}
	return errors.Join(problems...)
}

// lookup returns the value of a variable. When the variable occurs more than once, the last one counts.
func lookup(environ []string, name string) (value string, isSet bool) {
	for _, e := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return value, true
		}
	}
	return "", false
}
