// Package daemon assembles the parts of toold: store, registry, engine, plugins, tools and endpoints.
//
// [Main] is the whole program: the command line of package cli and the commands that work on this machine. The command serve runs the
// daemon.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/daemon/config"
	"github.com/toold-dev/toold/daemon/status"
	"github.com/toold-dev/toold/daemon/trace"
	"github.com/toold-dev/toold/daemon/wire"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/lifecycle/policy"
	"github.com/toold-dev/toold/plugins/audit"
	linelog "github.com/toold-dev/toold/plugins/log"
	"github.com/toold-dev/toold/plugins/permission"
	"github.com/toold-dev/toold/plugins/redact"
	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/secret"
	"github.com/toold-dev/toold/server/access"
	grpcserver "github.com/toold-dev/toold/server/grpc"
	httpserver "github.com/toold-dev/toold/server/http"
	mcpserver "github.com/toold-dev/toold/server/mcp"
	"github.com/toold-dev/toold/server/service"
	"github.com/toold-dev/toold/tools/command"
	"github.com/toold-dev/toold/tools/mcp"
	"github.com/toold-dev/toold/tools/shell"
	"github.com/toold-dev/toold/tools/worker"
	"github.com/toold-dev/toold/web"
)

// heartbeatEvery is the longest time that a stream sends no frame.
const heartbeatEvery = 15 * time.Second

// A daemon connects all parts. It closes what it opened in reverse order.
type daemon struct {
	cfg     *config.Config
	options options
	version string
	started time.Time

	logs
	confidential
	isolated
	sources
	gates
	endpoints
	store  journal
	engine *lifecycle.Engine
	traces *trace.Tracer // nil when calls are not traced

	reload  reloads
	drains  drains
	hangup  chan os.Signal
	failed  chan error    // receives the first failure that ends the daemon
	leaving chan struct{} // closed when the listeners close
	load    status.Load

	opened []func() error
}

// logs holds the outputs of the log.
type logs struct {
	log     *zap.Logger
	lineLog *zap.Logger // receives the log lines of calls
	level   zap.AtomicLevel
	lines   *linelog.Filter
}

// confidential holds the values that no log line and no event may show.
type confidential struct {
	secrets    *redact.Live // nil when nothing is redacted
	references *secret.Resolver
	token      string // token of the first start
}

// isolated holds the isolation of processes.
type isolated struct {
	runner   *sandbox.Runner
	policy   *sandbox.Policy // policy of commands in the shared workspace; nil means no isolation
	proof    atomic.Pointer[proof]
	profiles profileProofs // proofs for the profiles that manifests use
}

// sources holds the sources of tools.
type sources struct {
	tools      *registry.Registry
	pins       *wire.Pins
	workspaces workspaces
	jobs       *shell.Jobs // nil when commands may not run in the background
	mcp        *mcp.Hub
	servers    atomic.Pointer[mcpInForce]
	manifests  *command.Set // guarded by reload.mu once the daemon serves
	workers    *worker.Hub
}

// gates holds the hooks of calls.
type gates struct {
	gate      *permission.Gate
	plugins   *plugins
	externals atomic.Pointer[externalHooks]
	keeper    atomic.Pointer[audit.Keeper] // nil until the audit is open, and when it is off
}

// endpoints holds the servers and the addresses where clients connect.
type endpoints struct {
	auth      *access.Auth
	tls       reloadableTLS
	service   *service.Service
	server    *grpcserver.Server
	web       *httpserver.Server // nil when HTTP is not served
	webAt     net.Listener       // nil when HTTP is not served
	endpoint  *mcpserver.Server  // endpoint for MCP clients; nil when HTTP is not served
	listeners []net.Listener
	addresses []service.Address
	metricsAt string // empty when metrics are not served
}

// newDaemon opens all parts, recovers the stored calls and listens. It does not serve requests yet.
func newDaemon(ctx context.Context, cfg *config.Config, o options) (_ *daemon, err error) {
	d := &daemon{cfg: cfg, options: o, version: release(), started: time.Now(), failed: make(chan error, 1), leaving: make(chan struct{}), hangup: make(chan os.Signal, 1)}
	d.drains.wish = make(chan time.Duration, 1)
	if o.alone {
		signal.Notify(d.hangup, syscall.SIGHUP) // This comes first, because SIGHUP would otherwise end a daemon that is starting.
		d.onClose(func() error { signal.Stop(d.hangup); return nil })
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	if d.secrets, err = newSecrets(cfg, ""); err != nil { // The token is not included yet, because only the owner of the store may read it.
		return nil, err
	}
	loggers, err := newLoggers(cfg, d.secrets)
	if err != nil {
		return nil, err
	}
	d.log, d.level, d.lineLog = loggers.Logger, loggers.level, loggers.lines
	for _, step := range []func(context.Context) error{d.openStore, d.openTools, d.openWorkers, d.openTracing, d.openAuth, d.openEngine, d.openServer, d.listen, d.listenHTTP, d.recover} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (d *daemon) onClose(f func() error) { d.opened = append(d.opened, f) }

// close closes the opened parts in reverse order.
func (d *daemon) close() (err error) {
	for i := len(d.opened) - 1; i >= 0; i-- {
		err = errors.Join(err, d.opened[i]())
	}
	d.opened = nil
	return err
}

// fail ends the daemon with an error.
func (d *daemon) fail(err error) {
	select {
	case d.failed <- err:
	default:
	}
}

// openTools ends processes that an earlier daemon left behind, and registers the tools.
func (d *daemon) openTools(ctx context.Context) error {
	if d.options.alone {
		if err := sandbox.BecomeSubreaper(); err != nil {
			d.log.Warn("the daemon cannot become a subreaper; it may not find all orphaned processes of calls", zap.Error(err))
		}
	}
	id := d.store.Identity()
	runner, err := sandbox.New(sandbox.Config{Owner: id.StoreID, StartBy: d.startBy(), StateDir: filepath.Join(d.cfg.Data, "processes"), Homes: d.cfg.Homes(), Helper: d.options.helper, Gateway: d.gateway(), ControlGroup: d.cfg.Sandbox.ControlGroup})
	if err != nil {
		return err
	}
	d.runner = runner
	d.onClose(runner.Close)
	if err := d.openSecrets(ctx); err != nil {
		return err
	}
	swept, err := runner.Sweep(ctx)
	if err != nil {
		return fmt.Errorf("processes of an earlier daemon: %w", err)
	}
	for _, p := range swept.Killed {
		d.log.Warn("process of an earlier daemon killed", zap.Int("pid", p.PID), zap.String("command", p.Command), zap.String("call_id", p.Tag))
	}
	for _, p := range swept.Unverified {
		d.log.Error("process of an earlier daemon may still live", zap.Int("pid", p.PID), zap.String("command", p.Command), zap.String("call_id", p.Tag))
	}
	if d.workspaces, err = openWorkspaces(d.cfg); err != nil {
		return err
	}
	d.onClose(d.workspaces.Close)
	if d.policy, err = d.cfg.Policies(config.Sharing)(d.cfg.Bash.Profile); err != nil {
		return err
	}
	d.proof.Store(d.startProof(d.policy))
	if d.pins, err = wire.OpenPins(ctx, d.store); err != nil {
		d.log.Error("trusted definitions cannot be read; tools of foreign sources must be accepted again", zap.Error(err))
	}
	d.tools = registry.New(registry.Config{
		NamespaceOf:   worker.NamespaceOf,
		AssertFormats: d.cfg.Tools.AssertFormats,
		Pins:          d.pins, Trusted: slices.Concat([]string{builtin, embedded, command.Source}, trustedPools(&d.cfg.Workers), subagentSources(d.cfg)),
	})
	if err := errors.Join(d.tools.Describe(descriptionsOf(d.cfg)), rename(d.tools, d.cfg)); err != nil {
		return err
	}
	d.jobs, err = registerTools(d.tools, d.cfg, d.workspaces, needs{
		given: d.options.tools, version: d.version, exec: runner, artifacts: wire.Artifacts(func() *lifecycle.Engine { return d.engine }), secrets: d.secrets, references: d.references,
		finder: wire.Finder(d.tools, d.unlisted),
	})
	if err == nil {
		err = d.openSubagents()
	}
	if err != nil {
		return err
	}
	if err := d.openManifests(); err != nil {
		return err
	}
	d.mcp, err = d.openMCP(ctx)
	return err
}

// openEngine creates the engine with its plugins.
func (d *daemon) openEngine(context.Context) error {
	rules, err := readRules(d.cfg)
	if err != nil {
		return err
	}
	d.reload.descriptions, d.reload.names, d.reload.level = descriptionsOf(d.cfg), newIDsOf(d.cfg), d.cfg.Log.Level
	d.warnOfDescriptions()
	d.warnOfNames()
	policies := policy.New(d.store)
	d.gate = permission.New(permission.Config{
		Rules: rules, SingleUser: d.cfg.SingleUser, Commands: commands(), Paths: d.workspaces.paths, Remembered: policies, Modes: policies, Above: wire.Above(policies),
	})
	d.warnOfRules(d.cfg, rules)
	if d.lines, err = linelog.New(linelog.Config{Log: d.lineLog}); err != nil {
		return err
	}
	withToken, err := reloader{d}.readSecrets(d.cfg)
	if err != nil {
		return err
	}
	if withToken != nil {
		withToken()
	}
	if d.plugins, err = newPlugins(d.cfg, d.references); err != nil {
		return err
	}
	list, err := newExternalHooks(d.cfg, processes{d.runner}, d.references, d.secrets, d.own(), d.log, nil)
	if err != nil {
		return err
	}
	d.externals.Store(&list)
	hooks, err := list.arrange(d.hooks())
	if err != nil {
		return err
	}
	cfg := lifecycle.Config{
		Store: d.store, Tools: wire.Definitions(d.tools), Answers: wire.Answers(d.tools), Frontend: wire.Frontend(d.tools), People: d.auth, Log: d.log, Tracer: d.tracer(),
		Hooks: hooks, DataOwners: d.keepers(),
		Policies: policies, Modes: wire.Modes(d.gate),
		Hide: d.hidden, Absent: wire.Absent(d.tools, d.hidden), Isolation: d.isolation(), Secret: d.available, Approvers: defaultApprovers(d.cfg),
		UnattendedWaits: d.gate.Waits, MachineActions: machineActions(), RemoveNulls: removeNulls, Full: d.store.Full,
		Attempt: d.cfg.Timeouts.Attempt, Linger: linger(d.cfg.Timeouts.Linger), Grace: d.cfg.Timeouts.Grace, Heartbeat: heartbeatEvery, Expiry: d.cfg.Timeouts.Expiry,
		OnFatal: d.fail, Released: d.store.Acknowledge, FailPoint: failPoint(), Compact: d.plugins.compact,
	}
	engineLimits(d.cfg, &cfg)
	d.engine, err = lifecycle.New(cfg)
	return err
}

// warnOfRules logs parts of the rules that are probably unintended.
func (d *daemon) warnOfRules(cfg *config.Config, rules *permission.Rules) {
	for _, w := range ruleWarnings(cfg, rules, d.tools) {
		d.log.Warn("permission rule", zap.String("warning", w))
	}
}

// warnOfDescriptions logs configured descriptions whose tool does not exist.
func (d *daemon) warnOfDescriptions() {
	for _, id := range d.tools.Undescribed() {
		d.log.Warn("a configured description names no existing tool", zap.String("tool", id))
	}
}

// warnOfNames logs configured ids whose tool does not exist. Tools of workers and MCP servers may come later.
func (d *daemon) warnOfNames() {
	for _, o := range d.tools.Unnamed() {
		d.log.Warn("an id in tools.names has no tool yet", zap.String("tool", o.ID), zap.String("source", o.Source))
	}
}

// rename applies the configured ids of tools to a registry that has no tools yet.
func rename(r *registry.Registry, c *config.Config) error {
	if err := r.Rename(newIDsOf(c)); err != nil {
		return config.Errorf("tools.names: %w", err)
	}
	return nil
}

// hooks returns the hooks inside the daemon. The permission gate comes before all other gates.
func (d *daemon) hooks() hook.Set {
	return inside(d.plugins, d.gate, d.filters(), d.options.hooks)
}

// filters returns the filters of events. Redaction comes first.
func (d *daemon) filters() []hook.Entry[hook.Filter] {
	filters := []hook.Entry[hook.Filter]{{Name: "log", Hook: d.lines}}
	if d.secrets != nil {
		filters = slices.Insert(filters, 0, hook.Entry[hook.Filter]{Name: "redact", Hook: d.secrets})
	}
	return filters
}

// linger converts the setting for the engine, where zero means the default. A setting of zero becomes one nanosecond.
func linger(d time.Duration) time.Duration {
	if d == 0 {
		return time.Nanosecond
	}
	return d
}

// openServer creates the server for clients.
func (d *daemon) openServer(context.Context) error {
	if err := d.tls.open(d.cfg); err != nil {
		return err
	}
	var err error
	d.service, err = service.New(service.Config{
		Engine: wire.Engine(d.engine), DeadLetters: d.engine.Outbox(),
		Tools: wire.Tools(d.tools, d.unlisted), Policy: wire.Policy(wire.PolicyConfig{Gate: d.gate, Tools: d.tools, List: d.engine.Records().List}), Workers: wire.Workers(d.workers, d.engine),
		Admin: adminOf{d}, Auth: d.auth, Log: d.log, Operation: d.operations(),
		Watchers: d.cfg.Limits.Watchers, WatchersEach: d.cfg.Limits.WatchersEach, Stall: d.cfg.Timeouts.Stall,
		Guests: grpcserver.Guests(),
	})
	if err != nil {
		return err
	}
	if d.server, err = grpcserver.New(grpcserver.Config{Service: d.service, TLS: d.tls.config()}); err != nil || d.cfg.Listen.HTTP == "" {
		return err
	}
	pages, err := web.New()
	if err != nil {
		return err
	}
	d.web, err = httpserver.New(httpserver.Config{Service: d.service, TLS: d.tls.config("h2", "http/1.1"), Log: d.log, Metrics: metricsPage{d}, MCP: d.mcpEndpoint(), Pages: pages, Hosts: d.cfg.HTTP.Hosts, Console: httpserver.ConsoleHost(d.token), Origins: d.cfg.HTTP.Origins, Stall: d.cfg.Timeouts.Stall})
	return err
}

// listen opens the listeners. The daemon calls it before recovery, so that an address in use is found before any call runs.
func (d *daemon) listen(ctx context.Context) error {
	if len(d.listeners) > 0 {
		return nil // the daemon already listened as a standby
	}
	add := func(lis net.Listener, err error) error {
		if err != nil {
			return config.Errorf("%w", err)
		}
		if lis.Addr().Network() == "tcp" && d.cfg.TLS.Cert != "" {
			lis = d.tls.connections.track(lis)
		}
		d.listeners = append(d.listeners, lis)
		d.onClose(func() error { _ = lis.Close(); return nil }) // This matters only when the server has not served: otherwise the server has already closed the listener.
		return nil
	}
	if at := d.cfg.Listen.TCP; at != "" {
		secure := d.cfg.TLS.Cert != ""
		if err := add(grpcserver.ListenTCP(ctx, at, secure)); err != nil {
			return err
		}
		d.addresses = append(d.addresses, service.Address{Network: "tcp", Address: d.listeners[len(d.listeners)-1].Addr().String(), TLS: secure})
	}
	if at := d.cfg.Listen.Unix; at != "" {
		path, err := filepath.Abs(at)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := add(grpcserver.ListenUnix(ctx, path, len(d.cfg.Auth.Peers) > 0)); err != nil {
			return err
		}
		d.addresses = append(d.addresses, service.Address{Network: "unix", Address: path})
	}
	return nil
}

// openHTTP opens the listener of HTTP, if one is configured.
func (d *daemon) openHTTP(ctx context.Context) error {
	if d.cfg.Listen.HTTP == "" || d.webAt != nil {
		return nil // a daemon that was a standby has already opened it
	}
	lis, err := grpcserver.ListenTCP(ctx, d.cfg.Listen.HTTP, d.cfg.TLS.Cert != "")
	if err != nil {
		return config.Errorf("%w", err)
	}
	if d.webAt = lis; d.cfg.TLS.Cert != "" {
		d.webAt = d.tls.connections.track(lis)
	}
	d.onClose(func() error { _ = lis.Close(); return nil })
	return nil
}

func (d *daemon) listenHTTP(ctx context.Context) error {
	if err := d.openHTTP(ctx); err != nil || d.webAt == nil {
		return err
	}
	if d.plugins.notify != nil {
		d.plugins.notify.Link(cmp.Or(d.browserURL(), "https://"+d.webAt.Addr().String()))
	}
	d.addresses = append(d.addresses, service.Address{Network: "http", Address: d.webAt.Addr().String(), TLS: d.cfg.TLS.Cert != "", Browser: d.browserURL()})
	return nil
}

// browserURL returns the base URL for browsers. It is empty when browsers use the address of the listener.
func (d *daemon) browserURL() string {
	switch hosts := d.cfg.HTTP.Hosts; {
	case len(hosts) > 0:
		return "https://" + hosts[0] // the name of the proxy
	case d.cfg.TLS.Cert == "":
		return fmt.Sprintf("http://%s:%d", httpserver.ConsoleHost(d.token), d.webAt.Addr().(*net.TCPAddr).Port)
	}
	return ""
}

// recover recovers the unfinished calls of the last daemon.
func (d *daemon) recover(ctx context.Context) error {
	found, err := d.engine.Recover(ctx)
	if err != nil {
		return fmt.Errorf("recovery: %w", err)
	}
	if found != (lifecycle.Recovered{}) {
		d.log.Info("calls of the last daemon recovered", zap.Any("found", found))
	}
	if found.Held > 0 {
		d.log.Error("the store was copied or restored: its unfinished calls are held: toold release continues or ends them; start with --moved when it was only moved",
			zap.Int("calls", found.Held))
	}
	return nil
}

// keepers returns the parts, other than hooks, that keep data of calls.
func (d *daemon) keepers() []any {
	if d.jobs == nil {
		return nil
	}
	return []any{d.jobs}
}
