package mcp

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toold-dev/toold/tool"
)

// Limits of a question.
const (
	maxQuestion   = 4 << 10
	maxFields     = 50
	maxChoices    = 200
	maxChoice     = 500 // maximum size of one option, in bytes
	maxQuestions  = 8
	maxPage       = 8 << 10   // maximum length of the URL, in bytes
	maxStateBytes = 256 << 10 // maximum size in bytes of the state that the server gets back with the answers
)

// A question is a server's request to a person: a form to fill in, or a page to visit.
type question struct {
	ID      string          `json:"id,omitempty"`
	Message string          `json:"message"`
	Schema  json.RawMessage `json:"schema,omitempty"`
	URL     string          `json:"url,omitempty"`
}

// An answer is a person's answer to the question that has this digest.
type answer struct {
	Digest  string          `json:"digest"`
	Content json.RawMessage `json:"content,omitempty"`
}

// newQuestion checks and cleans a server's question.
func newQuestion(id string, p *sdk.ElicitParams) (*question, error) {
	q := &question{ID: id, Message: clean(p.Message, maxQuestion)}
	if p.URL != "" || p.Mode == "url" {
		u, err := url.Parse(p.URL)
		if err != nil || len(p.URL) > maxPage || u.Host == "" || !plainHost(u.Host) || u.User != nil || u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())) {
			return nil, errors.New("the server asks to open a page, but its address is not an https URL of at most 8 KiB")
		}
		q.URL = u.String()
		return q, nil
	}
	schema, err := formSchema(p.RequestedSchema)
	if err != nil {
		return nil, fmt.Errorf("the server asks for data that no form supports: %w", err)
	}
	q.Schema = schema
	return q, nil
}

// plainHost reports whether a host contains only ASCII characters. Other characters may look like these or be invisible, so a person could
// visit a wrong page.
func plainHost(host string) bool {
	return strings.IndexFunc(host, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// digest returns a hash that identifies the question.
func (q *question) digest() string {
	sum := sha256.Sum256(encode([]any{q.ID, q.Message, string(q.Schema), q.URL}))
	return hex.EncodeToString(sum[:])
}

// formSchema makes the schema of a form from a server's schema. It copies only the few elements that the protocol permits. So the result
// always compiles, is cheap to validate, and describes a form that a person can fill in.
func formSchema(foreign any) (json.RawMessage, error) {
	var form struct {
		Type       string                     `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if err := json.Unmarshal(encode(foreign), &form); err != nil {
		return nil, err
	}
	if form.Type != "" && form.Type != "object" {
		return nil, fmt.Errorf("type %q is not object", form.Type)
	}
	if len(form.Properties) > maxFields {
		return nil, fmt.Errorf("more than %d fields", maxFields)
	}
	properties := map[string]any{}
	for name, text := range form.Properties {
		f, err := formField(text)
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", cut(name, 100), err)
		}
		properties[name] = f
	}
	required := []string{}
	for _, name := range form.Required {
		if _, ok := properties[name]; ok && !slices.Contains(required, name) {
			required = append(required, name)
		}
	}
	schema := map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
	for _, f := range properties {
		if _, there := f.(map[string]any)["format"]; there {
			schema["$schema"] = "http://json-schema.org/draft-07/schema#" // Draft 7 is used because version 2020-12 does not check formats.
		}
	}
	return encode(schema), nil
}

// choice is one of the options of a field.
type choice struct {
	Const string `json:"const"`
	Title string `json:"title,omitempty"`
}

// field has the members that a property of a form may have.
type field struct {
	Type        string          `json:"type"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Format      string          `json:"format"`
	Default     json.RawMessage `json:"default"`
	Minimum     *json.Number    `json:"minimum"`
	Maximum     *json.Number    `json:"maximum"`
	MinLength   *int            `json:"minLength"`
	MaxLength   *int            `json:"maxLength"`
	MinItems    *int            `json:"minItems"`
	MaxItems    *int            `json:"maxItems"`
	Enum        []string        `json:"enum"`
	OneOf       []choice        `json:"oneOf"`
	AnyOf       []choice        `json:"anyOf"`
	Items       *field          `json:"items"`
}

func formField(text json.RawMessage) (map[string]any, error) {
	var f field
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&f); err != nil {
		return nil, err
	}
	out := map[string]any{"type": f.Type}
	set := func(name string, there bool, v any) {
		if there {
			out[name] = v
		}
	}
	set("title", f.Title != "", cleanLine(f.Title, maxChoice))
	set("description", f.Description != "", clean(f.Description, maxQuestion))
	set("default", len(f.Default) > 0 && len(f.Default) <= maxChoice, f.Default)
	switch f.Type {
	case "string":
		set("format", slices.Contains([]string{"email", "uri", "date", "date-time"}, f.Format), f.Format)
		set("minLength", f.MinLength != nil && *f.MinLength >= 0, f.MinLength)
		set("maxLength", f.MaxLength != nil && *f.MaxLength >= 0, f.MaxLength)
		return out, f.choices(out, f.OneOf)
	case "number", "integer":
		set("minimum", f.Minimum != nil, f.Minimum)
		set("maximum", f.Maximum != nil, f.Maximum)
	case "boolean":
	case "array":
		if f.Items == nil {
			return nil, errors.New("an array without items")
		}
		items := map[string]any{"type": "string"}
		set("items", true, items)
		set("minItems", f.MinItems != nil && *f.MinItems >= 0, f.MinItems)
		set("maxItems", f.MaxItems != nil && *f.MaxItems >= 0, f.MaxItems)
		if err := f.Items.choices(items, f.Items.AnyOf); err != nil || items["enum"] == nil && items["oneOf"] == nil {
			return nil, errors.Join(err, errors.New("an array without choices"))
		}
	default:
		return nil, fmt.Errorf("type %q is not supported in forms", f.Type)
	}
	return out, nil
}

// choices adds the options of a field to its schema.
func (f *field) choices(out map[string]any, titled []choice) error {
	if len(f.Enum)+len(titled) > maxChoices {
		return fmt.Errorf("more than %d choices", maxChoices)
	}
	if len(f.Enum) > 0 {
		out["enum"] = f.Enum
	}
	var list []choice
	for _, c := range titled {
		list = append(list, choice{c.Const, cleanLine(c.Title, maxChoice)})
	}
	if len(list) > 0 {
		out["oneOf"] = list
	}
	return nil
}

// result returns the answer as the server gets it.
func (a *answer) result() *sdk.ElicitResult {
	r := &sdk.ElicitResult{Action: "accept"}
	d := json.NewDecoder(bytes.NewReader(a.Content))
	d.UseNumber()
	var content map[string]any
	if len(a.Content) > 0 && d.Decode(&content) == nil {
		for name, v := range content {
			content[name] = number(v)
		}
		r.Content = content
	}
	return r
}

// number converts a JSON number to the type that the SDK expects when it validates against a schema.
func number(v any) any {
	n, ok := v.(json.Number)
	if !ok {
		return v
	}
	if i, err := n.Int64(); err == nil {
		return i
	}
	if f, err := n.Float64(); err == nil {
		return f
	}
	return n.String()
}

// ticket returns a ticket with all questions of a round.
func ticket(key string, list []*question) tool.Ticket {
	t := tool.Ticket{Action: "auth"}
	type page struct {
		ID   string `json:"id,omitempty"`
		URL  string `json:"url"`
		Host string `json:"host"`
	}
	shown := struct {
		Server string `json:"server"`
		URL    string `json:"url,omitempty"` // set when there is only one page
		Pages  []page `json:"pages,omitempty"`
	}{Server: key}
	var texts []string
	forms := map[string]json.RawMessage{}
	for _, q := range list {
		text := q.Message
		if q.URL == "" {
			t.Action = "input"
			forms[q.ID] = q.Schema
		} else {
			u, _ := url.Parse(q.URL) // There is no error, because the URL was checked before.
			shown.Pages = append(shown.Pages, page{q.ID, q.URL, u.Host})
			text += "\n" + q.URL
		}
		texts = append(texts, text)
	}
	if len(list) == 1 && len(shown.Pages) == 1 {
		shown.URL = shown.Pages[0].URL
	}
	t.Message = "The server " + cleanLine(key, maxTitle) + " asks: " + strings.Join(texts, "\n")
	t.Parameters = encode(shown)
	if len(list) == 1 {
		t.ResponseSchema = list[0].Schema
		return t
	}
	if len(forms) > 0 {
		t.ResponseSchema = encode(map[string]any{
			"type": "object", "properties": forms, "required": slices.Sorted(maps.Keys(forms)), "additionalProperties": false,
		})
	}
	return t
}

// answersTo returns the answers to the questions of a round. result is the result of the decision, which answers all of them.
func answersTo(list []*question, result string) []answer {
	each := map[string]json.RawMessage{}
	if len(list) > 1 {
		_ = json.Unmarshal([]byte(result), &each) // An error does not matter. When a question has a form, the result matches the ticket's schema. When all questions are URLs, the variable each is not used.
	}
	var out []answer
	for _, q := range list {
		a := answer{Digest: q.digest()}
		switch {
		case q.URL != "":
		case len(list) == 1:
			a.Content = json.RawMessage(result)
		default:
			a.Content = each[q.ID]
		}
		out = append(out, a)
	}
	return out
}
