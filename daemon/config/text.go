package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/toold-dev/toold/cli/show"
	"github.com/toold-dev/toold/setting"
)

const hidden = "(hidden)"

// Text formats a configuration as a configuration file, without secrets. A comment after each value names its source.
func Text(c *Config) string {
	var b strings.Builder
	var group []string
	for _, s := range Settings() {
		parts := strings.Split(s.Key, ".")
		for depth, name := range parts[:len(parts)-1] {
			if len(group) <= depth || group[depth] != name {
				b.WriteString(strings.Repeat("  ", depth) + name + ":\n")
				group = append(group[:depth:depth], name)
			}
		}
		group = group[:len(parts)-1]
		margin := strings.Repeat("  ", len(parts)-1)
		line, below := margin+parts[len(parts)-1]+": ", ""
		if v := s.In(reflect.ValueOf(*c)); s.IsList() && v.Len() > 0 {
			line, below = strings.TrimSuffix(line, " "), listText(s, v, margin)
		} else {
			line += valueText(s, v)
		}
		from := c.loaded.from[s.Key]
		if from == "" {
			from = "default"
		}
		fmt.Fprintf(&b, "%-44s # %s\n%s", line, show.Line(from), below)
	}
	return b.String()
}

// listText formats a list with one entry on each line.
func listText(s setting.Setting, v reflect.Value, margin string) string {
	var b strings.Builder
	if v.Kind() == reflect.Map {
		for _, name := range slices.Sorted(maps.Keys(v.Interface().(Workspaces))) {
			fmt.Fprintf(&b, "%s  %s: %s\n", margin, quote(name), quote(v.MapIndex(reflect.ValueOf(name)).String()))
		}
		return b.String()
	}
	for i := range v.Len() {
		fmt.Fprintf(&b, "%s  - %s\n", margin, valueText(s, v.Index(i)))
	}
	return b.String()
}

// valueText formats a value in YAML's flow style. For a struct, it writes only the fields that differ from their defaults.
func valueText(s setting.Setting, v reflect.Value) string {
	isSecret := s.Tag.Get("secret") != ""
	switch {
	case v.Kind() == reflect.Map:
		return "{}"
	case v.Kind() == reflect.Slice:
		var parts []string
		for i := range v.Len() {
			parts = append(parts, valueText(s, v.Index(i)))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case setting.IsGroup(v.Type()):
		return "{" + strings.Join(groupText(v), ", ") + "}"
	case v.Kind() == reflect.String && isSecret && s.IsList():
		name, _, isSet := strings.Cut(v.String(), "=")
		if isSet {
			name += "=" + hidden
		}
		return quote(name)
	case isSecret:
		return hidden
	case v.Kind() == reflect.String:
		return quote(v.String())
	default:
		return setting.Text(v)
	}
}

// groupText formats the fields of a struct that differ from their defaults.
func groupText(v reflect.Value) (parts []string) {
	usual := reflect.New(v.Type())
	setting.Fill(usual.Interface())
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if key := f.Tag.Get("yaml"); key != "" && !reflect.DeepEqual(v.Field(i).Interface(), usual.Elem().Field(i).Interface()) {
			parts = append(parts, key+": "+valueText(setting.Setting{Type: f.Type, Tag: f.Tag}, v.Field(i)))
		}
	}
	return parts
}

// quote formats a string as JSON, without escapes for HTML.
func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return `""` // cannot happen for a string
	}
	return strings.TrimSuffix(b.String(), "\n")
}
