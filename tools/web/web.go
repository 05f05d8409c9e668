// Package web provides the tools fetch, which reads one web page, and web_search, which queries the search engine that the operator chose.
//
// The model chooses the URL, and it may follow a suggestion of a malicious page. So the address is checked when the connection is made and
// after each redirect. Only the public network is reachable ([address.Rules]). The tools never use a proxy, cookie or credential of the
// daemon.
package web

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/toold-dev/toold/sandbox/address"
	"github.com/toold-dev/toold/tool"
)

// Config configures what may be fetched. Only the operator sets it.
type Config struct {
	Addresses address.Rules // addresses that are reachable in addition to the public network
	// AllowHosts lists the only hosts that may be fetched from; empty means all hosts. A host that matches DenyHosts is always refused. A
	// name matches exactly; a name with a leading dot matches the name after the dot and all names below that name.
	AllowHosts, DenyHosts address.Hosts
	Resolver              *net.Resolver  // nil means the system's resolver
	RootCAs               *x509.CertPool // nil means the system's certificates
	Timeout               time.Duration  // time limit of a fetch with its redirects; 0 means 30 s
	MaxBytes              int64          // size limit of an unpacked page in bytes; 0 means 5 MiB
	UserAgent             string         // empty means toold
	Search                Provider       // nil means that the tool web_search does not exist
}

const (
	defaultTimeout  = 30 * time.Second
	defaultMaxBytes = 5 << 20
	maxHeaders      = 64 << 10
	maxRedirects    = 5
	connectTime     = 10 * time.Second
)

// New returns the tools.
func New(cfg Config) ([]tool.Tool, error) {
	var err error
	if cfg.AllowHosts, err = address.ParseHosts(cfg.AllowHosts); err != nil {
		return nil, err
	}
	if cfg.DenyHosts, err = address.ParseHosts(cfg.DenyHosts); err != nil {
		return nil, err
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = defaultMaxBytes
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = "toold"
	}
	f := &fetch{cfg: cfg}
	f.client = f.newClient()
	tools := []tool.Tool{f}
	if cfg.Search != nil {
		tools = append(tools, newSearch(cfg.Search, cfg.Timeout))
	}
	return tools, nil
}

var errRedirects = fmt.Errorf("the page redirects more than %d times", maxRedirects)

// newClient returns a client that keeps no state between fetches.
func (f *fetch) newClient() *http.Client {
	dialer := &net.Dialer{Timeout: connectTime, Resolver: f.cfg.Resolver, ControlContext: f.cfg.Addresses.Control}
	return &http.Client{
		Transport: &http.Transport{ // Proxy is not set, because models must not use the proxy in the daemon's environment.
			DialContext:            dialer.DialContext,
			DisableKeepAlives:      true,
			DisableCompression:     true, // The tool unpacks the body itself, because it must also limit the packed size.
			TLSHandshakeTimeout:    connectTime,
			TLSClientConfig:        &tls.Config{RootCAs: f.cfg.RootCAs},
			MaxResponseHeaderBytes: maxHeaders,
			Protocols:              protocols(),
		},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return errRedirects
			}
			if via[len(via)-1].URL.Scheme == "https" && req.URL.Scheme != "https" {
				return fmt.Errorf("the page redirects from https to %s", req.URL.Scheme)
			}
			to, err := f.target(req.URL.String())
			if err != nil {
				return fmt.Errorf("the page redirects to a URL that cannot be fetched: %w", err)
			}
			req.URL = to
			req.Header.Del("Referer")
			return nil
		},
	}
}

func protocols() *http.Protocols {
	p := &http.Protocols{}
	p.SetHTTP1(true)
	return p
}

// mayFetch returns an error when a host must not be fetched from.
func (f *fetch) mayFetch(host string) error {
	switch {
	case f.cfg.DenyHosts.Match(host):
		return errors.New("the operator does not allow " + host)
	case len(f.cfg.AllowHosts) > 0 && !f.cfg.AllowHosts.Match(host):
		return errors.New("the operator allows only some hosts, and " + host + " is not one of them")
	}
	return nil
}
