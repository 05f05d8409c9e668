package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// maxManifest bounds the size of a manifest file, in bytes.
const maxManifest = 256 << 10

// maxNesting bounds the nesting depth of a manifest.
const maxNesting = 64

// A Problem describes an error in a manifest: its position, and what would be right. Lines and columns count from 1. Line 0 means that the
// error is about the whole file.
type Problem struct {
	File         string
	Line, Column int
	Reason       string
}

func (p *Problem) Error() string {
	if p.Line == 0 {
		return p.File + ": " + p.Reason
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Reason)
}

type position struct{ line, column int }

// A reader decodes the text of a manifest into a [Manifest] and records each problem with its position.
type reader struct {
	file     string
	at       map[string]position // positions in the file, by path such as run.args[2]
	shape    json.RawMessage     // the content of the file as JSON, without comments
	problems []error
}

// parse parses the text of a manifest file. When r has recorded problems, m must not be used.
func parse(name string, text []byte) (m *Manifest, r *reader) {
	r = &reader{file: name, at: map[string]position{}}
	m = &Manifest{}
	defer func() {
		if p := recover(); p != nil { // The YAML library may panic, because it parses untrusted bytes.
			r.complain(position{1, 1}, "is not YAML: %v", p)
		}
	}()
	if len(text) > maxManifest {
		r.complain(position{}, "has %d bytes; a manifest has at most %d", len(text), maxManifest)
		return m, r
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document yaml.Node
	err := decoder.Decode(&document)
	switch {
	case errors.Is(err, io.EOF):
		r.complain(position{1, 1}, "is empty; a manifest has at least an id and run.program")
		return m, r
	case err != nil:
		r.syntax(err)
		return m, r
	}
	if err = decoder.Decode(&yaml.Node{}); err == nil {
		r.complain(position{1, 1}, "has more than one document; a file defines one tool")
	} else if !errors.Is(err, io.EOF) { // After a wrongly indented line, the decoder ends the document without an error. It reports the error when it looks for the next document.
		r.complain(position{1, 1}, "is not YAML after its first lines: a line has less indentation than the first line, or is not valid")
	}
	r.value(document.Content[0], reflect.ValueOf(m).Elem(), "", 0)
	if len(r.problems) == 0 {
		r.shape = r.json(document.Content[0], "", 0)
	}
	return m, r
}

func (r *reader) complain(at position, format string, args ...any) {
	r.problems = append(r.problems, &Problem{r.file, at.line, at.column, fmt.Sprintf(format, args...)})
}

// wrong records a problem at a path. If the path is not in the file, the problem gets the position of the nearest enclosing element.
func (r *reader) wrong(path, format string, args ...any) {
	for at := path; ; {
		if where, ok := r.at[at]; ok {
			r.complain(where, "%s%s", prefixed(path), fmt.Sprintf(format, args...))
			return
		}
		cut := strings.LastIndexAny(at, ".[")
		if cut < 0 {
			r.complain(position{1, 1}, "%s%s", prefixed(path), fmt.Sprintf(format, args...))
			return
		}
		at = at[:cut]
	}
}

func prefixed(path string) string {
	if path == "" {
		return ""
	}
	return path + ": "
}

// syntax records a syntax error from the YAML library. The library reports only a line, no column.
func (r *reader) syntax(err error) {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	var line int
	if _, scanErr := fmt.Sscanf(text, "line %d: ", &line); scanErr != nil {
		line = 1
	}
	_, words, ok := strings.Cut(text, ": ")
	if !ok || line == 1 && !strings.HasPrefix(text, "line ") {
		words = text
	}
	r.complain(position{line, 1}, "is not YAML: %s", words)
}

func positionOf(n *yaml.Node) position { return position{n.Line, n.Column} }

// value decodes a node into a value of one of the types of [Manifest].
func (r *reader) value(n *yaml.Node, to reflect.Value, path string, depth int) {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		r.complain(positionOf(n), "%sanchors and aliases are not supported: write the value in full", prefixed(path))
		return
	}
	if depth > maxNesting {
		r.complain(positionOf(n), "%sis nested more than %d levels deep", prefixed(path), maxNesting)
		return
	}
	r.at[path] = positionOf(n)
	switch v := to.Addr().Interface().(type) {
	case *json.RawMessage:
		*v = r.json(n, path, depth)
		return
	case *element:
		r.element(n, v, path, depth)
		return
	case *handed:
		r.handed(n, v, path, depth)
		return
	case *time.Duration:
		*v = r.duration(n, path)
		return
	}
	switch to.Kind() {
	case reflect.Struct:
		r.group(n, to, path, depth)
	case reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		if n.Tag == "!!null" && to.Elem().Kind() == reflect.Struct {
			return // an empty group, so nothing is set
		}
		r.value(n, to.Elem(), path, depth)
	case reflect.Slice:
		r.list(n, to, path, depth)
	case reflect.Map:
		r.mapping(n, to, path, depth)
	default:
		r.scalar(n, to, path)
	}
}

// group decodes a mapping into a struct.
func (r *reader) group(n *yaml.Node, to reflect.Value, path string, depth int) {
	if n.Kind != yaml.MappingNode {
		what := "a manifest is a mapping, such as id: greet"
		if path != "" {
			what = path + ": want a mapping of settings, not a single value"
		}
		r.complain(positionOf(n), "%s", what)
		return
	}
	r.members(n, path, func(key, value *yaml.Node, below string) {
		for i := range to.NumField() {
			if to.Type().Field(i).Tag.Get("yaml") == key.Value {
				r.value(value, to.Field(i), below, depth+1)
				return
			}
		}
		r.complain(positionOf(key), "unknown setting %q%s", below, instead(to.Type(), path, key.Value))
	})
}

// fields decodes a mapping into a struct that is not part of [Manifest]. It applies the same rules as group.
func (r *reader) fields(n *yaml.Node, to any, path string, depth int) {
	r.group(n, reflect.ValueOf(to).Elem(), path, depth)
}

// members invokes do with each member of a mapping. below is the path of the member. members rejects duplicate keys.
func (r *reader) members(n *yaml.Node, path string, do func(key, value *yaml.Node, below string)) {
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		below := key.Value
		if path != "" {
			below = path + "." + key.Value
		}
		switch {
		case key.Kind != yaml.ScalarNode || key.Anchor != "" || key.Tag == "!!merge":
			r.complain(positionOf(key), "%skeys must be plain names", prefixed(path))
		case seen[key.Value]:
			r.complain(positionOf(key), "%s is set twice", below)
		default:
			seen[key.Value] = true
			do(key, value, below)
		}
	}
}

func (r *reader) list(n *yaml.Node, to reflect.Value, path string, depth int) {
	if n.Kind != yaml.SequenceNode {
		r.complain(positionOf(n), "%swant a list, such as [a, b]", prefixed(path))
		return
	}
	to.Set(reflect.MakeSlice(to.Type(), len(n.Content), len(n.Content)))
	for i, e := range n.Content {
		r.value(e, to.Index(i), fmt.Sprintf("%s[%d]", path, i), depth+1)
	}
}

func (r *reader) mapping(n *yaml.Node, to reflect.Value, path string, depth int) {
	if n.Kind != yaml.MappingNode {
		r.complain(positionOf(n), "%swant names with values, such as {NAME: value}", prefixed(path))
		return
	}
	to.Set(reflect.MakeMap(to.Type()))
	r.members(n, path, func(key, value *yaml.Node, below string) {
		v := reflect.New(to.Type().Elem()).Elem()
		r.value(value, v, below, depth+1)
		to.SetMapIndex(reflect.ValueOf(key.Value), v)
	})
}

func (r *reader) scalar(n *yaml.Node, to reflect.Value, path string) {
	want := map[reflect.Kind]string{reflect.Bool: "!!bool", reflect.Int: "!!int", reflect.String: "!!str", reflect.Float64: "!!float"}[to.Kind()]
	whole := n.Tag == "!!int" && want == "!!float" // An integer is also accepted where a number is expected.
	if n.Kind != yaml.ScalarNode || n.Tag != want && !whole {
		r.complain(positionOf(n), "%swant %s", prefixed(path), map[string]string{
			"!!bool": "true or false", "!!int": "a whole number", "!!float": "a number such as 1.5", "!!str": "text, in quotes when it looks like something else",
		}[want])
		return
	}
	if err := n.Decode(to.Addr().Interface()); err != nil {
		r.complain(positionOf(n), "%s%q is out of range", prefixed(path), n.Value)
	}
}

func (r *reader) duration(n *yaml.Node, path string) time.Duration {
	d, err := parseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil {
		r.complain(positionOf(n), "%swant a duration such as 30s, 10m, 12h or 7d", prefixed(path))
	}
	return d
}

// parseDuration parses a duration in Go's format. It also accepts the unit d for days.
func parseDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n <= 36500 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		err = errors.New("is negative")
	}
	return d, err
}

// instead returns the end of the message about an unknown key: what to write instead, a similar known key, or all known keys.
func instead(t reflect.Type, path, key string) string {
	if why := map[string]string{ //nolint:gosec // texts for people, no credentials
		"name": "set id, which is the name of the tool", "required_isolation": "run.profile determines it", "required_network": "run.profile determines it",
		"required_secrets": "run.secrets determines it", "source": "it is " + Source, "command": "set run.program and run.args",
		"program": "it belongs to run", "args": "it belongs to run", "env": "set run.environment",
	}[key]; why != "" {
		return ": " + why
	}
	var names []string
	for i := range t.NumField() {
		names = append(names, t.Field(i).Tag.Get("yaml"))
	}
	if i := slices.IndexFunc(names, func(n string) bool { return alike(n, key) }); i >= 0 {
		return fmt.Sprintf("; did you mean %q?", strings.TrimPrefix(path+"."+names[i], "."))
	}
	return "; known settings: " + strings.Join(names, ", ")
}

// alike reports whether two names differ by one letter that is added, removed, changed or swapped with its neighbour.
func alike(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	switch {
	case len(b)-len(a) > 1:
		return false
	case len(b) > len(a):
		return a[i:] == b[i+1:]
	case i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i]:
		return a[i+2:] == b[i+2:]
	}
	return i < len(a) && a[i+1:] == b[i+1:]
}
