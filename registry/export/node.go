package export

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/toold-dev/toold/call"
)

// An object is a JSON object that keeps the order of its members, because models write properties in the order of the schema. Values are
// *object, []any, string, [json.Number], bool and nil.
type object struct{ members []member }

type member struct {
	name  string
	value any
}

func (o *object) find(name string) int {
	return slices.IndexFunc(o.members, func(m member) bool { return m.name == name })
}

func (o *object) has(name string) bool { return o.find(name) >= 0 }

func (o *object) get(name string) any {
	if i := o.find(name); i >= 0 {
		return o.members[i].value
	}
	return nil
}

func (o *object) text(name string) string {
	s, _ := o.get(name).(string)
	return s
}

func (o *object) object(name string) *object {
	child, _ := o.get(name).(*object)
	return child
}

func (o *object) list(name string) []any {
	l, _ := o.get(name).([]any)
	return l
}

// set replaces the value of a member in place, or appends a member.
func (o *object) set(name string, v any) {
	if i := o.find(name); i >= 0 {
		o.members[i].value = v
		return
	}
	o.members = append(o.members, member{name, v})
}

func (o *object) take(name string) any {
	v := o.get(name)
	o.members = slices.DeleteFunc(o.members, func(m member) bool { return m.name == name })
	return v
}

func (o *object) copy() *object {
	out := &object{members: make([]member, len(o.members))}
	for i, m := range o.members {
		out.members[i] = member{m.name, copyOf(m.value)}
	}
	return out
}

func copyOf(v any) any {
	switch v := v.(type) {
	case *object:
		return v.copy()
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = copyOf(v[i])
		}
		return out
	}
	return v
}

// obj returns an object from alternating names and values. It omits members with a nil value.
func obj(pairs ...any) *object {
	o := &object{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != nil {
			o.members = append(o.members, member{pairs[i].(string), pairs[i+1]})
		}
	}
	return o
}

// parse parses JSON text and keeps number tokens unchanged.
func parse(text []byte) (any, error) {
	if _, err := call.ParseJSON(string(text), 0); err != nil { // The code below relies on valid syntax and a limited depth.
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return parseValue(dec)
}

func parseValue(dec *json.Decoder) (any, error) {
	t, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		o := &object{}
		for dec.More() {
			name, err := dec.Token()
			if err != nil {
				return nil, err
			}
			v, err := parseValue(dec)
			if err != nil {
				return nil, err
			}
			o.members = append(o.members, member{fmt.Sprint(name), v})
		}
		_, err := dec.Token()
		return o, err
	case json.Delim('['):
		list := []any{}
		for dec.More() {
			v, err := parseValue(dec)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := dec.Token()
		return list, err
	}
	if _, stray := t.(json.Delim); stray {
		return nil, errors.New("a bracket that closes nothing")
	}
	return t, nil
}

// write appends v as JSON without white space.
func write(dst []byte, v any) []byte {
	switch v := v.(type) {
	case *object:
		dst = append(dst, '{')
		for i, m := range v.members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(call.AppendCanonical(dst, m.name), ':')
			dst = write(dst, m.value)
		}
		return append(dst, '}')
	case []any:
		dst = append(dst, '[')
		for i := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = write(dst, v[i])
		}
		return append(dst, ']')
	}
	return call.AppendCanonical(dst, v)
}

func compact(v any) string { return string(write(nil, v)) }

// same reports whether two values are equal, including the order of members.
func same(a, b any) bool { return compact(a) == compact(b) }
