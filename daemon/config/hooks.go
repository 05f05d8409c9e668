package config

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/toold-dev/toold/hook/outside"
	"github.com/toold-dev/toold/tool"
)

// Hook is one entry of the list of hooks: one outside the daemon, or the place of one that the daemon has anyway.
type Hook struct {
	Builtin   string        `koanf:"builtin"`    // the name of a plugin of the daemon, whose place this is; nothing else goes with it
	Name      string        `koanf:"name"`       // in records, logs and numbers; required, once
	Kinds     []string      `koanf:"kinds"`      // rewrite, gate, admit, before, after, and filter of a service; none: gate
	Command   []string      `koanf:"command"`    // absolute path of a program, and arguments; this or Remote is required
	Remote    Remote        `koanf:"remote"`     // a HookService
	Dir       string        `koanf:"dir"`        // where it starts; "": /
	Env       []string      `koanf:"env"`        // NAME=value, or NAME for the daemon's own; none: PATH, LANG and TOOLD_HOOK alone
	Documents []string      `koanf:"documents"`  // RUN/key, THREAD/key, NAMESPACE/key that it is shown; none: no document
	Match     Match         `koanf:"match"`      // the calls that it is asked about; zero: all
	Deadline  time.Duration `koanf:"deadline"`   // of one question; 0: 5s
	OnFailure string        `koanf:"on_failure"` // refuse, allow, block; "": refuse
	AtOnce    int           `koanf:"at_once"`    // questions that are asked at once; 0: 16
	MaxAnswer int           `koanf:"max_answer"` // bytes; 0: 1 MiB
}

// Remote says where a HookService is.
type Remote struct {
	Address    string `koanf:"address"`     // host:port, or unix:/path
	Plaintext  bool   `koanf:"plaintext"`   // no TLS to another machine; false: TLS, but not to this one unless CA, Cert or ServerName is set
	CA         string `koanf:"ca"`          // PEM file of who signs its certificate; "": the system's
	Cert       string `koanf:"cert"`        // PEM file that is shown to it, with Key
	Key        string `koanf:"key"`         // PEM file
	ServerName string `koanf:"server_name"` // in its certificate; "": the host of Address
	TokenFile  string `koanf:"token_file"`  // whose text is sent as bearer token; "": none, or Token
	Token      string `koanf:"token"`       // secret://name, whose value is sent as bearer token
}

// Match limits a hook to some calls: all lists that are not empty must hold.
type Match struct {
	Tools      []string `koanf:"tools"`      // globs on tool ids
	Sources    []string `koanf:"sources"`    // such as builtin
	Mutability []string `koanf:"mutability"` // READ_ONLY, MUTATING
	Safety     []string `koanf:"safety"`     // READ_ONLY, MUTATING, NETWORK, DESTRUCTIVE
}

var (
	hookKinds    = []string{"rewrite", "gate", "admit", "before", "after", "filter"}
	hookFailures = []string{"", "refuse", "allow", "block"}
)

// EffectiveKinds are those of an entry.
func (h *Hook) EffectiveKinds() []string {
	if len(h.Kinds) == 0 {
		return []string{"gate"}
	}
	return h.Kinds
}

func (c *Config) validateHooks(wrong complaint) {
	seen := map[string]bool{}
	for i := range c.Hooks {
		h := &c.Hooks[i]
		key := fmt.Sprintf("hooks[%d]", i)
		here := func(field, format string, args ...any) {
			at := key
			if _, said := c.loaded.from[key+"."+field]; said {
				at += "." + field
			}
			wrong(at, format, args...)
		}
		name := h.Name + h.Builtin
		if seen[name] {
			here("name", "%q stands twice", name)
		}
		seen[name] = true
		if h.Builtin != "" {
			if h.Name != "" || len(h.Command) > 0 || h.Remote != (Remote{}) {
				here("builtin", "names a plugin of the daemon, whose settings are elsewhere; nothing goes with it")
			}
			continue
		}
		if tool.ValidName(h.Name) != nil {
			here("name", "%q is no name: letters, digits, - and _, at most 64", h.Name)
		}
		switch {
		case (len(h.Command) > 0) == (h.Remote != (Remote{})):
			here("command", "want either a command or a remote service")
		case len(h.Command) > 0:
			h.validateCommand(here)
		default:
			h.validateRemote(here)
		}
		h.validateBounds(here)
	}
}

func (h *Hook) validateCommand(here complaint) {
	if !filepath.IsAbs(h.Command[0]) {
		here("command", "want the absolute path of a program, and arguments")
	}
	if h.Dir != "" && !filepath.IsAbs(h.Dir) {
		here("dir", "%q is not absolute", h.Dir)
	}
	for _, e := range h.Env {
		if name, _, _ := strings.Cut(e, "="); name == "" || strings.ContainsRune(e, 0) {
			here("env", "want NAME=value, or NAME for the daemon's own")
		}
	}
}

func (h *Hook) validateRemote(here complaint) {
	r := &h.Remote
	if (r.Cert == "") != (r.Key == "") {
		here("remote", "cert and key go together")
	}
	switch {
	case r.Token != "" && r.TokenFile != "":
		here("remote", "one of token and token_file says where the token is, not two")
	case r.Token != "" && !isReference(r.Token):
		here("remote", "token is a reference such as secret://name; the token itself has no place in a configuration")
	}
	if h.Dir != "" || len(h.Env) > 0 {
		here("dir", "dir and env are of commands")
	}
}

func (h *Hook) validateBounds(here complaint) {
	oneOf := func(field string, list, known []string) {
		for _, v := range list {
			if !slices.Contains(known, v) {
				here(field, "%q is not one of %s", v, strings.Join(slices.DeleteFunc(slices.Clone(known), func(k string) bool { return k == "" }), ", "))
			}
		}
	}
	oneOf("kinds", h.Kinds, hookKinds)
	if slices.Sort(slices.Clone(h.Kinds)); len(slices.Compact(slices.Sorted(slices.Values(h.Kinds)))) != len(h.Kinds) {
		here("kinds", "one stands twice")
	}
	if len(h.Command) > 0 && slices.Contains(h.Kinds, "filter") {
		here("kinds", "a command is no filter: it would be a process for as long as each call")
	}
	oneOf("on_failure", []string{h.OnFailure}, hookFailures)
	if h.OnFailure == "block" && slices.ContainsFunc(h.EffectiveKinds(), func(k string) bool { return k == "before" || k == "after" }) {
		here("on_failure", "block is nothing that a before or after hook can do")
	}
	if h.OnFailure != "" && h.OnFailure != "refuse" && slices.Contains(h.Kinds, "filter") {
		here("on_failure", "what a filter did not look at is never told")
	}
	oneOf("match.mutability", h.Match.Mutability, []string{string(tool.ReadOnly), string(tool.Mutating)})
	oneOf("match.safety", h.Match.Safety, []string{string(tool.SafetyReadOnly), string(tool.SafetyMutating), string(tool.SafetyNetwork), string(tool.SafetyDestructive)})
	for _, g := range h.Match.Tools {
		if _, err := filepath.Match(g, ""); err != nil {
			here("match.tools", "%q is no pattern", g)
		}
	}
	for _, d := range h.Documents {
		if _, err := outside.ParseDocumentKey(d); err != nil {
			here("documents", "%v", err)
		}
	}
	if h.Deadline != 0 && (h.Deadline < time.Millisecond || h.Deadline > 5*time.Minute) {
		here("deadline", "%s is not between 1ms and 5m", durationText(h.Deadline))
	}
	if h.AtOnce < 0 || h.AtOnce > 10_000 {
		here("at_once", "%d is not between 1 and 10000", h.AtOnce)
	}
	if h.MaxAnswer < 0 || h.MaxAnswer > 16<<20 {
		here("max_answer", "%d is not between 1 and 16777216", h.MaxAnswer)
	}
}

// files are what makes a hook what it is, as far as it can be told: callers must not be able to change it.
func (h *Hook) files() (paths []string) {
	for _, word := range h.Command {
		if filepath.IsAbs(word) {
			paths = append(paths, word)
		}
	}
	for _, path := range []string{h.Remote.CA, h.Remote.Cert, h.Remote.Key, h.Remote.TokenFile} {
		if path != "" {
			paths = append(paths, path)
		}
	}
	return paths
}

// hooksText writes the list as the file would, each entry on a line, without values of variables.
func hooksText(margin string, list []Hook) string {
	var b strings.Builder
	for _, h := range list {
		h.Env = slices.Clone(h.Env)
		for i, e := range h.Env {
			if name, _, isSet := strings.Cut(e, "="); isSet {
				h.Env[i] = name + "=" + hidden
			}
		}
		fmt.Fprintf(&b, "%s  - %s\n", margin, flowText(reflect.ValueOf(h)))
	}
	return b.String()
}

// flowText writes a value in YAML's flow style, without what is not set.
func flowText(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Struct:
		var parts []string
		for i := range v.NumField() {
			if !v.Field(i).IsZero() {
				parts = append(parts, v.Type().Field(i).Tag.Get("koanf")+": "+flowText(v.Field(i)))
			}
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case reflect.Slice:
		var parts []string
		for i := range v.Len() {
			parts = append(parts, flowText(v.Index(i)))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return scalarText(v.Interface())
}
