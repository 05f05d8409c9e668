package address

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

var (
	errNoHost    = errors.New("the host is neither a name nor an address")
	errCharacter = errors.New("the host has a character that names cannot contain")
	errNumber    = errors.New("the host ends in a number and is not an address: write an address such as 93.184.216.34")
	errZone      = errors.New("the host is an address that is valid on one link only")
)

// Host returns the canonical form of a host: a lower-case ASCII name without trailing dot, or an address. For an address, plain is set. An
// IPv6 address has no brackets in this form. An address with a zone is an error.
func Host(text string) (host string, plain netip.Addr, err error) {
	if a, err := netip.ParseAddr(text); err == nil {
		if a.Zone() != "" {
			return "", netip.Addr{}, errZone
		}
		a = a.Unmap()
		return a.String(), a, nil
	}
	host, err = Name(text)
	return host, netip.Addr{}, err
}

// Name returns the canonical form of a host that must be a name. It refuses addresses, and numeric forms that some resolvers accept as
// addresses, such as 2130706433 and 0x7f.1.
func Name(text string) (string, error) {
	name, err := idna.Lookup.ToASCII(strings.ToLower(strings.TrimSuffix(text, ".")))
	if err != nil || name == "" || len(name) > 253 || strings.Contains(name, "..") {
		return "", errNoHost
	}
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' {
			return "", errCharacter
		}
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	if _, err := strconv.ParseUint(last, 0, 64); err == nil || strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") {
		return "", errNumber
	}
	return name, nil
}

// Hosts is a list of names and addresses in the form of [Host]. An entry with a leading dot matches the name after the dot and all names
// below that name.
type Hosts []string

// ParseHosts parses the operator's list of hosts.
func ParseHosts(texts []string) (Hosts, error) {
	var list Hosts
	for _, text := range texts {
		name, below := strings.CutPrefix(text, ".")
		host, plain, err := Host(name)
		switch {
		case err != nil:
			return nil, fmt.Errorf("host %q: %w", text, err)
		case below && plain.IsValid():
			return nil, fmt.Errorf("host %q: an address has no subdomains", text)
		case below:
			host = "." + host
		}
		list = append(list, host)
	}
	return list, nil
}

// Match reports whether the list contains a host, given in the form of [Host].
func (h Hosts) Match(host string) bool {
	return slices.ContainsFunc(h, func(entry string) bool {
		return entry == host || entry[0] == '.' && (strings.HasSuffix(host, entry) || host == entry[1:])
	})
}

// ParsePrefixes parses the operator's list of prefixes. An address counts as a prefix of full length.
func ParsePrefixes(texts []string) (list []netip.Prefix, err error) {
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if a, alone := netip.ParseAddr(text); err != nil && alone == nil {
			p, err = a.Prefix(a.BitLen())
		}
		if err != nil {
			return nil, fmt.Errorf("%q is neither an address nor a prefix such as 10.1.0.0/16", text)
		}
		list = append(list, p.Masked())
	}
	return list, nil
}
