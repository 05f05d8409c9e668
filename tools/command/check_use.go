package command

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// checkTemplates compares the placeholders with the schema. Each placeholder must refer to an argument that has a text form, and each
// argument must be used.
func (m *Manifest) checkTemplates(r *reader, known map[string]parameter) {
	used := map[string]bool{}
	for i := range m.Run.Args {
		e := &m.Run.Args[i]
		if e.flag != "" {
			used[e.when] = true
			if p, ok := known[e.when]; !ok || !slices.Equal(p.types, []string{"boolean"}) {
				r.wrong(e.path+".if", "%q is not a parameter of type boolean", e.when)
			}
			continue
		}
		m.checkTemplate(r, &e.text, known, used, true)
		if prefix := e.text.prefix(); len(e.text.parts) > 1 && strings.Trim(prefix, "-") == "" && prefix != "" {
			r.wrong(e.text.path, `the name of an option must be fixed text; only its value may be an argument, such as "--name={name}"`)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Run.Environment)) {
		t, _ := parseTemplate(m.Run.Environment[name], "run.environment."+name) // The error is ignored here, because checkEnvironment reports it.
		m.checkTemplate(r, &t, known, used, false)
	}
	title := r.template(m.Title, "title")
	m.checkTemplate(r, &title, known, map[string]bool{}, false)
	m.checkResources(r, "effects", &m.Effects, nil)
	if m.Mildest != nil {
		m.checkResources(r, "mildest", m.Mildest, nil)
	}
	for i := range m.Assess {
		m.checkResources(r, fmt.Sprintf("assess[%d].effects", i), &m.Assess[i].Effects, known)
	}
	for _, v := range m.Assess {
		for _, name := range slices.Sorted(maps.Keys(v.When)) {
			if _, ok := known[name]; !ok {
				r.wrong("assess", "%q is not a parameter%s", name, among(known))
			}
		}
	}
	if m.Run.Persistent != nil || m.Run.Stdin == stdinArguments || m.Run.Stdin == stdinCall {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if !used[name] {
			r.wrong("parameters.properties."+name, `is not used: add "{%s}" to run.args, or set run.stdin: arguments`, name)
		}
	}
}

func (m *Manifest) checkTemplate(r *reader, t *template, known map[string]parameter, used map[string]bool, lists bool) {
	each := 0
	for _, p := range t.placeholders() {
		used[p.name] = true
		param, ok := known[p.name]
		types := param.types
		if p.each {
			each++
			if ok && !slices.Equal(types, []string{"array"}) {
				r.wrong(t.path, "{%s...} requires a parameter of type array", p.name)
				continue
			}
			types = param.ofElements
		}
		switch {
		case !ok:
			r.wrong(t.path, "{%s} is not a parameter%s", p.name, among(known))
		case p.each && !lists, each > 1:
			r.wrong(t.path, "{%s...} is not allowed here: only an element of run.args may expand one list", p.name)
		case p.form == formJSON:
		case len(types) == 0:
			r.wrong(t.path, "{%s} has no type; declare it in parameters as string, integer, number or boolean", p.name)
		case slices.ContainsFunc(types, func(s string) bool { return s == "object" || s == "array" || s == "null" }):
			r.wrong(t.path, "{%s} may be %s, which has no text form; use {%s...} for a list, or {%s:json}", p.name, strings.Join(types, " or "), p.name, p.name)
		case p.form == formPath && !slices.Equal(types, []string{"string"}):
			r.wrong(t.path, "{%s:path} requires a parameter of type string", p.name)
		}
	}
}

func among(known map[string]parameter) string {
	if len(known) == 0 {
		return "; parameters declares none"
	}
	return "; known names: " + strings.Join(slices.Sorted(maps.Keys(known)), ", ")
}

var variable = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

const (
	// ownPrefix is the prefix of the variables that the daemon sets.
	ownPrefix = "TOOLD_"
	// filledPrefix is the required prefix of variables that contain arguments. Programs interpret other names, such as PATH, LD_PRELOAD,
	// GIT_SSH_COMMAND and BASH_ENV. A list of forbidden names would never be complete.
	filledPrefix = "ARG_"
)

func (m *Manifest) checkEnvironment(r *reader) {
	p := &m.Run
	named := map[string]string{}
	name := func(path, name string) bool {
		switch {
		case !variable.MatchString(name):
			r.wrong(path, "%q is not a variable name; use letters, digits and _, with no digit first", name)
		case strings.HasPrefix(name, ownPrefix):
			r.wrong(path, "%s: names that begin with %s are reserved for the daemon", name, ownPrefix)
		case named[name] != "":
			r.wrong(path, "%s is already set by %s", name, named[name])
		default:
			named[name] = path
			return true
		}
		return false
	}
	for _, n := range slices.Sorted(maps.Keys(p.Environment)) {
		path := "run.environment." + n
		t := r.template(p.Environment[n], path)
		if name(path, n) && len(t.placeholders()) > 0 && !strings.HasPrefix(n, filledPrefix) {
			r.wrong(path, "an argument may only fill variables that begin with %s, because programs interpret others (PATH, LD_PRELOAD, GIT_SSH_COMMAND, BASH_ENV); use %s%s",
				filledPrefix, filledPrefix, n)
		}
	}
	for i, n := range p.Pass {
		name(fmt.Sprintf("run.pass[%d]", i), n)
	}
	for _, n := range slices.Sorted(maps.Keys(p.Secrets)) {
		name("run.secrets."+n, n)
	}
	m.checkSecrets(r)
}

func (m *Manifest) checkBounds(r *reader) {
	p := &m.Run
	for _, n := range []struct {
		path              string
		value, from, most int
	}{
		{"max_arguments", m.MaxArguments, 0, 1 << 20},
		{"output_budget", m.OutputBudget, 0, 256 << 10},
		{"run.limits.tmp", p.Limits.Tmp, 0, 1 << 50},
		{"run.limits.memory", p.Limits.Memory, 0, 1 << 50},
		{"run.limits.memory_total", p.Limits.Total, 0, 1 << 50},
		{"run.limits.file_size", p.Limits.FileSize, 0, 1 << 50},
		{"run.limits.processes", p.Limits.Processes, 0, 1 << 22},
		{"run.limits.files", p.Limits.Files, 0, 1 << 20},
		{"run.limits.output", p.Limits.Output, 0, mostOutput},
	} {
		if n.value < n.from || n.value > n.most {
			r.wrong(n.path, "%d is not between %d and %d", n.value, n.from, n.most)
		}
	}
	for i, code := range p.ExitCodes {
		if code < 0 || code > 255 {
			r.wrong(fmt.Sprintf("run.exit_codes[%d]", i), "%d is not an exit code; want 0 to 255", code)
		}
	}
	if p.Grace > 4*time.Second {
		r.wrong("run.grace", "%v is more than 4s, the maximum time for a program to end", p.Grace)
	}
	h := p.Persistent
	if h == nil {
		return
	}
	if p.Output != outputLines {
		r.wrong("run.persistent", "requires run.output: lines, because each line carries the id of its call")
	}
	if p.Stdin != "" && p.Stdin != stdinCall {
		r.wrong("run.stdin", "a persistent program reads one line for each call; omit this setting, or set %s", stdinCall)
	}
	for i := range p.Args {
		if len(p.Args[i].text.placeholders()) > 0 || p.Args[i].flag != "" {
			r.wrong(p.Args[i].path, "a persistent program receives arguments on standard input, not in run.args")
		}
	}
	for n, v := range p.Environment {
		if t, err := parseTemplate(v, ""); err == nil && len(t.placeholders()) > 0 {
			r.wrong("run.environment."+n, "a persistent program receives arguments on standard input, not in its environment")
		}
	}
	if h.Instances < 0 || h.Instances > 64 || h.Total < 0 || h.Total > 1024 || h.Calls < 0 || h.Calls > 1_000_000 || h.Idle > 24*time.Hour {
		r.wrong("run.persistent", "the limits are 64 instances, a total of 1024, 1000000 calls, and 24h idle")
	}
}
