package typed

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/toold-dev/toold/tool"
)

// Args returns arguments for the test of a tool. It makes them from a struct or a map with encoding/json, and panics when v is not a JSON
// object. In a daemon, a strict parser makes the arguments from the model's text.
func Args(v any) tool.Arguments {
	b, err := json.Marshal(v)
	if err != nil {
		panic("typed: " + err.Error())
	}
	dec := json.NewDecoder(strings.NewReader(string(b)))
	dec.UseNumber()
	var value map[string]any
	if err := dec.Decode(&value); err != nil || value == nil {
		panic(fmt.Sprintf("typed: arguments must be a JSON object, not %s", b))
	}
	return tool.NewArguments(string(b), value)
}
