package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// MaxSchemaBytes is the maximum size of a schema's text, in bytes.
const MaxSchemaBytes = 256 << 10

// A SchemaError says why a schema is refused, and where.
type SchemaError struct {
	Pointer string // JSON pointer into the schema, such as #/properties/path. Empty means the whole text.
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
	document any  // The parsed and prepared schema. Violations quote it.
	asserted bool // true when the formats in the schema are asserted
	effort   effort
	compiled *jsonschema.Schema
	fast     *fastSchema // nil when the schema has no fast check
	metered  metered
}

// compileSchema is [Registry.CompileSchema] without the cache. assertFormats asserts formats also in 2020-12.
func compileSchema(raw json.RawMessage, assertFormats bool) (*Schema, error) {
	document, err := call.ParseJSON(string(raw), MaxSchemaBytes)
	if err != nil {
		return nil, &SchemaError{Reason: err.Error()}
	}
	effort, draft, err := inspect(document)
	if err != nil {
		return nil, err
	}
	s := &Schema{document: document, effort: effort, asserted: assertFormats || draft < 2020}
	if s.compiled, err = compile(document, s.asserted, nil); err != nil {
		return nil, err
	}
	if !effort.recursive { // The library checks a recursive schema with its meter.
		s.fast = compileFast(s.compiled, s.asserted)
	}
	return s, nil
}

// resourceURL names a schema in the compiler. The compiler never reads anything from this URL.
const resourceURL = "https://schema.invalid/s"

var errLoad = errors.New("a schema must be one document: references to other documents are not read")

// compile compiles an inspected document. With a meter, every step of a validation is counted.
func compile(document any, assertFormats bool, m *meter) (compiled *jsonschema.Schema, err error) {
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
	c.AssertFormat = assertFormats
	c.LoadURL = func(string) (io.ReadCloser, error) { return nil, errLoad }
	c.Formats = formats()
	c.RegisterExtension("toold", nil, extension{m})
	if err := c.AddResource(resourceURL, bytes.NewReader(text)); err != nil {
		return nil, &SchemaError{Reason: err.Error()}
	}
	if compiled, err = c.Compile(resourceURL); err != nil {
		return nil, compileError(err)
	}
	return compiled, nil
}

// compileError returns a [*SchemaError] that says why a document is not a valid schema.
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

// Validate returns at most 16 violations of the schema, sorted by field, or nil when v is valid. v consists of map[string]any, []any,
// string, json.Number, bool and nil, as [call.ParseJSON] returns it. A value that would take too long to check is a violation.
func (s *Schema) Validate(v any) []tool.Violation {
	if s.fast.surely(v) {
		return nil
	}
	return s.validate(v)
}

// validate is Validate with the library only.
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

// errTooComplex means that a check reached its limit.
var errTooComplex = errors.New("is too complex to check against the schema; send a smaller value")

// run validates a value. It recovers every panic, because the value, the schema and the library are foreign.
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
