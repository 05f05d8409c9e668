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

// knowKey redacts a key of the daemon from now on. A key that is too short to be redacted is accepted anyway: a local service often accepts
// any word as its key.
func knowKey(secrets *redact.Live, name, key string) error {
	if secrets == nil || len(key) < redact.MinValue {
		return nil
	}
	return secrets.Know(name, key)
}

// secretsOf reads the secrets that are redacted. It adds the daemon's own token, because a command may read the token file.
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

func newRedactor(secrets redact.Config) (*redact.Redactor, error) {
	r, err := redact.New(secrets)
	if err != nil {
		return nil, config.Errorf("redact: %w", err)
	}
	return r, nil
}

// newSecrets reads the secrets and returns their redactor; nil when redaction is off.
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

// readSecret reads the value of a secret from the source in its settings.
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
