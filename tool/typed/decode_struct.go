package typed

import (
	"reflect"
	"strings"
)

type field struct {
	name   string
	index  []int // path through embedded structs
	tagged bool
	plan   *plan
}

func structStorer(fields []field) func(any, reflect.Value) *DecodeError {
	return func(value any, into reflect.Value) *DecodeError {
		members, ok := value.(map[string]any)
		if !ok {
			return mismatch("an object", value)
		}
		for i := range fields {
			f := &fields[i]
			member, ok := members[f.name]
			if !ok {
				continue
			}
			target, err := f.target(into)
			if err == nil {
				err = f.plan.store(member, target)
			}
			if err != nil {
				return err.inMember(f.name)
			}
		}
		return nil
	}
}

// target returns the field in a struct. On the path to the field, it allocates embedded structs whose pointer is nil.
func (f *field) target(v reflect.Value) (reflect.Value, *DecodeError) {
	for i, n := range f.index {
		if i > 0 && v.Kind() == reflect.Pointer {
			if v.IsNil() {
				if !v.CanSet() {
					return v, &DecodeError{Reason: "the Go field is behind an embedded pointer to an unexported type"}
				}
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		v = v.Field(n)
	}
	return v, nil
}

type embedded struct {
	t     reflect.Type
	index []int
}

// fields returns the fields of a struct by Go's rules for embedding, with JSON names. When several fields have the same name, the
// shallowest is used. When several of these have the same depth, the one with a JSON tag is used. If none or several of them have a tag, no
// field is used.
func (ps planner) fields(t reflect.Type) []field {
	var all []field
	seen := map[string]bool{} // names that were found at a shallower level
	visited := map[reflect.Type]bool{}
	for level := []embedded{{t: t}}; len(level) > 0; {
		var found []field
		var deeper []embedded
		for _, e := range level {
			visited[e.t] = true
		}
		for _, e := range level {
			own, inner := directFields(e)
			found = append(found, own...)
			for _, in := range inner {
				if !visited[in.t] { // A type may contain itself through an embedded pointer.
					deeper = append(deeper, in)
				}
			}
		}
		for _, f := range found {
			if !seen[f.name] && dominates(f, found) {
				f.plan = ps.plan(t.FieldByIndex(f.index).Type)
				all = append(all, f)
			}
		}
		for _, f := range found {
			seen[f.name] = true
		}
		level = deeper
	}
	return all
}

// dominates reports whether f is used, and not another field with the same name at the same depth.
func dominates(f field, level []field) bool {
	same, tagged := 0, 0
	for _, other := range level {
		if other.name == f.name {
			same++
			if other.tagged {
				tagged++
			}
		}
	}
	return same == 1 || f.tagged && tagged == 1
}

// directFields returns the fields of the struct itself, and the structs that it embeds without a JSON name.
func directFields(e embedded) (own []field, inner []embedded) {
	for i := range e.t.NumField() {
		sf := e.t.Field(i)
		ft := sf.Type
		if sf.Anonymous && ft.Kind() == reflect.Pointer {
			ft = ft.Elem()
		}
		promotes := sf.Anonymous && ft.Kind() == reflect.Struct
		tag := sf.Tag.Get("json")
		if tag == "-" || !sf.IsExported() && !promotes {
			continue
		}
		name, _, _ := strings.Cut(tag, ",")
		index := append(append([]int(nil), e.index...), i)
		switch {
		case promotes && name == "":
			inner = append(inner, embedded{ft, index})
		case !sf.IsExported():
			// The field is ignored, because encoding/json cannot set it either.
		case name != "":
			own = append(own, field{name: name, index: index, tagged: true})
		default:
			own = append(own, field{name: sf.Name, index: index})
		}
	}
	return own, inner
}
