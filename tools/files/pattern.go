package files

import (
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

const (
	patternLength = 1024
	// alternatives is the maximum number of patterns without braces to which a pattern may expand. The matcher tries all of them. For
	// example, {a,a} twenty times in a row expands to a million patterns and would take a second for each name.
	alternatives = 1000
)

// checkPattern returns an error for a glob that is invalid or expensive to match.
func checkPattern(field, pattern string) error {
	switch {
	case pattern == "" || len(pattern) > patternLength:
		return invalid(field, "", "must have 1 to %d characters", patternLength)
	case strings.ContainsRune(pattern, 0):
		return invalid(field, "", "contains a NUL byte, which file names cannot contain")
	case !doublestar.ValidatePattern(pattern):
		return invalid(field, "", "is not a valid glob: check its brackets and braces, and put \\ before those that are meant literally")
	case countAlternatives(pattern) > alternatives:
		return invalid(field, "", "has too many alternatives in braces (more than %d); use * or several calls", alternatives)
	}
	return nil
}

// countAlternatives returns an upper bound for the number of patterns without braces to which the pattern expands. When the bound exceeds
// the limit, the returned number may be any number above the limit.
func countAlternatives(pattern string) int {
	total := 1
	var open []int
	for i := 0; i < len(pattern) && total <= alternatives; i++ {
		switch pattern[i] {
		case '\\':
			i++
		case '{':
			open = append(open, 1)
		case ',':
			if n := len(open); n > 0 {
				open[n-1]++
			}
		case '}':
			if n := len(open); n > 0 {
				total *= open[n-1]
				open = open[:n-1]
			}
		}
	}
	return total
}

// literalPrefix splits a pattern into its leading folders without wildcards and the rest, so that a walk can start in the last of these
// folders.
func literalPrefix(pattern string) (dir, rest string) {
	dir, rest = ".", pattern
	for {
		part, after, more := strings.Cut(rest, "/")
		if !more || strings.ContainsAny(part, `*?[]{}\`) {
			return dir, rest
		}
		dir, rest = path.Join(dir, part), after
	}
}

// matches reports whether the pattern matches a path. name is relative to the folder where the pattern applies. With byName, a pattern
// without a slash is compared only with the last element of the path, as in .gitignore.
func matches(pattern, name string, byName bool) bool {
	if byName && !strings.Contains(pattern, "/") {
		name = path.Base(name)
	}
	ok, err := doublestar.Match(pattern, name)
	return ok && err == nil
}
