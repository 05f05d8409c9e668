package permission

import "bytes"

// The most that is handed to the YAML library. It recurses without a bound, and a goroutine whose stack is full ends the
// daemon: no recover helps. Its check for keys that are there twice takes time with the square of their number.
const (
	maxFile    = 256 << 10
	maxRules   = 1000
	maxText    = 500 // bytes of a name or reason
	maxNesting = 64
	maxColons  = 12_000
)

// bound refuses a file that the library should not see. It does not know quotes and comments, which is why the limits
// are far above what a rule file needs.
func bound(file []byte) *ParseError {
	if len(file) > maxFile {
		return &ParseError{Line: 1, Column: 1, Reason: "has more than 256 KiB"}
	}
	var brackets, colons int
	for number, line := range bytes.Split(file, []byte("\n")) {
		var indicators int // that open a block inside a block on one line, as in "- - -"
		for i, c := range line {
			switch c {
			case '[', '{':
				brackets++
			case ']', '}':
				brackets = max(brackets-1, 0)
			case ':':
				colons++
			case '-', '?', '&', '!', '*':
				indicators++
			}
			switch {
			case brackets > maxNesting, indicators > 4*maxNesting:
				return &ParseError{Line: number + 1, Column: i + 1, Reason: "is nested too deep"}
			case colons > maxColons:
				return &ParseError{Line: number + 1, Column: i + 1, Reason: "has too many keys"}
			}
		}
	}
	return nil
}
