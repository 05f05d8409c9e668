package call_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/toold-dev/toold/tool"
)

// A filler sets the fields of a record by reflection, so that tests cover a new field at once. Fields that JSON leaves out (json:"-"), and
// the fields of a result that the engine stores apart from it, are not stored and stay zero.
type filler struct {
	present func(path string) bool // whether to set a field
	length  func(path string) int  // length of a list or map
	text    func(path string) string
	integer func(path string) int64
	real    func(path string) float64
	instant func(path string) time.Time
}

// everyField sets all fields, each to a different value. A text field gets its own path.
func everyField() *filler {
	n := int64(0)
	count := func(string) int64 {
		n++
		return n
	}
	return &filler{
		present: func(string) bool { return true },
		length:  func(string) int { return 2 },
		text:    func(path string) string { return path },
		integer: count,
		real:    func(path string) float64 { return 1 / float64(1+count(path)) },
		instant: func(path string) time.Time { return began.Add(time.Duration(count(path)) * time.Second) },
	}
}

// anyFields sets random fields to random values.
func anyFields(t *rapid.T) *filler {
	bytes := rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 200), func(b []byte) string { return string(b) })
	return &filler{
		present: drawn(t, rapid.Bool()),
		length:  drawn(t, rapid.IntRange(0, 3)),
		text:    drawn(t, rapid.OneOf(anyString(), bytes)),
		integer: drawn(t, rapid.Int64()),
		real:    drawn(t, rapid.Float64()),
		instant: func(path string) time.Time { return time.Unix(0, rapid.Int64().Draw(t, path)/2).UTC() },
	}
}

func drawn[V any](t *rapid.T, g *rapid.Generator[V]) func(string) V {
	return func(path string) V { return g.Draw(t, path) }
}

func (f *filler) fill(v reflect.Value, path string) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(f.instant(path)))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(f.text(path))
	case reflect.Int, reflect.Int64:
		v.SetInt(f.integer(path))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(f.real(path))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), path)
	case reflect.Struct:
		f.fields(v, path)
	case reflect.Slice:
		f.slice(v, path)
	case reflect.Map:
		f.members(v, path)
	default:
		panic(fmt.Sprintf("%s is a %s: teach the filler about it", path, v.Kind()))
	}
}

func (f *filler) fields(v reflect.Value, path string) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if inner := path + "." + field.Name; field.Tag.Get("json") != "-" && !apart(v.Type(), field.Name) && f.present(inner) {
			f.fill(v.Field(i), inner)
		}
	}
}

func apart(of reflect.Type, field string) bool {
	return of == reflect.TypeFor[tool.Result]() && slices.Contains([]string{"Operation", "Documents", "Actions"}, field)
}

// slice leaves an empty list nil, because an empty list is read as nil.
func (f *filler) slice(v reflect.Value, path string) {
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		v.SetBytes(fmt.Appendf(nil, "%q", f.text(path)))
		return
	}
	if v.Type().Elem().Kind() == reflect.Uint8 {
		if s := f.text(path); s != "" {
			v.SetBytes([]byte(s))
		}
		return
	}
	for i := range f.length(path) {
		v.Grow(1)
		v.SetLen(i + 1)
		f.fill(v.Index(i), fmt.Sprintf("%s[%d]", path, i))
	}
}

func (f *filler) members(v reflect.Value, path string) {
	n := f.length(path)
	if n == 0 {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for i := range n {
		name, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.fill(name, fmt.Sprintf("%s.name%d", path, i))
		if inner := fmt.Sprintf("%s.value%d", path, i); f.present(inner) {
			f.fill(value, inner)
		}
		v.SetMapIndex(name, value)
	}
}

// filled returns a T with the fields that f sets.
func filled[T any](f *filler) *T {
	v := new(T)
	f.fill(reflect.ValueOf(v).Elem(), reflect.TypeFor[T]().Name())
	return v
}
