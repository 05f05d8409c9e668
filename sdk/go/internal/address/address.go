// Package address decides to which addresses a client may send a token without TLS.
package address

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// CheckToken returns an error unless a connection to the gRPC target stays on this machine, so that a token is safe without TLS.
func CheckToken(target string) error {
	if local(target) {
		return nil
	}
	if !strings.Contains(target, ":") {
		return fmt.Errorf("the address %q has no port; give host:port or unix:/path", target)
	}
	return fmt.Errorf("the token would be sent to %s unencrypted: use TLS", target)
}

// local reports whether a connection to target stays on this machine. Unix sockets, localhost and loopback addresses do.
func local(target string) bool {
	if strings.HasPrefix(target, "unix:") || strings.HasPrefix(target, "unix-abstract:") {
		return true
	}
	for _, scheme := range []string{"dns:///", "dns:", "passthrough:///", "passthrough:"} {
		if rest, ok := strings.CutPrefix(target, scheme); ok {
			target = rest
			break
		}
	}
	host, _, err := net.SplitHostPort(target)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}
