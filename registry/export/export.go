package export

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/toold-dev/toold/tool"
)

// A Format is the tool format of a provider.
type Format string

// The formats.
const (
	OpenAI Format = "openai" // tools of Chat Completions
	// OpenAIStrict is OpenAI with strict schemas. A tool without a strict form is exported as in OpenAI, with a note.
	OpenAIStrict Format = "openai-strict"
	// Responses is the format of OpenAI's Responses API. ResponsesStrict is the same format with strict schemas.
	Responses       Format = "openai-responses"
	ResponsesStrict Format = "openai-responses-strict"
	Anthropic       Format = "anthropic"
	Gemini          Format = "gemini"
	MCP             Format = "mcp" // tools of a tools/list result
)

// Formats returns all formats.
func Formats() []Format {
	return []Format{OpenAI, OpenAIStrict, Anthropic, Gemini, MCP, Responses, ResponsesStrict}
}

// A Tool is one exported tool.
type Tool struct {
	Name       string // name for the model
	ID         string // id of the tool in toold
	Definition json.RawMessage
	Notes      []string // The changes. Each note has a JSON pointer into the arguments; * means any item.
	// Nulls has JSON pointers to optional properties. For these the model may send null, because strict mode requires every property. The
	// client removes such null members before it calls the tool, because the tool may refuse null.
	Nulls    []string
	Guidance string
}

// An Omission is a tool that the export leaves out, because the provider would refuse it together with the whole list.
type Omission struct{ ID, Reason string }

// A List is the result of an export.
type List struct {
	Tools   []Tool // in the order of the descriptors
	Omitted []Omission
	Notes   []string // notes about the whole list
	// Revision identifies the content: equal lists have the same revision.
	Revision string
}

// A provider has the rules of one format.
type provider struct {
	name        nameRule
	tools       int // maximum number of tools; 0 means no limit
	description int // maximum characters of a tool's description; 0 means no limit
	property    *regexp.Regexp
	define      func(name string, d *tool.Descriptor, description string, parameters any, strict bool) *object
}

var anthropicName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

func providerOf(f Format) (*provider, bool) {
	p := &provider{name: nameRule{most: 64}}
	switch f {
	case OpenAI, OpenAIStrict:
		p.tools, p.description, p.define = 128, 1024, defineOpenAI
	case Responses, ResponsesStrict:
		p.tools, p.description, p.define = 128, 1024, defineResponses
	case Anthropic:
		p.property, p.define = anthropicName, defineAnthropic
	case Gemini:
		p.name.letter, p.tools, p.define = true, 512, defineGemini
	case MCP:
		p.name, p.define = nameRule{more: ".", most: 128}, defineMCP
	default:
		return nil, false
	}
	return p, true
}

// Export returns the tools in the format f.
func Export(f Format, tools []*tool.Descriptor) (*List, error) {
	rule, ok := providerOf(f)
	if !ok {
		return nil, fmt.Errorf("format %q: want one of %q", f, Formats())
	}
	ids := make([]string, len(tools))
	for i, d := range tools {
		ids[i] = d.ID
	}
	names := rule.name.names(ids)
	out := &List{}
	for _, d := range tools {
		t, err := rule.export(f, names[d.ID], d)
		if err != nil {
			out.Omitted = append(out.Omitted, Omission{d.ID, err.Error()})
			continue
		}
		out.Tools = append(out.Tools, *t)
	}
	if rule.tools > 0 && len(out.Tools) > rule.tools {
		out.Notes = append(out.Notes, fmt.Sprintf("these are %d tools; the provider accepts %d in one request", len(out.Tools), rule.tools))
	}
	out.Revision = revision(f, out)
	return out, nil
}

// Join returns the value of the field tools in a request, or in a tools/list result.
func Join(f Format, tools []Tool) json.RawMessage {
	list := []byte{'['}
	for i, t := range tools {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, t.Definition...)
	}
	list = append(list, ']')
	if f != Gemini {
		return list
	}
	if len(tools) == 0 {
		return json.RawMessage("[]")
	}
	return slices.Concat([]byte(`[{"functionDeclarations":`), list, []byte(`}]`))
}

// Guidance returns additional text for the model: Markdown with a heading for each text. A text that several tools share, such as those of
// one server, occurs once.
func Guidance(tools []Tool) string {
	var texts []string
	names := map[string][]string{}
	for _, t := range tools {
		if t.Guidance == "" {
			continue
		}
		if names[t.Guidance] == nil {
			texts = append(texts, t.Guidance)
		}
		names[t.Guidance] = append(names[t.Guidance], t.Name)
	}
	for i, text := range texts {
		texts[i] = "## " + strings.Join(names[text], ", ") + "\n\n" + text
	}
	return strings.Join(texts, "\n\n")
}

func revision(f Format, l *List) string {
	h := sha256.New()
	enc := json.NewEncoder(h)
	_ = enc.Encode(f) // A hash never returns an error.
	_ = enc.Encode(l)
	return hex.EncodeToString(h.Sum(nil)[:12])
}

func (r *provider) export(f Format, name string, d *tool.Descriptor) (*Tool, error) {
	schema, err := parse([]byte(or2(string(d.Parameters), `{"type":"object","properties":{},"additionalProperties":false}`)))
	if err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	t := &Tool{Name: name, ID: d.ID, Guidance: d.Guidance}
	p := &conversion{rule: r, root: rootOf(schema), open: map[string]bool{}}
	if name != d.ID {
		p.notes.add("name", "the provider refuses the name %q; the model calls the tool %q", cut(d.ID, 128), name)
	}
	description := strings.ToValidUTF8(or2(d.Description, d.Name()), "\uFFFD")
	if r.description > 0 {
		head, rest := cutWords(description, r.description)
		if description = head; rest != "" {
			p.notes.add("description", "is longer than %d characters; the guidance has the rest", r.description)
			t.Guidance = strings.TrimSpace(rest + "\n\n" + t.Guidance)
		}
	}
	parameters, isStrict, err := p.parameters(f, schema)
	if err != nil {
		return nil, err
	}
	t.Definition = write(nil, r.define(name, d, description, parameters, isStrict))
	slices.Sort(p.nulls)
	t.Notes, t.Nulls = p.notes.all(), p.nulls
	return t, nil
}

func rootOf(schema any) *object {
	if o, ok := schema.(*object); ok {
		return o
	}
	return &object{}
}

// parameters returns the schema for the provider, or nil for no schema.
func (p *conversion) parameters(f Format, schema any) (v any, isStrict bool, err error) {
	if f == MCP {
		return p.whole(schema), false, nil
	}
	o := p.arguments(schema)
	switch f {
	case Gemini:
		if len(o.object("properties").members) == 0 {
			return nil, false, nil
		}
		out, err := p.gemini(o, "")
		if err != nil || !out.has("properties") {
			return nil, false, err
		}
		return out, false, nil
	case OpenAIStrict, ResponsesStrict:
		loose, before := o.copy(), p.notes.clone()
		s := &strict{conversion: p}
		err := s.schema(o, "", 1)
		var why *looseError
		if errors.As(err, &why) {
			p.notes, p.nulls = before, nil
			p.notes.add(why.at, "%s; the tool is exported without strict mode", why.why)
			return loose, false, nil
		}
		return o, err == nil, err
	}
	return o, false, p.properties(o, "")
}

// properties removes optional properties whose names the provider refuses. It returns an error for such a required property.
func (p *conversion) properties(o *object, at string) error {
	if p.rule.property == nil {
		return nil
	}
	properties := o.object("properties")
	for _, m := range slices.Clone(properties.members) {
		if p.rule.property.MatchString(m.name) {
			continue
		}
		if contains(o.list("required"), m.name) {
			return fmt.Errorf("the provider refuses the name of a required property: %q", m.name)
		}
		properties.take(m.name)
		p.notes.add(join(at, m.name), "is omitted, because the provider refuses its name")
	}
	return nil
}

// whole returns a schema for MCP. MCP supports every schema, except a root that is not an object and properties that are booleans.
func (p *conversion) whole(schema any) *object {
	o := rootOf(schema).copy()
	p.finite(o, "")
	if o.get("type") != "object" {
		o.take("type")
		o.members = slices.Insert(o.members, 0, member{"type", "object"})
		p.notes.add("", "the type object is added")
	}
	if properties := o.object("properties"); properties != nil {
		for i, m := range properties.members {
			switch m.value {
			case true:
				properties.members[i].value = &object{}
			case false:
				properties.members[i].value = obj("not", &object{})
			}
		}
	}
	return o
}

// finite removes numbers that overflow a double. Many JSON parsers refuse a whole text that contains such a number.
func (p *conversion) finite(v any, at string) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			p.finite(e, at)
		}
	case *object:
		for _, m := range slices.Clone(v.members) {
			p.finite(m.value, join(at, m.name))
			if !isFinite(m.value) {
				p.describe(v, at, m.name)
			}
		}
	}
}

func isFinite(v any) bool {
	switch v := v.(type) {
	case json.Number:
		_, err := strconv.ParseFloat(string(v), 64)
		return err == nil
	case []any:
		return !slices.ContainsFunc(v, func(e any) bool { return !isFinite(e) })
	case *object:
		return !slices.ContainsFunc(v.members, func(m member) bool { return !isFinite(m.value) })
	}
	return true
}

func or2(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// cutWords splits a text after a word. The first part has at most most characters.
func cutWords(s string, most int) (string, string) {
	runes := []rune(s)
	if len(runes) <= most {
		return s, ""
	}
	head := string(runes[:most])
	if i := strings.LastIndexAny(head, " \n\t"); i > len(head)/2 {
		head = head[:i]
	}
	return head, strings.TrimSpace(s[len(head):])
}
