package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

// loaded is how a Config came to be.
type loaded struct {
	file     string            // "" when there was none
	from     map[string]string // by key: where the value comes from
	warnings []string
	again    func() (*Config, error)
}

// Reload reads the same sources again. The receiver does not change.
func (c *Config) Reload() (*Config, error) { return c.loaded.again() }

// File is the configuration file; empty when there was none.
func (c *Config) File() string { return c.loaded.file }

// Warnings says what in the environment looks like a setting and is none.
func (c *Config) Warnings() []string { return c.loaded.warnings }

// Load reads the file, the environment and the flags, each over the one before, and checks what they say together.
// An [Error] is the user's to correct.
func Load(flags *pflag.FlagSet, environ []string) (*Config, error) {
	file, _ := flags.GetString("config")
	if file == "" {
		file = lookup(environ, "TOOLD_CONFIG")
	}
	k := koanf.New(".")
	from := map[string]string{}
	base := map[string]any{}
	for key, value := range Values(defaults()) {
		base[key] = value
		from[key] = "default"
	}
	if err := k.Load(confmap.Provider(base, "."), nil); err != nil {
		return nil, err
	}
	if file != "" {
		if err := loadFile(k, file, from); err != nil {
			return nil, Errorf("%w", err)
		}
	}
	warnings, err := loadEnvironment(k, environ, from)
	if err == nil {
		err = loadFlags(k, flags, from)
	}
	if err != nil {
		return nil, Errorf("%w", err)
	}
	cfg := &Config{}
	if err := decode(k, cfg); err != nil {
		return nil, Errorf("%w", err)
	}
	cfg.resolve()
	cfg.Moved, _ = flags.GetBool("moved")
	cfg.loaded = loaded{file: file, from: from, warnings: warnings, again: func() (*Config, error) { return Load(flags, environ) }}
	if err := cfg.validate(); err != nil {
		return nil, Errorf("%w", err)
	}
	if err := cfg.SeparatePlaces(); err != nil {
		return nil, Errorf("%w", err)
	}
	return cfg, nil
}

func loadFile(k *koanf.Koanf, file string, from map[string]string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	values, err := readYAML(file, text, from)
	if err != nil {
		return err
	}
	return k.Load(confmap.Provider(values, "."), nil)
}

// loadEnvironment reads the variables of settings. Other variables that begin with TOOLD_ are left alone, because
// orchestrators of containers make such names of their own; one that is nearly a setting is worth a warning.
func loadEnvironment(k *koanf.Koanf, environ []string, from map[string]string) (warnings []string, err error) {
	byVariable := map[string]setting{}
	for _, s := range settings() {
		byVariable[s.variable()] = s
	}
	own := []string{"TOOLD_ADDRESS", "TOOLD_CONFIG", "TOOLD_TOKEN", "TOOLD_TOKEN_FILE", "TOOLD_CA"}
	names := make([]string, 0, len(byVariable))
	for name := range byVariable {
		names = append(names, name)
	}
	var problems []error
	read := func(name, text string) (string, any) {
		s, known := byVariable[name]
		switch {
		case !known && slices.Contains(own, name):
			return "", nil
		case !known:
			if meant := nearest(name, names); meant != "" && distance(name, meant) <= 2 {
				warnings = append(warnings, fmt.Sprintf("%s is no setting; did you mean %s?", name, meant))
			}
			return "", nil
		case s.isList():
			problems = append(problems, fmt.Errorf("%s: %s is a list, which stands in the file only", name, s.key))
			return "", nil
		}
		value, err := s.parse(text)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
			return "", nil
		}
		from[s.key] = "environment " + name
		return s.key, value
	}
	provider := env.Provider(".", env.Opt{Prefix: "TOOLD_", TransformFunc: read, EnvironFunc: func() []string { return environ }})
	if err := k.Load(provider, nil); err != nil {
		return warnings, err
	}
	slices.Sort(warnings)
	return warnings, errors.Join(problems...)
}

func loadFlags(k *koanf.Koanf, flags *pflag.FlagSet, from map[string]string) error {
	byFlag := map[string]setting{}
	for _, s := range settings() {
		byFlag[s.flag()] = s
	}
	var problems []error
	read := func(f *pflag.Flag) (string, any) {
		s, known := byFlag[f.Name]
		if !known || !f.Changed {
			return "", nil
		}
		value, err := s.parse(f.Value.String())
		if err != nil {
			problems = append(problems, fmt.Errorf("--%s: %w", f.Name, err))
			return "", nil
		}
		from[s.key] = "flag --" + f.Name
		return s.key, value
	}
	if err := k.Load(posflag.ProviderWithFlag(flags, ".", k, read), nil); err != nil {
		return err
	}
	return errors.Join(problems...)
}

func decode(k *koanf.Koanf, cfg *Config) error {
	text := func(from, to reflect.Type, value any) (any, error) {
		s, isText := value.(string)
		switch {
		case isText && to == timeType:
			return time.Parse(time.RFC3339, s)
		case isText && to == durationType: // in a list: others are read already
			return parseDuration(s)
		}
		return value, nil
	}
	return k.UnmarshalWithConf("", cfg, koanf.UnmarshalConf{Tag: "koanf", DecoderConfig: &mapstructure.DecoderConfig{
		Result: cfg, TagName: "koanf", ErrorUnused: true, DecodeHook: text,
	}})
}

// lookup returns the variable's value; empty when it is not set.
func lookup(environ []string, name string) string {
	for _, e := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return value
		}
	}
	return ""
}
