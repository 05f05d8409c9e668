package redact

import "bytes"

// A token is the shape of a well-known secret: its beginning, and the bytes that may follow.
type token struct {
	name   string
	anchor string // text with which it begins
	least  int    // minimum number of bytes after the anchor
	run    *[256]bool
	// anywhere says that the token may begin in the middle of a word.
	anywhere bool
	// probe is used instead of least. It returns the length of the beginning that identifies the token, or 0 when b is not such a token.
	// more reports that more bytes are needed to decide.
	probe func(b []byte) (n int, more bool)
	pem   bool // the token ends with an END line
}

// A credential is recognized by the text before it, such as a header name. That text is kept.
type credential struct {
	name      string
	before    string // text before the credential, in lower case
	separator string // allowed separator bytes; one to eight of them follow that text
	least     int
	run       *[256]bool
}

func bytesOf(ranges ...string) *[256]bool {
	var set [256]bool
	for _, r := range ranges {
		if len(r) == 3 && r[1] == '-' {
			for b := r[0]; b <= r[2]; b++ {
				set[b] = true
			}
			continue
		}
		for i := range len(r) {
			set[r[i]] = true
		}
	}
	return &set
}

var (
	upper     = bytesOf("A-Z", "0-9")
	letters   = bytesOf("A-Z", "a-z", "0-9")
	wordly    = bytesOf("A-Z", "a-z", "0-9", "_")
	dashed    = bytesOf("A-Z", "a-z", "0-9", "_-")
	dotted    = bytesOf("A-Z", "a-z", "0-9", "-_.")
	token68   = bytesOf("A-Z", "a-z", "0-9", "_.~+/=-")
	pathlike  = bytesOf("A-Z", "a-z", "0-9", "/")
	pemBody   = bytesOf("A-Z", "a-z", "0-9", "+/=-:,\\ \t\r\n")
	separator = bytesOf(" \t\"'=:")
	pemLabel  = bytesOf("A-Z", "0-9", " ")
	dash      = bytesOf("-")
)

// tokens are tried in this order. When one anchor is a prefix of another, the longer anchor comes first.
var tokens = []token{
	{name: "aws", anchor: "AKIA", least: 16, run: upper}, {name: "aws", anchor: "ASIA", least: 16, run: upper},
	{name: "github", anchor: "github_pat_", least: 22, run: wordly},
	{name: "github", anchor: "ghp_", least: 30, run: letters}, {name: "github", anchor: "gho_", least: 30, run: letters},
	{name: "github", anchor: "ghu_", least: 30, run: letters}, {name: "github", anchor: "ghs_", least: 30, run: letters},
	{name: "github", anchor: "ghr_", least: 30, run: letters},
	{name: "gitlab", anchor: "glpat-", least: 20, run: dashed},
	{name: "slack", anchor: "xoxb-", least: 10, run: dashed}, {name: "slack", anchor: "xoxa-", least: 10, run: dashed},
	{name: "slack", anchor: "xoxp-", least: 10, run: dashed}, {name: "slack", anchor: "xoxr-", least: 10, run: dashed},
	{name: "slack", anchor: "xoxs-", least: 10, run: dashed}, {name: "slack", anchor: "xoxe-", least: 10, run: dashed},
	{name: "slack", anchor: "xapp-", least: 10, run: dashed},
	{name: "slack", anchor: "https://hooks.slack.com/services/", least: 20, run: pathlike},
	{name: "anthropic", anchor: "sk-ant-", least: 20, run: dashed},
	{name: "openai", anchor: "sk-", least: 32, run: dashed},
	{name: "google", anchor: "AIza", least: 30, run: dashed},
	{name: "stripe", anchor: "sk_live_", least: 16, run: letters}, {name: "stripe", anchor: "sk_test_", least: 16, run: letters},
	{name: "stripe", anchor: "rk_live_", least: 16, run: letters}, {name: "stripe", anchor: "rk_test_", least: 16, run: letters},
	{name: "npm", anchor: "npm_", least: 30, run: letters}, {name: "pypi", anchor: "pypi-", least: 50, run: dashed},
	{name: "huggingface", anchor: "hf_", least: 30, run: letters},
	{name: "toold", anchor: "toold_token_", least: 40, run: dashed}, {name: "toold", anchor: "toold_session_", least: 40, run: dashed},
	{name: "toold", anchor: "toold_login_", least: 40, run: dashed},
	{name: "jwt", anchor: "eyJ", run: dotted, probe: probeJWT},
	{name: "private-key", anchor: "-----BEGIN ", run: pemBody, anywhere: true, probe: probePEM, pem: true},
}

var credentials = []credential{
	{name: "bearer", before: "bearer", separator: " ", least: 16, run: token68},
	{name: "basic", before: "authorization: basic", separator: " ", least: 4, run: token68},
	{name: "basic", before: `authorization":"basic`, separator: " ", least: 4, run: token68},
	{name: "basic", before: `authorization": "basic`, separator: " ", least: 4, run: token68},
	{name: "aws", before: "aws_secret_access_key", separator: " \t\"'=:", least: 30, run: token68},
}

// behind is the number of bytes before a credential that the scanner keeps, to find the text before the credential.
const behind = 32

// tokensByFirst contains the tokens by the first byte of their anchors.
var tokensByFirst = func() (table [256][]*token) {
	for i := range tokens {
		t := &tokens[i]
		table[t.anchor[0]] = append(table[t.anchor[0]], t)
	}
	return table
}()

// match returns the length of the bytes at the beginning of b that identify a token of this shape, or 0. more says that b is too short to
// decide.
func (t *token) match(b []byte) (n int, more bool) {
	if len(b) < len(t.anchor) {
		return 0, string(b) == t.anchor[:len(b)]
	}
	if string(b[:len(t.anchor)]) != t.anchor {
		return 0, false
	}
	if t.probe != nil {
		return t.probe(b)
	}
	n = span(b[len(t.anchor):], t.run, t.least)
	return enough(len(t.anchor)+n, len(b), n, t.least)
}

// enough decides whether n consecutive bytes are enough for a token that needs at least least. They end at the index end of a text with
// size bytes. enough returns end when n is large enough, and 0 otherwise. The second result reports that the token may continue after the
// text.
func enough(end, size, n, least int) (int, bool) {
	switch {
	case n >= least:
		return end, false
	case end == size:
		return 0, true
	}
	return 0, false
}

// span counts the bytes of a set at the beginning of b, up to most.
func span(b []byte, set *[256]bool, most int) int {
	for i := range min(len(b), most) {
		if !set[b[i]] {
			return i
		}
	}
	return min(len(b), most)
}

// maxHeader is the longest header of a JSON Web Token that is recognized, in bytes.
const maxHeader = 1024

// probeJWT recognizes a header, a dot, and the beginning of a JSON object.
func probeJWT(b []byte) (int, bool) {
	header := span(b, dashed, maxHeader)
	switch {
	case header == len(b) && header < maxHeader:
		return 0, true
	case header < 10 || header == maxHeader || b[header] != '.':
		return 0, false
	}
	rest := b[header+1:]
	if len(rest) < 3 {
		return 0, string(rest) == "eyJ"[:len(rest)]
	}
	if string(rest[:3]) != "eyJ" {
		return 0, false
	}
	return header + 4, false
}

// probePEM recognizes the BEGIN line of a private key.
func probePEM(b []byte) (int, bool) {
	const begin, key = len("-----BEGIN "), "PRIVATE KEY"
	n := span(b[begin:], pemLabel, 64)
	if begin+n == len(b) && n < 64 {
		return 0, true
	}
	if !bytes.Contains(b[begin:begin+n], []byte(key)) {
		return 0, false
	}
	dashes := span(b[begin+n:], dash, 5)
	return enough(begin+n+dashes, len(b), dashes, 5)
}

// maxSeparator is the largest number of separator bytes between a credential and the text before it.
const maxSeparator = 8

// nameEnds contains the possible last bytes of the text before a credential.
var nameEnds = bytesOf("rRcCyY")

// followsName is a fast test. It returns false only when b surely does not end with the text before a credential and its separator.
func followsName(b []byte) bool {
	i := len(b) - 1
	for i > 0 && len(b)-i < maxSeparator && separator[b[i]] {
		i--
	}
	return nameEnds[b[i]]
}

// precedes reports whether b ends with c.before and a separator.
func (c *credential) precedes(b []byte) bool {
	from := len(b)
	for from > 0 && len(b)-from < maxSeparator && bytes.IndexByte([]byte(c.separator), b[from-1]) >= 0 {
		from--
	}
	if from == len(b) || from < len(c.before) {
		return false
	}
	for i := len(c.before) - 1; i >= 0; i-- {
		if lower(b[from-len(c.before)+i]) != c.before[i] {
			return false
		}
	}
	return true
}

func lower(b byte) byte {
	if b >= 'A' && b <= 'Z' {
		return b + 'a' - 'A'
	}
	return b
}

// A pemEnd finds the END line of a private key.
type pemEnd struct {
	dashes, word int
	inLine       bool
}

const pemLimit = 64 << 10

// over reports whether the key ends with this byte.
func (p *pemEnd) over(b byte) bool {
	const word = "END "
	switch {
	case b == '-':
		p.dashes, p.word = min(p.dashes+1, 5), 0
		return p.inLine && p.dashes == 5
	case !p.inLine && p.dashes == 5 && b == word[p.word]:
		if p.word++; p.word == len(word) {
			p.inLine, p.dashes, p.word = true, 0, 0
		}
	default:
		p.dashes, p.word = 0, 0
	}
	return false
}
