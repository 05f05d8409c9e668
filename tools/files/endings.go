package files

import "strings"

// usesCRLF reports whether s has line ends and all of them are CRLF. The tools convert such a file to LF for an edit, and back to CRLF when
// they write it.
func usesCRLF(s string) bool {
	n := strings.Count(s, "\r\n")
	return n > 0 && n == strings.Count(s, "\n")
}

func toLF(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }

func toCRLF(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
