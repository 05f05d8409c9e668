// Package address decides which network addresses toold may contact when a model, a page or a redirect names them. It allows the addresses
// that IANA calls globally reachable and those that the operator adds.
//
// [Rules.Control] checks the address right before a connection is made, after name resolution. So no answer of a name server can bypass the
// check.
package address

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
)

// Rules lists the addresses that an operator allows besides the public network. The zero value adds none.
type Rules struct {
	Allow []netip.Prefix
}

// An Error says why an address is refused.
type Error struct {
	Address netip.Addr
	Why     string
}

func (e *Error) Error() string {
	return fmt.Sprintf("address %v is refused: %s", e.Address, e.Why)
}

// Check returns nil when an address may be reached, else an [*Error].
func (r Rules) Check(a netip.Addr) error {
	plain := a.Unmap()
	if slices.ContainsFunc(r.Allow, func(p netip.Prefix) bool { return p.Contains(plain) }) {
		return nil
	}
	if why := refusal(plain); why != "" {
		return &Error{a, why}
	}
	return nil
}

// Control checks the address of a connection like [Rules.Check]. It also refuses the public addresses of this machine. Use it as
// [net.Dialer.ControlContext].
func (r Rules) Control(_ context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address %q is refused: it is not a host and a port", address)
	}
	if err := r.Check(to.Addr()); err != nil {
		return err
	}
	return r.notOwn(to.Addr().Unmap())
}

// notOwn refuses the public addresses of this machine. A connection from the machine to itself bypasses the firewall, so it could reach
// services that the firewall protects.
func (r Rules) notOwn(a netip.Addr) error {
	if slices.ContainsFunc(r.Allow, func(p netip.Prefix) bool { return p.Contains(a) }) {
		return nil
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return &Error{a, "it is unknown whether it is this host"}
	}
	for _, one := range own {
		if p, err := netip.ParsePrefix(one.String()); err == nil && p.Addr().Unmap() == a {
			return &Error{a, "it is this host"}
		}
	}
	return nil
}

// special lists the prefixes that the IANA special-purpose registries do not call globally reachable, and the multicast prefixes. The
// registries (IPv4: RFC 6890 and later; IPv6 likewise) were read in 2026-06.
var special = parse(map[string]string{
	"0.0.0.0/8":       "it is this host",
	"10.0.0.0/8":      "it is private",
	"100.64.0.0/10":   "it is shared between a provider and its customers",
	"127.0.0.0/8":     "it is this host",
	"169.254.0.0/16":  "it is link-local, as the metadata services of clouds are",
	"172.16.0.0/12":   "it is private",
	"192.0.0.0/24":    "it is reserved for protocols",
	"192.0.2.0/24":    "it is for documentation",
	"192.88.99.0/24":  "it is for 6to4 relays",
	"192.168.0.0/16":  "it is private",
	"198.18.0.0/15":   "it is for benchmarks",
	"198.51.100.0/24": "it is for documentation",
	"203.0.113.0/24":  "it is for documentation",
	"224.0.0.0/4":     "it is a multicast address",
	"240.0.0.0/4":     "it is reserved",

	"2001::/23":      "it is reserved for protocols",
	"2001:db8::/32":  "it is for documentation",
	"3fff::/20":      "it is for documentation",
	"64:ff9b:1::/48": "it is for local translation (NAT64)",
})

var (
	global  = netip.MustParsePrefix("2000::/3") // all global unicast addresses that IANA has allocated
	nat64   = netip.MustParsePrefix("64:ff9b::/96")
	sixTo4  = netip.MustParsePrefix("2002::/16")
	teredo  = netip.MustParsePrefix("2001::/32")
	ancient = netip.MustParsePrefix("::/96") // IPv4-compatible addresses
)

type prefix struct {
	netip.Prefix
	why string
}

func parse(list map[string]string) (all []prefix) {
	for text, why := range list {
		all = append(all, prefix{netip.MustParsePrefix(text), why})
	}
	return all
}

// refusal returns the reason why an address is not part of the public network. The reason is empty for a public address.
func refusal(a netip.Addr) string {
	switch {
	case !a.IsValid():
		return "it is not valid"
	case a.Zone() != "":
		return "it is valid on one link only"
	}
	if inner := embedded(a); len(inner) > 0 {
		for _, i := range inner {
			if why := refusal(i); why != "" {
				return fmt.Sprintf("it contains %v: %s", i, why)
			}
		}
		return ""
	}
	for _, s := range special {
		if s.Contains(a) {
			return s.why
		}
	}
	if a.Is6() && !global.Contains(a) {
		return "it is not a public address"
	}
	return ""
}

// embedded returns the IPv4 addresses inside an IPv6 address of a transition mechanism.
func embedded(a netip.Addr) []netip.Addr {
	b := a.As16()
	last := netip.AddrFrom4([4]byte(b[12:16]))
	switch {
	case a.Is4():
		return nil
	case a.Is4In6():
		return []netip.Addr{a.Unmap()}
	case nat64.Contains(a), ancient.Contains(a):
		return []netip.Addr{last} // For :: and ::1 this returns 0.0.0.0 and 0.0.0.1, which are refused.
	case sixTo4.Contains(a):
		return []netip.Addr{netip.AddrFrom4([4]byte(b[2:6]))}
	case teredo.Contains(a): // RFC 4380: contains the server's address, and the client's address with its bits inverted
		client := [4]byte{^b[12], ^b[13], ^b[14], ^b[15]}
		return []netip.Addr{netip.AddrFrom4([4]byte(b[4:8])), netip.AddrFrom4(client)}
	}
	return nil
}
