package toold

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// ErrDigest means that the digest of a ticket does not match the call that contains it. A client must not answer such a ticket.
var ErrDigest = errors.New("the digest does not match the call")

// Verify recomputes the digest of a call's open ticket from the fields of the call, and returns [ErrDigest] when they differ.
func Verify(c *tooldv1.Call) error {
	digest, err := Digest(c)
	if err == nil && digest != c.GetSuspension().GetDigest() {
		err = fmt.Errorf("call %s: %w", c.GetCallId(), ErrDigest)
	}
	return err
}

// Digest computes the approval digest of the call's open ticket, in hexadecimal.
func Digest(c *tooldv1.Call) (string, error) {
	arguments, err := Canonical(c.GetEffectiveArguments())
	if err != nil {
		return "", err
	}
	s := c.GetSuspension()
	fields := map[string]string{
		"namespace": c.GetNamespace(), "call_id": c.GetCallId(), "suspension_id": s.GetSuspensionId(), "caller": c.GetCaller().GetSubject(),
		"on_behalf_of": c.GetRun().GetOnBehalfOf(), "tool": c.GetTool(), "tool_digest": c.GetToolDigest(),
		"resume_mode":        strings.TrimPrefix(s.GetResumeMode().String(), "RESUME_MODE_"),
		"required_isolation": strings.ToLower(strings.TrimPrefix(c.GetIsolation().GetRequired().String(), "ISOLATION_LEVEL_")),
		"required_network":   strings.ToLower(strings.TrimPrefix(c.GetIsolation().GetNetwork().String(), "NETWORK_MODE_")),
		"expires_at":         s.GetExpiresAt().AsTime().UTC().Format("2006-01-02T15:04:05.000000Z"),
		"message_sha256":     sum(s.GetMessage()), "parameters_sha256": sum(s.GetParameters()), "response_schema_sha256": sum(s.GetResponseSchema()),
	}
	b := []byte(`toold.approval.v1{"arguments":` + arguments)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		b = appendQuoted(append(appendQuoted(append(b, ','), name), ':'), fields[name])
	}
	return sum(string(append(b, '}'))), nil
}

func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

// Canonical returns JSON text in canonical form v1: no white space, members sorted by the UTF-8 bytes of their names, RFC 8785 escapes,
// number tokens unchanged.
func Canonical(text string) (string, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return "", err
	}
	if d.More() {
		return "", errors.New("more than one JSON value")
	}
	return string(appendCanonical(nil, v)), nil
}

func appendCanonical(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return fmt.Append(b, v)
	case json.Number:
		return append(b, v...)
	case string:
		return appendQuoted(b, v)
	case []any:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendCanonical(b, item)
		}
		return append(b, ']')
	}
	members := v.(map[string]any) // all other types are handled above
	b = append(b, '{')
	for i, name := range slices.Sorted(maps.Keys(members)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendCanonical(append(appendQuoted(b, name), ':'), members[name])
	}
	return append(b, '}')
}

func appendQuoted(b []byte, s string) []byte {
	var text bytes.Buffer
	for _, c := range []byte(s) {
		if i := strings.IndexByte("\"\\\b\t\n\f\r", c); i >= 0 {
			text.WriteByte('\\')
			text.WriteByte(`"\btnfr`[i])
		} else if c < ' ' {
			fmt.Fprintf(&text, `\u%04x`, c)
		} else {
			text.WriteByte(c)
		}
	}
	return append(append(append(b, '"'), text.Bytes()...), '"')
}
