package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/daemon/config"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/hook/external"
	"github.com/toold-dev/toold/plugins/command"
	"github.com/toold-dev/toold/plugins/permission"
	"github.com/toold-dev/toold/plugins/redact"
	"github.com/toold-dev/toold/plugins/remote"
	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/secret"
	"github.com/toold-dev/toold/tool"
)

// externalHooks has the hooks that run outside the daemon, in the order of the configuration. The list is immutable; a reload replaces it.
type externalHooks []*externalHook

// An externalHook is one entry of the list. Without a hook, it is the position of a built-in plugin.
type externalHook struct {
	entry config.Hook
	made  any // complete configuration of the hook; a reload keeps the hook if its configuration is the same
	hook  interface {
		Health() external.Health
	}
}

// hooks returns the entries that are external hooks.
func (list *externalHooks) hooks() (found externalHooks) {
	for _, o := range *list {
		if o.hook != nil {
			found = append(found, o)
		}
	}
	return found
}

// address returns the program or the network address of the hook, for people.
func (o *externalHook) address() string {
	if len(o.entry.Command) > 0 {
		return o.entry.Command[0]
	}
	return o.entry.Remote.Address
}

// newExternalHooks creates the hooks of a configuration and starts none of them. The parameter earlier has the hooks of the previous
// configuration. newExternalHooks reuses those whose configuration is the same. An error is a mistake that the user can correct.
func newExternalHooks(c *config.Config, start command.Starter, references expander, secrets *redact.Live, own func(context.Context) error, log *zap.Logger, earlier externalHooks) (externalHooks, error) {
	var out externalHooks
	var problems []error
	for i := range c.Hooks {
		o := &externalHook{entry: c.Hooks[i]}
		if o.entry.Builtin == "" {
			if err := o.make(c, start, references, secrets, own, log, earlier); err != nil {
				key := fmt.Sprintf("hooks[%d]", i)
				problems = append(problems, config.Errorf("%s: %s: %w%s", key, o.entry.Name, err, c.SourceOf(key)))
			}
		}
		out = append(out, o)
	}
	return out, errors.Join(problems...)
}

// make creates the hook, or reuses the earlier one.
func (o *externalHook) make(c *config.Config, start command.Starter, references expander, secrets *redact.Live, own func(context.Context) error, log *zap.Logger, earlier externalHooks) error {
	var made any
	var program command.Config
	var service remote.Config
	var err error
	if len(o.entry.Command) > 0 {
		program, err = commandConfig(&o.entry, c)
		made = program
	} else {
		service, err = remoteConfig(&o.entry)
		made = []any{service, o.entry.Remote.Token}
	}
	if err != nil {
		return err
	}
	for _, e := range earlier {
		if e.hook != nil && reflect.DeepEqual(e.made, made) {
			o.hook, o.made = e.hook, e.made
			return nil
		}
	}
	if err := knowKey(secrets, "hook."+o.entry.Name[:min(len(o.entry.Name), 48)], service.Token); err != nil {
		return fmt.Errorf("remote.token_file: %w", err)
	}
	o.made = made
	program.Start, program.Log, service.Log, service.Own = start, log, log, own
	if reference := o.entry.Remote.Token; reference != "" {
		service.TokenOf = func(ctx context.Context) (string, error) {
			return references.Expand(ctx, secret.Everywhere, "hook:"+o.entry.Name, "token", reference)
		}
	}
	if len(o.entry.Command) > 0 {
		o.hook, err = command.New(program)
	} else {
		o.hook, err = remote.New(service)
	}
	return err
}

// remoteConfig returns the configuration of a service.
func remoteConfig(h *config.Hook) (remote.Config, error) {
	r := &h.Remote
	out := remote.Config{
		Name: h.Name, Address: r.Address, Plaintext: r.Plaintext, ServerName: r.ServerName,
		Deadline: h.Deadline, AtOnce: h.AtOnce, MaxMessage: h.MaxAnswer,
	}
	var token []byte
	for _, f := range []struct {
		path string
		to   *[]byte
	}{{r.CA, &out.CA}, {r.Cert, &out.Cert}, {r.Key, &out.Key}, {r.TokenFile, &token}} {
		if f.path == "" {
			continue
		}
		var err error
		if *f.to, err = os.ReadFile(f.path); err != nil {
			return out, err
		}
	}
	out.Token = strings.TrimSpace(string(token))
	return out, documentKeys(h, &out.Documents)
}

func documentKeys(h *config.Hook, to *[]external.DocumentKey) error {
	for _, d := range h.Documents {
		key, err := external.ParseDocumentKey(d)
		if err != nil {
			return err
		}
		*to = append(*to, key)
	}
	return nil
}

// commandConfig returns the configuration of a program.
func commandConfig(h *config.Hook, c *config.Config) (command.Config, error) {
	out := command.Config{
		Name: h.Name, Command: h.Command, Dir: h.Dir, Workspace: c.Workspace, Workspaces: c.Workspaces, AtOnce: h.AtOnce, MaxOutput: h.MaxAnswer,
	}
	for _, e := range h.Env {
		if !strings.Contains(e, "=") {
			value, set := os.LookupEnv(e)
			if !set {
				return out, fmt.Errorf("env: the daemon's environment has no variable %s", e)
			}
			e += "=" + value
		}
		out.Env = append(out.Env, e)
	}
	if err := documentKeys(h, &out.Documents); err != nil {
		return out, err
	}
	at, err := os.Stat(h.Command[0])
	if err == nil && (at.IsDir() || at.Mode()&0o111 == 0) {
		err = fmt.Errorf("%s is no program", h.Command[0])
	}
	return out, err
}

// processes starts the programs of hooks with the runner that starts all processes of the daemon.
type processes struct{ runner *sandbox.Runner }

// Run implements [command.Starter].
func (p processes) Run(ctx context.Context, r command.Process) (command.Exit, error) {
	exit, err := p.runner.Run(ctx, sandbox.Spec{
		Path: r.Path, Args: r.Args, Dir: r.Dir, Env: r.Env, Tag: r.CallID, Stdin: strings.NewReader(string(r.Stdin)), Output: r.Output, Grace: -1,
	})
	if exit == nil || err != nil {
		return command.Exit{}, err
	}
	return command.Exit{Code: exit.Code, Signal: exit.Signal, Alive: len(exit.Unverified)}, nil
}

// arrange combines the external hooks with those of the daemon. Hooks that the configuration does not list come first, in the daemon's
// order. The listed hooks follow in the order of the list.
func (list externalHooks) arrange(base hook.Set) (hook.Set, error) {
	kinds := [][]string{namesOf(base.Rewrite), namesOf(base.Gate), namesOf(base.Admit), namesOf(base.Before), namesOf(base.After), namesOf(base.Filter)}
	for _, names := range kinds {
		for i, name := range names {
			if tool.ValidName(name) != nil || slices.Contains(names[:i], name) {
				return base, fmt.Errorf("hook %q: each hook of the program needs a name that no other hook of its kind has: letters, digits, - and _, at most 64", name)
			}
		}
	}
	names := slices.Concat(kinds...)
	for _, o := range list {
		if there := slices.Contains(names, o.entry.Builtin+o.entry.Name); there != (o.hook == nil) {
			if there {
				return base, config.Errorf("hooks: %q is the name of a plugin of the daemon", o.entry.Name)
			}
			slices.Sort(names)
			return base, config.Errorf("hooks: builtin: there is no plugin %q; there are %s", o.entry.Builtin, strings.Join(slices.Compact(names), ", "))
		}
	}
	return hook.Set{
		Rewrite: arranged(base.Rewrite, list, "rewrite"), Gate: arranged(base.Gate, list, "gate"), Admit: arranged(base.Admit, list, "admit"),
		Before: arranged(base.Before, list, "before"), After: arranged(base.After, list, "after"), Filter: arranged(base.Filter, list, "filter"),
		Handler: base.Handler, Notifier: base.Notifier,
	}, nil
}

// inside returns the hooks of the daemon, followed by those that the embedding program supplied.
func inside(p *plugins, gate hook.Gate, filters []hook.Entry[hook.Filter], given hook.Set) hook.Set {
	set := p.set
	set.Gate = slices.Insert(slices.Clone(set.Gate), 0, hook.Entry[hook.Gate]{Name: permission.Name, Hook: gate, Deadline: hook.NoDeadline})
	set.Filter = append(filters, set.Filter...)
	return joined(set, given)
}

// filterNames returns entries with the names of a daemon's filters, for callers that need only the names.
func filterNames(c *config.Config) []hook.Entry[hook.Filter] {
	filters := []hook.Entry[hook.Filter]{{Name: "log"}}
	if c.Redacts() {
		filters = append(filters, hook.Entry[hook.Filter]{Name: "redact"})
	}
	return filters
}

// nowhere is a starter that refuses to start programs.
type nowhere struct{}

func (nowhere) Run(context.Context, command.Process) (command.Exit, error) {
	return command.Exit{}, errors.New("nothing runs while the configuration is checked")
}

// same reports whether both lists have the same hooks and entries.
func (list externalHooks) same(other externalHooks) bool {
	return slices.EqualFunc(list, other, func(a, b *externalHook) bool { return a.hook == b.hook && reflect.DeepEqual(a.entry, b.entry) })
}

func namesOf[T any](entries []hook.Entry[T]) (names []string) {
	for i := range entries {
		names = append(names, entries[i].Name)
	}
	return names
}

func arranged[T any](base []hook.Entry[T], list externalHooks, kind string) []hook.Entry[T] {
	var out, listed []hook.Entry[T]
	for _, o := range list {
		if o.hook == nil {
			if i := slices.IndexFunc(base, func(e hook.Entry[T]) bool { return e.Name == o.entry.Builtin }); i >= 0 {
				listed = append(listed, base[i])
			}
		} else if slices.Contains(o.entry.EffectiveKinds(), kind) {
			listed = append(listed, entryOf[T](o))
		}
	}
	for i := range base {
		if !slices.ContainsFunc(list, func(o *externalHook) bool { return o.hook == nil && o.entry.Builtin == base[i].Name }) {
			out = append(out, base[i])
		}
	}
	return append(out, listed...)
}

// entryOf returns an external hook as an entry of one kind. The check of the configuration ensures that the hook has this kind.
func entryOf[T any](o *externalHook) hook.Entry[T] {
	h := &o.entry
	e := hook.Entry[T]{
		Name: h.Name, Hook: o.hook.(T), OnFailure: hook.Failure(h.OnFailure), Required: h.OnFailure != "allow", Deadline: h.Deadline,
		Match: hook.Match{Tools: h.Match.Tools, Sources: h.Match.Sources},
	}
	if h.OnFailure == "refuse" {
		e.OnFailure = hook.FailRefuse
	}
	if e.Deadline == 0 {
		e.Deadline = external.DefaultDeadline
	}
	for _, m := range h.Match.Mutability {
		e.Match.Mutability = append(e.Match.Mutability, tool.Mutability(m))
	}
	for _, s := range h.Match.Safety {
		e.Match.Safety = append(e.Match.Safety, tool.Safety(s))
	}
	return e
}

// readHooks creates the hooks of the next configuration and checks their order. It does not apply them.
func (d reloader) readHooks(next *config.Config) (externalHooks, error) {
	list, err := newExternalHooks(next, processes{d.runner}, d.references, d.secrets, d.own(), d.log, *d.externals.Load())
	if err == nil {
		_, err = list.arrange(d.hooks())
	}
	return list, err
}

// reloadHooks applies the hooks and reports whether they changed. A call in progress keeps the hooks with which it began.
func (d reloader) reloadHooks(next externalHooks) (swapped bool, err error) {
	if next.same(*d.externals.Load()) {
		return false, nil
	}
	set, err := next.arrange(d.hooks())
	if err == nil {
		err = d.engine.SetHooks(set)
	}
	if err == nil {
		d.externals.Store(&next)
	}
	return err == nil, err
}
