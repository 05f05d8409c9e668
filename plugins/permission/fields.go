package permission

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/toold-dev/toold/tool"
)

// fields are those arguments of a tool that patterns and remembered answers use without a name.
type fields struct {
	// primary is the main argument of a call: the argument that the annotation primary_argument names, otherwise the first required text
	// argument, otherwise the first text argument.
	primary string
	// path is the argument whose name says that it is a path. url is the argument whose name says that it is a URL. Each of them is "" when
	// no argument, or more than one, has such a name.
	path, url string
}

// primaryAnnotation names the primary argument of a tool whose schema does not show it.
const primaryAnnotation = "primary_argument"

func fieldsOf(d *tool.Descriptor) fields {
	var schema struct {
		Properties orderedNames `json:"properties"`
		Required   []string     `json:"required"`
	}
	if len(d.Parameters) == 0 || json.Unmarshal(d.Parameters, &schema) != nil {
		return fields{primary: d.Annotations[primaryAnnotation]}
	}
	var f fields
	texts := schema.Properties.texts
	f.primary = d.Annotations[primaryAnnotation]
	for _, name := range slices.Concat(schema.Required, texts) {
		if f.primary == "" && slices.Contains(texts, name) {
			f.primary = name
		}
	}
	f.path = only(schema.Properties.all, func(name string) bool {
		return ends(name, pathNames...)
	}, texts)
	f.url = only(schema.Properties.all, func(name string) bool {
		return ends(name, "url", "urls", "uri", "uris", "link", "href", "host", "endpoint")
	}, texts)
	return f
}

// only returns the name for which so returns true. It returns "" when there is more than one such name, when there is none, or when the
// name is not in texts.
func only(names []string, so func(string) bool, texts []string) string {
	var found []string
	for _, name := range names {
		if so(name) {
			found = append(found, name)
		}
	}
	if len(found) != 1 || !slices.Contains(texts, found[0]) {
		return ""
	}
	return found[0]
}

// ends reports whether the last word of name is one of words.
func ends(name string, words ...string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(words, func(w string) bool {
		return name == w || strings.HasSuffix(name, "_"+w) || strings.HasSuffix(name, "-"+w)
	})
}

// orderedNames contains the members of a schema's properties, in order. texts are the members that allow text.
type orderedNames struct{ all, texts []string }

// UnmarshalJSON implements [json.Unmarshaler] and keeps the order of the members.
func (o *orderedNames) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var schema json.RawMessage
		if err := d.Decode(&schema); err != nil {
			return err
		}
		var of struct {
			Type any `json:"type"`
		}
		_ = json.Unmarshal(schema, &of) // The schemas true and false cause an error; they do not describe a text.
		o.all = append(o.all, name.(string))
		if of.Type == "string" {
			o.texts = append(o.texts, name.(string))
		} else if several, ok := of.Type.([]any); ok && slices.Contains(several, any("string")) {
			o.texts = append(o.texts, name.(string))
		}
	}
	return nil
}
