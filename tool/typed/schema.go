package typed

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// Schema returns the JSON Schema of the struct type T. The schema rejects members that T does not have. Fields without omitempty or
// omitzero are required. A list must not be null. The members have the order of the fields, because a model reads them in this order.
//
// For a type with its own UnmarshalJSON or UnmarshalText, other than those of specialTypes, only the author knows the JSON form. A tool
// with such a type must set Parameters in its descriptor.
func Schema[T any]() (json.RawMessage, error) {
	if t := reflect.TypeFor[T](); t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("arguments are %s, want a struct", t)
	}
	s, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: specialTypes()})
	if err != nil {
		return nil, err
	}
	withoutNullLists(s)
	return json.Marshal(s)
}

// specialTypes returns the types whose JSON form differs from their Go kind.
func specialTypes() map[reflect.Type]*jsonschema.Schema {
	return map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[[]byte]():          {Type: "string", ContentEncoding: "base64"},
		reflect.TypeFor[json.RawMessage](): {},
		reflect.TypeFor[json.Number]():     {Type: "number"},
		reflect.TypeFor[time.Time]():       {Type: "string", Format: "date-time"},
	}
}

// withoutNullLists removes null from the types that slices accept. The package jsonschema adds null there. No tool expects null, but a
// model that reads it in the schema sends it.
func withoutNullLists(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if s.Items != nil && len(s.Types) > 0 {
		s.Type, s.Types = "array", nil
	}
	withoutNullLists(s.Items)
	withoutNullLists(s.AdditionalProperties)
	for _, p := range s.Properties {
		withoutNullLists(p)
	}
}
