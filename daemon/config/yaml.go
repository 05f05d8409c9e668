package config

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/toold-dev/toold/setting"
)

// readYAML reads a configuration file field by field, so that each error names its line. It records the line of each setting.
func (c *Config) readYAML(text []byte) error {
	r := &yamlReader{file: c.loaded.file, from: c.loaded.from}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document yaml.Node
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		var twice any // Decode into a Go value too: only that detects a key that occurs twice.
		err = document.Decode(&twice)
	}
	if err != nil {
		return fmt.Errorf("%s: %s", r.file, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err = decoder.Decode(&yaml.Node{}); err == nil {
		return fmt.Errorf("%s: more than one document", r.file)
	} else if !errors.Is(err, io.EOF) { // The decoder ends the document at a line that does not fit into it. It reports such a line only when it looks for the next document.
		return fmt.Errorf("%s: not YAML after the first settings: a line has less indentation than the first line, or is not valid", r.file)
	}
	if root := document.Content[0]; root.Tag != "!!null" {
		r.group(root, reflect.ValueOf(c).Elem(), "")
	}
	return errors.Join(r.problems...)
}

type yamlReader struct {
	file     string
	from     map[string]string
	problems []error
}

func (r *yamlReader) complain(n *yaml.Node, format string, args ...any) {
	r.problems = append(r.problems, fmt.Errorf("%s:%d:%d: %s", r.file, n.Line, n.Column, fmt.Sprintf(format, args...)))
}

func (r *yamlReader) group(n *yaml.Node, to reflect.Value, prefix string) {
	if n.Kind != yaml.MappingNode {
		if n.Tag != "!!null" { // an empty group changes nothing
			r.complain(n, "%s is a group of settings, not a single value", strings.TrimSuffix(prefix, "."))
		}
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if field := fieldNamed(to, key.Value); field.IsValid() {
			r.value(value, field, prefix+key.Value)
		} else {
			r.complain(key, "unknown setting %q%s", prefix+key.Value, meant(to.Type(), prefix, key.Value))
		}
	}
}

func (r *yamlReader) value(n *yaml.Node, to reflect.Value, key string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	r.from[key] = fmt.Sprintf("%s:%d", r.file, n.Line)
	if strings.Contains(key, "[") { // Record the column of a list element too, because a line may hold several elements.
		r.from[key] += fmt.Sprintf(":%d", n.Column)
	}
	switch {
	case setting.IsGroup(to.Type()):
		r.group(n, to, key+".")
	case to.Kind() == reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			r.complain(n, "%s is a list", key)
			return
		}
		to.SetZero() // Clear the default, so that an empty list replaces it.
		if len(n.Content) > 0 {
			to.Set(reflect.MakeSlice(to.Type(), len(n.Content), len(n.Content)))
		}
		for i, element := range n.Content {
			if setting.IsGroup(to.Type().Elem()) {
				setting.Fill(to.Index(i).Addr().Interface())
			}
			r.value(element, to.Index(i), fmt.Sprintf("%s[%d]", key, i))
		}
	case to.Kind() == reflect.Map:
		r.texts(n, to, key)
	case n.Kind != yaml.ScalarNode || n.Tag == "!!null":
		r.complain(n, "%s wants a value", key)
	default:
		if err := scalar(n, to); err != nil {
			r.complain(n, "%s: %v", key, err)
		}
	}
}

// texts reads a mapping of strings.
func (r *yamlReader) texts(n *yaml.Node, to reflect.Value, key string) {
	if n.Kind != yaml.MappingNode {
		r.complain(n, "%s is a mapping of names to values", key)
		return
	}
	to.SetZero()
	if len(n.Content) > 0 {
		to.Set(reflect.MakeMap(to.Type()))
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		if value.Kind != yaml.ScalarNode || value.Tag != "!!str" || name.Tag != "!!str" {
			r.complain(name, "%s: %s and its value must be text; write them in quotes", key, name.Value)
			continue
		}
		to.SetMapIndex(reflect.ValueOf(name.Value), reflect.ValueOf(value.Value))
		r.from[key+"."+name.Value] = fmt.Sprintf("%s:%d", r.file, name.Line)
	}
}

// scalar parses one value. The type that YAML gives the value must match: `no` is not a string, and `8` is not a duration.
func scalar(n *yaml.Node, to reflect.Value) error {
	switch to.Addr().Interface().(type) {
	case *time.Duration:
		if n.Value == "0" {
			to.SetInt(0)
			return nil
		}
		return setting.Parse(to, n.Value)
	case encoding.TextUnmarshaler:
		return setting.Parse(to, n.Value)
	}
	kinds := map[reflect.Kind]struct{ tag, word string }{
		reflect.Bool: {"!!bool", "true or false"}, reflect.Int: {"!!int", "a whole number"}, reflect.Int64: {"!!int", "a whole number"},
		reflect.Float64: {"!!float", "a number such as 0.1"}, reflect.String: {"!!str", "text, in quotes when it looks like something else"},
	}
	if want := kinds[to.Kind()]; n.Tag != want.tag && (want.tag != "!!float" || n.Tag != "!!int") { // 0 and 1 are valid floats too
		return fmt.Errorf("%q is not %s", n.Value, want.word)
	}
	return n.Decode(to.Addr().Interface())
}

// fieldNamed returns the field of a struct that has a key. It returns the zero Value when there is none.
func fieldNamed(v reflect.Value, key string) reflect.Value {
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("yaml") == key && key != "" {
			return v.Field(i)
		}
	}
	return reflect.Value{}
}

// meant suggests the setting that the user probably meant. It looks in the same group first, then among all settings.
func meant(t reflect.Type, prefix, key string) string {
	var near, all []string
	for i := range t.NumField() {
		if k := t.Field(i).Tag.Get("yaml"); k != "" {
			near = append(near, k)
		}
	}
	for _, s := range Settings() {
		all = append(all, s.Key)
	}
	if k := nearest(key, near); k != "" {
		return fmt.Sprintf("; did you mean %q?", prefix+k)
	}
	if k := nearest(prefix+key, all); k != "" {
		return fmt.Sprintf("; did you mean %q?", k)
	}
	return ""
}
