package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/daemon/config"
	"github.com/toold-dev/toold/plugins/redact"
	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/secret"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/shell"
)

// An expander puts the values of references in their places; a [secret.Resolver] is one.
type expander interface {
	Expand(ctx context.Context, namespace, tool, parameter, text string) (string, error)
}

// available returns why a tool cannot have a secret that its descriptor requires.
func (d *daemon) available(namespace, tool, name string) error {
	return d.references.Available(namespace, tool, strings.TrimPrefix(name, secret.Scheme))
}

// referring puts the values of references in the variables of commands, which are the operator's (bash.env). What a model wrote
// is in the arguments of a command and stays as it is.
type referring struct {
	shell.Exec
	references expander
}

// Run implements [shell.Exec].
func (r referring) Run(ctx context.Context, spec sandbox.Spec) (*sandbox.Exit, error) {
	given := spec.Env
	for i, pair := range given {
		name, text, _ := strings.Cut(pair, "=")
		if !strings.Contains(text, secret.Scheme) {
			continue
		}
		value, err := r.references.Expand(ctx, secret.Everywhere, "bash", "env."+name, text)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", tool.ErrNotRun, &tool.Error{Code: tool.ExecutionFailed, Reason: "SECRET_UNAVAILABLE", Message: "Not run: " + err.Error()})
		}
		if &spec.Env[0] == &given[0] {
			spec.Env = slices.Clone(given) // it is that of all commands
			spec.Home = sandbox.FreshHome  // programs load what earlier commands left in another one
		}
		spec.Env[i] = name + "=" + value
	}
	return r.Exec.Run(ctx, spec)
}

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
func newReferences(cfg *config.Config, start secret.Starter, filter *redact.Live, refused func(secret.Use, string, error)) (*secret.Resolver, error) {
	list, err := cfg.NamedSecrets()
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
		return nil, config.Errorf("secrets: %w", err)
	}
	return r, nil
}

// warmSecrets reads what it can, and logs what it cannot: a file may come later, and calls that need the secret are refused until then.
func (d *daemon) warmSecrets(ctx context.Context) {
	problems := d.references.Warm(ctx)
	for _, name := range slices.Sorted(maps.Keys(problems)) {
		d.log.Warn("secret cannot be read", zap.String("secret", name), zap.Error(problems[name]))
	}
}

// readReferences makes ready what a reload is to put in force.
func (d reloader) readReferences(next *config.Config) ([]secret.Secret, error) {
	if d.secrets == nil {
		return nil, nil
	}
	return next.NamedSecrets()
}

// reloadReferences puts it in force, and has every value read again. It reports whether the settings are others.
func (d reloader) reloadReferences(ctx context.Context, list []secret.Secret, next *config.Config) (changed bool, err error) {
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

// Secrets implements [grpcserver.Admin].
func (a adminOf) Secrets(ctx context.Context, check bool) []secret.State {
	if check {
		return a.d.references.Check(ctx)
	}
	return a.d.references.List()
}

// secretWarnings says of a configuration which secrets cannot be read now.
func secretWarnings(ctx context.Context, cfg *config.Config, filter *redact.Live) (warnings []string, err error) {
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
