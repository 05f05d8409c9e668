package call

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/toold-dev/toold/tool"
)

// The first bytes of what is hashed keep digests of different things apart.
const (
	requestDomain  = "toold.request.v1"
	approvalDomain = "toold.approval.v1"
)

// A Parsed is the outcome of the one parse that a request's arguments get.
type Parsed struct {
	Text  string
	Value any
	Err   error
	// Canonical is the canonical form of Value; nil when the text did not parse.
	Canonical []byte
}

// Parse parses the text of a request's arguments strictly. Empty text and null mean {}.
func Parse(text string) Parsed {
	p := Parsed{Text: text}
	if trimmed := strings.Trim(text, " \t\r\n"); trimmed == "" || trimmed == "null" {
		p.Value = map[string]any{}
	} else {
		p.Value, p.Err = ParseJSON(text, 0)
	}
	if p.Err == nil {
		p.Canonical = AppendCanonical(make([]byte, 0, len(text)), p.Value)
	}
	return p
}

// RequestDigest returns the digest, in hex, of what makes two requests with one call id the same: tool id, requested
// arguments, caller (and for whom it acts), run and thread, and the declaration of a frontend tool. Arguments that do not parse count by their bytes.
func RequestDigest(s *Spec, arguments Parsed, caller string) string {
	b := make([]byte, 0, len(requestDomain)+len(arguments.Text)+256)
	b = append(b, requestDomain...)
	if arguments.Err != nil {
		b = append(b, 'x')
		b = append(b, arguments.Text...)
	} else {
		b = append(b, arguments.Canonical...)
	}
	for _, v := range [...]string{s.Tool, caller, s.OnBehalfOf, s.Run.ID, s.Run.Thread} {
		b = AppendCanonical(append(b, ','), v)
	}
	if f := s.Declared(); f != nil {
		for _, text := range [...]string{f.Description, canonicalText(f.Parameters), canonicalText(f.ResponseSchema)} {
			b = AppendCanonical(append(b, ','), text)
		}
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// canonicalText is the canonical form of JSON text; text that does not parse is its own.
func canonicalText(text json.RawMessage) string {
	v, err := ParseJSON(string(text), 0)
	if err != nil {
		return string(text)
	}
	return string(AppendCanonical(nil, v))
}

// An Approval is what a yes is given for.
type Approval struct {
	Namespace, CallID, SuspensionID string
	Caller, OnBehalfOf              string
	Tool, ToolDigest                string
	Arguments                       tool.Arguments
	ResumeMode                      tool.ResumeMode
	Isolation, Network              string // as required
	ExpiresAt                       time.Time
	Message                         string
	Parameters, ResponseSchema      json.RawMessage
}

// Digest returns the approval digest, in hex: SHA-256 over the domain "toold.approval.v1" and the canonical form of its
// fields. testdata/digests.json holds test vectors for other languages.
func (a *Approval) Digest() string {
	return digest(approvalDomain, map[string]any{
		"namespace": a.Namespace, "call_id": a.CallID, "suspension_id": a.SuspensionID,
		"caller": a.Caller, "on_behalf_of": a.OnBehalfOf,
		"tool": a.Tool, "tool_digest": a.ToolDigest, "arguments": a.Arguments.Value(),
		"resume_mode": string(a.ResumeMode), "required_isolation": a.Isolation, "required_network": a.Network,
		"expires_at":             FormatTime(a.ExpiresAt),
		"message_sha256":         hexSum(a.Message),
		"parameters_sha256":      hexSum(string(a.Parameters)),
		"response_schema_sha256": hexSum(string(a.ResponseSchema)),
	})
}

// FormatTime returns the form of a time in digests: UTC, RFC 3339, always six decimals.
func FormatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }

// IdempotencyKey returns the key that is equal over the attempts of a call with the same effective arguments: SHA-256, in
// hex, of the canonical form of [namespace, id, arguments]. effective is canonical already.
func IdempotencyKey(namespace, id, effective string) string {
	b := make([]byte, 0, len(namespace)+len(id)+len(effective)+16) // the canonical form of the three in an array
	b = appendCanonicalString(append(b, '['), namespace)
	b = appendCanonicalString(append(b, ','), id)
	b = append(append(b, ','), effective...)
	sum := sha256.Sum256(append(b, ']'))
	return hex.EncodeToString(sum[:])
}

func digest(domain string, v any) string {
	sum := sha256.Sum256(AppendCanonical([]byte(domain), v))
	return hex.EncodeToString(sum[:])
}

func hexSum(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
