package daemon

import (
	"encoding/json"

	"github.com/toold-dev/toold/turn"
)

// removeNulls removes the nulls that strict mode added. When the schema or the arguments do not parse, it returns the arguments unchanged,
// and the validation reports the error.
func removeNulls(parameters json.RawMessage, arguments string) (string, bool) {
	text, changed, err := turn.RemoveNulls(parameters, arguments)
	return text, changed && err == nil
}
