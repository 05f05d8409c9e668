package web

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

const maxURL = 8 << 10

// target returns the URL that a text means, in one form for all who look at it: its host in lower case and ASCII, without
// credentials and fragment.
func (f *fetch) target(text string) (*url.URL, error) {
	if len(text) > maxURL {
		return nil, fmt.Errorf("the URL has %d bytes, more than %d", len(text), maxURL)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }) {
		return nil, errors.New("the URL has a space, a control character or a backslash: write them with %")
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("that is no URL such as https://example.com/page")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("only http:// and https:// URLs can be fetched")
	case u.User != nil:
		return nil, errors.New("the URL has credentials: leave out what stands before @")
	case u.Host == "" || u.Opaque != "":
		return nil, errors.New("the URL names no host")
	}
	port := u.Port()
	if n, err := strconv.Atoi(port); port != "" && (err != nil || n < 1 || n > 65535) {
		return nil, errors.New("the port must be from 1 to 65535")
	}
	host, err := f.host(u.Hostname())
	if err != nil {
		return nil, err
	}
	if u.Host = host; strings.Contains(host, ":") {
		u.Host = "[" + host + "]"
	}
	if port != "" {
		u.Host += ":" + port
	}
	u.Fragment, u.RawFragment = "", ""
	return u, f.mayFetch(host)
}

// host returns the one form of a host, when it is a name or an address that may be reached.
func (f *fetch) host(text string) (string, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		if err := f.cfg.Addresses.Check(a); err != nil {
			return "", err
		}
		return a.String(), nil
	}
	return hostName(text)
}

// hostName returns the ASCII form of a name. What some resolvers take for an address in disguise, 2130706433 and 0x7f.1, is no
// name.
func hostName(text string) (string, error) {
	name, err := idna.Lookup.ToASCII(strings.ToLower(strings.TrimSuffix(text, ".")))
	if err != nil || name == "" || len(name) > 253 || strings.Contains(name, "..") {
		return "", errors.New("the host is neither a name nor an address")
	}
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' {
			return "", errors.New("the host has a character that no name has")
		}
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	if _, err := strconv.ParseUint(last, 0, 64); err == nil || strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") {
		return "", errors.New("the host ends in a number and is no address: write an address as 93.184.216.34")
	}
	return name, nil
}
