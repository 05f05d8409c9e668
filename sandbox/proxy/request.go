package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/toold-dev/toold/sandbox/address"
)

const (
	maxLine   = 16 << 10
	maxHead   = 64 << 10
	maxFields = 128
)

// A request is the head of an HTTP request in a form that has only one meaning. The proxy refuses a head that parsers could read
// differently.
type request struct {
	method string
	to     target
	path   string // path and query of a plain request
	fields []field
	length int64 // length of the body in bytes; -1 for a chunked body
	waits  bool  // the process expects "100 Continue" before it sends the body
	old    bool  // the request is HTTP/1.0
}

type field struct{ name, value string }

// readRequest reads the head of a request and no byte after it.
func readRequest(in *bufio.Reader) (*request, error) {
	first, err := readLine(in)
	if err != nil {
		return nil, err
	}
	parts := strings.Split(first, " ")
	if len(parts) != 3 {
		return nil, bad("the first line is not a method, a target and a version")
	}
	r := &request{method: parts[0], old: parts[2] == "HTTP/1.0"}
	if !token(r.method) || len(r.method) > 32 {
		return nil, bad("the method has a character that methods cannot contain")
	}
	if parts[2] != "HTTP/1.1" && !r.old {
		return nil, &problem{http.StatusHTTPVersionNotSupported, "the version is not HTTP/1.1"}
	}
	if err := r.readFields(in, len(first)); err != nil {
		return nil, err
	}
	if err := r.frame(); err != nil {
		return nil, err
	}
	return r, r.target(parts[1])
}

// readLine returns a line without its CR LF. The line contains no control character except tab.
func readLine(in *bufio.Reader) (string, error) {
	line, err := in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) || len(line) > maxLine {
		return "", &problem{http.StatusRequestHeaderFieldsTooLarge, "a line of the request is too long"}
	}
	if err != nil {
		return "", err
	}
	text, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok || slices.ContainsFunc(text, func(b byte) bool { return b < ' ' && b != '\t' || b == 0x7f }) {
		return "", bad("a line has a control character, or does not end as lines of HTTP do")
	}
	return string(text), nil
}

func (r *request) readFields(in *bufio.Reader, size int) error {
	for {
		line, err := readLine(in)
		if err != nil {
			return err
		}
		if line == "" {
			return nil
		}
		if size += len(line); size > maxHead || len(r.fields) == maxFields {
			return &problem{http.StatusRequestHeaderFieldsTooLarge, "the request has too many header fields"}
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || !token(name) { // this also refuses a line that continues the previous one
			return bad("the name of a header field is not valid")
		}
		r.fields = append(r.fields, field{strings.ToLower(name), strings.Trim(value, " \t")})
	}
}

// token reports whether text is an HTTP token (RFC 9110, 5.6.2).
func token(text string) bool {
	return text != "" && strings.IndexFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && (r > 0x7f || !strings.ContainsRune("!#$%&'*+-.^_`|~", r))
	}) < 0
}

// all returns the values of all fields with a name.
func (r *request) all(name string) (values []string) {
	for _, f := range r.fields {
		if f.name == name {
			values = append(values, f.value)
		}
	}
	return values
}

// frame finds out where the body ends.
func (r *request) frame() error {
	lengths, codings := r.all("content-length"), r.all("transfer-encoding")
	switch {
	case len(lengths) > 1 || len(codings) > 1 || len(lengths)+len(codings) > 1:
		return bad("the length of the body is given twice")
	case len(codings) == 1 && (r.old || !strings.EqualFold(codings[0], "chunked")):
		return bad("the transfer encoding is not chunked")
	case len(codings) == 1:
		r.length = -1
	case len(lengths) == 1:
		text := lengths[0]
		if text == "" || len(text) > 18 || strings.Trim(text, "0123456789") != "" {
			return bad("the length of the body is not a number")
		}
		r.length, _ = strconv.ParseInt(text, 10, 64)
	}
	expect := r.all("expect")
	r.waits = len(expect) == 1 && strings.EqualFold(expect[0], "100-continue") && !r.old && r.length != 0
	if r.method == http.MethodConnect && r.length != 0 {
		return bad("CONNECT must not have a body")
	}
	return nil
}

// target parses the target of the request and checks that the Host header agrees with it.
func (r *request) target(text string) (err error) {
	usual := ""
	switch {
	case r.method == http.MethodConnect:
		if r.to, err = parseTarget(text, ""); err != nil {
			return err
		}
	case len(text) < 7 || !strings.EqualFold(text[:7], "http://"):
		return bad("the target is not a whole URL that begins with http://; https goes through CONNECT")
	case strings.EqualFold(r.method, "TRACE"), strings.EqualFold(r.method, "TRACK"):
		return refusal("%s would return data that other clients added", r.method)
	default:
		end := 7 + strings.IndexAny(text[7:]+"/", "/?#")
		usual = "80"
		if r.to, err = parseTarget(text[7:end], usual); err != nil {
			return err
		}
		if r.path = text[end:]; !strings.HasPrefix(r.path, "/") {
			r.path = "/" + r.path
		}
		if strings.Contains(r.path, "#") {
			return bad("the target has a fragment")
		}
		if _, err := url.ParseRequestURI(r.path); err != nil {
			return bad("the target's path is not valid: % must be followed by two hexadecimal digits")
		}
	}
	hosts := r.all("host")
	if len(hosts) > 1 {
		return bad("there are two Host headers")
	}
	if len(hosts) == 1 {
		if usual == "" {
			usual = strconv.Itoa(int(r.to.port)) // Some clients omit the port in Host when it is the usual one.
		}
		if host, err := parseTarget(hosts[0], usual); err != nil || host != r.to {
			return refusal("the Host header differs from the host of the target")
		}
	}
	return nil
}

// parseTarget parses a host and a port. When usual is empty, the port is required.
func parseTarget(text, usual string) (to target, err error) {
	host, port := text, usual
	if i := strings.LastIndexByte(text, ':'); i > strings.LastIndexByte(text, ']') {
		host, port = text[:i], text[i+1:]
	}
	inner, bracket := strings.CutPrefix(host, "[")
	if bracket {
		if inner, bracket = strings.CutSuffix(inner, "]"); !bracket || !strings.Contains(inner, ":") {
			return to, refusal("the host is neither a name nor an address")
		}
	} else if strings.Contains(host, ":") {
		return to, refusal("the host is neither a name nor an address")
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || port[0] == '+' {
		return to, refusal("the port of the target is not valid")
	}
	to.port = uint16(n)
	if to.host, to.plain, err = address.Host(inner); err != nil {
		return to, refusal("%v", err)
	}
	return to, nil
}
