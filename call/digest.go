package call

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/toold-dev/toold/tool"
)

// Prefixes of the hashed bytes, so that digests of different kinds never collide.
const (
	requestDomain  = "toold.request.v1"
	approvalDomain = "toold.approval.v1"
)

// A Parsed is the result of parsing a request's arguments. Each request is parsed once.
type Parsed struct {
	Text  string
	Value any
	Err   error
	// Canonical is the canonical form of Value. It is empty when the text did not parse.
	Canonical string
}

// Parse parses the text of a request's arguments strictly. Empty text and null mean {}.
func Parse(text string) Parsed {
	p := Parsed{Text: text}
	if trimmed := strings.Trim(text, " \t\r\n"); trimmed == "" || trimmed == "null" {
		p.Value, p.Canonical = map[string]any{}, "{}"
		return p
	}
	parser := newParser(text, true)
	defer parser.done()
	p.Value, p.Err = parser.parse()
	switch {
	case p.Err != nil:
	case string(parser.form) == text:
		p.Canonical = text
	default:
		p.Canonical = string(parser.form)
	}
	return p
}

// RequestDigest returns the digest, in hex, of a request for a call. A repeated request has the same digest. It covers the tool id, the
// requested arguments, the caller, the user for whom the call acts, run and thread, and the declaration of a frontend tool. Arguments that
// are not valid JSON are covered by their bytes.
func RequestDigest(s *Spec, arguments Parsed, caller string) string {
	var buffer [digestCapacity]byte
	b := append(buffer[:0], requestDomain...)
	if arguments.Err != nil {
		b = append(b, 'x')
		b = append(b, arguments.Text...)
	} else {
		b = append(b, arguments.Canonical...)
	}
	for _, v := range [...]string{s.Tool, caller, s.OnBehalfOf, s.Run.ID, s.Run.Thread} {
		b = tool.AppendQuoted(append(b, ','), v)
	}
	if f := s.Declared(); f != nil {
		for _, text := range [...]string{f.Description, canonicalText(f.Parameters), canonicalText(f.ResponseSchema)} {
			b = tool.AppendQuoted(append(b, ','), text)
		}
	}
	return hexSum(b)
}

// digestCapacity is the size of a buffer on the stack, in bytes. It is enough for most requests; longer ones use the heap.
const digestCapacity = 1 << 10

// canonicalText returns the canonical form of JSON text, or the text itself when it does not parse.
func canonicalText(text json.RawMessage) string {
	v, err := ParseJSON(string(text), 0)
	if err != nil {
		return string(text)
	}
	return string(AppendCanonical(nil, v))
}

// An Approval has the facts that an approver approves.
type Approval struct {
	Namespace, CallID, SuspensionID string
	Caller, OnBehalfOf              string
	Tool, ToolDigest                string
	Arguments                       tool.Arguments
	ResumeMode                      tool.ResumeMode
	Isolation, Network              string // the required isolation and network access
	ExpiresAt                       time.Time
	Message                         string
	Parameters, ResponseSchema      json.RawMessage
}

// Digest returns the approval digest in hex: SHA-256 over the domain "toold.approval.v1" and the canonical form of the fields.
// testdata/digests.json has test vectors for other languages.
func (a *Approval) Digest() string {
	arguments := a.Arguments.Value() // Use the value, because the text of the arguments may not be canonical.
	b := make([]byte, 0, len(approvalDomain)+len(a.Arguments.Text())+1024)
	b = append(b, approvalDomain...)
	b = appendCanonicalObject(append(b, `{"arguments":`...), arguments)
	for _, m := range [...]struct{ name, value string }{ // in the order of the names
		{"call_id", a.CallID},
		{"caller", a.Caller},
		{"expires_at", FormatTime(a.ExpiresAt)},
		{"message_sha256", hexSum([]byte(a.Message))},
		{"namespace", a.Namespace},
		{"on_behalf_of", a.OnBehalfOf},
		{"parameters_sha256", hexSum(a.Parameters)},
		{"required_isolation", a.Isolation},
		{"required_network", a.Network},
		{"response_schema_sha256", hexSum(a.ResponseSchema)},
		{"resume_mode", string(a.ResumeMode)},
		{"suspension_id", a.SuspensionID},
		{"tool", a.Tool},
		{"tool_digest", a.ToolDigest},
	} {
		b = append(append(append(b, `,"`...), m.name...), `":`...)
		b = tool.AppendQuoted(b, m.value)
	}
	return hexSum(append(b, '}'))
}

// FormatTime formats a time for digests: UTC, RFC 3339, always with six decimals.
func FormatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	var digits [2 * sha256.Size]byte
	hex.Encode(digits[:], sum[:])
	return string(digits[:])
}
