package registry

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// text describes what is wrong with the value and what is valid.
func (f finding) text() string {
	if f.Message == "not allowed" {
		return "is not allowed here"
	}
	switch f.keyword {
	case "type":
		return "is " + show(f.value) + "; want " + wantTypes(f.want)
	case "enum":
		values, _ := f.want.([]any)
		return "is " + show(f.value) + "; want " + oneOf(values)
	case "const":
		return "is " + show(f.value) + "; want " + show(f.want)
	case patternKeyword:
		return "is " + show(f.value) + "; want a match of the regular expression " + show(f.want)
	case "format":
		return "is " + show(f.value) + "; want the format " + show(f.want)
	case "not":
		return "is " + show(f.value) + ", which is excluded"
	case "oneOf": // Errors with causes are handled by addForms. An error without causes means that the value matches more than one form.
		return "fits more than one of the allowed forms; want exactly one"
	case "uniqueItems":
		return "holds an item twice; want each once (" + f.Message + ")"
	case "minContains", "maxContains":
		return "has the wrong number of matching items (" + f.Message + ")"
	case "dependentRequired", "dependencies":
		return f.Message
	}
	if text := f.bound(); text != "" {
		return text
	}
	return clip(f.Message, 200)
}

// bound returns the text for a keyword that limits a number or a count.
func (f finding) bound() string {
	want := fmt.Sprint(f.want)
	switch f.keyword {
	case "minimum":
		return "is " + show(f.value) + "; want at least " + want
	case "maximum":
		return "is " + show(f.value) + "; want at most " + want
	case "exclusiveMinimum", "exclusiveMaximum":
		if f.keyword == "exclusiveMinimum" {
			return "is " + show(f.value) + "; want more than " + want
		}
		return "is " + show(f.value) + "; want less than " + want
	case "multipleOf":
		return "is " + show(f.value) + "; want a multiple of " + want
	case "minLength", "maxLength":
		text, _ := f.value.(string)
		return "has " + count(utf8.RuneCountInString(text), "character") + "; want " + side(f.keyword) + want
	case "minItems", "maxItems":
		items, _ := f.value.([]any)
		return "has " + count(len(items), "item") + "; want " + side(f.keyword) + want
	case "minProperties", "maxProperties":
		members, _ := f.value.(map[string]any)
		return "has " + count(len(members), "member") + "; want " + side(f.keyword) + want
	}
	return ""
}

func side(keyword string) string {
	if strings.HasPrefix(keyword, "min") {
		return "at least "
	}
	return "at most "
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// show formats a value for a message and shortens a large one.
func show(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return quote(v)
	case json.Number:
		return string(v)
	case bool:
		return strconv.FormatBool(v)
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	}
	return fmt.Sprintf("a %T", v)
}

func quote(s string) string { return strconv.Quote(clip(s, 60)) }

// clip shortens a text without splitting a character.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}

// wantTypes formats the value of the keyword type. It returns "" when there is none.
func wantTypes(types any) string {
	names := map[string]string{
		"string": "a string", "integer": "an integer", "number": "a number", "boolean": "true or false",
		"array": "an array", "object": "an object", "null": "null",
	}
	switch types := types.(type) {
	case string:
		return names[types]
	case []any:
		var want []string
		for _, t := range types {
			name, _ := t.(string)
			if text := names[name]; text != "" && !slices.Contains(want, text) {
				want = append(want, text)
			}
		}
		return strings.Join(want, " or ")
	}
	return ""
}

// oneOf lists the allowed values, up to a limit.
func oneOf(values []any) string {
	const most = 20
	shown := make([]string, 0, min(len(values), most+1))
	for i, v := range values {
		if i == most {
			shown = append(shown, fmt.Sprintf("%d others", len(values)-most))
			break
		}
		shown = append(shown, show(v))
	}
	if len(shown) == 1 {
		return shown[0]
	}
	return "one of " + strings.Join(shown, ", ")
}

// listOf lists the names of an object's members.
func listOf(members map[string]any) string {
	const most = 20
	names := slices.Sorted(maps.Keys(members))
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("%d others", more))
	}
	return strings.Join(names, ", ")
}

// matchesAny reports whether a name matches one of the expressions in patternProperties.
func matchesAny(patterns any, name string) bool {
	byName, _ := patterns.(map[string]any)
	for pattern := range byName {
		if ok, err := regexp.MatchString(pattern, name); ok && err == nil {
			return true
		}
	}
	return false
}
