package config

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/secret"
	"github.com/toold-dev/toold/store/postgres"
	"github.com/toold-dev/toold/tool"
)

// validate says everything that is wrong with the values. It opens no file.
func (c *Config) validate() error {
	var problems []error
	wrong := func(key, format string, args ...any) {
		problems = append(problems, fmt.Errorf("%s: %s%s", key, fmt.Sprintf(format, args...), c.SaidBy(key)))
	}
	c.validatePlaces(wrong)
	c.validateNumbers(wrong)
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, c.Log.Level) {
		wrong("log.level", "%q is not debug, info, warn or error", c.Log.Level)
	}
	if !slices.Contains([]string{"", "json", "console"}, c.Log.Format) {
		wrong("log.format", "%q is not json or console", c.Log.Format)
	}
	for i, e := range c.Bash.Env {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" || strings.ContainsRune(e, 0) {
			wrong("bash.env", "entry %d is not NAME=value", i+1)
		}
		if _, err := secret.References(e); err != nil {
			wrong("bash.env", "entry %d: %v", i+1, err)
		}
	}
	c.validateProfiles(wrong)
	c.validateTracing(wrong)
	c.validateDescriptions(wrong)
	c.validateTokens(wrong)
	c.validateHooks(wrong)
	c.validateSecrets(wrong)
	c.validateNotify(wrong)
	c.validateMCP(wrong)
	c.validateWeb(wrong)
	c.validateSubagents(wrong)
	c.validateWorkers(wrong)
	for i, s := range c.Redact.Values {
		given := 0
		for _, by := range []string{s.Env, s.File, s.Value} {
			if by != "" {
				given++
			}
		}
		if given != 1 {
			wrong("redact.values", "entry %d needs one of env, file and value", i+1)
		}
	}
	if err := checkExposure(c); err != nil {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

func (c *Config) validateTracing(wrong complaint) {
	if r := c.Tracing.Ratio; !(r >= 0 && r <= 1) { // NaN is neither
		wrong("tracing.ratio", "%v is not between 0 and 1", r)
	}
	at := c.Tracing.Endpoint
	if at == "" {
		return
	}
	if u, err := url.Parse(at); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		wrong("tracing.endpoint", "%q is not a URL such as https://collector.example:4317 (http:// is without TLS)", at)
	}
}

type complaint func(key, format string, args ...any)

// SaidBy tells who said a wrong value; nobody needs to be told of a default.
func (c *Config) SaidBy(key string) string {
	if by := c.loaded.from[key]; by != "" && by != "default" {
		return " (" + by + ")"
	}
	return ""
}

func (c *Config) validatePlaces(wrong complaint) {
	if c.Data == "" {
		wrong("data", "is empty")
	}
	if c.Store != "" {
		if err := postgres.CheckURL(c.Store); err != nil {
			wrong("store", "%v", err)
		}
	}
	c.validateWorkspaces(wrong)
	if c.Listen.TCP == "" && c.Listen.Unix == "" {
		wrong("listen", "neither tcp nor unix: nobody could reach the daemon")
	}
	if err := checkAddress(c.Listen.TCP); err != nil {
		wrong("listen.tcp", "%v", err)
	}
	if err := checkAddress(c.Metrics.Listen); err != nil {
		wrong("metrics.listen", "%v", err)
	} else if c.Metrics.Listen != "" && !c.Metrics.Public && !isLoopback(c.Metrics.Listen) {
		wrong("metrics.listen", "%s is beyond loopback, and the numbers are shown to whoever asks: metrics.public allows it", c.Metrics.Listen)
	}
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		wrong("tls", "cert and key go together")
	}
	if c.TLS.ClientCA != "" && c.TLS.Cert == "" {
		wrong("tls.client_ca", "needs cert and key")
	}
}

func (c *Config) validateNumbers(wrong complaint) {
	for _, n := range []struct {
		key         string
		value, most int
	}{
		{"limits.concurrency", c.Limits.Concurrency, 100_000},
		{"limits.queue_length", c.Limits.QueueLength, 1_000_000},
		{"limits.arguments", c.Limits.Arguments, maxArguments},
		{"limits.output_budget", c.Limits.OutputBudget, MaxOutput},
		{"limits.output_quota", c.Limits.OutputQuota, 1 << 40},
		{"limits.watchers", c.Limits.Watchers, 1_000_000},
		{"limits.watchers_each", c.Limits.WatchersEach, 1_000_000},
		{"documents.size", c.Documents.Size, lifecycle.MaxDocumentSize},
		{"documents.count", c.Documents.Count, lifecycle.MaxDocuments},
		{"documents.total", c.Documents.Total, lifecycle.MaxDocumentsTotal},
	} {
		if n.value < 1 || n.value > n.most {
			wrong(n.key, "%d is not between 1 and %d", n.value, n.most)
		}
	}
	if n := c.Bash.BackgroundEach; n < 0 || n > 1000 {
		wrong("bash.background_each", "%d is not between 0 and 1000", n)
	}
	c.validateShares(wrong)
	for _, g := range c.Documents.NamespaceWriters {
		if _, err := path.Match(g, ""); err != nil || g == "" {
			wrong("documents.namespace_writers", "%q is no pattern of tool ids", g)
		}
	}
	c.validateTimes(wrong)
}

// validateTimes checks how long things may take.
func (c *Config) validateTimes(wrong complaint) {
	const year = 365 * 24 * time.Hour
	for _, d := range []struct {
		key               string
		value, from, most time.Duration
	}{
		{"failover.start", c.Failover.Start, 10 * time.Millisecond, time.Minute},
		{"failover.lease", c.Failover.Lease, 100 * time.Millisecond, 10 * time.Minute},
		{"failover.kill", c.Failover.Kill, 10 * time.Millisecond, time.Minute},
		{"failover.hold", c.Failover.Hold, 100 * time.Millisecond, time.Hour},
		{"timeouts.queue", c.Timeouts.Queue, time.Millisecond, 24 * time.Hour},
		{"timeouts.attempt", c.Timeouts.Attempt, time.Millisecond, 7 * 24 * time.Hour},
		{"timeouts.linger", c.Timeouts.Linger, never, 365 * 24 * time.Hour},
		{"timeouts.grace", c.Timeouts.Grace, time.Millisecond, time.Hour},
		{"timeouts.expiry", c.Timeouts.Expiry, time.Second, 30 * 24 * time.Hour}, // no question is for ever
		{"timeouts.drain", c.Timeouts.Drain, 0, time.Hour},
		{"limits.circuit_open", c.Limits.CircuitOpen, 0, 24 * time.Hour},
		{"workers.lease", c.Workers.Lease, 500 * time.Millisecond, 10 * time.Minute},
		{"workers.wait", c.Workers.Wait, time.Millisecond, time.Hour},
		{"timeouts.stall", c.Timeouts.Stall, time.Second, time.Hour},
		{"retention.calls", c.Retention.Calls, time.Second, 100 * year},
		{"retention.tombstones", c.Retention.Tombstones, time.Second, 100 * year},
		{"bash.timeout", c.Bash.Timeout, time.Second, 10 * time.Minute},
		{"bash.background_time", c.Bash.BackgroundTime, time.Second, 24 * time.Hour},
		{"audit.every", c.Audit.Every, time.Second, 24 * time.Hour},
	} {
		switch {
		case d.value < 0 && d.from >= 0:
			wrong(d.key, "has to end: between %s and %s", durationText(d.from), durationText(d.most))
		case d.value < d.from || d.value > d.most:
			wrong(d.key, "%s is not between %s and %s", durationText(d.value), durationText(d.from), durationText(d.most))
		}
	}
	if least := postgres.HoldFor(c.Failover.Lease, c.Failover.Kill); c.Failover.Hold < least {
		wrong("failover.hold", "%s is less than %s, which is 1.1 times lease and kill together", durationText(c.Failover.Hold), durationText(least))
	}
	if c.Failover.Start > c.Failover.Lease {
		wrong("failover.start", "%s is more than the lease of %s", durationText(c.Failover.Start), durationText(c.Failover.Lease))
	}
	if c.Retention.Tombstones < c.Retention.Calls {
		wrong("retention.tombstones", "%s is less than the %s for which calls are kept",
			durationText(c.Retention.Tombstones), durationText(c.Retention.Calls))
	}
}

// validateShares checks the limits that may be zero.
func (c *Config) validateShares(wrong complaint) {
	l := &c.Limits
	for _, n := range []struct {
		key         string
		value, most int
	}{
		{"limits.concurrency_namespace", l.ConcurrencyNamespace, 100_000},
		{"limits.concurrency_principal", l.ConcurrencyPrincipal, 100_000},
		{"limits.queue_namespace", l.QueueNamespace, l.QueueLength},
		{"limits.queue_principal", l.QueuePrincipal, l.QueueLength},
		{"limits.questions_namespace", l.QuestionsNamespace, 100_000_000},
		{"limits.questions_principal", l.QuestionsPrincipal, 100_000_000},
		{"limits.stored_bytes", l.StoredBytes, 1 << 50},
		{"limits.output_quota_thread", l.OutputQuotaThread, 1 << 50},
		{"limits.output_quota_namespace", l.OutputQuotaNamespace, 1 << 50},
		{"limits.circuit_failures", l.CircuitFailures, 1000},
	} {
		if n.value < 0 || n.value > n.most {
			wrong(n.key, "%d is not between 0 and %d", n.value, n.most)
		}
	}
	for i, t := range l.ConcurrencyTools {
		if _, err := path.Match(t.Tools, ""); err != nil || t.Tools == "" {
			wrong("limits.concurrency_tools", "entry %d: %q is not a pattern of *, ? and [classes]", i+1, t.Tools)
		}
		if t.Calls < 1 || t.Calls > 100_000 {
			wrong("limits.concurrency_tools", "entry %d: calls: %d is not between 1 and 100000", i+1, t.Calls)
		}
	}
}

func (c *Config) validateDescriptions(wrong complaint) {
	seen := map[string]bool{}
	for i, d := range c.Tools.Descriptions {
		if tool.ValidName(d.Tool) != nil || seen[d.Tool] || len(d.Text) > 16<<10 {
			wrong("tools.descriptions", "entry %d: want the id of a tool, once, and a text of at most 16 KiB", i+1)
		}
		seen[d.Tool] = true
	}
}

func (c *Config) validateTokens(wrong complaint) {
	known := []string{"caller", "delegate", "approver", "operator", "viewer", "worker", "admin"}
	seen := map[string]bool{}
	for i, t := range c.Auth.Tokens {
		here := func(format string, args ...any) {
			wrong("auth.tokens", "entry %d: %s", i+1, fmt.Sprintf(format, args...))
		}
		if t.Name == "" {
			here("has no name")
		}
		if _, err := t.Sum(); err != nil {
			here("%v", err)
		}
		if seen[t.Hash] {
			here("the same hash stands twice")
		}
		seen[t.Hash] = true
		if len(t.Roles) == 0 {
			here("has no roles, and could do nothing")
		}
		for _, role := range t.Roles {
			if !slices.Contains(known, role) {
				here("role %q is not one of %s", role, strings.Join(known, ", "))
			}
		}
	}
}

const hashPrefix = "sha256:"

// Sum returns the SHA-256 of the token. Tokens are long and random, so that a slow hash would protect nothing.
func (t Token) Sum() (sum [32]byte, err error) {
	digits, ok := strings.CutPrefix(t.Hash, hashPrefix)
	b, hexErr := hex.DecodeString(digits)
	if !ok || hexErr != nil || len(b) != len(sum) {
		return sum, errors.New("hash is not sha256:<64 hex digits>; make one with: toold token hash")
	}
	return [32]byte(b), nil
}

// checkExposure refuses to listen beyond loopback without TLS and authentication that an operator has set up. The token
// of the first start does not count: it is the one of this machine's user.
func checkExposure(c *Config) error {
	if c.Listen.TCP == "" || isLoopback(c.Listen.TCP) {
		return nil
	}
	var missing []string
	if c.TLS.Cert == "" {
		missing = append(missing, "TLS (tls.cert, tls.key)")
	}
	if len(c.Auth.Tokens) == 0 && c.TLS.ClientCA == "" {
		missing = append(missing, "authentication (auth.tokens or tls.client_ca)")
	}
	if missing == nil {
		return nil
	}
	return fmt.Errorf("listen.tcp: %s is reachable from other machines, which needs %s%s",
		c.Listen.TCP, strings.Join(missing, " and "), c.SaidBy("listen.tcp"))
}

// isLoopback reports whether address can be reached from this machine alone. A name counts only when it is localhost:
// what another name means is for others to say, and may change.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// checkAddress takes host:port, and nothing.
func checkAddress(address string) error {
	if address == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is not host:port", address)
	}
	if _, err := netip.ParseAddrPort("127.0.0.1:" + port); err != nil {
		return fmt.Errorf("%q has no port between 0 and 65535", address)
	}
	return nil
}
