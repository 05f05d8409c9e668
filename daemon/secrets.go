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

// An expander replaces references by the values of secrets, as a [secret.Resolver] does.
type expander interface {
	Expand(ctx context.Context, namespace, tool, parameter, text string) (string, error)
}

// available returns an error when a tool cannot get a secret that its descriptor requires.
func (d *daemon) available(namespace, tool, name string) error {
	return d.references.Available(namespace, tool, strings.TrimPrefix(name, secret.Scheme))
}

// referring replaces references to secrets in the variables that the operator configured for commands (bash.env). It does not replace them
// in the arguments of a command, because a model writes those.
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
			spec.Env = slices.Clone(given) // Clone the slice, because all commands share it.
			spec.Home = sandbox.FreshHome  // Use a new home: programs would load files that earlier commands left in a shared home.
		}
		spec.Env[i] = name + "=" + value
	}
	return r.Exec.Run(ctx, spec)
}

// openSecrets creates the resolver of references. A value is redacted in the log before it is first used.
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

// newReferences returns a resolver for the references of a configuration. It reads no secret yet.
func newReferences(cfg *config.Config, start secret.Starter, filter *redact.Live, refused func(secret.Use, string, error)) (*secret.Resolver, error) {
	list, err := cfg.NamedSecrets()
	if err != nil {
		return nil, err
	}
	r, err := secret.New(secret.Config{
		Secrets: list, Lookup: os.LookupEnv, Start: start, Refused: refused,
		Redact: func(name, value string) error {
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

// warmSecrets reads all secrets and logs those that cannot be read. This is not an error, because a file may appear later. Until then,
// calls that need such a secret are refused.
func (d *daemon) warmSecrets(ctx context.Context) {
	problems := d.references.Warm(ctx)
	for _, name := range slices.Sorted(maps.Keys(problems)) {
		d.log.Warn("secret cannot be read", zap.String("secret", name), zap.Error(problems[name]))
	}
}

// readReferences returns the secrets that a reload applies.
func (d reloader) readReferences(next *config.Config) ([]secret.Secret, error) {
	if d.secrets == nil {
		return nil, nil
	}
	return next.NamedSecrets()
}

// reloadReferences applies the secrets and reads each value again. It reports whether the settings changed.
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

// Secrets implements [service.Admin].
func (a adminOf) Secrets(ctx context.Context, check bool) []secret.State {
	if check {
		return a.d.references.Check(ctx)
	}
	return a.d.references.List()
}

// secretWarnings lists the secrets of a configuration that cannot be read now.
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
