package daemon

import (
	"bytes"
	"context"
	"crypto/tls"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/daemon/config"
	"github.com/toold-dev/toold/daemon/wire"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/plugins/permission"
	"github.com/toold-dev/toold/plugins/redact"
	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/secret"
	grpcserver "github.com/toold-dev/toold/server/grpc"
	"github.com/toold-dev/toold/server/service"
	"github.com/toold-dev/toold/setting"
	"github.com/toold-dev/toold/store/sqlite"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/command"
)

// adminOf implements [service.Admin] for a daemon.
type adminOf struct{ d *daemon }

// Info implements [service.Admin].
func (a adminOf) Info(context.Context) service.Info {
	d, l := a.d, &a.d.cfg.Limits
	id := d.store.Identity()
	limits := callLimits(l)
	limits.NamespaceQueue, limits.PrincipalQueue = limits.QueueShares()
	info := service.Info{
		Version: d.version, Commit: commit(), Store: storeKind(a.d.cfg), StoreID: id.StoreID, Epoch: id.Epoch, Started: d.started, Addresses: d.addresses,
		Limits: service.Limits{
			Limits: limits, Arguments: int64(l.Arguments), Result: registry.MaxInline, Ticket: lifecycle.MaxTicket,
			Suspension: lifecycle.MaxExpiry, Retention: d.cfg.Retention.Calls,
			OutputThread: int64(l.OutputQuotaThread), OutputNamespace: int64(l.OutputQuotaNamespace),
		},
		Features: []string{"artifacts", "definitions", "describe", "documents", "exports", "frontend_tools", "modes", "purge", "remember", "runs", "votes"}, Draining: d.engine.Draining(),
	}
	if d.cfg.SingleUser {
		info.Features = append(info.Features, "single_user")
	}
	if d.plugins.audit != nil {
		info.Features = append(info.Features, "audit")
	}
	info.Hooks = a.hooks()
	for _, f := range d.proof.Load().wait().facts.List() {
		if !f.Held && d.policy == nil {
			f.Detail = "not isolated by configuration: processes of tools run with the rights of the daemon's user"
		}
		info.Isolation = append(info.Isolation, f)
	}
	return info
}

// Reload implements [service.Admin].
func (a adminOf) Reload(context.Context) (service.Reloaded, error) {
	return reloader{a.d}.reloadAll()
}

// Drain implements [service.Admin].
func (a adminOf) Drain(period *time.Duration) (time.Time, int) {
	p := a.d.cfg.Timeouts.Drain
	if period != nil {
		p = *period
	}
	deadline, first := a.d.drains.begin(p, time.Now())
	a.d.engine.RefuseCalls() // Refuse calls now: after the response, the client must be able to rely on this.
	if first {
		a.d.drains.wish <- p // The channel has a buffer of one, and this is the only send.
	}
	return deadline, a.d.engine.Stats().Running
}

// SetLogLevel implements [service.Admin].
func (a adminOf) SetLogLevel(name string) string {
	previous := a.d.level.String()
	if level, err := zapcore.ParseLevel(name); err == nil {
		a.d.level.SetLevel(level)
		a.d.log.Info("log level changed", zap.String("from", previous), zap.String("to", name))
	}
	return previous
}

// Quarantined implements [service.Admin].
func (a adminOf) Quarantined() []tool.QuarantinedTool { return a.d.tools.Quarantined() }

// AcceptTool implements [service.Admin].
func (a adminOf) AcceptTool(p tool.Principal, q *tool.QuarantinedTool) (*tool.Definition, error) {
	t, err := wire.Accept(a.d.tools, q, p.Subject)
	if err == nil {
		a.logJudged("definition of a tool accepted", p, q)
	}
	return t, err
}

// RefuseTool implements [service.Admin].
func (a adminOf) RefuseTool(p tool.Principal, q *tool.QuarantinedTool) error {
	err := wire.Refuse(a.d.tools, q, p.Subject)
	if err == nil {
		a.logJudged("definition of a tool refused", p, q)
	}
	return err
}

func (a adminOf) logJudged(what string, p tool.Principal, q *tool.QuarantinedTool) {
	a.d.log.Info(what, zap.String("tool", q.Waiting.Descriptor.ID), zap.String("source", q.Source), zap.String("digest", q.Waiting.Digest), zap.String("by", p.Subject), zap.String("namespace", p.Namespace))
}

// Judged implements [service.Admin].
func (a adminOf) Judged(ctx context.Context, source, id string, before int64, limit int) ([]tool.JudgedDefinition, int64, error) {
	return a.d.pins.History(ctx, source, id, before, limit)
}

// Backup implements [service.Admin].
func (a adminOf) Backup(ctx context.Context, p tool.Principal, directory string) (*call.Backup, error) {
	s, ok := a.d.store.(*sqlite.Store)
	if !ok {
		return nil, call.Refuse(call.FailedPrecondition, "BACKUP_FAILED", "the store is a PostgreSQL database: back it up with pg_dump, or with the WAL archive of the server")
	}
	if err := a.d.cfg.MayHoldBackup(directory); err != nil {
		return nil, call.InvalidField("directory", "%v", err)
	}
	copied, err := s.Backup(ctx, directory)
	if err != nil {
		a.d.log.Error("backup failed", zap.String("directory", directory), zap.Error(err))
		return nil, call.Refuse(call.FailedPrecondition, "BACKUP_FAILED", "%v", err)
	}
	a.d.log.Info("backup written", zap.String("directory", directory), zap.Int64("calls", copied.Calls), zap.Int64("bytes", copied.Bytes),
		zap.String("by", p.Subject), zap.String("namespace", p.Namespace))
	return copied, nil
}

// drains remembers whether a shutdown has begun.
type drains struct {
	wish chan time.Duration // the drain period that an operator requested

	mu       sync.Mutex
	deadline time.Time
}

// begin records the start of a shutdown. deadline is the time at which running calls will be stopped. first is false when a shutdown had
// already begun.
func (d *drains) begin(period time.Duration, now time.Time) (deadline time.Time, first bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if first = d.deadline.IsZero(); first {
		d.deadline = now.Add(period)
	}
	return d.deadline, first
}

// reloads holds the settings in force that a reload compares with the new ones.
type reloads struct {
	mu           sync.Mutex
	descriptions map[string]string
	names        map[registry.Origin]registry.Name
	level        string
	secrets      redact.Config
	references   []config.NamedSecret
	identities   atomic.Pointer[identities] // atomic, because requests read it while a reload holds mu, possibly for seconds
}

// A reloader reads the configuration and the rules again. It applies the changes that need no restart.
type reloader struct{ *daemon }

// readSecrets reads the values of the secrets that are redacted. It returns a function that applies the new values, or nil when nothing
// changed. It also returns nil if the daemon started without redaction: only a restart can add the filter that redacts.
func (d reloader) readSecrets(cfg *config.Config) (func(), error) {
	if d.secrets == nil {
		return nil, nil
	}
	secrets, err := secretsOf(cfg, d.token)
	if err != nil || reflect.DeepEqual(secrets, d.reload.secrets) {
		return nil, err
	}
	r, err := newRedactor(secrets)
	return func() { d.secrets.Swap(r); d.reload.secrets = secrets }, err
}

// reloads reports whether a reload can apply a change of the setting.
func (d reloader) reloads(s setting.Setting) bool {
	switch s.Reload {
	case "always":
		return true
	case "started":
		return d.plugins.reloads(s.Key) || strings.HasPrefix(s.Key, "tls.") && d.tls.now.Load() != nil || d.secrets != nil && (s.Key == "secrets" || strings.HasPrefix(s.Key, "redact."))
	default:
		return false
	}
}

// needRestart lists the changed settings that need a restart.
func (d reloader) needRestart(next *config.Config) (keys []string) {
	for _, s := range config.Changed(d.cfg, next) {
		if !d.reloads(s) {
			keys = append(keys, s.Key)
		}
	}
	if d.cfg.TLS.Cert != "" && next.TLS.Cert == "" { // A reload replaces the certificate, but cannot remove it.
		keys = append(keys, "tls.cert")
	}
	slices.Sort(keys)
	return keys
}

func (d reloader) reloadDescriptions(next *config.Config) (swapped bool, err error) {
	if reflect.DeepEqual(d.reload.descriptions, descriptionsOf(next)) {
		return false, nil
	}
	if err := d.tools.Describe(descriptionsOf(next)); err != nil {
		return false, err
	}
	d.reload.descriptions = descriptionsOf(next)
	d.warnOfDescriptions()
	return true, nil
}

func (d reloader) reloadNames(next *config.Config) (swapped bool, err error) {
	names := newIDsOf(next)
	if maps.Equal(d.reload.names, names) {
		return false, nil
	}
	if err := d.tools.Rename(names); err != nil {
		return false, err
	}
	d.reload.names = names
	d.warnOfNames()
	return true, nil
}

// reloadTokens replaces the tokens of the configuration. The requests of removed tokens end.
func (d reloader) reloadTokens(next *config.Config) (changed bool, err error) {
	tokens, err := tokensOf(next, d.token)
	if err != nil {
		return false, err
	}
	return d.auth.Replace(context.Background(), tokens)
}

// reloadPeers replaces the local users that need no token. The requests of removed users end. If any user is configured,
// the mode of the socket lets every user of the machine open it. Otherwise only the user of the daemon can.
func (d reloader) reloadPeers(next *config.Config) (changed bool, err error) {
	peers, err := peersOf(next)
	if err != nil {
		return false, err
	}
	if changed, err = d.auth.SetPeers(context.Background(), peers); err != nil || !changed || d.cfg.Listen.Unix == "" {
		return changed, err
	}
	return true, os.Chmod(d.cfg.Listen.Unix, grpcserver.SocketMode(len(peers) > 1))
}

// reloadRules applies the rules and reports whether they changed.
func (d reloader) reloadRules(next *config.Config, rules *permission.Rules) bool {
	old := d.gate.Rules().Text()
	if bytes.Equal(rules.Text(), old) && (rules.Text() == nil) == (old == nil) {
		return false
	}
	d.gate.Swap(rules)
	d.warnOfRules(next, rules)
	d.tools.Refresh() // Clients that watch tools must be notified, because the rules may change which tools a caller sees.
	return true
}

// A fresh holds everything that a reload reads before it changes anything.
type fresh struct {
	cfg         *config.Config
	kept        *config.Config // cfg, but with the workspaces in force, because only a restart changes these
	rules       *permission.Rules
	swapSecrets func() // applies the new secrets; nil when nothing changed
	references  []secret.Secret
	hooks       externalHooks
	servers     nextMCP
	manifests   *command.Set
	identities  nextIdentities
	tls         *tls.Config // nil when the TLS configuration of the listeners stays
	restart     bool        // an existing sandbox profile changed
}

func (d reloader) readAll() (*fresh, error) {
	n := &fresh{}
	for _, read := range []func() error{
		func() (err error) {
			if n.cfg, err = d.cfg.Reload(); err == nil {
				n.cfg.Sandbox.Profiles, n.restart = withProfiles(d.cfg, n.cfg.Sandbox.Profiles)
				n.kept = n.cfg.InWorkspaces(d.cfg)
				err = n.kept.SeparatePaths()
			}
			return err
		},
		func() (err error) { n.rules, err = readRules(n.cfg); return err },
		func() (err error) { n.swapSecrets, err = d.readSecrets(n.cfg); return err },
		func() (err error) { n.references, err = d.readReferences(n.cfg); return err },
		func() error { _, err := newAuth(n.cfg, d.token); return err },
		func() error { _, err := newPlugins(n.cfg, nil); return err },
		func() error { return d.plugins.takes(n.cfg) },
		func() (err error) { n.hooks, err = d.readHooks(n.kept); return err },
		func() (err error) { n.servers, err = d.readNextMCP(n.cfg); return err },
		func() (err error) { n.identities, err = d.readIdentities(n.cfg); return err },
		func() (err error) { n.tls, err = d.tls.reread(n.cfg); return err },
		func() (err error) {
			n.manifests, err = readManifests(n.kept, d.runner, d.references, d.log, d.manifests)
			return err
		},
	} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// reloadAll reads the configuration and the rules again. It applies all changes that need no restart. If it cannot read or check them, it
// applies none. If it cannot apply one of them, the changes before that one stay.
func (d reloader) reloadAll() (service.Reloaded, error) {
	d.reload.mu.Lock()
	defer d.reload.mu.Unlock()
	var done service.Reloaded
	n, err := d.readAll()
	if err != nil {
		d.log.Error("configuration not reloaded; the old one stays in force", zap.Error(err))
		return done, call.Refuse(call.FailedPrecondition, "CONFIG_INVALID", "%v", err)
	}
	done.NeedsRestart = d.needRestart(n.cfg)
	if n.restart {
		done.NeedsRestart = append(done.NeedsRestart, "sandbox.profiles")
	}
	if d.addProfiles(n.cfg.Sandbox.Profiles) {
		done.Changed = append(done.Changed, "sandbox.profiles")
	}
	for _, part := range []struct {
		name, key string
		swap      func() (bool, error)
	}{
		{"tools.names", "tools.names: ", func() (bool, error) { return d.reloadNames(n.cfg) }}, // first, because a tool of a later step may need an id that the renaming frees
		{"command", "command.directory: ", func() (bool, error) { return d.reloadManifests(n.manifests) }},
		{"tools.descriptions", "tools.descriptions: ", func() (bool, error) { return d.reloadDescriptions(n.cfg) }},
		{"secrets", "secrets: ", func() (bool, error) { return d.reloadReferences(context.Background(), n.references, n.cfg) }},
		{"", "", func() (bool, error) {
			changed, err := d.plugins.reload(n.cfg)
			done.Changed = append(done.Changed, changed...)
			return false, err
		}},
		{"auth.session", "", func() (bool, error) { return d.auth.SetSessionTime(n.cfg.Auth.Session), nil }},
		{"auth.tokens", "auth.tokens: ", func() (bool, error) { return d.reloadTokens(n.cfg) }},
		{"auth.peers", "auth.peers: ", func() (bool, error) { return d.reloadPeers(n.cfg) }},
		{"hooks", "", func() (bool, error) { return d.reloadHooks(n.hooks) }},
		{"mcp", "mcp: ", func() (bool, error) { return d.reloadMCP(n.servers) }},
		{"auth", "", func() (bool, error) { return d.reloadIdentities(n.identities), nil }},
		{"tls", "", func() (bool, error) { return d.tls.swap(n.tls), nil }},
	} {
		swapped, err := part.swap()
		if err != nil {
			return done, call.Refuse(call.FailedPrecondition, "CONFIG_INVALID", "%s%v", part.key, err)
		}
		if swapped {
			done.Changed = append(done.Changed, part.name)
		}
	}
	if n.swapSecrets != nil {
		n.swapSecrets()
		done.Changed = append(done.Changed, "redact")
	}
	if d.reloadRules(n.cfg, n.rules) {
		done.Changed = append(done.Changed, "rules")
	}
	if level, err := zapcore.ParseLevel(n.cfg.Log.Level); err == nil && n.cfg.Log.Level != d.reload.level {
		d.level.SetLevel(level)
		d.reload.level = n.cfg.Log.Level
		done.Changed = append(done.Changed, "log.level")
	}
	d.proof.Store(d.startProof(d.policy)) // Test the isolation again, because the machine may support more or less of it now.
	d.log.Info("reloaded", zap.Strings("changed", done.Changed), zap.Strings("needs_restart", done.NeedsRestart))
	return done, nil
}

func descriptionsOf(c *config.Config) map[string]string {
	texts := make(map[string]string, len(c.Tools.Descriptions))
	for _, d := range c.Tools.Descriptions {
		texts[d.Tool] = d.Text
	}
	return texts
}

func newIDsOf(c *config.Config) map[registry.Origin]registry.Name {
	names := make(map[registry.Origin]registry.Name, len(c.Tools.Names))
	for _, n := range c.Tools.Names {
		names[registry.Origin{Source: n.Source, ID: n.Tool}] = registry.Name{ID: n.ID, Alias: n.Alias}
	}
	return names
}

// storeKind returns the name of the kind of store.
func storeKind(c *config.Config) string {
	if c.Store == "" {
		return "sqlite"
	}
	return "postgres"
}
