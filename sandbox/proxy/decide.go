package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/sandbox/address"
)

// A problem is the reason why the proxy answers a request itself and does not forward it.
type problem struct {
	status int
	why    string
}

func (p *problem) Error() string { return p.why }

func bad(why string) error { return &problem{http.StatusBadRequest, why} }

func refusal(format string, args ...any) error {
	return &problem{http.StatusForbidden, fmt.Sprintf(format, args...)}
}

// A target is the host and port of a request. The host has the canonical form of [address.Host].
type target struct {
	host  string
	plain netip.Addr // set when the host is an address
	port  uint16
}

func (p target) String() string { return net.JoinHostPort(p.host, fmt.Sprint(p.port)) }

func newRules(p *sandbox.Policy) (r rules) {
	r.hosts, r.err = address.ParseHosts(p.Hosts)
	if r.ports = p.Ports; len(r.ports) == 0 {
		r.ports = []uint16{80, 443}
	}
	r.addresses = address.Rules{Allow: p.Addresses}
	return r
}

// decide returns an error when the rules do not allow a target. Plain requests and CONNECT both use it.
func (r *rules) decide(to target) error {
	switch {
	case r.err != nil:
		return refusal("the rules of this proxy cannot be read")
	case !slices.Contains(r.ports, to.port):
		return refusal("port %d is not one of %v", to.port, r.ports)
	case to.plain.IsValid() && !r.hosts.Match(to.host):
		return refusal("the address %s is not in the list of permitted hosts; addresses must be in the list", to.host)
	case len(r.hosts) > 0 && !r.hosts.Match(to.host):
		return refusal("the host %s is not in the list of permitted hosts", to.host)
	}
	return nil
}

// maxDials is the largest number of addresses that are tried for one name.
const maxDials = 4

// open checks the target against the rules, resolves its name, checks the addresses and dials one of them.
func (s *session) open(ctx context.Context, to target) (net.Conn, error) {
	if err := s.rules.decide(to); err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, s.cfg.Dial)
	defer stop()
	addresses, err := s.addresses(ctx, to)
	if err != nil {
		return nil, err
	}
	// ControlContext checks again the address that is really dialed.
	dialer := &net.Dialer{ControlContext: s.rules.addresses.Control, Timeout: max(s.cfg.Dial/time.Duration(len(addresses)), time.Second)}
	for _, a := range addresses {
		var conn net.Conn
		conn, err = dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(a, to.port).String())
		if err == nil {
			return conn, nil
		}
	}
	if _, refused := errors.AsType[*address.Error](err); refused {
		return nil, refusal("the host %s has an address that is not permitted", to.host)
	}
	status := http.StatusBadGateway
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		status = http.StatusGatewayTimeout
	}
	return nil, &problem{status, fmt.Sprintf("no connection to %s", to)}
}

// addresses returns the addresses of a target that may be dialed. The error does not reveal refused addresses to the process.
func (s *session) addresses(ctx context.Context, to target) (list []netip.Addr, err error) {
	all := []netip.Addr{to.plain}
	if !to.plain.IsValid() {
		resolver := s.cfg.Resolver
		if resolver == nil {
			resolver = net.DefaultResolver
		}
		// The trailing dot prevents the use of a DNS search list.
		if all, err = resolver.LookupNetIP(ctx, "ip", to.host+"."); err != nil {
			return nil, &problem{http.StatusBadGateway, fmt.Sprintf("the name %s has no address", to.host)}
		}
	}
	for _, a := range all {
		if s.rules.addresses.Check(a) == nil {
			list = append(list, a)
		}
	}
	if len(list) == 0 {
		return nil, refusal("the host %s has an address that is not permitted", to.host)
	}
	return list[:min(len(list), maxDials)], nil
}
