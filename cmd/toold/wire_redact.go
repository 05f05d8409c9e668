package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/toold-dev/toold/plugins/redact"
)

// newRedactor reads the secrets that are taken out of what calls tell; nil when nothing is to be.
func newRedactor(cfg *Config) (*redact.Redactor, error) {
	c := cfg.Redact
	if len(c.Values)+len(c.Patterns) == 0 && !c.Tokens {
		return nil, nil
	}
	out := redact.Config{Tokens: c.Tokens}
	var problems []error
	for i, s := range c.Values {
		text, err := s.text()
		if err != nil {
			problems = append(problems, fmt.Errorf("values: entry %d: %w", i+1, err))
			continue
		}
		out.Values = append(out.Values, redact.Value{Name: s.Name, Text: text})
	}
	for _, p := range c.Patterns {
		out.Patterns = append(out.Patterns, redact.Pattern(p))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, usagef("redact: %w", err)
	}
	r, err := redact.New(out)
	if err != nil {
		return nil, usagef("redact: %w", err)
	}
	return r, nil
}

func (s Secret) text() (string, error) {
	switch {
	case s.Env != "":
		text, ok := os.LookupEnv(s.Env)
		if !ok {
			return "", fmt.Errorf("the variable %s is not set", s.Env)
		}
		return text, nil
	case s.File != "":
		b, err := os.ReadFile(s.File)
		return strings.TrimRight(string(b), "\r\n"), err
	default:
		return s.Value, nil
	}
}
