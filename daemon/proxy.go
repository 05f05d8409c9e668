package daemon

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/sandbox/address"
	"github.com/toold-dev/toold/sandbox/proxy"
	"github.com/toold-dev/toold/secret"
)

// A ProxyHeader is added to plain requests of a profile's processes, which do not have its value.
type ProxyHeader struct {
	Host  string `koanf:"host"`  // exactly; required
	Name  string `koanf:"name"`  // of the header; required
	Value string `koanf:"value"` // with references to secrets, which proxy:<profile> must be entitled to; required
}

// check says what is wrong with a header. The host has its one form after that.
func (h *ProxyHeader) check() error {
	host, _, err := address.Host(h.Host)
	if err != nil {
		return fmt.Errorf("headers: %q: %w", h.Host, err)
	}
	h.Host = host
	if !plainToken(h.Name) || slices.Contains([]string{"host", "connection", "content-length", "transfer-encoding", "expect"}, strings.ToLower(h.Name)) {
		return fmt.Errorf("headers: %q cannot be added to a request", h.Name)
	}
	if h.Value == "" || strings.ContainsAny(h.Value, "\r\n\x00") {
		return fmt.Errorf("headers: %s has no value of one line", h.Name)
	}
	_, err = secret.References(h.Value)
	return err
}

func plainToken(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
}

// network puts what a profile says of the network into its policy.
func (p *Profile) network(policy *sandbox.Policy) error {
	policy.Name, policy.Network, policy.Hosts = p.Name, sandbox.Network(p.Network), p.Hosts
	for _, n := range p.Ports {
		if n < 1 || n > 65535 {
			return fmt.Errorf("ports: %d is not between 1 and 65535", n)
		}
		policy.Ports = append(policy.Ports, uint16(n))
	}
	var err error
	if policy.Addresses, err = address.ParsePrefixes(p.Addresses); err != nil {
		return fmt.Errorf("addresses: %w", err)
	}
	if len(p.Headers) > 0 && policy.Network != sandbox.NetworkProxy {
		return fmt.Errorf("headers are of the network %s", sandbox.NetworkProxy)
	}
	for _, h := range p.Headers {
		if err := h.check(); err != nil {
			return err
		}
	}
	return nil
}

// addedHeaders gives the proxy what profiles add to plain requests.
type addedHeaders struct {
	profiles func() []Profile
	secrets  func() *secret.Resolver // nil before there are any
}

// Headers implements [proxy.Headers]. What serves a profile serves all namespaces, so the secret has to be everybody's.
func (a addedHeaders) Headers(ctx context.Context, r proxy.Plain) (http.Header, error) {
	profiles := a.profiles()
	i := slices.IndexFunc(profiles, func(p Profile) bool { return p.Name == r.Policy.Name })
	if i < 0 {
		return nil, nil //nolint:nilnil // nothing is added for the daemon's own profiles
	}
	added := http.Header{}
	for _, h := range profiles[i].Headers {
		if h.check() != nil || h.Host != r.Host {
			continue
		}
		secrets := a.secrets()
		if secrets == nil {
			return nil, fmt.Errorf("the header %s has no value here", h.Name)
		}
		value, err := secrets.Expand(ctx, secret.Everywhere, "proxy:"+r.Policy.Name, "header."+h.Name, h.Value)
		if err != nil {
			return nil, err
		}
		added.Add(h.Name, value)
	}
	return added, nil
}

// gateway is the proxy of the daemon's processes.
func (d *daemon) gateway() *proxy.Proxy {
	return proxy.New(proxy.Config{
		Headers: addedHeaders{d.profilesInForce, func() *secret.Resolver { return d.references }},
		Report: func(e proxy.Event) {
			level := zap.InfoLevel
			if e.Tag == sandbox.CanaryTag {
				level = zap.DebugLevel
			} else if e.Verdict != proxy.Allowed {
				level = zap.WarnLevel
			}
			d.log.Log(level, "proxy", eventFields(&e)...)
			if e.Source != "" && e.Tag != sandbox.CanaryTag && e.Verdict == proxy.Refused && e.Host != "" {
				d.mcp.Blocked(e.Source, fmt.Sprintf("%s (%s)", net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))), e.Why))
			}
		},
		Summary: func(s proxy.Summary) {
			if s.Untold > 0 {
				d.log.Warn("proxy: more requests than are logged one by one", zap.String("call_id", s.Tag), zap.Int64("requests", s.Requests),
					zap.Int64("refused", s.Refused), zap.Int64("not_logged", s.Untold), zap.Int64("up", s.Up), zap.Int64("down", s.Down))
			}
		},
	})
}

func eventFields(e *proxy.Event) []zapcore.Field {
	return []zapcore.Field{
		zap.String("call_id", e.Tag), zap.String("verdict", string(e.Verdict)), zap.String("why", e.Why), zap.String("method", e.Method), zap.String("host", e.Host),
		zap.Uint16("port", e.Port), zap.String("address", e.Address), zap.Int64("up", e.Up), zap.Int64("down", e.Down), zap.Duration("took", e.Took),
	}
}

// gatewayTo is a proxy for one command line, which shows what went out and what did not.
func gatewayTo(w io.Writer) *proxy.Proxy {
	var mu sync.Mutex
	return proxy.New(proxy.Config{Report: func(e proxy.Event) {
		if e.Tag == sandbox.CanaryTag {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if e.Verdict == proxy.Allowed {
			fmt.Fprintf(w, "toold: proxy: %s %s:%d (%s): %d bytes up, %d down\n", e.Method, e.Host, e.Port, e.Address, e.Up, e.Down)
		} else {
			fmt.Fprintf(w, "toold: proxy: %s %s %s\n", e.Method, e.Verdict, e.Why)
		}
	}})
}
