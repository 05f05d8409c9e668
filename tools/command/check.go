package command

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/toold-dev/toold/tool"
)

// A parameter contains what templates need to know about one argument of the tool. The schema in the manifest defines it.
type parameter struct {
	types      []string
	ofElements []string
	preset     any // default value; nil means none
}

type schema struct {
	Type       any                        `json:"type"`
	Properties map[string]json.RawMessage `json:"properties"`
	Items      *schema                    `json:"items"`
	Enum       []any                      `json:"enum"`
	Const      any                        `json:"const"`
	Default    any                        `json:"default"`
}

// types returns the types that a value may have. An empty list means any type.
func (s *schema) types() []string {
	switch t := s.Type.(type) {
	case string:
		return []string{t}
	case []any:
		var list []string
		for _, e := range t {
			list = append(list, fmt.Sprint(e))
		}
		return list
	}
	values := s.Enum
	if s.Const != nil {
		values = []any{s.Const}
	}
	if len(values) > 0 && !slices.ContainsFunc(values, func(v any) bool { _, isText := v.(string); return !isText }) {
		return []string{"string"}
	}
	return nil
}

func decodeExact(text []byte, to any) error {
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	return d.Decode(to)
}

// parameters reads the schema of the arguments. If the schema does not say which other members are allowed, parameters forbids them: a
// caller must not send arguments that the program does not get.
func (m *Manifest) parameters(r *reader) map[string]parameter {
	if len(m.Parameters) == 0 {
		return nil
	}
	var members map[string]json.RawMessage
	var s schema
	if err := decodeExact(m.Parameters, &members); err != nil || members == nil {
		r.wrong("parameters", "want a JSON Schema of an object, such as {properties: {name: {type: string}}}")
		return nil
	}
	if err := decodeExact(m.Parameters, &s); err != nil {
		r.wrong("parameters", "want a JSON Schema: %v", err)
		return nil
	}
	open := slices.ContainsFunc([]string{"additionalProperties", "unevaluatedProperties", "patternProperties", "$ref", "allOf", "anyOf", "oneOf"},
		func(name string) bool { _, ok := members[name]; return ok })
	if !open {
		members["additionalProperties"] = json.RawMessage("false")
		if members["type"] == nil {
			members["type"] = json.RawMessage(`"object"`)
		}
		m.Parameters, _ = json.Marshal(members) // Marshal cannot fail: the members were decoded from JSON.
	}
	known := map[string]parameter{}
	for name, text := range s.Properties {
		var p schema
		if decodeExact(text, &p) != nil {
			continue // The schema of an argument may be the value true, which says nothing about its type.
		}
		one := parameter{types: p.types(), preset: p.Default}
		if p.Items != nil {
			one.ofElements = p.Items.types()
		}
		known[name] = one
	}
	return known
}

// check reports what is wrong with a parsed manifest. It reads no files.
func (m *Manifest) check(r *reader) {
	if m.ID == "" {
		r.wrong("id", "is missing; set the name by which models call the tool")
	} else if err := tool.ValidName(m.ID); err != nil {
		r.wrong("id", "%v", err)
	}
	oneOf(r, "run.stdin", m.Run.Stdin, "", stdinNone, stdinArguments, stdinCall)
	oneOf(r, "run.output", m.Run.Output, "", outputText, outputJSON, outputLines)
	oneOf(r, "on_doubt", m.OnDoubt, "", string(tool.OnDoubtFail), string(tool.OnDoubtAsk))
	oneOf(r, "kind", tool.Kind(m.Kind), "", tool.KindRead, tool.KindEdit, tool.KindDelete, tool.KindMove, tool.KindSearch, tool.KindExecute, tool.KindThink, tool.KindFetch, tool.KindOther)
	m.checkEffects(r)
	m.checkProgram(r)
	m.checkTemplates(r, m.parameters(r))
	m.checkEnvironment(r)
	m.checkBounds(r)
}

func oneOf[T ~string](r *reader, path string, value T, allowed ...T) {
	if slices.Contains(allowed, value) {
		return
	}
	names := make([]string, 0, len(allowed))
	for _, a := range allowed {
		if a != "" {
			names = append(names, string(a))
		}
	}
	r.wrong(path, "%q is not one of %s", value, strings.Join(names, ", "))
}

func (m *Manifest) checkEffects(r *reader) {
	one := func(path string, e *effects) {
		oneOf(r, path+".mutability", e.Mutability, "", string(tool.ReadOnly), string(tool.Mutating))
		oneOf(r, path+".safety", e.Safety, "", string(tool.SafetyReadOnly), string(tool.SafetyMutating), string(tool.SafetyDestructive), string(tool.SafetyNetwork))
		oneOf(r, path+".tier", e.Tier, "", string(tool.Observe), string(tool.Confirm), string(tool.Escalate))
	}
	one("effects", &m.Effects)
	if m.Mildest != nil {
		one("mildest", m.Mildest)
	}
	for i := range m.Assess {
		path := fmt.Sprintf("assess[%d]", i)
		one(path+".effects", &m.Assess[i].Effects)
		if len(m.Assess[i].When) == 0 && len(m.Assess[i].Effects.Resources) == 0 {
			r.wrong(path, "has neither when nor resources; set the arguments to which it applies, such as {action: list}")
		}
	}
	if m.Mildest == nil && len(m.Assess) > 0 {
		r.wrong("assess", "has no effect without mildest, which sets the lowest possible assessment")
	}
}

// interpreters lists programs that can run code from their arguments, and the options after which such code comes. A placeholder must not
// be part of this code.
var interpreters = []struct{ name, option *regexp.Regexp }{
	{regexp.MustCompile(`^(ba|da|z|k|a|fi)?sh$|^busybox$`), regexp.MustCompile(`^-[a-zA-Z]*c$`)},
	{regexp.MustCompile(`^python[0-9.]*$`), regexp.MustCompile(`^-[a-zA-Z]*c$`)},
	{regexp.MustCompile(`^(perl|ruby|node|lua|php)[0-9.]*$`), regexp.MustCompile(`^-[a-zA-Z]*[eEpr]$|^--eval$|^--print$`)},
}

func (m *Manifest) checkProgram(r *reader) {
	p := &m.Run
	switch {
	case p.Program == "":
		r.wrong("run.program", "is missing; set an absolute path, or ./name for a file beside the manifest")
	case !filepath.IsAbs(p.Program) && !strings.HasPrefix(p.Program, "./"):
		r.wrong("run.program", "%q is neither an absolute path, such as /usr/bin/git, nor a file beside the manifest, such as ./greet.sh; PATH is not searched", p.Program)
	}
	checkDigest(r, "run.digest", p.Digest)
	for i, f := range p.Files {
		path := fmt.Sprintf("run.files[%d]", i)
		if !filepath.IsAbs(f.Path) && !strings.HasPrefix(f.Path, "./") {
			r.wrong(path+".path", "%q is neither an absolute path nor a file beside the manifest, such as ./lib.py", f.Path)
		}
		checkDigest(r, path+".digest", f.Digest)
	}
	if p.Directory != "" && !filepath.IsLocal(p.Directory) {
		r.wrong("run.directory", "%q is not in the workspace; want a path such as . or src", p.Directory)
	}
	for i := range p.Args {
		e := &p.Args[i]
		before := e.option
		if i > 0 && before == "" && p.Args[i-1].option == "" && len(p.Args[i-1].text.placeholders()) == 0 {
			before = p.Args[i-1].text.prefix()
		}
		for _, in := range interpreters {
			if in.name.MatchString(filepath.Base(p.Program)) && in.option.MatchString(before) && len(e.text.placeholders()) > 0 {
				r.wrong(e.path, `%s would run the argument as a program; write a fixed program and pass it the argument: ["-c", "… \"$1\" …", "sh", "{name}"]`, filepath.Base(p.Program))
			}
		}
	}
}

func checkDigest(r *reader, path, digest string) {
	hexed, ok := strings.CutPrefix(digest, digestPrefix)
	if b, err := hex.DecodeString(hexed); digest == "" || digest == digestLoad || ok && err == nil && len(b) == 32 {
		return
	}
	r.wrong(path, "%q is neither load nor sha256: and 64 hex digits, as sha256sum prints them", digest)
}
