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
)

// validate says everything that is wrong with the values: first what their declarations say, then what goes together. It opens no
// file.
func (c *Config) validate() error {
	var problems []error
	wrong := func(key, format string, args ...any) {
		problems = append(problems, fmt.Errorf("%s: %s%s", key, fmt.Sprintf(format, args...), c.SaidBy(key)))
	}
	for _, p := range setting.Check(c) {
		wrong(p.Key, "%s", p.Text)
	}
	for _, check := range []func(complaint){
		c.validatePlaces, c.validateLimits, c.validateTimes, c.validateTools, c.validateProfiles, c.validateTokens, c.validateHooks,
		c.validateSecrets, c.validateNotify, c.validateMCP, c.validateWeb, c.validateSubagents,
	} {
		check(wrong)
	}
	if err := checkExposure(c); err != nil {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

type complaint func(key, format string, args ...any)

// SaidBy is the source of a wrong value, in parentheses: of the value itself, or of the list entry or group that it is in. It is
// empty for a default.
func (c *Config) SaidBy(key string) string {
	for ; key != ""; key = key[:max(0, strings.LastIndexAny(key, ".["))] {
		if by := c.loaded.from[key]; by != "" {
			return " (" + by + ")"
		}
	}
	return ""
}

func (c *Config) validatePlaces(wrong complaint) {
	if c.Store != "" {
		if err := postgres.CheckURL(c.Store); err != nil {
			wrong("store", "%v", err)
		}
	}
	for _, namespace := range c.WithWorkspaces() {
		switch {
		case namespace == Sharing:
			wrong("workspaces", "a namespace has no name")
		case c.Workspaces[namespace] == "":
			wrong(WorkspaceKey(namespace), "is empty")
		}
	}
	if c.Listen.TCP == "" && c.Listen.Unix == "" {
		wrong("listen", "neither tcp nor unix: nobody could reach the daemon")
	}
	if at := c.Metrics.Listen; at != "" && !c.Metrics.Public && !isLoopback(at) {
		wrong("metrics.listen", "%s is beyond loopback, and the numbers are shown to everybody who asks: metrics.public allows it", at)
	}
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		wrong("tls", "cert and key go together")
	}
	if c.TLS.ClientCA != "" && c.TLS.Cert == "" {
		wrong("tls.client_ca", "needs cert and key")
	}
	if at := c.Tracing.Endpoint; at != "" {
		if u, err := url.Parse(at); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			wrong("tracing.endpoint", "%q is not a URL such as https://collector.example:4317 (http:// is without TLS)", at)
		}
	}
}

func (c *Config) validateLimits(wrong complaint) {
	longest := c.Limits.QueueLength
	if n := c.Limits.QueueNamespace; n > longest {
		wrong("limits.queue_namespace", "%d is more than limits.queue_length, which is %d", n, longest)
	}
	if n := c.Limits.QueuePrincipal; n > longest {
		wrong("limits.queue_principal", "%d is more than limits.queue_length, which is %d", n, longest)
	}
	for i, pool := range c.Workers.Trusted {
		if namespace, name, ok := strings.Cut(pool, "/"); !ok || namespace == "" || name == "" {
			wrong("workers.trusted", "entry %d is not namespace/pool", i+1)
		}
	}
}

func (c *Config) validateTimes(wrong complaint) {
	f, text := &c.Failover, setting.DurationText
	if least := postgres.HoldFor(f.Lease, f.Kill); f.Hold < least {
		wrong("failover.hold", "%s is less than %s, which is 1.1 times lease and kill together", text(f.Hold), text(least))
	}
	if f.Start > f.Lease {
		wrong("failover.start", "%s is more than the lease of %s", text(f.Start), text(f.Lease))
	}
	if c.Retention.Tombstones < c.Retention.Calls {
		wrong("retention.tombstones", "%s is less than the %s for which calls are kept", text(c.Retention.Tombstones), text(c.Retention.Calls))
	}
}

func (c *Config) validateTools(wrong complaint) {
	for i, d := range c.Tools.Descriptions {
		if len(d.Text) > 16<<10 {
			wrong(fmt.Sprintf("tools.descriptions[%d].text", i), "has %d bytes; at most 16 KiB are allowed", len(d.Text))
		}
	}
	for i, s := range c.Redact.Values {
		if given(s.Env, s.File, s.Text) != 1 {
			wrong(fmt.Sprintf("redact.values[%d]", i), "needs one of env, file and value")
		}
	}
}

// given counts the texts that are not empty.
func given(texts ...string) (n int) {
	for _, text := range texts {
		if text != "" {
			n++
		}
	}
	return n
}

func (c *Config) validateTokens(wrong complaint) {
	for i, t := range c.Auth.Tokens {
		if _, err := t.Sum(); err != nil && t.Hash != "" {
			wrong(fmt.Sprintf("auth.tokens[%d].hash", i), "%v", err)
		}
	}
}

const hashPrefix = "sha256:"

// Sum returns the SHA-256 of the token. Tokens are long and random, so that a slow hash would protect nothing.
func (t Token) Sum() (sum [32]byte, err error) {
	digits, ok := strings.CutPrefix(t.Hash, hashPrefix)
	b, hexErr := hex.DecodeString(digits)
	if !ok || hexErr != nil || len(b) != len(sum) {
		return sum, errors.New("is not sha256:<64 hex digits>; make one with: toold token hash")
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
