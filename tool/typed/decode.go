package typed

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Decode stores a parsed JSON value (map[string]any, []any, string, json.Number, bool, nil) in the Go value that into points to. It does
// not parse text, so the tool gets exactly the value that was validated and approved.
//
// It uses the tags and rules of encoding/json, but is stricter:
//   - Names of members must match exactly.
//   - null is accepted only for pointers, slices, maps, interfaces and types with UnmarshalJSON.
//   - A JSON array must have exactly as many elements as the Go array.
//   - An integer accepts only numbers with an integral value in its range, in any spelling (1, 1.0, 1e2).
//   - The tag option "string" has no effect, as in the schema.
//
// Decode ignores members for which the struct has no field. The schema rejects them where necessary. Except for strings, the Go value
// shares no memory with the parsed value.
//
// An error is a [*DecodeError]. The Go value may then be partly filled.
func Decode(value any, into any) error {
	target := reflect.ValueOf(into)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		return &DecodeError{Reason: fmt.Sprintf("cannot store into %T, a pointer is needed", into)}
	}
	return newDecoder(target.Type().Elem()).decode(value, target.Elem())
}

// A DecodeError describes the part of a JSON value that does not fit the Go type.
type DecodeError struct {
	Path   string // path such as items[2].name; empty for the whole value
	Reason string
	Err    error // error of an UnmarshalJSON or UnmarshalText method, or nil
}

func (e *DecodeError) Error() string {
	if e.Path == "" {
		return e.Reason
	}
	return e.Path + ": " + e.Reason
}

func (e *DecodeError) Unwrap() error { return e.Err }

// in adds a step at the front of the error's path.
func (e *DecodeError) in(step string) *DecodeError {
	e.Path = step + e.Path
	return e
}

func (e *DecodeError) inMember(name string) *DecodeError {
	plain := name != "" && len(name) <= 64 && strings.Trim(name, "_-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
	if plain {
		return e.in("." + name)
	}
	return e.in(fmt.Sprintf("[%.64q]", name))
}

// A decoder fills values of one Go type. It is immutable, so one decoder serves all calls of a tool.
type decoder struct{ root *plan }

func newDecoder(t reflect.Type) *decoder { return &decoder{planner{}.plan(t)} }

// decode stores value in into, which must be settable.
func (d *decoder) decode(value any, into reflect.Value) error {
	if err := d.root.store(value, into); err != nil {
		err.Path = strings.TrimPrefix(err.Path, ".")
		return err
	}
	return nil
}

// A plan stores a parsed value in a part of a Go type. It is a pointer to a function, so that the plan of a type that contains itself can
// refer to itself.
type plan struct {
	store func(value any, into reflect.Value) *DecodeError
}

type planner map[reflect.Type]*plan

func (ps planner) plan(t reflect.Type) *plan {
	if p, ok := ps[t]; ok {
		return p
	}
	p := &plan{}
	ps[t] = p
	p.store = ps.storer(t)
	return p
}

func (ps planner) storer(t reflect.Type) func(any, reflect.Value) *DecodeError {
	if store := storerByMethod(t); store != nil {
		return store
	}
	switch t.Kind() {
	case reflect.String:
		return storeString
	case reflect.Bool:
		return storeBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return storeInt
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return storeUint
	case reflect.Float32, reflect.Float64:
		return storeFloat
	case reflect.Pointer:
		return pointerStorer(ps.plan(t.Elem()))
	case reflect.Slice:
		return sliceStorer(t, ps.plan(t.Elem()))
	case reflect.Array:
		return arrayStorer(ps.plan(t.Elem()))
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			return mapStorer(t, ps.plan(t.Elem()))
		}
	case reflect.Struct:
		return structStorer(ps.fields(t))
	case reflect.Interface:
		if t.NumMethod() == 0 {
			return storeAny
		}
	}
	return func(any, reflect.Value) *DecodeError {
		return &DecodeError{Reason: fmt.Sprintf("JSON cannot be stored in the Go type %v", t)}
	}
}

func pointerStorer(element *plan) func(any, reflect.Value) *DecodeError {
	return func(value any, into reflect.Value) *DecodeError {
		if value == nil {
			into.SetZero()
			return nil
		}
		if into.IsNil() {
			into.Set(reflect.New(into.Type().Elem()))
		}
		return element.store(value, into.Elem())
	}
}

func sliceStorer(t reflect.Type, element *plan) func(any, reflect.Value) *DecodeError {
	bytes := t.Elem().Kind() == reflect.Uint8 && storerByMethod(t.Elem()) == nil
	return func(value any, into reflect.Value) *DecodeError {
		if value == nil {
			into.SetZero()
			return nil
		}
		if s, ok := value.(string); ok && bytes {
			return storeBase64(s, into)
		}
		elements, ok := value.([]any)
		if !ok {
			return mismatch("an array", value)
		}
		slice := reflect.MakeSlice(t, len(elements), len(elements))
		if err := storeElements(elements, slice, element); err != nil {
			return err
		}
		into.Set(slice)
		return nil
	}
}

func arrayStorer(element *plan) func(any, reflect.Value) *DecodeError {
	return func(value any, into reflect.Value) *DecodeError {
		elements, ok := value.([]any)
		if !ok {
			return mismatch("an array", value)
		}
		if len(elements) != into.Len() {
			return &DecodeError{Reason: fmt.Sprintf("want %d elements, got %d", into.Len(), len(elements))}
		}
		return storeElements(elements, into, element)
	}
}

func storeElements(elements []any, into reflect.Value, element *plan) *DecodeError {
	for i, e := range elements {
		if err := element.store(e, into.Index(i)); err != nil {
			return err.in(fmt.Sprintf("[%d]", i))
		}
	}
	return nil
}

func mapStorer(t reflect.Type, element *plan) func(any, reflect.Value) *DecodeError {
	key := storeString
	if store := storerByMethod(t.Key()); store != nil {
		key = store
	}
	return func(value any, into reflect.Value) *DecodeError {
		if value == nil {
			into.SetZero()
			return nil
		}
		members, ok := value.(map[string]any)
		if !ok {
			return mismatch("an object", value)
		}
		if into.IsNil() {
			into.Set(reflect.MakeMapWithSize(t, len(members)))
		}
		for _, name := range slices.Sorted(maps.Keys(members)) { // Sorted, so that the same input always gives the same error.
			k, v := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
			if err := key(name, k); err != nil {
				return err.inMember(name)
			}
			if err := element.store(members[name], v); err != nil {
				return err.inMember(name)
			}
			into.SetMapIndex(k, v)
		}
		return nil
	}
}
