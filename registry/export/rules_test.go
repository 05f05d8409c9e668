package export_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"unicode/utf8"

	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/registry/export"
	"github.com/toold-dev/toold/tool"
)

// rules contains the published rules of the providers for lists of tools. Each function returns an error when the provider would refuse a
// definition.
var rules = map[export.Format]func(d map[string]any) error{
	export.OpenAI:          openAI,
	export.OpenAIStrict:    openAI,
	export.Responses:       responses,
	export.ResponsesStrict: responses,
	export.Anthropic:       anthropic,
	export.Gemini:          gemini,
	export.MCP:             mcp,
}

var (
	name64       = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	nameGemini   = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$`)
	nameMCP      = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)
	keyAnthropic = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)
	keyGemini    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
)

func openAI(d map[string]any) error {
	f := d["function"].(map[string]any)
	if !name64.MatchString(f["name"].(string)) || utf8.RuneCountInString(f["description"].(string)) > 1024 {
		return fmt.Errorf("name or description")
	}
	root := f["parameters"].(map[string]any)
	if err := rootObject(root); err != nil {
		return err
	}
	if f["strict"] == true {
		return strictSchema(root, 1)
	}
	return each(root, func(s map[string]any) error {
		if s["type"] == "array" && s["items"] == nil {
			return fmt.Errorf("an array without items: %v", s)
		}
		return nil
	})
}

// responses requires the member strict, because a tool without this member counts as strict.
func responses(d map[string]any) error {
	if _, ok := d["strict"].(bool); !ok || d["type"] != "function" {
		return fmt.Errorf("strict or type: %v", d)
	}
	return openAI(map[string]any{"function": d})
}

func rootObject(root map[string]any) error {
	for _, refused := range []string{"anyOf", "oneOf", "allOf", "not", "enum", "$ref", "$defs"} {
		if _, there := root[refused]; there {
			return fmt.Errorf("the root has %s", refused)
		}
	}
	if properties, ok := root["properties"].(map[string]any); root["type"] != "object" || !ok || properties == nil {
		return fmt.Errorf("the root is no object with properties: %v", root)
	}
	return nil
}

func strictSchema(s map[string]any, depth int) error {
	for k := range s {
		if !slices.Contains([]string{"type", "title", "description", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "const",
			"pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems"}, k) {
			return fmt.Errorf("strict mode has no %s", k)
		}
	}
	if depth > 10 {
		return fmt.Errorf("deeper than 10")
	}
	if branches, ok := s["anyOf"].([]any); ok {
		for _, b := range branches {
			if err := strictSchema(b.(map[string]any), depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	if s["type"] == nil {
		return fmt.Errorf("no type: %v", s)
	}
	if items, ok := s["items"].(map[string]any); ok {
		if err := strictSchema(items, depth+1); err != nil {
			return err
		}
	}
	properties, ok := s["properties"].(map[string]any)
	if !ok {
		return nil
	}
	required, _ := s["required"].([]any)
	if s["additionalProperties"] != false || len(required) != len(properties) {
		return fmt.Errorf("open, or not all required: %v", s)
	}
	for k, p := range properties {
		if !slices.Contains(required, any(k)) {
			return fmt.Errorf("%q is not required", k)
		}
		if err := strictSchema(p.(map[string]any), depth+1); err != nil {
			return err
		}
	}
	return nil
}

func anthropic(d map[string]any) error {
	if !name64.MatchString(d["name"].(string)) {
		return fmt.Errorf("name %v", d["name"])
	}
	root := d["input_schema"].(map[string]any)
	for k := range root["properties"].(map[string]any) {
		if !keyAnthropic.MatchString(k) {
			return fmt.Errorf("property %q", k)
		}
	}
	return rootObject(root)
}

func gemini(d map[string]any) error {
	if !nameGemini.MatchString(d["name"].(string)) {
		return fmt.Errorf("name %v", d["name"])
	}
	parameters, there := d["parameters"].(map[string]any)
	if !there {
		return nil
	}
	if parameters["type"] != "OBJECT" || parameters["properties"] == nil {
		return fmt.Errorf("the root is no OBJECT: %v", parameters)
	}
	return geminiSchema(parameters)
}

func geminiSchema(s map[string]any) error {
	for k, v := range s {
		switch k {
		case "title", "description", "pattern", "format":
		case "nullable":
		case "minimum", "maximum":
			if _, ok := v.(float64); !ok {
				return fmt.Errorf("%s %v", k, v)
			}
		case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
			if text, ok := v.(string); !ok {
				return fmt.Errorf("%s %v is no text", k, v)
			} else if _, err := strconv.ParseInt(text, 10, 64); err != nil {
				return err
			}
		case "enum":
			for _, e := range v.([]any) {
				if text, ok := e.(string); !ok || s["type"] != "STRING" || text == "" {
					return fmt.Errorf("enum %v of %v", v, s["type"])
				}
			}
		case "type":
			if !slices.Contains([]any{"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT"}, v) {
				return fmt.Errorf("type %v", v)
			}
		case "anyOf":
			for _, b := range v.([]any) {
				if err := geminiSchema(b.(map[string]any)); err != nil {
					return err
				}
			}
		case "items":
			if err := geminiSchema(v.(map[string]any)); err != nil {
				return err
			}
		case "required":
			for _, name := range v.([]any) {
				if _, declared := s["properties"].(map[string]any)[name.(string)]; !declared {
					return fmt.Errorf("%v is required and not declared", name)
				}
			}
		case "properties":
			if len(v.(map[string]any)) == 0 {
				return fmt.Errorf("no properties in %v", s)
			}
			for name, p := range v.(map[string]any) {
				if !keyGemini.MatchString(name) {
					return fmt.Errorf("property %q", name)
				}
				if err := geminiSchema(p.(map[string]any)); err != nil {
					return err
				}
			}
		default:
			return fmt.Errorf("no %s there", k)
		}
	}
	_, union := s["anyOf"]
	if _, typed := s["type"]; typed == union {
		return fmt.Errorf("want a type or anyOf: %v", s)
	}
	if s["type"] == "ARRAY" && s["items"] == nil {
		return fmt.Errorf("no items: %v", s)
	}
	return nil
}

func mcp(d map[string]any) error {
	if !nameMCP.MatchString(d["name"].(string)) {
		return fmt.Errorf("name %v", d["name"])
	}
	schema := d["inputSchema"].(map[string]any)
	if schema["type"] != "object" {
		return fmt.Errorf("type %v", schema["type"])
	}
	properties, _ := schema["properties"].(map[string]any)
	for k, p := range properties {
		if _, ok := p.(map[string]any); !ok {
			return fmt.Errorf("property %q is %v", k, p)
		}
	}
	return nil
}

// each invokes visit for a schema, and for the schemas under its properties and items.
func each(s map[string]any, visit func(map[string]any) error) error {
	if err := visit(s); err != nil {
		return err
	}
	for k, v := range s {
		switch k {
		case "properties":
			for _, p := range v.(map[string]any) {
				if err := each(p.(map[string]any), visit); err != nil {
					return err
				}
			}
		case "items":
			if err := each(v.(map[string]any), visit); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkRules exports the tools and checks every definition against the rules.
func checkRules(t *testing.T, tools []*tool.Descriptor) {
	t.Helper()
	for _, f := range export.Formats() {
		list, err := export.Export(f, tools)
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Tools)+len(list.Omitted) != len(tools) {
			t.Errorf("%s: %d tools and %d omissions of %d", f, len(list.Tools), len(list.Omitted), len(tools))
		}
		names := map[string]string{}
		for _, e := range list.Tools {
			if other, taken := names[e.Name]; taken {
				t.Errorf("%s: %q and %q are both %q", f, other, e.ID, e.Name)
			}
			names[e.Name] = e.ID
			var d map[string]any
			if err := json.Unmarshal(e.Definition, &d); err != nil {
				t.Fatalf("%s: %s: %v", f, e.ID, err)
			}
			if err := rules[f](d); err != nil {
				t.Errorf("%s refuses %s: %v\n%s", f, e.ID, err, e.Definition)
			}
		}
	}
}

func TestRules(t *testing.T) { checkRules(t, hostile()) }

// TestNamesAreNeverShared uses ids that equal the shortened names of other ids. No two tools may get the same name.
func TestNamesAreNeverShared(t *testing.T) {
	tools := []*tool.Descriptor{{ID: "a.b"}, {ID: "a b"}, {ID: "a/b"}}
	for range 40 { // more collisions than one digit of a hash can resolve
		list, err := export.Export(export.OpenAI, tools)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, e := range list.Tools {
			if seen[e.Name] {
				t.Fatalf("%q occurs twice", e.Name)
			}
			seen[e.Name] = true
			if e.ID == "a.b" {
				tools = append(tools, &tool.Descriptor{ID: e.Name})
			}
		}
	}
}

// TestForksAreBounded checks that a small schema cannot produce a large definition.
func TestForksAreBounded(t *testing.T) {
	for _, f := range export.Formats() {
		list, err := export.Export(f, []*tool.Descriptor{{ID: "fork", Parameters: json.RawMessage(forks(40))}})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(list.Tools[0].Definition); n > 256<<10 {
			t.Errorf("%s: %d bytes", f, n)
		}
	}
}

// FuzzExport checks that the export of every schema follows the rules of each provider.
func FuzzExport(f *testing.F) {
	for _, d := range hostile() {
		f.Add(d.ID, string(d.Parameters))
	}
	f.Fuzz(func(t *testing.T, id, parameters string) {
		if _, err := registry.New(registry.Config{}).CompileSchema(json.RawMessage(parameters)); err != nil {
			return // The registry would refuse this tool.
		}
		tools := []*tool.Descriptor{{ID: id, Parameters: json.RawMessage(parameters)}}
		checkRules(t, tools)
	})
}

// TestGuidanceOccursOnce checks guidance that all tools of a server share: it occurs once, with the names of the tools.
func TestGuidanceOccursOnce(t *testing.T) {
	got := export.Guidance([]export.Tool{{Name: "a", Guidance: "first"}, {Name: "b", Guidance: "other"}, {Name: "c"}, {Name: "d", Guidance: "first"}})
	if got != "## a, d\n\nfirst\n\n## b\n\nother" {
		t.Errorf("%q", got)
	}
}
