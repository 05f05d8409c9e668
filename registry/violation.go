package registry

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/toold-dev/toold/tool"
)

const (
	maxViolations = 16   // violations that are reported
	maxCollected  = 1000 // violations that are collected and sorted before the first are reported
)

// explain translates the errors of the library to violations that help a model. They name the field, the problem, and the valid values.
func (s *Schema) explain(err error, v any) []tool.Violation {
	if err == nil {
		return nil
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		reason := err.Error()
		var loop jsonschema.InfiniteLoopError
		if errors.As(err, &loop) {
			reason = "cannot be checked: the schema refers to itself without end"
		}
		return []tool.Violation{{Description: reason}}
	}
	x := explainer{schema: s.document, value: v}
	x.add(invalid)
	slices.SortFunc(x.found, func(a, b tool.Violation) int {
		if c := strings.Compare(a.Field, b.Field); c != 0 {
			return c
		}
		return strings.Compare(a.Description, b.Description)
	})
	found := slices.Compact(x.found)
	if more := len(found) - maxViolations; more > 0 {
		found = append(found[:maxViolations-1:maxViolations-1], tool.Violation{Description: fmt.Sprintf("and %d more violations", more+1)})
	}
	return found
}

// An explainer collects violations from the library's tree of errors.
type explainer struct {
	schema, value any
	found         []tool.Violation
}

// A finding is one error with the value and the keyword that caused it.
type finding struct {
	*jsonschema.ValidationError
	path    []string       // path of the value
	value   any            // the value at path
	keyword string         // the violated keyword; "" for the schema false
	want    any            // value of the keyword
	schema  map[string]any // schema with the keyword
}

func (x *explainer) add(e *jsonschema.ValidationError) {
	if len(x.found) >= maxCollected {
		return
	}
	f := x.find(e)
	switch {
	case len(e.Causes) > 0 && (f.keyword == "anyOf" || f.keyword == "oneOf"):
		x.addForms(f)
	case len(e.Causes) > 0 && f.keyword != "minContains":
		for _, cause := range e.Causes {
			x.add(cause)
		}
	case f.keyword == "required":
		x.addMissing(f)
	case f.keyword == "additionalProperties" && f.want == false:
		x.addUnknown(f)
	default:
		x.report(f.path, f.text())
	}
}

func (x *explainer) report(path []string, text string) {
	x.found = append(x.found, tool.Violation{Field: x.field(path), Description: text})
}

// find looks up the value and the keyword of an error. It leaves fields empty when it cannot find them; the text is then less exact.
func (x *explainer) find(e *jsonschema.ValidationError) finding {
	f := finding{ValidationError: e, path: tokens(e.InstanceLocation), value: x.value}
	for _, token := range f.path {
		f.value, _ = member(f.value, token)
	}
	if n := len(f.path); n > 0 && strings.Contains(strings.ReplaceAll(e.KeywordLocation, "/properties/propertyNames", ""), "/propertyNames/") {
		f.value = f.path[n-1] // The schema applies to the name, not to the value.
	}
	if e.Message == "not allowed" || e.Message == "" {
		return f
	}
	_, fragment, _ := strings.Cut(e.AbsoluteKeywordLocation, "#")
	at := x.schema
	for _, token := range tokens(fragment) {
		if m, ok := at.(map[string]any); ok {
			f.schema, f.keyword = m, token
		}
		next, ok := member(at, token)
		if !ok {
			next = nil
		}
		at = next
	}
	f.want = at
	if last := tokens(fragment); len(last) > 0 && f.want == nil {
		f.keyword = last[len(last)-1] // The schema has no minContains; its default is 1.
	}
	for _, keyword := range []string{"dependentRequired", "dependencies"} {
		if strings.Contains(fragment, "/"+keyword+"/") && strings.Contains(e.Message, "is required, if") {
			f.keyword = keyword
		}
	}
	return f
}

// tokens splits a pointer of the library into its parts.
func tokens(pointer string) []string {
	pointer = strings.TrimPrefix(pointer, "/")
	if pointer == "" {
		return nil
	}
	split := strings.Split(pointer, "/")
	for i, token := range split {
		if plain, err := url.PathUnescape(token); err == nil {
			token = plain
		}
		split[i] = unescapePointer(token)
	}
	return split
}

// field formats a path, such as items[2].name.
func (x *explainer) field(path []string) string {
	var b strings.Builder
	at := x.value
	for _, token := range path {
		_, array := at.([]any)
		switch {
		case array:
			b.WriteString("[" + token + "]")
		case isWord(token):
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(token)
		default:
			b.WriteString("[" + quote(token) + "]")
		}
		at, _ = member(at, token)
	}
	return b.String()
}

func isWord(s string) bool {
	return s != "" && len(s) <= 64 && strings.IndexFunc(s, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '-' && r != '$'
	}) < 0
}

func (x *explainer) addMissing(f finding) {
	names, _ := f.want.([]any)
	object, _ := f.value.(map[string]any)
	properties, _ := f.schema["properties"].(map[string]any)
	for _, name := range names {
		name, _ := name.(string)
		if _, there := object[name]; there {
			continue
		}
		text := "is required"
		if property, ok := properties[name].(map[string]any); ok {
			if want := wantTypes(property["type"]); want != "" {
				text += " (" + want + ")"
			}
		}
		x.report(append(slices.Clone(f.path), name), text)
	}
}

func (x *explainer) addUnknown(f finding) {
	object, _ := f.value.(map[string]any)
	properties, _ := f.schema["properties"].(map[string]any)
	known := listOf(properties)
	for name := range object {
		if _, ok := properties[name]; ok || matchesAny(f.schema["patternProperties"], name) {
			continue
		}
		text := "is not known here; there are no members"
		if known != "" {
			text = "is not known here; known are " + known
		}
		x.report(append(slices.Clone(f.path), name), text)
	}
}

// addForms explains a value that matches none of several forms. It ignores forms with another type or constant. When one form remains, it
// reports the violations of that form.
func (x *explainer) addForms(f finding) {
	var near []*jsonschema.ValidationError
	var types []any
	for _, form := range f.Causes {
		if want, other := x.otherForm(form, len(f.path)); !other {
			near = append(near, form)
		} else if want != nil {
			types = append(types, want)
		}
	}
	switch {
	case len(near) == 1:
		x.add(near[0])
		return
	case len(near) == 0 && len(types) == len(f.Causes):
		x.report(f.path, "is "+show(f.value)+"; want "+wantTypes(flatten(types)))
		return
	case len(near) == 0:
		near = f.Causes
	}
	const most = 5
	var forms []string
	for i, form := range near {
		if i == most {
			forms = append(forms, fmt.Sprintf("%d others", len(near)-most))
			break
		}
		one := explainer{schema: x.schema, value: x.value}
		one.add(form)
		if len(one.found) > 0 {
			forms = append(forms, "("+strconv.Itoa(i+1)+") "+strings.TrimSpace(one.found[0].Field+" "+one.found[0].Description))
		}
	}
	x.report(f.path, clip("fits none of the allowed forms: "+strings.Join(forms, "; "), 800))
}

// otherForm reports whether a form is for values of another type or constant, and returns that type or constant.
func (x *explainer) otherForm(form *jsonschema.ValidationError, depth int) (want any, other bool) {
	for len(form.Causes) == 1 {
		form = form.Causes[0]
	}
	if len(form.Causes) == 0 {
		f := x.find(form)
		if f.keyword == "type" && len(f.path) == depth {
			return f.want, true
		}
		return nil, f.keyword == "const" || f.keyword == "enum" && len(f.path) > depth
	}
	for _, cause := range form.Causes {
		if f := x.find(cause); len(cause.Causes) == 0 && f.keyword == "const" {
			return nil, true
		}
	}
	return nil, false
}

func flatten(types []any) []any {
	var flat []any
	for _, t := range types {
		if several, ok := t.([]any); ok {
			flat = append(flat, several...)
		} else {
			flat = append(flat, t)
		}
	}
	return flat
}
