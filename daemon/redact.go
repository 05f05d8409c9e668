package daemon

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/toold-dev/toold/daemon/config"
	"github.com/toold-dev/toold/plugins/redact"
)

// knowKey takes a key of the daemon's own out of what calls tell from now on. One that is too short for that is used all the same: what a machine's
// own service takes for a key is often a word, and none.
func knowKey(secrets *redact.Live, name, key string) error {
	if secrets == nil || len(key) < redact.MinValue {
		return nil
	}
	return secrets.Know(name, key)
}

// secretsOf reads the secrets that are taken out of what calls tell. With them goes the daemon's own token: a command can
// read its file.
func secretsOf(cfg *config.Config, token string) (redact.Config, error) {
	out := redact.Config{Tokens: cfg.Redact.Tokens}
	var problems []error
	for i, s := range cfg.Redact.Values {
		text, err := secretText(s)
		if err != nil {
			problems = append(problems, fmt.Errorf("values: entry %d: %w", i+1, err))
			continue
		}
		out.Values = append(out.Values, redact.Value{Name: s.Name, Text: text})
	}
	if len(token) >= redact.MinValue {
		out.Values = append(out.Values, redact.Value{Name: "toold-token", Text: token})
	}
	for _, p := range cfg.Redact.Patterns {
		out.Patterns = append(out.Patterns, redact.Pattern(p))
	}
	if err := errors.Join(problems...); err != nil {
		return out, config.Errorf("redact: %w", err)
	}
	return out, nil
}

// newRedactor returns what takes the secrets out.
func newRedactor(secrets redact.Config) (*redact.Redactor, error) {
	r, err := redact.New(secrets)
	if err != nil {
		return nil, config.Errorf("redact: %w", err)
	}
	return r, nil
}

// newSecrets is both; nil when nothing is to be taken out.
func newSecrets(cfg *config.Config, token string) (*redact.Live, error) {
	if !cfg.Redacts() {
		return nil, nil
	}
	secrets, err := secretsOf(cfg, token)
	if err != nil {
		return nil, err
	}
	r, err := newRedactor(secrets)
	if err != nil {
		return nil, err
	}
	return redact.NewLive(r), nil
}

func secretText(s config.Secret) (string, error) {
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
