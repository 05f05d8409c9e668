package export_test

import (
	"encoding/json"
	"strings"

	"github.com/toold-dev/toold/tool"
)

// hostile returns tools that providers would refuse without the export, because of their names or schemas.
func hostile() []*tool.Descriptor {
	var out []*tool.Descriptor
	for _, h := range []struct{ id, parameters string }{
		{"fs.read/file", `{"type":"object","properties":{"path":{"type":"string","minLength":1}},"required":["path"]}`},
		{"fs_read_file", `{"type":"object","properties":{"path":{"type":"string","format":"uri","pattern":"^(?!/etc)"}},"required":["path"]}`},
		{"fs:read:file", `{}`},
		{"чтение", `{"type":"object","properties":{"путь":{"type":"string"}}}`},
		{"工具", `{"type":"object","properties":{"路径":{"type":"string"}},"required":["路径"]}`},
		{"9lives", `{"type":"object","properties":{"a b":{"type":"string"},"ok":{"type":"boolean"}}}`},
		{"-dash-", `{"type":"object","additionalProperties":{"type":"integer"}}`},
		{strings.Repeat("long_name_", 20), `{"type":"object","properties":{}}`},
		{strings.Repeat("long_name_", 20) + "2", `{"type":"object","properties":{},"additionalProperties":false}`},
		{"recursive", `{"type":"object","properties":{"tree":{"$ref":"#/$defs/node"}},"required":["tree"],
			"$defs":{"node":{"type":"object","properties":{"value":{"type":"integer"},"children":{"type":"array","items":{"$ref":"#/$defs/node"}}},"required":["value"]}}}`},
		{"mutual", `{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"},{"type":"null"}]},"b":{"type":"array","items":{"$ref":"#/$defs/a"}}}}`},
		{"selfish", `{"type":"object","properties":{"again":{"$ref":"#"}}}`},
		{"fork", forks(3)},
		{"defs", `{"type":"object","properties":{"to":{"$ref":"#/definitions/address","description":"Where it goes."},"by":{"$ref":"#who"},"far":{"$ref":"https://example.com/s.json"},"odd":{"$ref":"#/$defs/a~1b%20c"}},
			"definitions":{"address":{"type":"object","description":"An address.","properties":{"street":{"type":"string"},"zip":{"type":["string","null"]}},"required":["street"]}},
			"$defs":{"p":{"$anchor":"who","type":"string","enum":["me","you"]},"a/b c":{"type":"number"}}}`},
		{"root_any", `{"type":"object","properties":{"dry":{"type":"boolean"}},"oneOf":[
			{"properties":{"action":{"const":"open"},"path":{"type":"string"}},"required":["action","path"]},
			{"properties":{"action":{"const":"close"},"id":{"type":"integer"}},"required":["action","id"]}]}`},
		{"root_all", `{"allOf":[{"type":"object","properties":{"a":{"type":"integer","minimum":1}},"required":["a"]},{"properties":{"a":{"maximum":9},"b":{"type":"string"}}}],"not":{"required":["c"]}}`},
		{"unions", `{"type":"object","properties":{
			"any":{"anyOf":[{"type":"string"},{"type":"integer"}]},
			"one":{"oneOf":[{"type":"object","properties":{"x":{"type":"number"}},"required":["x"]},{"type":"null"}]},
			"many":{"type":["string","integer","null"]},
			"beside":{"type":"object","properties":{"k":{"type":"string"}},"required":["k"],"anyOf":[{"properties":{"l":{"type":"string"}},"required":["l"]},{"properties":{"m":{"type":"string"}},"required":["m"]}]},
			"null":{"type":"null"},"impossible":false}}`},
		{"booleans", `{"type":"object","properties":{"anything":true,"nothing":false,"list":{"type":"array","items":true},"none":{"type":"array","items":false}},"required":["anything"]}`},
		{"no_items", `{"type":"object","properties":{"list":{"type":"array"},"free":{"type":"object"},"map":{"type":"object","additionalProperties":{"type":"string"}}},"required":["undeclared"]}`},
		{"tuple", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"range":{"type":"array","items":[{"type":"integer"},{"type":"string"}],"additionalItems":false}},"dependencies":{"range":["unit"]}}`},
		{"enums", `{"type":"object","properties":{"mixed":{"enum":["a",1,1.5,true,null]},"deep":{"enum":[{"a":1},[1]]},"number":{"type":"integer","enum":[1,2,3]},"one":{"const":"x"},"maybe":{"enum":["a",null]},"colour":{"type":"string","enum":["red","green"],"default":"red"}},"required":["number"]}`},
		{"numbers", `{"type":"object","properties":{"id":{"type":"integer","minimum":-9223372036854775808,"maximum":9223372036854775807},"pick":{"enum":[9007199254740993,1]},"share":{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1e2,"multipleOf":0.5},"n":{"type":"integer","exclusiveMinimum":0,"exclusiveMaximum":10},"big":{"type":"number","maximum":1e400}}}`},
		{"keywords", `{"type":"object","properties":{"tags":{"type":"array","items":{"type":"string"},"uniqueItems":true,"minItems":1,"maxItems":5,"contains":{"const":"x"}},"when":{"type":"string","format":"date-time","default":"now","examples":["2026-01-01T00:00:00Z"]},"if":{"if":{"type":"string"},"then":{"minLength":2}},"names":{"type":"object","propertyNames":{"pattern":"^x"},"minProperties":1}},"if":{"required":["tags"]},"then":{"required":["when"]},"additionalProperties":true}`},
		{"deep", nest(20)},
		{"quotes", `{"type":"object","properties":{"a\"b\\c\u0000":{"type":"string","description":"</script>\u2028 \"quoted\""}}}`},
		{"not_even", `true`},
	} {
		out = append(out, &tool.Descriptor{ID: h.id, Description: "Tries " + h.id, Parameters: json.RawMessage(h.parameters), Effects: tool.Effects{}.Normal()})
	}
	wordy := &tool.Descriptor{ID: "wordy", DisplayName: "Wordy", Description: strings.Repeat("Many words are said here. ", 42), Guidance: "Use it seldom.", Effects: tool.Effects{Mutability: tool.ReadOnly}.Normal()}
	wordy.ResultSchema = json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)
	return append(out, wordy)
}

// forks returns a small schema whose references expand to 2^n schemas.
func forks(n int) string {
	var b strings.Builder
	b.WriteString(`{"type":"object","properties":{"f":{"$ref":"#/$defs/0"}},"$defs":{`)
	for i := range n {
		next := string(rune('0' + i + 1))
		b.WriteString(`"` + string(rune('0'+i)) + `":{"type":"object","properties":{"l":{"$ref":"#/$defs/` + next + `"},"r":{"$ref":"#/$defs/` + next + `"}}},`)
	}
	b.WriteString(`"` + string(rune('0'+n)) + `":{"type":"string"}}}`)
	return b.String()
}

// nest returns an object that is n levels deep.
func nest(n int) string {
	return strings.Repeat(`{"type":"object","properties":{"d":`, n) + `{"type":"string"}` + strings.Repeat(`}}`, n)
}
