package command

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// json returns a node as JSON text. Strings, numbers, booleans and null keep their YAML type. The digits of a number stay as they are in
// the file.
func (r *reader) json(n *yaml.Node, path string, depth int) json.RawMessage {
	if depth > maxNesting {
		r.complain(positionOf(n), "%sis nested more than %d levels deep", prefixed(path), maxNesting)
		return nil
	}
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		r.complain(positionOf(n), "%sanchors and aliases are not supported: write the value in full", prefixed(path))
		return nil
	}
	r.at[path] = positionOf(n)
	switch n.Kind {
	case yaml.MappingNode:
		var members []string
		r.members(n, path, func(key, value *yaml.Node, below string) {
			members = append(members, quoted(key.Value)+":"+string(r.json(value, below, depth+1)))
		})
		return json.RawMessage("{" + strings.Join(members, ",") + "}")
	case yaml.SequenceNode:
		elements := make([]string, len(n.Content))
		for i, e := range n.Content {
			elements[i] = string(r.json(e, fmt.Sprintf("%s[%d]", path, i), depth+1))
		}
		return json.RawMessage("[" + strings.Join(elements, ",") + "]")
	}
	switch n.Tag {
	case "!!null":
		return json.RawMessage("null")
	case "!!bool":
		return json.RawMessage(strconv.FormatBool(strings.EqualFold(n.Value, "true")))
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			return json.RawMessage(n.Value)
		}
		var f float64
		if n.Decode(&f) == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
			return json.RawMessage(strconv.FormatFloat(f, 'f', -1, 64))
		}
		r.complain(positionOf(n), "%s%s is not a JSON number", prefixed(path), n.Value)
		return json.RawMessage("null")
	}
	return json.RawMessage(quoted(n.Value))
}

func quoted(s string) string {
	b, _ := json.Marshal(s) // Marshal cannot fail for a string.
	return string(b)
}
