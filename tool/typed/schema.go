package typed

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// Schema returns the JSON Schema of T, a struct: members that T does not have are refused, fields without omitempty or
// omitzero are required, and a list is a list, not null. Members keep the order of the fields, which is the order in
// which a model reads them. A type with an UnmarshalJSON or UnmarshalText of its own, other than those of specialTypes,
// has a form that only its author knows: give the descriptor parameters.
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

// specialTypes are those whose JSON form is another than their Go kind suggests.
func specialTypes() map[reflect.Type]*jsonschema.Schema {
	return map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[[]byte]():          {Type: "string", ContentEncoding: "base64"},
		reflect.TypeFor[json.RawMessage](): {},
		reflect.TypeFor[json.Number]():     {Type: "number"},
		reflect.TypeFor[time.Time]():       {Type: "string", Format: "date-time"},
	}
}

// withoutNullLists takes back that jsonschema allows null for every slice: no tool means it, and models that read it
// send it.
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
