// Package setting reads the settings that structs declare in the tags of their fields.
//
// A declaration is one field. The type of the field is the type of the setting. The tags of the field contain the rest:
//
//	yaml      the key; a field without this tag is not a setting
//	default   the value when nothing sets the setting
//	min, max  the bounds of a number or a duration; both bounds are allowed values
//	oneof     the allowed texts, separated by spaces; the empty text is allowed unless required is set
//	format    the format of a non-empty text: a name in [Formats]
//	required  "true": the value must not be zero
//	unique    "true": no two elements of a list have the same value
//	secret    "true": the value is never shown; of a text NAME=value, the part after the equals sign is not shown
//	help      one line that says what the setting does
//	see       the page with more details, relative to docs/reference
//	reload    "always": a new value applies without a restart; "started": only if the group was configured when the daemon started
//
// A struct is a group of settings, and its reload tag applies to the whole group. The elements of a list of structs have settings too. When
// an element does not set a setting, the default applies.
//
// Plugins and tools declare their own settings. They check them with [Check], also in programs that use them without a daemon.
package setting

import (
	"cmp"
	"encoding"
	"reflect"
	"slices"
)

// A Setting describes a value, a list or a map in a struct or in one of its groups.
type Setting struct {
	Key    string // including the keys of its groups, such as limits.arguments
	Type   reflect.Type
	Tag    reflect.StructTag
	Reload string // the setting's own reload tag, or the tag of the nearest enclosing group that has one

	index []int
}

// Of returns the settings of a struct in the order of its fields.
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

// In returns the value of the setting in a struct.
func (s Setting) In(v reflect.Value) reflect.Value { return v.FieldByIndex(s.index) }

// IsList reports whether a setting is a list or a map. Lists and maps can be set only in a file.
func (s Setting) IsList() bool { return s.Type.Kind() == reflect.Slice || s.Type.Kind() == reflect.Map }

// Elements returns the settings of a list's elements. A list of texts or numbers has none.
func (s Setting) Elements() []Setting {
	if s.Type.Kind() != reflect.Slice || !IsGroup(s.Type.Elem()) {
		return nil
	}
	return Of(s.Type.Elem())
}

// IsGroup reports whether a type is a group of settings and not a value.
func IsGroup(t reflect.Type) bool { return t.Kind() == reflect.Struct && !isText(t) }

func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// Fill sets the zero fields of a struct, and of the elements of its lists, to their defaults. It panics on an invalid default, because that
// is a programming error in the declaration.
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
			own := reflect.MakeSlice(f.Type(), f.Len(), f.Len()) // a copy, so that the caller's list stays unchanged
			reflect.Copy(own, f)
			f.Set(own)
			for i := range own.Len() {
				fill(own.Index(i))
			}
		}
	}
}
