package daemon

import (
	"encoding/json"

	"github.com/toold-dev/toold/turn"
)

// removeNulls removes the nulls that strict mode added. Arguments whose schema or text does not parse stay as they are; validation reports
// them.
func removeNulls(parameters json.RawMessage, arguments string) (string, bool) {
	text, changed, err := turn.RemoveNulls(parameters, arguments)
	return text, changed && err == nil
}
