package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// IdempotencyKey is equal over the attempts of a call with the same arguments and new after an edit: SHA-256, in hex, of the
// canonical form of [namespace, id, arguments].
func (c *Call) IdempotencyKey() string {
	b := appendQuoted([]byte{'['}, c.Namespace)
	b = appendQuoted(append(b, ','), c.ID)
	b = append(append(b, ','), c.Arguments.Text()...)
	sum := sha256.Sum256(append(b, ']'))
	return hex.EncodeToString(sum[:])
}

// appendQuoted appends the canonical form of a string.
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		c := s[i]
		short := strings.IndexByte("\b\t\n\f\r\"\\", c)
		switch {
		case short >= 0:
			b = append(b, '\\', `btnfr"\`[short])
		case c < ' ':
			b = fmt.Appendf(b, `\u%04x`, c)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
