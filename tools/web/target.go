package web

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/toold-dev/toold/sandbox/address"
)

const maxURL = 8 << 10

// target parses a URL and returns it in one normal form, which all checks use: the host is in lower-case ASCII, and the fragment is
// removed. A URL with credentials is an error.
func (f *fetch) target(text string) (*url.URL, error) {
	if len(text) > maxURL {
		return nil, fmt.Errorf("the URL has %d bytes; at most %d are allowed", len(text), maxURL)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }) {
		return nil, errors.New("the URL has a space, a control character or a backslash: write them with %")
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("it is not a URL such as https://example.com/page")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("only http:// and https:// URLs can be fetched")
	case u.User != nil:
		return nil, errors.New("the URL contains credentials: remove the part before @")
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

// host returns the normal form of a host. It returns an error when the host must not be reached.
func (f *fetch) host(text string) (string, error) {
	host, plain, err := address.Host(text)
	if err == nil && plain.IsValid() {
		err = f.cfg.Addresses.Check(plain)
	}
	return host, err
}
