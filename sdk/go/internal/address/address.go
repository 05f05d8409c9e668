// Package address decides where a token may go without TLS.
package address

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// CheckToken refuses to send a token to a target of gRPC without TLS, unless what is sent stays on this machine.
func CheckToken(target string) error {
	if local(target) {
		return nil
	}
	return fmt.Errorf("the token would travel to %s for everybody to read: use TLS", target)
}

// local reports whether what is sent to a target stays on this machine: sockets, localhost, and loopback addresses.
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
