package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp/syntax"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// MaxSchemaBytes bounds the text of a schema.
const MaxSchemaBytes = 256 << 10

// A SchemaError says why a schema is refused and where.
type SchemaError struct {
	Pointer string // to the place in the schema, such as #/properties/path; "" when it is the text as a whole
	Reason  string
}

func (e *SchemaError) Error() string {
	if e.Pointer == "" {
		return "schema: " + e.Reason
	}
	return "schema at " + e.Pointer + ": " + e.Reason
}

// A Schema is a compiled JSON Schema. It may be used from many goroutines.
type Schema struct {
	document any // as parsed and prepared; texts of violations are made from it
	effort   effort
	compiled *jsonschema.Schema
	fast     *fastSchema // nil when there is none
	metered  metered
}

// CompileSchema compiles a JSON Schema: 2020-12, unless $schema names draft 4, 6, 7 or 2019-09. Formats are asserted.
//
// Refused are, before any of it is compiled: texts above [MaxSchemaBytes] or that [call.ParseJSON] refuses; references
// that leave the document; patterns that Go's regexp does not know (it knows no lookaround and needs no backtracking);
// schemas that would take too long to check even against a small value. The error is a [*SchemaError].
func CompileSchema(raw json.RawMessage) (*Schema, error) {
	document, err := call.ParseJSON(string(raw), MaxSchemaBytes)
	if err != nil {
		return nil, &SchemaError{Reason: err.Error()}
	}
	effort, err := inspect(document)
	if err != nil {
		return nil, err
	}
	s := &Schema{document: document, effort: effort}
	if s.compiled, err = compile(document, nil); err != nil {
		return nil, err
	}
	if !effort.recursive { // a fast check does not know how often a value may lead back into its schema
		s.fast = compileFast(s.compiled)
	}
	return s, nil
}

// resourceURL is what a schema is called inside the compiler; nothing is ever read from it.
const resourceURL = "https://schema.invalid/s"

var errLoad = errors.New("a schema is one document: nothing else is read")

// compile gives an inspected document to the compiler. With a meter every step of a validation is charged to it.
func compile(document any, m *meter) (compiled *jsonschema.Schema, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &SchemaError{Reason: fmt.Sprintf("does not compile: %v", r)}
		}
	}()
	text, err := json.Marshal(document)
	if err != nil {
		return nil, &SchemaError{Reason: err.Error()}
	}
	c := jsonschema.NewCompiler()
	c.Draft = jsonschema.Draft2020
	c.AssertFormat = true
	c.LoadURL = func(string) (io.ReadCloser, error) { return nil, errLoad }
	c.Formats["regex"] = isRegexp
	for _, slow := range []string{"duration", "period"} { // the library's time grows with the square of the text
		c.Formats[slow] = short(jsonschema.Formats[slow])
	}
	c.RegisterExtension("toold", nil, extension{m})
	if err := c.AddResource(resourceURL, bytes.NewReader(text)); err != nil {
		return nil, &SchemaError{Reason: err.Error()}
	}
	if compiled, err = c.Compile(resourceURL); err != nil {
		return nil, compileError(err)
	}
	return compiled, nil
}

// short returns a format that no long text has.
func short(format func(any) bool) func(any) bool {
	return func(v any) bool {
		text, ok := v.(string)
		return !ok || len(text) <= 256 && format(v)
	}
}

// compileError says what the specification of schemas has against a schema, in the words of [Schema.Validate].
func compileError(err error) error {
	var invalid *jsonschema.ValidationError
	if errors.As(err, &invalid) {
		leaf := invalid
		for len(leaf.Causes) > 0 {
			leaf = leaf.Causes[0]
		}
		return &SchemaError{Pointer: "#" + leaf.InstanceLocation, Reason: "not a schema: " + leaf.Message}
	}
	var refused *jsonschema.SchemaError
	if errors.As(err, &refused) && refused.Err != nil {
		err = refused.Err
	}
	return &SchemaError{Reason: strings.ReplaceAll(strings.TrimPrefix(err.Error(), "jsonschema: "), resourceURL, "")}
}

// isRegexp checks the format regex without compiling: that would take memory at the will of who sent the arguments.
func isRegexp(v any) bool {
	s, ok := v.(string)
	if !ok {
		return true
	}
	if len(s) > maxPatternBytes {
		return false
	}
	_, err := syntax.Parse(s, syntax.Perl)
	return err == nil
}

// Validate returns what is wrong with v, sorted by field, at most 16; nil when v meets the schema. v is made of
// map[string]any, []any, string, json.Number, bool and nil, as [call.ParseJSON] returns it. A value that would take too
// long to check is a violation.
func (s *Schema) Validate(v any) []tool.Violation {
	if s.fast.surely(v) {
		return nil
	}
	return s.validate(v)
}

// validate leaves the decision and the words to the library.
func (s *Schema) validate(v any) []tool.Violation {
	size, reason := measure(v)
	if reason != "" {
		return []tool.Violation{{Description: reason}}
	}
	compiled := s.compiled
	if !s.effort.affordable(size) {
		return s.validateMetered(v, size)
	}
	return s.explain(run(compiled, v), v)
}

// errTooComplex means that a check was given up.
var errTooComplex = errors.New("is too complex to check against the schema; send a smaller value")

// run validates and turns every panic into an error: the values and the schema are foreign, and so is the library.
func run(compiled *jsonschema.Schema, v any) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case error:
			err = r
		default:
			err = fmt.Errorf("cannot be checked against the schema: %v", r)
		}
	}()
	return compiled.Validate(v)
}
