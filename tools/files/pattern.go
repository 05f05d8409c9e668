package files

import (
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

const (
	patternLength = 1024
	// alternatives is how many ways the braces of a pattern may be read. The matcher tries all of them, {a,a} twenty times
	// over would keep it busy for a second a name.
	alternatives = 1000
)

// checkPattern refuses what is no glob, or one that is dear to match.
func checkPattern(field, pattern string) error {
	switch {
	case pattern == "" || len(pattern) > patternLength:
		return invalid(field, "", "must have 1 to %d characters", patternLength)
	case strings.ContainsRune(pattern, 0):
		return invalid(field, "", "holds a NUL byte, which no file name does")
	case !doublestar.ValidatePattern(pattern):
		return invalid(field, "", "is not a valid glob: check its brackets and braces, and put \\ before those that are meant as they are")
	case countAlternatives(pattern) > alternatives:
		return invalid(field, "", "has too many alternatives in braces (more than %d); use * or several calls", alternatives)
	}
	return nil
}

// countAlternatives returns an upper bound of how many patterns without braces the pattern expands to, or something
// above the limit.
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

// literalPrefix splits off the folders that a pattern names without magic, so that only these are walked.
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

// matches reports whether a file at this path, relative to where the pattern starts, is meant. A pattern without a slash
// means the name alone when byName is set, as in .gitignore.
func matches(pattern, name string, byName bool) bool {
	if byName && !strings.Contains(pattern, "/") {
		name = path.Base(name)
	}
	ok, err := doublestar.Match(pattern, name)
	return ok && err == nil
}
