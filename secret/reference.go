package secret

import (
	"fmt"
	"strings"
)

// Scheme is the beginning of every reference.
const Scheme = "secret://"

const maxName = 64

// ValidName reports whether name is a valid name of a secret.
func ValidName(name string) bool {
	return name != "" && len(name) <= maxName && nameLength(name) == len(name)
}

// nameLength returns the length in bytes of the secret name at the beginning of a text.
func nameLength(text string) int {
	for i := range len(text) {
		c := text[i]
		isWord := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !isWord && (i == 0 || c != '-' && c != '_') {
			return i
		}
	}
	return len(text)
}

// References returns the names to which an operator's text refers, without duplicates. A reference ends at the first character that cannot
// be part of a name. For example, "Bearer secret://token" and "postgres://app:secret://db@host/data" contain one reference each.
func References(text string) ([]string, error) {
	var names []string
	seen := map[string]bool{}
	_, err := expand(text, func(name string) (string, error) {
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
		return "", nil
	})
	return names, err
}

func expand(text string, value func(name string) (string, error)) (string, error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, Scheme)
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		n := nameLength(rest)
		if !ValidName(rest[:n]) {
			return "", fmt.Errorf("%s must be followed by the name of a secret (at most %d letters, digits, - and _)", Scheme, maxName)
		}
		v, err := value(rest[:n])
		if err != nil {
			return "", err
		}
		out.WriteString(v)
		text = rest[n:]
	}
}
