package daemon

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/toold-dev/toold/daemon/config"
	"github.com/toold-dev/toold/plugins/redact"
)

// knowKey redacts a key of the daemon from now on. One that is too short for that is used all the same: what a machine's
// own service takes for a key is often a word, and none.
func knowKey(secrets *redact.Live, name, key string) error {
	if secrets == nil || len(key) < redact.MinValue {
		return nil
	}
	return secrets.Know(name, key)
}

// secretsOf reads the secrets that are redacted. With them goes the daemon's own token: a command can
// read its file.
func secretsOf(cfg *config.Config, token string) (redact.Config, error) {
	out := cfg.Redact
	out.Values = slices.Clone(out.Values)
	var problems []error
	for i := range out.Values {
		if err := readSecret(&out.Values[i]); err != nil {
			problems = append(problems, fmt.Errorf("values: entry %d: %w", i+1, err))
		}
	}
	if len(token) >= redact.MinValue {
		out.Values = append(out.Values, redact.Value{Name: "toold-token", Text: token})
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

// readSecret reads a value from where its settings say that it is.
func readSecret(v *redact.Value) error {
	switch {
	case v.Env != "":
		text, ok := os.LookupEnv(v.Env)
		if !ok {
			return fmt.Errorf("the variable %s is not set", v.Env)
		}
		v.Text = text
	case v.File != "":
		b, err := os.ReadFile(v.File)
		v.Text = strings.TrimRight(string(b), "\r\n")
		return err
	}
	return nil
}
