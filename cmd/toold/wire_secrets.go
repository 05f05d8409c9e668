package main

import (
	"context"
	"errors"
	"maps"
	"os"
	"reflect"
	"slices"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/plugins/redact"
	"github.com/toold-dev/toold/secret"
)

// openSecrets makes what resolves references. The daemon's log is clean of a value from before it is used.
func (d *daemon) openSecrets(ctx context.Context) error {
	var err error
	d.reload.references = d.cfg.Secrets
	d.references, err = newReferences(d.cfg, d.runner, d.secrets, func(use secret.Use, name string, why error) {
		d.log.Warn("secret refused", zap.String("secret", name), zap.String("tool", use.Tool), zap.String("parameter", use.Parameter),
			zap.String("namespace", use.Namespace), zap.NamedError("why", why))
	})
	if err == nil {
		d.warmSecrets(ctx)
	}
	return err
}

// newReferences resolves the references of a configuration, and reads nothing yet.
func newReferences(cfg *Config, start secret.Starter, filter *redact.Live, refused func(secret.Use, string, error)) (*secret.Resolver, error) {
	list, err := cfg.namedSecrets()
	if err != nil {
		return nil, err
	}
	r, err := secret.New(secret.Config{
		Secrets: list, Lookup: os.LookupEnv, Start: start, Refused: refused,
		Known: func(name, value string) error {
			if filter == nil {
				return errors.New("the daemon started without secrets, and needs a restart for them")
			}
			return filter.Know(name, value)
		},
	})
	if err != nil {
		return nil, usagef("secrets: %w", err)
	}
	return r, nil
}

// warmSecrets reads what it can, and logs what it cannot: a file may come later, and who needs the secret is refused till then.
func (d *daemon) warmSecrets(ctx context.Context) {
	problems := d.references.Warm(ctx)
	for _, name := range slices.Sorted(maps.Keys(problems)) {
		d.log.Warn("secret cannot be read", zap.String("secret", name), zap.Error(problems[name]))
	}
}

// readReferences makes ready what a reload is to put in force.
func (d *daemon) readReferences(next *Config) ([]secret.Secret, error) {
	if d.secrets == nil {
		return nil, nil
	}
	return next.namedSecrets()
}

// reloadReferences puts it in force, and has every value read again. It reports whether the settings are others.
func (d *daemon) reloadReferences(ctx context.Context, list []secret.Secret, next *Config) (changed bool, err error) {
	if d.secrets == nil {
		return false, nil
	}
	if err := d.references.Swap(list); err != nil {
		return false, err
	}
	d.warmSecrets(ctx)
	changed = !reflect.DeepEqual(d.reload.references, next.Secrets)
	d.reload.references = next.Secrets
	return changed, nil
}

// secretWarnings says of a configuration which secrets cannot be read now.
func secretWarnings(ctx context.Context, cfg *Config, filter *redact.Live) (warnings []string, err error) {
	r, err := newReferences(cfg, noExec{}, filter, nil)
	if err != nil {
		return nil, err
	}
	problems := r.Warm(ctx)
	for _, name := range slices.Sorted(maps.Keys(problems)) {
		warnings = append(warnings, "secrets: "+name+" cannot be read: "+problems[name].Error())
	}
	return warnings, nil
}
