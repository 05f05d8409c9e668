package main

import (
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/toold-dev/toold/server/http/jsonform"
)

// message returns the reference to the schema of a message. It adds the schema if necessary.
func (b *builder) message(m protoreflect.MessageDescriptor) object {
	if s := wellKnown(m.FullName()); s != nil {
		return s
	}
	name := string(m.Name())
	if b.schemas[name] != nil {
		return ref(name)
	}
	properties := object{}
	schema := object{"type": "object", "description": comment(m), "properties": properties}
	b.schemas[name] = schema // Store the schema before its fields are added, because a message may contain itself.
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		s := b.field(f)
		text := comment(f)
		if o := f.ContainingOneof(); o != nil && !o.IsSynthetic() {
			text += fmt.Sprintf("\n\nAt most one field of `%s` is set.", o.Name())
		}
		s["description"] = text
		properties[f.JSONName()] = s
	}
	return ref(name)
}

// wellKnown returns the schema of a message for which protobuf's JSON mapping has a special form, or nil.
func wellKnown(name protoreflect.FullName) object {
	switch name {
	case "google.protobuf.Timestamp":
		return object{"type": "string", "format": "date-time"}
	case "google.protobuf.Duration":
		return object{"type": "string", "pattern": `^-?[0-9]+(\.[0-9]{1,9})?s$`, "examples": []string{"1.5s"}}
	case "google.protobuf.FieldMask":
		return object{"type": "string", "description": "Paths, separated by commas."}
	}
	return nil
}

// field returns the schema of a field, which the caller may change.
func (b *builder) field(f protoreflect.FieldDescriptor) object {
	switch {
	case f.IsMap():
		return object{"type": "object", "additionalProperties": b.value(f.MapValue())}
	case f.IsList():
		return object{"type": "array", "items": b.value(f)}
	}
	return b.value(f)
}

// value returns the schema of one value of a field.
func (b *builder) value(f protoreflect.FieldDescriptor) object {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return b.message(f.Message())
	case protoreflect.EnumKind:
		return b.enum(f.Enum())
	case protoreflect.BoolKind:
		return object{"type": "boolean"}
	case protoreflect.BytesKind:
		return object{"type": "string", "contentEncoding": "base64"}
	case protoreflect.Int64Kind, protoreflect.Uint64Kind:
		return object{"type": []string{"string", "integer"}, "format": "int64"}
	case protoreflect.Int32Kind, protoreflect.Uint32Kind:
		return object{"type": "integer", "format": "int32"}
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return object{"type": []string{"number", "string"}, "format": "double"}
	case protoreflect.StringKind:
		if jsonform.HoldsJSON(f) {
			return object{"type": []string{"string", "object", "array", "number", "boolean"}}
		}
		return object{"type": "string"}
	}
	panic(fmt.Sprintf("%s has the kind %s", f.FullName(), f.Kind()))
}

// enum returns the reference to the schema of an enum.
func (b *builder) enum(e protoreflect.EnumDescriptor) object {
	name := string(e.Name())
	if b.schemas[name] == nil {
		var values []string
		for i := range e.Values().Len() {
			values = append(values, string(e.Values().Get(i).Name()))
		}
		b.schemas[name] = object{"type": "string", "enum": values, "description": comment(e)}
	}
	return ref(name)
}
