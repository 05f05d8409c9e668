package turn

import (
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/toold-dev/toold/call"
)

// A node is a value in a JSON text that [call.ParseJSON] has accepted. Unlike a decoded value, it gives access to the original bytes. The
// zero node and a JSON null both count as absent.
type node struct {
	text     string // the whole text
	from, to int
	at       string // path of the value in the text, for errors
}

// parseMessage parses the message of a request.
func parseMessage(text string) (node, error) {
	if _, err := call.ParseJSON(text, 0); err != nil {
		return node{}, call.InvalidField("message", "%v", err)
	}
	n := rootOf(text)
	n.at = "message"
	return n, nil
}

// rootOf returns the value of a valid text.
func rootOf(text string) node {
	from := skipSpace(text, 0)
	return node{text: text, from: from, to: skipValue(text, from)}
}

// kind returns the first byte of the value, or 0 for an absent value.
func (n node) kind() byte {
	if n.from == n.to || n.text[n.from] == 'n' {
		return 0
	}
	return n.text[n.from]
}

func (n node) absent() bool { return n.kind() == 0 }

// raw returns the bytes of the value, or "" for an absent value.
func (n node) raw() string {
	if n.absent() {
		return ""
	}
	return n.text[n.from:n.to]
}

// refuse returns a refusal of the request that names this value as the reason.
func (n node) refuse(format string, args ...any) error {
	return call.InvalidField(n.at, format, args...)
}

// members returns the members of an object, without their paths. Other values have none.
func (n node) members() iter.Seq2[member, node] {
	return func(yield func(member, node) bool) {
		if n.kind() != '{' {
			return
		}
		for i := skipSpace(n.text, n.from+1); n.text[i] != '}'; {
			m := member{from: i}
			end := skipValue(n.text, i)
			m.name = unquote(n.text[i:end])
			from := skipSpace(n.text, skipSpace(n.text, end)+1) // after the colon
			m.to = skipValue(n.text, from)
			if !yield(m, node{text: n.text, from: from, to: m.to}) {
				return
			}
			if i = skipSpace(n.text, m.to); n.text[i] == ',' {
				i = skipSpace(n.text, i+1)
			}
		}
	}
}

// A member describes one member of a JSON object: its name, and the range in the text that contains the name and the value.
type member struct {
	name     string
	from, to int
}

// items returns the elements of an array. Other values have none.
func (n node) items() iter.Seq[node] {
	return func(yield func(node) bool) {
		if n.kind() != '[' {
			return
		}
		for i, k := skipSpace(n.text, n.from+1), 0; n.text[i] != ']'; k++ {
			to := skipValue(n.text, i)
			if !yield(node{n.text, i, to, n.at + "[" + strconv.Itoa(k) + "]"}) {
				return
			}
			if i = skipSpace(n.text, to); n.text[i] == ',' {
				i = skipSpace(n.text, i+1)
			}
		}
	}
}

// get returns the member with this name. Names are compared byte by byte.
func (n node) get(name string) node {
	for m, v := range n.members() {
		if m.name == name {
			v.at = n.at + "." + name
			return v
		}
	}
	return node{at: n.at + "." + name}
}

// str returns the string, and "" for any other value.
func (n node) str() string {
	if n.kind() != '"' {
		return ""
	}
	return unquote(n.raw())
}

// mustString returns the string, or a refusal of any other value.
func (n node) mustString() (string, error) {
	if n.kind() != '"' {
		return "", n.refuse("must be a string")
	}
	return n.str(), nil
}

// texts returns the members with these names, which must be strings.
func (n node) texts(names ...string) ([]string, error) {
	out := make([]string, len(names))
	for i, name := range names {
		var err error
		if out[i], err = n.get(name).mustString(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (n node) must(kind byte) error {
	if n.kind() == kind {
		return nil
	}
	return n.refuse("must be %s", map[byte]string{'{': "an object", '[': "a list"}[kind])
}

// assistant refuses a message that is not an assistant message.
func (n node) assistant(role string) error {
	if err := n.must('{'); err != nil {
		return err
	}
	if got := n.get("role"); got.str() != role {
		return got.refuse("must be %q, because a turn is a response of a model", role)
	}
	return nil
}

// forged refuses a part that contains results, because results come only from toold.
func (n node) forged() error {
	return n.refuse("is a result; a response of a model has calls only, and the answer of this turn has their results")
}

// unquote returns the value of a valid string token.
func unquote(token string) string {
	if inner := token[1 : len(token)-1]; strings.IndexByte(inner, '\\') < 0 {
		return inner
	}
	v, err := call.ParseJSON(token, 0)
	s, ok := v.(string)
	if err != nil || !ok {
		panic(fmt.Sprintf("turn: %q was parsed before and is no string: %v", token, err))
	}
	return s
}

func skipSpace(text string, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\n' || text[i] == '\r') {
		i++
	}
	return i
}

// skipValue returns the end of the value that begins at i in a valid text.
func skipValue(text string, i int) int {
	depth := 0
	for i < len(text) {
		switch c := text[i]; c {
		case '"':
			i = skipString(text, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\t', '\n', '\r':
			i++
		default:
			i = skipToken(text, i)
		}
		if depth == 0 {
			break
		}
	}
	return i
}

func skipString(text string, i int) int {
	for i++; text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// skipToken skips a number, true, false or null.
func skipToken(text string, i int) int {
	for i < len(text) && !strings.ContainsRune(",:]} \t\n\r", rune(text[i])) {
		i++
	}
	return i
}

// quoted quotes a text of a client for an error, and shortens it.
func quoted(s string) string {
	if len(s) > 80 {
		s = strings.ToValidUTF8(s[:80], "") + "…"
	}
	return strconv.Quote(s)
}
