package permission

import "bytes"

// Limits of the text that is passed to the YAML library. The library recurses without a limit, and a stack overflow ends the daemon despite
// recover. Also, its check for duplicate keys takes quadratic time.
const (
	maxFile    = 256 << 10
	maxRules   = 1000
	maxText    = 500 // bytes of a name or reason
	maxNesting = 64
	maxColons  = 12_000
)

// bound refuses a file that the library could not parse safely. It counts quoted text and comments like other text, so its limits are far
// above the needs of a rule file.
func bound(file []byte) *ParseError {
	if len(file) > maxFile {
		return &ParseError{Line: 1, Column: 1, Reason: "has more than 256 KiB"}
	}
	var brackets, colons int
	for number, line := range bytes.Split(file, []byte("\n")) {
		var indicators int // number of markers on one line that open a block in a block, as in "- - -"
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
