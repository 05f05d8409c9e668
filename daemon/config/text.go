package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/toold-dev/toold/cli/show"
)

const hidden = "(hidden)"

// Text writes a configuration as its file would be, with a comment behind each value that says who set it.
func Text(c *Config) string {
	values := Values(*c)
	var b strings.Builder
	var group []string
	for _, s := range settings() {
		parts := strings.Split(s.key, ".")
		for depth, name := range parts[:len(parts)-1] {
			if len(group) <= depth || group[depth] != name {
				b.WriteString(strings.Repeat("  ", depth) + name + ":\n")
				group = append(group[:depth:depth], name)
			}
		}
		group = group[:len(parts)-1]
		margin := strings.Repeat("  ", len(parts)-1)
		line := margin + parts[len(parts)-1] + ": "
		var below string
		if s.isList() {
			line, below = listText(line, margin, values[s.key])
		} else {
			line += scalarText(values[s.key])
		}
		fmt.Fprintf(&b, "%-44s # %s\n%s", line, show.Line(c.loaded.from[s.key]), below)
	}
	return b.String()
}

func scalarText(v any) string {
	if s, isText := v.(string); isText {
		return quote(s)
	}
	return plain(v)
}

// elementsText writes a list whose elements hold nothing secret, and of each what was said.
func elementsText[T any](margin string, list []T) string {
	var b strings.Builder
	for i := range list {
		v, mark := reflect.ValueOf(list[i]), "- "
		for f := range v.NumField() {
			if v.Field(f).IsZero() {
				continue
			}
			text := scalarText(v.Field(f).Interface())
			if v.Field(f).Kind() == reflect.Slice {
				var parts []string
				for e := range v.Field(f).Len() {
					parts = append(parts, scalarText(v.Field(f).Index(e).Interface()))
				}
				text = "[" + strings.Join(parts, ", ") + "]"
			}
			fmt.Fprintf(&b, "%s  %s%s: %s\n", margin, mark, v.Type().Field(f).Tag.Get("koanf"), text)
			mark = "  "
		}
	}
	return b.String()
}

// listText writes a list without what is secret in it: hashes of tokens, values of variables.
func listText(line, margin string, v any) (head, below string) {
	if at := reflect.ValueOf(v); at.Len() == 0 && at.Kind() == reflect.Map {
		return line + "{}", ""
	} else if at.Len() == 0 {
		return line + "[]", ""
	}
	var b strings.Builder
	switch list := v.(type) {
	case Workspaces:
		b.WriteString(workspacesText(margin, list))
	case []Token:
		for _, t := range list {
			fmt.Fprintf(&b, "%s  - name: %s\n%s    namespace: %s\n%s    roles: [%s]\n%s    hash: %s\n", margin, quote(t.Name), margin, quote(t.Namespace),
				margin, strings.Join(t.Roles, ", "), margin, hidden)
			if !t.Expires.IsZero() {
				fmt.Fprintf(&b, "%s    expires: %s\n", margin, t.Expires.UTC().Format(time.RFC3339))
			}
		}
	case []Secret:
		for _, s := range list {
			fmt.Fprintf(&b, "%s  - name: %s\n", margin, quote(s.Name))
			switch {
			case s.Env != "":
				fmt.Fprintf(&b, "%s    env: %s\n", margin, quote(s.Env))
			case s.File != "":
				fmt.Fprintf(&b, "%s    file: %s\n", margin, quote(s.File))
			default:
				fmt.Fprintf(&b, "%s    value: %s\n", margin, hidden)
			}
		}
	case []Pattern:
		for _, p := range list {
			fmt.Fprintf(&b, "%s  - name: %s\n%s    expr: %s\n", margin, quote(p.Name), margin, quote(p.Expr))
		}
	case []NamedSecret:
		b.WriteString(secretsText(margin, list))
	case []Hook:
		b.WriteString(hooksText(margin, list))
	case []NotifyTarget:
		for i := range list {
			fmt.Fprintf(&b, "%s  - %s\n", margin, flowText(reflect.ValueOf(list[i])))
		}
	case []RateLimit:
		b.WriteString(elementsText(margin, list))
	case []MCPServer:
		b.WriteString(elementsText(margin, list))
	case []ToolConcurrency:
		b.WriteString(elementsText(margin, list))
	case []CacheRule:
		b.WriteString(elementsText(margin, list))
	case []Reminder:
		b.WriteString(elementsText(margin, list))
	case []string:
		for _, e := range list {
			if name, _, isVariable := strings.Cut(e, "="); isVariable {
				e = name + "=" + hidden
			}
			fmt.Fprintf(&b, "%s  - %s\n", margin, quote(e))
		}
	}
	return strings.TrimSuffix(line, " "), b.String()
}

// quote writes a string as JSON, without the escapes that HTML would need.
func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return `""` // no string fails
	}
	return strings.TrimSuffix(b.String(), "\n")
}
