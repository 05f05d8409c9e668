package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// readYAML holds a configuration file against the shape of Config, so that each complaint names its line, and records
// where each setting stands. It returns the values of what the file sets, by key. koanf's own parser knows no lines.
func readYAML(file string, text []byte, from map[string]string) (map[string]any, error) {
	r := &yamlReader{file: file, from: from, values: map[string]any{}}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document yaml.Node
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err == nil {
		var twice any // the decoder into values is the one that sees a key that stands twice
		err = document.Decode(&twice)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s", file, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if decoder.Decode(&yaml.Node{}) == nil {
		return nil, fmt.Errorf("%s: more than one document", file)
	}
	if root := document.Content[0]; root.Tag != "!!null" {
		r.group(root, reflect.TypeFor[Config](), "")
	}
	return r.values, errors.Join(r.problems...)
}

type yamlReader struct {
	file     string
	from     map[string]string
	values   map[string]any
	problems []error
}

func (r *yamlReader) complain(n *yaml.Node, format string, args ...any) {
	r.problems = append(r.problems, fmt.Errorf("%s:%d:%d: %s", r.file, n.Line, n.Column, fmt.Sprintf(format, args...)))
}

// group reads a mapping that has the fields of t.
func (r *yamlReader) group(n *yaml.Node, t reflect.Type, prefix string) {
	if n.Kind != yaml.MappingNode {
		if n.Tag != "!!null" { // a group without members changes nothing
			r.complain(n, "%s is a group of settings, not a single value", strings.TrimSuffix(prefix, "."))
		}
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		field, ok := fieldNamed(t, key.Value)
		if !ok {
			r.complain(key, "unknown setting %q%s", prefix+key.Value, r.meant(t, prefix, key.Value))
			continue
		}
		r.value(value, field.Type, prefix+key.Value)
	}
}

func (r *yamlReader) value(n *yaml.Node, t reflect.Type, key string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if strings.Contains(key, "[") { // settings are told by their line, what is in lists by its column too
		r.from[key] = fmt.Sprintf("%s:%d:%d", r.file, n.Line, n.Column)
	}
	switch {
	case t.Kind() == reflect.Struct && t != timeType:
		r.group(n, t, key+".")
	case t.Kind() == reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			r.complain(n, "%s is a list", key)
			return
		}
		if !strings.Contains(key, "[") {
			r.from[key] = fmt.Sprintf("%s:%d", r.file, n.Line)
		}
		for i, element := range n.Content {
			r.value(element, t.Elem(), fmt.Sprintf("%s[%d]", key, i))
		}
		var list []any
		if err := n.Decode(&list); err != nil {
			r.complain(n, "%s: %v", key, err)
		}
		if !strings.Contains(key, "[") {
			r.values[key] = list
		}
	case t.Kind() == reflect.Map: // of texts
		if n.Kind != yaml.MappingNode {
			r.complain(n, "%s is a list of names with a value each", key)
			return
		}
		r.from[key] = fmt.Sprintf("%s:%d", r.file, n.Line)
		values := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			name, value := n.Content[i], n.Content[i+1]
			if value.Kind != yaml.ScalarNode || value.Tag != "!!str" || name.Tag != "!!str" {
				r.complain(name, "%s: %s and its value are no texts; write them in quotes", key, name.Value)
				continue
			}
			values[name.Value] = value.Value
			r.from[key+"."+name.Value] = fmt.Sprintf("%s:%d", r.file, name.Line)
		}
		r.values[key] = values
	default:
		if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
			r.complain(n, "%s wants a value", key)
			return
		}
		v, err := scalar(n, t)
		if err != nil {
			r.complain(n, "%s: %v", key, err)
			return
		}
		if !strings.Contains(key, "[") {
			r.from[key], r.values[key] = fmt.Sprintf("%s:%d", r.file, n.Line), v
		}
	}
}

// scalar reads one value. YAML's own types have to agree, so that `no` is no name and `8` no duration.
func scalar(n *yaml.Node, t reflect.Type) (any, error) {
	want := map[reflect.Kind]string{reflect.Bool: "!!bool", reflect.Int: "!!int", reflect.Int64: "!!int", reflect.String: "!!str", reflect.Float64: "!!float"}[t.Kind()]
	switch t {
	case durationType:
		if n.Value == "0" {
			return time.Duration(0), nil
		}
		return parseDuration(n.Value)
	case timeType:
		at, err := time.Parse(time.RFC3339, n.Value)
		if err != nil {
			return nil, fmt.Errorf("%q is not a time such as 2027-01-31T00:00:00Z", n.Value)
		}
		return at, nil
	}
	if t.Kind() == reflect.Float64 && n.Tag == "!!int" {
		want = n.Tag // 0 and 1 are shares too
	}
	if n.Tag != want {
		name := map[string]string{"!!bool": "true or false", "!!int": "a whole number", "!!float": "a number such as 0.1", "!!str": "text, in quotes when it looks like something else"}[want]
		return nil, fmt.Errorf("%q is not %s", n.Value, name)
	}
	v := reflect.New(t)
	err := n.Decode(v.Interface())
	return v.Elem().Interface(), err
}

func fieldNamed(t reflect.Type, key string) (reflect.StructField, bool) {
	for i := range t.NumField() {
		if f := t.Field(i); f.Tag.Get("koanf") == key && key != "-" {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// meant looks among the neighbours first, then among all settings.
func (r *yamlReader) meant(t reflect.Type, prefix, key string) string {
	var near, all []string
	for i := range t.NumField() {
		if k := t.Field(i).Tag.Get("koanf"); k != "" && k != "-" {
			near = append(near, k)
		}
	}
	for _, s := range settings() {
		all = append(all, s.key)
	}
	if k := nearest(key, near); k != "" {
		return fmt.Sprintf("; did you mean %q?", prefix+k)
	}
	if k := nearest(prefix+key, all); k != "" {
		return fmt.Sprintf("; did you mean %q?", k)
	}
	return ""
}
