// Package setting reads the settings that structs declare in the tags of their fields.
//
// A declaration is one field. Its name and type are those of the setting, and its tags say the rest:
//
//	yaml      the key; a field without one is no setting
//	default   the value that holds when nobody names another one
//	min, max  the bounds of a number or a duration; both are allowed values
//	oneof     the texts that are allowed, separated by spaces; the empty text is allowed unless it is required
//	format    what a text that is not empty has to be: a name of [Formats]
//	required  "true": the value must not be zero
//	unique    "true": no two elements of a list have the same value
//	secret    "true": the value is never shown; of NAME=value, the part behind the equals sign
//	help      one line that says what the setting does
//	see       the page that says more, relative to docs/reference
//	reload    when a new value counts without a restart: "always", or "started" when the daemon started with something in the group
//
// A struct is a group of settings, and reload holds for all of its group. Lists of structs have elements with settings. A value
// that no element names is its default.
//
// Plugins and tools declare their own settings, and check them with [Check] also when a program makes them without a daemon.
package setting

import (
	"cmp"
	"encoding"
	"reflect"
	"slices"
)

// A Setting is a value, a list or a map of a struct, or of one of its groups.
type Setting struct {
	Key    string // with those of its groups, such as limits.arguments
	Type   reflect.Type
	Tag    reflect.StructTag
	Reload string // its own, or that of its nearest group

	index []int
}

// Of lists the settings of a struct in the order of its fields.
func Of(t reflect.Type) []Setting { return group(t, Setting{}) }

func group(t reflect.Type, above Setting) (found []Setting) {
	for i := range t.NumField() {
		f := t.Field(i)
		key := f.Tag.Get("yaml")
		if key == "" {
			continue
		}
		s := Setting{above.Key + key, f.Type, f.Tag, cmp.Or(f.Tag.Get("reload"), above.Reload), append(slices.Clip(above.index), i)}
		if IsGroup(f.Type) {
			s.Key += "."
			found = append(found, group(f.Type, s)...)
		} else {
			found = append(found, s)
		}
	}
	return found
}

// In returns the value that a struct has of a setting of its type.
func (s Setting) In(v reflect.Value) reflect.Value { return v.FieldByIndex(s.index) }

// IsList reports whether a setting has many values, which only a file can name.
func (s Setting) IsList() bool { return s.Type.Kind() == reflect.Slice || s.Type.Kind() == reflect.Map }

// Elements lists the settings of the elements of a list; of texts and numbers there are none.
func (s Setting) Elements() []Setting {
	if s.Type.Kind() != reflect.Slice || !IsGroup(s.Type.Elem()) {
		return nil
	}
	return Of(s.Type.Elem())
}

// IsGroup reports whether a type has settings, and is no value itself.
func IsGroup(t reflect.Type) bool { return t.Kind() == reflect.Struct && !isText(t) }

func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// Fill gives the zero fields of a struct, and of the elements of its lists, their defaults. It panics on a default that cannot be
// read, which is a mistake in a declaration.
func Fill(to any) { fill(reflect.ValueOf(to).Elem()) }

func fill(v reflect.Value) {
	for _, s := range Of(v.Type()) {
		f := s.In(v)
		if text, declared := s.Tag.Lookup("default"); declared && f.IsZero() {
			if err := Parse(f, text); err != nil {
				panic(s.Key + ": " + err.Error())
			}
		}
		if len(s.Elements()) > 0 && f.Len() > 0 {
			own := reflect.MakeSlice(f.Type(), f.Len(), f.Len()) // the caller keeps its list
			reflect.Copy(own, f)
			f.Set(own)
			for i := range own.Len() {
				fill(own.Index(i))
			}
		}
	}
}
