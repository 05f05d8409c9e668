package config

import (
	"fmt"
	"os"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toold-dev/toold/setting"
)

const page = "../../docs/reference/configuration.md"

// TestReference writes the tables of the page between these lines.
const (
	tablesBegin = "<!-- The tables are written by: go test ./daemon/config -run TestReference -update -->\n"
	tablesEnd   = "<!-- The end of the tables. -->\n"
)

// all visits each setting, and each setting of the elements of a list. list is the key of that list, or "" for a setting outside lists.
func all(list string, in []setting.Setting, visit func(list string, s setting.Setting)) {
	for _, s := range in {
		visit(list, s)
		all(strings.TrimPrefix(list+"[]."+s.Key, "[]."), s.Elements(), visit)
	}
}

// Each setting needs a help text, a default unless its type needs none, bounds when it is a number, and known tags only.
func TestDeclarations(t *testing.T) {
	known := map[string]bool{}
	for _, tag := range []string{"yaml", "default", "min", "max", "oneof", "format", "required", "unique", "secret", "help", "see", "reload"} {
		known[tag] = true
	}
	usual := defaults()
	if problems := setting.Check(&usual); problems != nil {
		t.Errorf("the defaults are refused: %v", problems)
	}
	all("", Settings(), func(list string, s setting.Setting) {
		wrong := func(format string, args ...any) {
			t.Errorf("%s %s: %s", list, s.Key, fmt.Sprintf(format, args...))
		}
		for _, m := range regexp.MustCompile(`(\w+):"`).FindAllStringSubmatch(string(s.Tag), -1) {
			if !known[m[1]] {
				wrong("the tag %s is unknown", m[1])
			}
		}
		if help := s.Tag.Get("help"); help == "" || strings.ContainsAny(help, "\n`|") || strings.HasSuffix(help, ".") {
			wrong("help %q is not one line without ` and | and without a full stop", help)
		}
		if format := s.Tag.Get("format"); format != "" && setting.Formats[format] == nil {
			wrong("there is no format %s", format)
		}
		if !slices.Contains([]string{"", "always", "started"}, s.Reload) {
			wrong("reload %q is neither always nor started", s.Reload)
		}
		if see, _, _ := strings.Cut(s.Tag.Get("see"), "#"); see != "" {
			if _, err := os.Stat(path.Join(path.Dir(page), see)); err != nil {
				wrong("%v", err)
			}
		}
		kind := s.Type
		if s.IsList() {
			kind = kind.Elem()
		}
		if v := reflect.New(kind).Elem(); v.CanInt() || v.CanFloat() {
			for _, bound := range []string{"min", "max"} {
				if err := setting.Parse(v, s.Tag.Get(bound)); err != nil {
					wrong("%s: %v", bound, err)
				}
			}
			if _, declared := s.Tag.Lookup("default"); !declared && !s.IsList() && setting.Parse(v, s.Tag.Get("min")) == nil && v.IsZero() {
				wrong("has no default, and may be left out")
			}
		}
	})
}

// TestReference checks that the tables in docs/reference/configuration.md match the declarations of the settings.
func TestReference(t *testing.T) {
	text, err := os.ReadFile(page)
	must(t, err)
	before, rest, begins := strings.Cut(string(text), tablesBegin)
	_, after, ends := strings.Cut(rest, tablesEnd)
	if !begins || !ends {
		t.Fatalf("%s has no part for the tables", page)
	}
	want := before + tablesBegin + tables() + tablesEnd + after
	if *update {
		must(t, os.WriteFile(page, []byte(want), 0o644))
	} else if want != string(text) {
		t.Errorf("the tables of %s are not those of the declarations; -update writes them", page)
	}
	_, example, found := strings.Cut(want, "## An example\n\n```yaml\n")
	example, _, ended := strings.Cut(example, "```")
	if !found || !ended {
		t.Fatal("the page has no example")
	}
	_, err = load(t, example, nil)
	must(t, err)
}

func tables() string {
	var b strings.Builder
	last := ""
	b.WriteString("\n| setting | default | values | reload | meaning |\n|---|---|---|---|---|\n")
	lists := map[string][]string{}
	var order []string
	all("", Settings(), func(list string, s setting.Setting) {
		if list != "" {
			if list != last && lists[list] == nil {
				order = append(order, list)
			}
			last = list
			lists[list] = append(lists[list], row(list, s))
			return
		}
		b.WriteString(row(list, s))
	})
	for _, list := range order {
		fmt.Fprintf(&b, "\n### Entries of %s\n\n| setting | default | values | meaning |\n|---|---|---|---|\n%s", code(list), strings.Join(lists[list], ""))
	}
	return b.String() + "\n"
}

func row(list string, s setting.Setting) string {
	usual := s.Tag.Get("default")
	if usual == "" && s.Type.Kind() == reflect.Bool {
		usual = "false"
	}
	cells := []string{code(s.Key), code(usual), values(list, s)}
	if list == "" {
		cells = append(cells, map[string]string{"": "no", "always": "yes", "started": "if in use"}[s.Reload])
	}
	meaning := strings.NewReplacer("<", `\<`, "*", `\*`).Replace(s.Tag.Get("help"))
	if see := s.Tag.Get("see"); see != "" {
		file, anchor, _ := strings.Cut(see, "#")
		name := strings.TrimSuffix(path.Base(file), ".md")
		if file == "" {
			name = strings.ReplaceAll(anchor, "-", " ")
		}
		meaning += fmt.Sprintf(" ([%s](%s))", name, see)
	}
	return strings.ReplaceAll("| "+strings.Join(append(cells, meaning), " | ")+" |\n", "|  |", "| |")
}

func values(list string, s setting.Setting) string {
	kind, plural := s.Type, ""
	if s.IsList() {
		kind, plural = kind.Elem(), "list of "
	}
	least, most := s.Tag.Get("min"), s.Tag.Get("max")
	switch {
	case s.Elements() != nil:
		anchor := strings.NewReplacer("[]", "", ".", "").Replace(strings.TrimPrefix(list+"[]."+s.Key, "[]."))
		return "[list](#entries-of-" + anchor + ")"
	case s.Type.Kind() == reflect.Map:
		return "map of texts"
	case s.Tag.Get("oneof") != "":
		return plural + code(strings.ReplaceAll(s.Tag.Get("oneof"), " ", "`, `"))
	case kind.Kind() == reflect.Bool:
		return "`true`, `false`"
	case least != "":
		return plural + code(least) + " to " + code(most)
	case kind == reflect.TypeFor[time.Time]():
		return "time"
	case plural != "":
		return "list of texts"
	default:
		return "text"
	}
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}
