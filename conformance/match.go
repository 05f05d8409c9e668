package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// names maps the variables of a transcript to their values.
type names map[string]string

var placeholder = regexp.MustCompile(`\{\{([a-z][a-z0-9_]*|_)\}\}`)

// fill replaces variables by their values.
func (n names) fill(text string) (string, error) {
	var missing []string
	filled := placeholder.ReplaceAllStringFunc(text, func(p string) string {
		name := p[2 : len(p)-2]
		value, ok := n[name]
		if !ok {
			missing = append(missing, name)
		}
		return value
	})
	if missing != nil {
		return "", fmt.Errorf("no value for {{%s}}", strings.Join(missing, "}} {{"))
	}
	return filled, nil
}

// show replaces values by the names of their variables, for people.
func (n names) show(text string) string {
	for _, name := range slices.SortedFunc(maps.Keys(n), func(a, b string) int { return len(n[b]) - len(n[a]) }) {
		if len(n[name]) >= minShown {
			text = strings.ReplaceAll(text, n[name], "{{"+name+"}}")
		}
	}
	return text
}

const minShown = 6 // shorter values also occur by coincidence

// match compares got with want, assigns values to unset variables, and returns the differences. It ignores members that want does not
// mention. A null in want requires that the member is absent.
func (n names) match(path string, want, got any) []string {
	switch w := want.(type) {
	case nil:
		if got == nil {
			return nil
		}
	case map[string]any:
		return n.matchObject(path, w, got)
	case []any:
		return n.matchList(path, w, got)
	case string:
		if n.matchText(w, got) {
			return nil
		}
	case json.Number:
		if g, ok := got.(json.Number); ok && g == w {
			return nil
		}
	case bool:
		if got == w {
			return nil
		}
	}
	return []string{fmt.Sprintf("%s: want %s, got %s", path, n.wanted(want), n.show(compact(got)))}
}

func (n names) matchObject(path string, want map[string]any, got any) (differs []string) {
	g, ok := got.(map[string]any)
	if !ok {
		return []string{fmt.Sprintf("%s: want %s, got %s", path, n.wanted(want), n.show(compact(got)))}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		inner := name
		if path != "" {
			inner = path + "." + name
		}
		differs = append(differs, n.match(inner, want[name], g[name])...)
	}
	return differs
}

func (n names) matchList(path string, want []any, got any) (differs []string) {
	g, _ := got.([]any)
	if len(g) != len(want) {
		return []string{fmt.Sprintf("%s: want %d elements, got %s", path, len(want), n.show(compact(got)))}
	}
	for i := range want {
		differs = append(differs, n.match(fmt.Sprintf("%s[%d]", path, i), want[i], g[i])...)
	}
	return differs
}

// matchText compares a string or number with a text that contains variables. {{_}} matches any text, and so does the first use of a
// variable.
func (n names) matchText(want string, got any) bool {
	var text string
	switch g := got.(type) {
	case string:
		text = g
	case json.Number:
		text = g.String()
	default:
		return false
	}
	pattern, groups := strings.Builder{}, []string{}
	rest := want
	for {
		at := placeholder.FindStringSubmatchIndex(rest)
		if at == nil {
			break
		}
		pattern.WriteString(regexp.QuoteMeta(rest[:at[0]]))
		name := rest[at[2]:at[3]]
		if value, known := n[name]; known {
			pattern.WriteString(regexp.QuoteMeta(value))
		} else if name == "_" {
			pattern.WriteString(`(?:.*)`)
		} else {
			pattern.WriteString(`(.+)`)
			groups = append(groups, name)
		}
		rest = rest[at[1]:]
	}
	pattern.WriteString(regexp.QuoteMeta(rest))
	m := regexp.MustCompile(`(?s)^(?:` + pattern.String() + `)$`).FindStringSubmatch(text)
	if m == nil {
		return false
	}
	given := names{}
	for i, name := range groups {
		if before, twice := given[name]; twice && before != m[i+1] {
			return false
		}
		given[name] = m[i+1]
	}
	maps.Copy(n, given)
	return true
}

func (n names) wanted(v any) string {
	if v == nil {
		return "nothing"
	}
	return compact(v)
}

func compact(v any) string {
	if v == nil {
		return "nothing"
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
