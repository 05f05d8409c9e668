package files

import "strings"

// usesCRLF reports whether every line of s ends in CRLF, and one does. Such a file is edited as if it ended its lines
// in LF and written back as it was: readers of lines see no difference.
func usesCRLF(s string) bool {
	n := strings.Count(s, "\r\n")
	return n > 0 && n == strings.Count(s, "\n")
}

func toLF(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }

func toCRLF(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
