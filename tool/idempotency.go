package tool

import (
	"crypto/sha256"
	"encoding/hex"
)

// IdempotencyKey returns a key that is the same for all attempts of a call with the same arguments. When a decision edits the arguments,
// the key changes. It is the SHA-256, in hex, of the canonical form of [namespace, id, arguments].
func (c *Call) IdempotencyKey() string {
	b := AppendQuoted([]byte{'['}, c.Namespace)
	b = AppendQuoted(append(b, ','), c.ID)
	b = append(append(b, ','), c.Arguments.Text()...)
	sum := sha256.Sum256(append(b, ']'))
	return hex.EncodeToString(sum[:])
}

// AppendQuoted appends a string in canonical form. It uses the escapes of RFC 8785. All other bytes stay unchanged, even invalid UTF-8.
func AppendQuoted(dst []byte, s string) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0 // dst already contains s[:from]
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, `\b`...)
		case '\t':
			dst = append(dst, `\t`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\f':
			dst = append(dst, `\f`...)
		case '\r':
			dst = append(dst, `\r`...)
		default:
			dst = append(dst, `\u00`...)
			dst = append(dst, digits[c>>4], digits[c&0xf])
		}
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}
