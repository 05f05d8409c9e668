package ask_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/typed"
	"github.com/toold-dev/toold/tools/ask"
)

type object = map[string]any

func question(more object) object {
	args := object{"question": "Which one?"}
	for name, value := range more {
		args[name] = value
	}
	return args
}

func execute(t *testing.T, args object) *tool.Result {
	t.Helper()
	x := ask.New()
	call := &tool.Call{Arguments: typed.Args(args)}
	if err := x.(tool.Validator).Validate(call.Arguments); err != nil {
		t.Fatalf("Validate: %v", tool.AsError(err).Violations)
	}
	res, err := x.Execute(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestAsksAtOnce(t *testing.T) {
	person := object{
		"type":       "object",
		"properties": object{"name": object{"type": "string", "minLength": 2}, "age": object{"type": "integer", "minimum": 0, "maximum": 150}},
		"required":   []string{"name"}, "additionalProperties": false,
	}
	tests := []struct {
		name       string
		args       object
		good, bad  []string
		parameters string
	}{
		{"free text", question(nil), []string{`"yes"`}, []string{`""`, `1`, `null`, `["yes"]`}, ""},
		{
			"options", question(object{"options": []string{"red", "blue"}}),
			[]string{`"red"`, `"blue"`},
			[]string{`"green"`, `["red"]`, `""`},
			`{"options":["red","blue"],"multiple":false}`,
		},
		{
			"several options", question(object{"options": []string{"red", "blue"}, "multiple": true}),
			[]string{`["red"]`, `["blue","red"]`},
			[]string{`[]`, `["green"]`, `["red","red"]`, `"red"`},
			`{"options":["red","blue"],"multiple":true}`,
		},
		{
			"schema", question(object{"schema": person}),
			[]string{`{"name":"Al"}`, `{"name":"Al","age":7}`},
			[]string{`{}`, `{"name":"A"}`, `{"name":"Al","age":151}`, `{"name":"Al","x":1}`, `"Al"`},
			"",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res := execute(t, tt.args)
			ticket := res.Suspension
			if !res.IsPending() || ticket == nil {
				t.Fatalf("result = %+v, want a question", res)
			}
			if ticket.Action != "input" || ticket.Message != "Which one?" || ticket.ResumeMode != tool.UseDecisionAsToolResult || ticket.Approvers != nil {
				t.Errorf("ticket = %+v", *ticket)
			}
			if string(ticket.Parameters) != tt.parameters {
				t.Errorf("parameters = %s, want %s", ticket.Parameters, tt.parameters)
			}
			schema := jsonschema.MustCompileString("answer.json", string(ticket.ResponseSchema))
			for _, answer := range tt.good {
				if err := schema.Validate(decode(t, answer)); err != nil {
					t.Errorf("%s is refused: %v", answer, err)
				}
			}
			for _, answer := range tt.bad {
				if schema.Validate(decode(t, answer)) == nil {
					t.Errorf("%s is let through", answer)
				}
			}
		})
	}
}

func decode(t *testing.T, text string) any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestRefuses(t *testing.T) {
	str := object{"type": "string"}
	deep := str
	for range 4 {
		deep = object{"type": "array", "items": deep}
	}
	wide := object{}
	for i := range 300 {
		wide[fmt.Sprintf("p%d", i)] = str
	}
	many := make([]string, ask.MaxOptions+1)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	schema := func(s object) object { return question(object{"schema": s}) }
	tests := []struct {
		name  string
		args  object
		field string
	}{
		{"blank question", object{"question": " \n"}, "question"},
		{"long question", object{"question": strings.Repeat("ä", ask.MaxQuestionLength+1)}, "question"},
		{"multiple of nothing", question(object{"multiple": true}), "multiple"},
		{"the same option twice", question(object{"options": []string{"a", "b", "a"}}), "options[2]"},
		{"blank option", question(object{"options": []string{"a", ""}}), "options[1]"},
		{"too many options", question(object{"options": many}), "options"},
		{"schema and options", question(object{"options": []string{"a"}, "schema": str}), "schema"},

		{"no type", schema(object{}), "schema.type"},
		{"two types", schema(object{"type": []string{"string", "null"}}), "schema.type"},
		// Keywords that refer to other documents, that recurse, or that are expensive to check are rejected (T71).
		{"reference", schema(object{"type": "object", "$ref": "file:///etc/passwd"}), "schema.$ref"},
		{"definitions", schema(object{"type": "object", "$defs": object{}}), "schema.$defs"},
		{"alternatives", schema(object{"type": "object", "anyOf": []object{str}}), "schema.anyOf"},
		{"pattern", schema(object{"type": "string", "pattern": "(a+)+$"}), "schema.pattern"},
		{"nested pattern", schema(object{"type": "object", "properties": object{"a": object{"type": "string", "pattern": "x"}}}), "schema.properties.a.pattern"},
		{"other dialect", schema(object{"type": "string", "$schema": "http://json-schema.org/draft-04/schema"}), "schema.$schema"},
		{"too deep", schema(deep), "schema.items.items.items.items"},
		{"too wide", schema(object{"type": "object", "properties": wide}), "schema.properties.p278"},

		// A schema that does not compile would fail the call after it was accepted.
		{"length as text", schema(object{"type": "string", "minLength": "1"}), "schema.minLength"},
		{"negative length", schema(object{"type": "string", "minLength": -1}), "schema.minLength"},
		{"broken length", schema(object{"type": "string", "maxLength": 1.5}), "schema.maxLength"},
		{"bound as text", schema(object{"type": "number", "minimum": "1"}), "schema.minimum"},
		{"title", schema(object{"type": "string", "title": 1}), "schema.title"},
		{"enum", schema(object{"type": "string", "enum": "a"}), "schema.enum"},
		{"empty enum", schema(object{"type": "string", "enum": []string{}}), "schema.enum"},
		{"items", schema(object{"type": "array", "items": true}), "schema.items"},
		{"properties", schema(object{"type": "object", "properties": []string{}}), "schema.properties"},
		{"property", schema(object{"type": "object", "properties": object{"a": true}}), "schema.properties.a"},
		{"additional properties", schema(object{"type": "object", "additionalProperties": str}), "schema.additionalProperties"},
		{"required", schema(object{"type": "object", "required": "a"}), "schema.required"},
		{"required number", schema(object{"type": "object", "required": []any{1}}), "schema.required[0]"},

		// A question that no answer can satisfy would stay open until it expires.
		{"required and not there", schema(object{"type": "object", "required": []string{"a"}}), "schema.required[0]"},
		{"minimum above maximum", schema(object{"type": "integer", "minimum": 2, "maximum": 1}), "schema.minimum"},
		{"lengths", schema(object{"type": "string", "minLength": 2, "maxLength": 1}), "schema.minLength"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := ask.New().(tool.Validator).Validate(typed.Args(tt.args))
			var e *tool.Error
			if !errors.As(err, &e) || e.Code != tool.InvalidArguments || len(e.Violations) != 1 || e.Violations[0].Field != tt.field {
				t.Errorf("error = %+v, want one violation of %s", e, tt.field)
			}
		})
	}
}

func TestDescribe(t *testing.T) {
	d, err := ask.New().(tool.Describer).Describe(t.Context(), &tool.Call{Arguments: typed.Args(object{
		"question": "\n" + strings.Repeat("ä", 100) + "\nsecond line",
	})})
	if want := "Ask: " + strings.Repeat("ä", 79) + "…"; err != nil || d.Title != want {
		t.Errorf("title = %q, %v, want %q", d.Title, err, want)
	}
}

func TestDescriptor(t *testing.T) {
	d := ask.New().Descriptor()
	// The tool only asks a question, so no gate needs to ask for approval first.
	if e := d.Effects.Normal(); e.Mutability != tool.ReadOnly || e.Tier != tool.Observe {
		t.Errorf("effects = %+v", e)
	}
	jsonschema.MustCompileString("parameters.json", string(d.Parameters))
}

// FuzzSchema checks that every accepted schema compiles.
func FuzzSchema(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"type":"integer","minimum":1e3}},"required":["a"]}`)
	f.Add(`{"type":"array","items":{"type":"string","enum":["a",null]},"minItems":1,"uniqueItems":true}`)
	f.Add(`{"type":"string","const":{"$ref":"x"},"default":1,"maxLength":3}`)
	f.Fuzz(func(t *testing.T, text string) {
		var schema object
		if json.Unmarshal([]byte(text), &schema) != nil || schema == nil {
			return
		}
		args := typed.Args(question(object{"schema": schema}))
		x := ask.New()
		if x.(tool.Validator).Validate(args) != nil {
			return
		}
		res, err := x.Execute(t.Context(), &tool.Call{Arguments: args})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := jsonschema.CompileString("answer.json", string(res.Suspension.ResponseSchema)); err != nil {
			t.Errorf("let through: %s: %v", text, err)
		}
	})
}
