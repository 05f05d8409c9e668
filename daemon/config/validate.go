package config

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/toold-dev/toold/setting"
	"github.com/toold-dev/toold/store/postgres"
	"github.com/toold-dev/toold/tool"
)

// validate returns all problems of the values. It first checks each value against its declaration, then values against each other. It opens
// no file.
func (c *Config) validate() error {
	var problems []error
	wrong := func(key, format string, args ...any) {
		problems = append(problems, fmt.Errorf("%s: %s%s", key, fmt.Sprintf(format, args...), c.SourceOf(key)))
	}
	for _, p := range setting.Check(c) {
		wrong(p.Key, "%s", p.Text)
	}
	for _, check := range []func(complaint){c.validateWorkspaces, c.validateProfiles, c.validateSecrets, c.validateNames, c.validateCertificates} {
		check(wrong)
	}
	if err := checkExposure(c); err != nil {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

type complaint func(key, format string, args ...any)

// SourceOf returns the source of a value, in parentheses, for error messages. If no source is recorded for the value itself, it returns the
// source of the list entry or group that contains the value. It returns "" for a default.
func (c *Config) SourceOf(key string) string {
	for ; key != ""; key = key[:max(0, strings.LastIndexAny(key, ".["))] {
		if by := c.loaded.from[key]; by != "" {
			return " (" + by + ")"
		}
	}
	return ""
}

// Check implements [setting.Checker]. The groups below implement it for their own values.
func (c *Config) Check() (wrong setting.Problems) {
	if c.Store != "" {
		if err := postgres.CheckURL(c.Store); err != nil {
			wrong.Add("store", "%v", err)
		}
	}
	return wrong
}

func (c *Config) validateWorkspaces(wrong complaint) {
	for _, namespace := range c.WithWorkspaces() {
		switch {
		case namespace == Sharing:
			wrong("workspaces", "the name of a namespace is empty")
		case c.Workspaces[namespace] == "":
			wrong(WorkspaceKey(namespace), "is empty")
		}
	}
}

// Check implements [setting.Checker].
func (l *Listen) Check() (wrong setting.Problems) {
	if l.TCP == "" && l.Unix == "" {
		wrong.Add("", "set tcp or unix; otherwise no client can connect")
	}
	return wrong
}

// Check implements [setting.Checker].
func (m *Metrics) Check() (wrong setting.Problems) {
	if m.Listen != "" && !m.Public && !isLoopback(m.Listen) {
		wrong.Add("listen", "%s is not a loopback address, and metrics need no token; set metrics.public to allow it", m.Listen)
	}
	return wrong
}

// Check implements [setting.Checker].
func (t *TLS) Check() (wrong setting.Problems) {
	if (t.Cert == "") != (t.Key == "") {
		wrong.Add("", "set both cert and key, or neither")
	}
	if t.ClientCA != "" && t.Cert == "" {
		wrong.Add("client_ca", "needs cert and key")
	}
	return wrong
}

// Check implements [setting.Checker].
func (t *Tracing) Check() (wrong setting.Problems) {
	if u, err := url.Parse(t.Endpoint); t.Endpoint != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		wrong.Add("endpoint", "%q is not a URL such as https://collector.example:4317 (http:// is without TLS)", t.Endpoint)
	}
	return wrong
}

// Check implements [setting.Checker].
func (l *Limits) Check() (wrong setting.Problems) {
	if n := l.QueueNamespace; n > l.QueueLength {
		wrong.Add("queue_namespace", "%d is more than limits.queue_length, which is %d", n, l.QueueLength)
	}
	if n := l.QueuePrincipal; n > l.QueueLength {
		wrong.Add("queue_principal", "%d is more than limits.queue_length, which is %d", n, l.QueueLength)
	}
	return wrong
}

// Check implements [setting.Checker].
func (w *Workers) Check() (wrong setting.Problems) {
	for i, pool := range w.Trusted {
		if namespace, name, ok := strings.Cut(pool, "/"); !ok || namespace == "" || name == "" {
			wrong.Add("trusted", "entry %d is not namespace/pool", i+1)
		}
	}
	return wrong
}

// Check implements [setting.Checker].
func (f *Failover) Check() (wrong setting.Problems) {
	text := setting.DurationText
	if least := postgres.HoldFor(f.Lease, f.Kill); f.Hold < least {
		wrong.Add("hold", "%s is less than %s, which is 1.1 times the sum of lease and kill", text(f.Hold), text(least))
	}
	if f.Start > f.Lease {
		wrong.Add("start", "%s is more than the lease of %s", text(f.Start), text(f.Lease))
	}
	return wrong
}

// Check implements [setting.Checker].
func (r *Retention) Check() (wrong setting.Problems) {
	if r.Tombstones < r.Calls {
		wrong.Add("tombstones", "%s is less than the %s for which calls are kept", setting.DurationText(r.Tombstones), setting.DurationText(r.Calls))
	}
	return wrong
}

// Check implements [setting.Checker].
func (o *Override) Check() (wrong setting.Problems) {
	if len(o.Text) > 16<<10 {
		wrong.Add("text", "has %d bytes; at most 16 KiB are allowed", len(o.Text))
	}
	return wrong
}

// validateNames refuses a new id for a tool that cannot be renamed, two new ids for the same tool, and the id of tool_search as a new id.
func (c *Config) validateNames(wrong complaint) {
	seen := map[[2]string]bool{}
	for i, n := range c.Tools.Names {
		key, origin := fmt.Sprintf("tools.names[%d]", i), [2]string{n.Source, n.Tool}
		switch {
		case seen[origin]:
			wrong(key, "the tool %q of the source %q occurs twice", n.Tool, n.Source)
		case strings.HasPrefix(n.Source, "subagent:"):
			wrong(key+".source", "%q is a subagent; change its name in subagents", n.Tool)
		case n.Source == "builtin" && n.Tool == tool.SearchID:
			wrong(key+".tool", "%q keeps its id, because clients know the tool by this id", n.Tool)
		case n.ID == tool.SearchID:
			wrong(key+".id", "%q is the id of the daemon's own tool for search", n.ID)
		}
		seen[origin] = true
	}
}

// Check implements [setting.Checker].
func (t *Token) Check() (wrong setting.Problems) {
	if _, err := t.Sum(); err != nil && t.Hash != "" {
		wrong.Add("hash", "%v", err)
	}
	return wrong
}

const hashPrefix = "sha256:"

// Sum returns the SHA-256 hash of the token. A slow hash would add no protection, because tokens are long and random.
func (t Token) Sum() (sum [32]byte, err error) {
	digits, ok := strings.CutPrefix(t.Hash, hashPrefix)
	b, hexErr := hex.DecodeString(digits)
	if !ok || hexErr != nil || len(b) != len(sum) {
		return sum, errors.New("is not sha256:<64 hex digits>; make one with: toold token hash")
	}
	return [32]byte(b), nil
}

// checkExposure refuses a listener that is reachable from other machines, unless an operator has configured TLS and authentication. The
// token of the first start is not enough, because it is meant for the user of this machine.
func checkExposure(c *Config) error {
	return errors.Join(checkAddress(c, "listen.tcp", c.Listen.TCP), checkAddress(c, "listen.http", c.Listen.HTTP))
}

func checkAddress(c *Config, key, address string) error {
	if address == "" || isLoopback(address) {
		return nil
	}
	var missing []string
	if c.TLS.Cert == "" {
		missing = append(missing, "TLS (tls.cert, tls.key)")
	}
	if len(c.Auth.Tokens) == 0 && len(c.Auth.Issuers) == 0 && c.TLS.ClientCA == "" {
		missing = append(missing, "authentication (auth.tokens, auth.issuers or tls.client_ca)")
	}
	if missing == nil {
		return nil
	}
	return fmt.Errorf("%s: %s is reachable from other machines, which needs %s%s", key, address, strings.Join(missing, " and "), c.SourceOf(key))
}

// isLoopback reports whether only this machine can reach the address. The only name that it accepts is localhost, because other names may
// resolve to any address, and that may change.
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
