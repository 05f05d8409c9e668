package address_test

import (
	"errors"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"github.com/toold-dev/toold/sandbox/address"
)

func TestT48AddressesThatAreNotPublic(t *testing.T) {
	for _, text := range []string{
		"127.0.0.1", "127.8.8.8", "0.0.0.0", "0.1.2.3", "10.1.2.3", "100.64.0.1", "100.127.255.255", "169.254.169.254", "172.16.0.1", "172.31.255.255",
		"192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		"::", "::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "ff02::1", "fc00::1", "100::1", "2001:db8::1", "2001:2::1", "3fff::1", "5f00::1", "64:ff9b:1::1",
		"::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "::10.0.0.1", // IPv4-mapped and IPv4-compatible
		"64:ff9b::a9fe:a9fe", "64:ff9b::7f00:1", // NAT64 forms of 169.254.169.254 and 127.0.0.1
		"2002:a9fe:a9fe::1", "2002:7f00:1::", "2002:c0a8:101::", // 6to4 forms of 169.254.169.254, 127.0.0.1 and 192.168.1.1
		"2001:0:a9fe:a9fe::1", "2001:0:808:808:0:0:5601:5601", // Teredo with the server 169.254.169.254, and with the client 169.254.169.254
		"4000::1", "e000::1",
	} {
		a := netip.MustParseAddr(text)
		var refused *address.Error
		if err := (address.Rules{}).Check(a); !errors.As(err, &refused) || refused.Address != a || refused.Why == "" {
			t.Errorf("%s: %v, want a refusal with a reason", text, err)
		}
	}
}

func TestPublicAddresses(t *testing.T) {
	for _, text := range []string{
		"1.1.1.1", "8.8.8.8", "93.184.216.34", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1", "192.0.1.1", "198.17.0.1", "198.20.0.1", "223.255.255.255",
		"192.31.196.1", "192.175.48.1", // addresses of AS112, a public service for reverse DNS
		"2606:4700:4700::1111", "2a00:1450:4001::1", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1",
	} {
		if err := (address.Rules{}).Check(netip.MustParseAddr(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestOperatorAllows(t *testing.T) {
	r := address.Rules{Allow: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("127.0.0.1/32")}}
	for text, want := range map[string]bool{"10.1.2.3": true, "::ffff:10.1.2.3": true, "10.2.0.1": false, "127.0.0.1": true, "127.0.0.2": false, "64:ff9b::a01:203": false} {
		if got := r.Check(netip.MustParseAddr(text)) == nil; got != want {
			t.Errorf("%s allowed: %v, want %v", text, got, want)
		}
	}
	for addr, want := range map[string]bool{"127.0.0.1:80": true, "[::1]:80": false, "example.com:80": false, "": false} {
		if got := r.Control(t.Context(), "tcp", addr, nil) == nil; got != want {
			t.Errorf("%q may be dialed: %v, want %v", addr, got, want)
		}
	}
}

// TestEmbeddedAddresses checks that every IPv6 form that contains an IPv4 address gets the same verdict as the IPv4 address.
func TestEmbeddedAddresses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b [4]byte
		for i := range b {
			b[i] = rapid.Byte().Draw(t, "byte")
		}
		plain := netip.AddrFrom4(b)
		want := (address.Rules{}).Check(plain) == nil
		for _, form := range [][16]byte{
			{10: 0xff, 11: 0xff, 12: b[0], 13: b[1], 14: b[2], 15: b[3]},
			{12: b[0], 13: b[1], 14: b[2], 15: b[3]},
			{1: 0x64, 2: 0xff, 3: 0x9b, 12: b[0], 13: b[1], 14: b[2], 15: b[3]},
			{0: 0x20, 1: 0x02, 2: b[0], 3: b[1], 4: b[2], 5: b[3]},
			{0: 0x20, 1: 0x01, 4: b[0], 5: b[1], 6: b[2], 7: b[3], 12: ^b[0], 13: ^b[1], 14: ^b[2], 15: ^b[3]},
		} {
			if got := (address.Rules{}).Check(netip.AddrFrom16(form)) == nil; got != want {
				t.Fatalf("%v: %v, but %v: %v", netip.AddrFrom16(form), got, plain, want)
			}
		}
	})
}
