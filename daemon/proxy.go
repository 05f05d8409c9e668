package daemon

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/toold-dev/toold/daemon/config"
	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/sandbox/proxy"
	"github.com/toold-dev/toold/secret"
)

// addedHeaders gives the proxy the headers that profiles add to plain requests.
type addedHeaders struct {
	profiles func() []config.Profile
	secrets  func() *secret.Resolver // returns nil before secrets are opened
}

// Headers implements [proxy.Headers]. A profile serves all namespaces, so every namespace must be allowed to use the secret.
func (a addedHeaders) Headers(ctx context.Context, r proxy.Plain) (http.Header, error) {
	profiles := a.profiles()
	i := slices.IndexFunc(profiles, func(p config.Profile) bool { return p.Name == r.Policy.Name })
	if i < 0 {
		return nil, nil //nolint:nilnil // nothing is added for the daemon's own profiles
	}
	added := http.Header{}
	for _, h := range profiles[i].Headers {
		if h.Check() != nil || h.Host != r.Host {
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

// gateway returns the network proxy for the daemon's processes.
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
			if s.Unreported > 0 {
				d.log.Warn("proxy: more requests than are logged individually", zap.String("call_id", s.Tag), zap.Int64("requests", s.Requests),
					zap.Int64("refused", s.Refused), zap.Int64("not_logged", s.Unreported), zap.Int64("up", s.Up), zap.Int64("down", s.Down))
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

// gatewayTo returns a network proxy for one command. It writes the requests that it forwarded and refused to w.
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
